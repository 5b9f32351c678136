"""A subject among its groups, and what decides the price of each of its pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy.contours import Contours, Sights, Surroundings
from onlooker.privacy.degradation import Case, Contour, Crossing, Partial, Source
from onlooker.privacy.topology import Groups

State: TypeAlias = Literal["nothing", "per-group", "shared"]
"""What clients keep between rounds; all but nothing leaves theorem 1 alone (rule 6)."""
_Key: TypeAlias = tuple[frozenset[int], frozenset[int]]
"""Hidden groups, and components around them."""
_MOST_SPLITS = 3
"""Of a subject in more groups than this, partial contours are left out: their number doubles with each group."""


@dataclass(frozen=True)
class GroupFacts:
    """The public numbers of each group.

    Attributes:
        rates: pi_m, the probability that a member takes part in a round.
        multipliers: sigma_m, the standard deviation of the noise over the largest bound of a member's row.
        seen: the groups in which the observers see who takes part.
    """

    rates: tuple[float, ...]
    multipliers: tuple[float, ...]
    seen: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if len(self.rates) != len(self.multipliers):
            raise TermsError(f"there are {len(self.rates)} rates for {len(self.multipliers)} noise multipliers.")
        for rate, multiplier in zip(self.rates, self.multipliers, strict=True):
            _check.rate(sampling__clients__rate=rate)
            _check.positive(privacy__noise_multiplier=multiplier)

    @staticmethod
    def alike(groups: Groups, rate: float, multiplier: float) -> GroupFacts:
        """The same numbers in every group."""
        return GroupFacts((rate,) * len(groups.members), (multiplier,) * len(groups.members))


@dataclass(frozen=True)
class Sender:
    """A subject among its groups: whatever its pairs with all observers have in common.

    Attributes:
        membership: its groups.
        surroundings: the graph without it.
        facts: the public numbers of all groups.
        own: for each of its groups, the noise over its own bound (rule 17).
        period: S, 1 where clients share state between groups.
        rounds: T.
        state: what clients keep.
    """

    membership: tuple[int, ...]
    surroundings: Surroundings
    facts: GroupFacts
    own: tuple[float, ...]
    period: int
    rounds: int
    state: State = "nothing"

    @property
    def intervals(self) -> int:
        """J."""
        return -(-self.rounds // self.period)

    @cached_property
    def _known(self) -> tuple[dict[_Key, tuple[Partial, ...]], dict[_Key, Partial]]:
        return {}, {}  # ways and their steps: observers on one side meet the same ones

    @cached_property
    def _hops(self) -> dict[int, tuple[float, ...]]:
        return {group: self.surroundings.distances((group,)) for group in self.membership}

    @cached_property
    def _contours(self) -> dict[frozenset[int], Contours]:
        every = range(1, len(self.membership) + 1)
        sizes = every if len(self.membership) <= _MOST_SPLITS else every[-1:]
        hidden = (frozenset(some) for size in sizes for some in combinations(self.membership, size))
        return {some: self.surroundings.contours(some) for some in hidden}

    def hops(self, observed: frozenset[int]) -> tuple[float, ...]:
        """From each of the subject's groups to the nearest observed one."""
        return tuple(min((self._hops[group][seen] for seen in observed), default=math.inf) for group in self.membership)

    def releases(self, hops: tuple[float, ...]) -> tuple[int, ...]:
        """L of theorem 1, for each of the subject's groups."""
        return tuple(
            self.rounds if far == 0 else 0 if math.isinf(far) else self.period * max(0, self.intervals - int(far))
            for far in hops
        )

    def case(self, observed: frozenset[int]) -> Case:
        """All that decides the price to whoever sees these groups."""
        hops = self.hops(observed)
        seen = self.facts.seen
        sources = tuple(
            Source(count, 1.0 if group in seen else self.facts.rates[group], own)
            for group, count, own in zip(self.membership, self.releases(hops), self.own, strict=True)
        )
        if self.state != "nothing" or not any(source.releases for source in sources):
            return Case(sources, self.period, self.intervals)
        chain: tuple[Contour, ...] = ()
        if min(hops) > 0:
            chain = tuple(step.contour for step in self._outward(frozenset(self.membership), observed))
        reached = {group for group, far in zip(self.membership, hops, strict=True) if math.isfinite(far)}
        partial = tuple(step for hidden in self._splits(reached, observed) for step in self._outward(hidden, observed))
        return Case(sources, self.period, self.intervals, chain, partial)

    def positions(self, sights: Sights) -> NDArray[np.int64]:
        """`int64[k, c]`: rows that are equal only where all that `case` makes of the sight is equal.

        It makes of it the hops from each of the subject's groups, of which those that are seen have none, and the
        components around it of each set of groups that may be hidden.
        """
        hops = [
            np.where(sights < 0, math.inf, np.array(self._hops[group])[sights]).min(axis=1, initial=math.inf)
            for group in self.membership
        ]
        steps = np.column_stack([np.where(np.isfinite(one), one, -1).astype(np.int64) for one in hops])
        return np.column_stack([steps, *(one.positions(sights) for one in self._contours.values())])

    def _splits(self, reached: set[int], observed: frozenset[int]) -> Iterator[frozenset[int]]:
        for hidden in self._contours:
            if hidden < reached and not hidden & observed:
                yield hidden

    def _outward(self, hidden: frozenset[int], observed: frozenset[int]) -> tuple[Partial, ...]:
        contours = self._contours[hidden]
        components = contours.around(observed)
        ways, steps = self._known
        if (hidden, components) not in ways:
            chain = contours.outward(components)
            for distance, within in enumerate(chain, start=1):
                if (hidden, within) not in steps:
                    steps[hidden, within] = self._step(contours, distance, within)
            ways[hidden, components] = tuple(steps[hidden, within] for within in chain)
        return ways[hidden, components]

    def _step(self, contours: Contours, distance: int, within: frozenset[int]) -> Partial:
        places = {group: place for place, group in enumerate(self.membership)}
        # A group that the hidden ones cannot reach is hidden by no contour: what observers see of it is paid for.
        exposed = (
            place
            for group, place in places.items()
            if math.isinf(contours.distance[group])
            or (distance <= contours.distance[group] and contours.ancestor(group, distance) in within)
        )
        crossing = (
            Crossing(places.get(m, -1), relays, self.facts.rates[m], self.facts.multipliers[m], m in self.facts.seen)
            for m, relays in contours.crossing(within)
        )
        return Partial(tuple(exposed), tuple(sorted(crossing)))


@lru_cache(maxsize=1024)  # all pairs of one subject share what is found of the graph around it
def sender_of(
    groups: Groups,
    facts: GroupFacts,
    membership: tuple[int, ...],
    rounds: int,
    state: State = "nothing",
    own: tuple[float, ...] | None = None,
) -> Sender:
    """One client of this membership, and the graph without it."""
    if not membership:
        raise TermsError("the subject is in no group; name a client that groups.members lists.")
    multipliers = facts.multipliers if own is None else own
    if len(facts.rates) != len(groups.members) or len(multipliers) != len(groups.members):
        raise TermsError(
            f"there are numbers for {len(facts.rates)} groups; groups.members names {len(groups.members)}."
        )
    period = 1 if state == "shared" else groups.mixing_period
    surroundings = Surroundings.without(groups, membership)
    return Sender(membership, surroundings, facts, tuple(multipliers[m] for m in membership), period, rounds, state)
