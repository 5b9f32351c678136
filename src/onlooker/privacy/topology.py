"""Who feeds which sum, and when a trace of one client can reach another."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from onlooker import _check
from onlooker.errors import TermsError


def named(group: int, names: Sequence[str]) -> str:
    """A group as it is shown: by the name that its user gave it, by its number where there are no names.

    Names decide nothing, so they are no part of a topology and of no price.

    >>> named(1, ("north", "south")), named(1, ())
    ('south', '1')
    """
    return names[group] if names else str(group)


def listed_groups(groups: Iterable[int], names: Sequence[str]) -> str:
    """Several groups, as they are shown.

    >>> listed_groups((0, 2), ("north", "south", "west"))
    'north, west'
    """
    return ", ".join(named(group, names) for group in groups)


def recorded_names(value: object, groups: int) -> tuple[str, ...]:
    """The names that a run folder records for so many groups; none where it records none, or not one for each.

    >>> recorded_names(["north", "south"], 2), recorded_names(None, 2), recorded_names(["north"], 2)
    (('north', 'south'), (), ())
    """
    names = tuple(str(name) for name in cast("list[object]", value)) if isinstance(value, list) else ()
    return names if len(names) == groups else ()


class Topology(Protocol):
    """The incidence of clients and sums."""

    def check(self, clients: int) -> None:
        """Refuse what does not fit so many clients."""
        ...

    def incidence(self, clients: int) -> NDArray[np.bool_]:
        """`bool[g, n]`: true where client n feeds sum g."""
        ...

    def groups_of(self, client: int) -> tuple[int, ...]:
        """The sums that the client feeds, and whose releases it sees."""
        ...

    def copies(self, subject: int) -> int:
        """How many sums of one round hold the subject's row."""
        ...

    def mixes(self, round: int) -> bool:
        """True if clients start this round from the mean of the models of their groups; rounds count from 1."""
        ...

    def delay(self, subject: int, observer: int) -> float:
        """The first round whose release can show the observer a trace of the subject; infinity means never."""
        ...


@dataclass(frozen=True)
class Star:
    """Every client feeds the one sum, whose release everybody sees in the next round.

    >>> Star().incidence(3).tolist(), Star().copies(0), Star().delay(0, 1)
    ([[True, True, True]], 1, 1.0)
    """

    name: Literal["star"] = "star"

    def check(self, clients: int) -> None:
        """Any number of clients fits."""
        del clients

    def incidence(self, clients: int) -> NDArray[np.bool_]:
        """`bool[1, n]`, all true."""
        return np.ones((1, clients), dtype=bool)

    def groups_of(self, client: int) -> tuple[int, ...]:
        """The one sum."""
        del client
        return (0,)

    def copies(self, subject: int) -> int:
        """One."""
        del subject
        return 1

    def mixes(self, round: int) -> bool:
        """Always: the mean of one model is that model."""
        del round
        return True

    def delay(self, subject: int, observer: int) -> float:
        """One round to anybody else; what a client learns of itself is not a release."""
        return math.inf if subject == observer else 1.0


@dataclass(frozen=True)
class Groups:
    """Overlapping groups, each with a model of its own; who is in several carries what it learns from one to another.

    Attributes:
        members: the clients of each group.
        mixing_period: S; in rounds 1, S + 1, 2S + 1, ... clients start from the mean of the models of their groups, in
            the others from the model of the group alone.
        publish: the groups whose releases everybody sees, members or not.
        rates: the rate of each group's coins, where they differ from the sampler's; else empty.

    Source: Kianidehkordi et al., DP-OGL (arXiv 2503.04054), sections II and III.

    >>> line = Groups(((0, 1), (1, 2), (2, 3)), mixing_period=5)
    >>> line.groups_of(1), line.copies(1), line.delay(0, 1), line.delay(0, 3)
    ((0, 1), 2, 1.0, 11.0)
    """

    members: tuple[tuple[int, ...], ...]
    mixing_period: int = 1
    publish: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    name: Literal["groups"] = "groups"

    def __post_init__(self) -> None:
        _check.at_least(1, groups__mixing_period=self.mixing_period)
        if not self.members:
            raise TermsError("groups.members names no group; name at least one.")
        for index, group in enumerate(self.members):
            if not group:
                raise TermsError(f"groups.members leaves group {index} empty; give it a client or leave it out.")
            if len(set(group)) < len(group):
                raise TermsError(f"groups.members names a client twice in group {index}, {list(group)}; name it once.")
            if min(group) < 0:
                raise TermsError(f"groups.members = {list(group)} in group {index}; clients count from 0.")
        for index in self.publish:
            if not 0 <= index < len(self.members):
                raise TermsError(
                    f"groups.publish = {list(self.publish)} names a group outside 0 to {len(self.members) - 1}."
                )

    def check(self, clients: int) -> None:
        """Refuse a client that does not exist, and one that is in no group.

        Raises:
            TermsError: naming the first such client.
        """
        unknown = sorted(client for client in self.memberships if client >= clients)
        if unknown:
            raise TermsError(
                f"[groups] names client {unknown[0]}, but with data.clients = {clients} they count from 0 to "
                f"{clients - 1}."
            )
        alone = next((client for client in range(clients) if client not in self.memberships), None)
        if alone is not None:
            raise TermsError(
                f"[groups] leaves out client {alone} of data.clients = {clients}; every client needs a group."
            )

    @cached_property
    def memberships(self) -> dict[int, tuple[int, ...]]:
        """The groups of each client that is in any, in order."""
        found: dict[int, tuple[int, ...]] = {}
        for index, group in enumerate(self.members):
            for client in group:
                found[client] = (*found.get(client, ()), index)
        return found

    def incidence(self, clients: int) -> NDArray[np.bool_]:
        """`bool[g, n]`: true where client n is a member of group g."""
        table = np.zeros((len(self.members), clients), dtype=bool)
        for index, group in enumerate(self.members):
            table[index, list(group)] = True
        return table

    def groups_of(self, client: int) -> tuple[int, ...]:
        """The groups of the client, in order."""
        return self.memberships.get(client, ())

    def first_like(self, client: int) -> int:
        """The first client of the same groups: what is proven of one holds of the other, who only bears another name.

        >>> Groups(((0, 1, 2), (2, 3))).first_like(1)
        0
        """
        return self._first[self.groups_of(client)]

    @cached_property
    def _first(self) -> dict[tuple[int, ...], int]:
        return {self.memberships[client]: client for client in sorted(self.memberships, reverse=True)}

    def observed(self, observers: Iterable[int]) -> frozenset[int]:
        """The groups whose releases these clients see together, the published ones included; none is the public."""
        return frozenset(self.publish).union(*(self.groups_of(observer) for observer in observers))

    def copies(self, subject: int) -> int:
        """How many groups the subject is in: each of their sums holds a row of it, under a coin of its own."""
        return len(self.groups_of(subject))

    def mixes(self, round: int) -> bool:
        """True in rounds 1, S + 1, 2S + 1, ...; the first carries nothing, for no model has learned anything yet.

        >>> [round for round in range(1, 8) if Groups(((0,),), mixing_period=3).mixes(round)]
        [1, 4, 7]
        """
        return (round - 1) % self.mixing_period == 0

    def delay(self, subject: int, observer: int) -> float:
        """g S + 1 at g hops between their groups; infinity without a way, and for oneself."""
        if subject == observer:
            return math.inf
        hops = self.distance(self.groups_of(subject), self.observed((observer,)))
        return hops * self.mixing_period + 1.0

    def distance(self, start: Iterable[int], goal: Iterable[int]) -> float:
        """The fewest hops from one of the groups to another, each over a client of both; infinity without a way."""
        ends, seen = set(goal), set(start)
        edge, hops = set(seen), 0
        while edge and not edge & ends:
            edge = {
                near for group in edge for client in self.members[group] for near in self.memberships[client]
            } - seen
            seen |= edge
            hops += 1
        return float(hops) if edge else math.inf
