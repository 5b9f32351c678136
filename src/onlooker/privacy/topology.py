"""Who feeds which sum, and when a trace of one client can reach another."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray


class Topology(Protocol):
    """The incidence of clients and sums; overlapping groups will be another one."""

    def incidence(self, clients: int) -> NDArray[np.bool_]:
        """`bool[g, n]`: true where client i feeds sum m."""
        ...

    def copies(self, subject: int) -> int:
        """How many sums of one round hold the subject's row."""
        ...

    def delay(self, subject: int, observer: int) -> float:
        """Rounds until a trace of the subject can reach the observer; infinity means never."""
        ...


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

    def copies(self, subject: int) -> int:
        """One."""
        del subject
        return 1

    def delay(self, subject: int, observer: int) -> float:
        """One round to anybody else; what a client learns of itself is not a release."""
        return math.inf if subject == observer else 1.0
