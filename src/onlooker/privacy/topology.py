"""Who feeds which sum, and when a trace of one client can reach another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Star:
    """Every client feeds the one sum, whose release everybody sees in the next round.

    >>> Star().incidence(3).tolist(), Star().copies(0), Star().delay(0, 1)
    ([[True, True, True]], 1, 1.0)
    """

    name: Literal["star"] = "star"

    def incidence(self, clients: int) -> NDArray[np.bool_]:
        """`bool[1, n]`, all true."""
        return np.ones((1, clients), dtype=bool)

    def groups_of(self, client: int) -> tuple[int, ...]:
        """The one group."""
        del client
        return (0,)

    def copies(self, subject: int) -> int:
        """One."""
        del subject
        return 1

    def delay(self, subject: int, observer: int) -> float:
        """One round to anybody else; what a client learns of itself is not a release."""
        return math.inf if subject == observer else 1.0


@dataclass(frozen=True)
class Groups:
    """Overlapping groups of clients, each with its own sum."""

    members: tuple[tuple[int, ...], ...]
    mixing_period: int = 1
    publish: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    name: Literal["groups"] = "groups"

    def groups_of(self, client: int) -> tuple[int, ...]:
        """The groups of a client."""
        return tuple(m for m, members in enumerate(self.members) if client in members)

    def check(self, clients: int) -> None:
        """Any members will do."""

    def copies(self, subject: int) -> int:
        """How many groups it is in."""
        return len(self.groups_of(subject))

    def mixes(self, round: int) -> bool:
        """True if clients start from the mean of their groups."""
        return (round - 1) % self.mixing_period == 0


Topology: TypeAlias = Star | Groups
