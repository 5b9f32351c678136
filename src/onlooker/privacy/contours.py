"""The groups around the hidden ones, by distance, as they are without the subject.

What a subject sends to hidden groups passes through every *contour*: the groups that are s hops away from them. What
lies beyond, the component around the observers of all groups at least s hops away, can be exposed as a whole; then
only the relays in the groups at exactly s hops still depend on what is hidden. Larger coalitions meet more
components, and each component keeps its relays, so nothing that is counted over contours ever falls when observers
join. (It can with contours around the observers: their relays lead in every direction, and turn clean where another
one looks on.)
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from onlooker.privacy.topology import Groups

Sights = NDArray[np.int64]
"""`int64[k, m]`: in each row the groups that somebody sees, and -1 where there are no more."""

Kinds = Mapping[tuple[int, ...], int]
"""How many clients there are with each membership: clients differ in nothing else."""


@dataclass(frozen=True)
class Contours:
    """All groups around the hidden ones.

    Attributes:
        distance: hops from the hidden groups, infinite without a way.
        component: the component that each group within reach lies in, of all groups at least as far as it.
        nearer: for each component the one that is a hop nearer and contains it; -1 at one hop.
        relays: for each component its nearest groups, each with the number of its relays.
    """

    distance: tuple[float, ...]
    component: Mapping[int, int]
    nearer: tuple[int, ...]
    relays: tuple[tuple[tuple[int, int], ...], ...]

    def around(self, observed: Iterable[int]) -> frozenset[int]:
        """The components that hold the observed groups, all at the distance of the nearest."""
        within = [group for group in observed if group in self.component]
        least = min((self.distance[group] for group in within), default=0)
        return frozenset(self.ancestor(group, least) for group in within)

    def ancestor(self, group: int, distance: float) -> int:
        """The component of all groups at least this far that holds the group, which is at least as far."""
        found = self.component[group]
        for _ in range(int(self.distance[group] - distance)):
            found = self.nearer[found]
        return found

    def positions(self, sights: Sights) -> NDArray[np.int64]:
        """`int64[k, m + 1]`: for each sight the distance and the components of `around`; equal rows, equal answers."""
        far = np.array([far if group in self.component else math.inf for group, far in enumerate(self.distance)])
        distances = np.where(sights < 0, math.inf, far[sights])
        least = distances.min(axis=1, initial=math.inf)
        within = np.isfinite(distances)
        nearest = np.where(np.isfinite(least), least, 0).astype(np.int64)
        found = np.where(within, self._ancestors[np.where(within, sights, 0), nearest[:, None]], -1)
        found.sort(axis=1)
        found[:, 1:][found[:, 1:] == found[:, :-1]] = -1  # a component counts once
        found.sort(axis=1)
        return np.column_stack([nearest, found])

    @cached_property
    def _ancestors(self) -> NDArray[np.int64]:
        """`int64[g, h + 1]`: the component of all groups at least so far that holds the group; -1 beyond it."""
        furthest = int(max((self.distance[group] for group in self.component), default=0))
        table = np.full((len(self.distance), furthest + 1), -1)
        for group in self.component:
            for distance in range(1, int(self.distance[group]) + 1):
                table[group, distance] = self.ancestor(group, distance)
        return table

    def outward(self, components: frozenset[int]) -> tuple[frozenset[int], ...]:
        """The components at one hop, two hops, and so on up to these."""
        chain: list[frozenset[int]] = []
        while components and -1 not in components:
            chain.append(components)
            components = frozenset(self.nearer[one] for one in components)
        return tuple(reversed(chain))

    def crossing(self, components: frozenset[int]) -> tuple[tuple[int, int], ...]:
        """The groups through which something enters these components, each with the number of its relays."""
        return tuple(sorted(pair for one in components for pair in self.relays[one]))


@dataclass(frozen=True)
class Surroundings:
    """The graph of groups without one client: two groups are neighbours where another client is in both."""

    count: int
    kinds: Kinds

    @staticmethod
    def without(groups: Groups, membership: tuple[int, ...]) -> Surroundings:
        """What is left when one client of this membership goes."""
        kinds = Counter(groups.memberships.values())
        kinds[membership] -= 1
        return Surroundings(len(groups.members), +kinds)

    @cached_property
    def _neighbours(self) -> tuple[frozenset[int], ...]:
        near: list[set[int]] = [set() for _ in range(self.count)]
        for kind in self.kinds:
            for group in kind:
                near[group].update(kind)
        return tuple(frozenset(near[group] - {group}) for group in range(self.count))

    def distances(self, start: Iterable[int]) -> tuple[float, ...]:
        """Hops from the nearest of these groups to each group; infinite without a way."""
        found = [math.inf] * self.count
        edge, hops = set(start), 0
        while edge:
            for group in edge:
                found[group] = hops
            edge = {near for group in edge for near in self._neighbours[group] if math.isinf(found[near])}
            hops += 1
        return tuple(found)

    def contours(self, hidden: Iterable[int]) -> Contours:
        """All components, the furthest first: each nearer one joins those behind it."""
        distance = self.distances(hidden)
        relays = self._relays(distance)
        root: dict[int, int] = {}
        component: dict[int, int] = {}
        newest: dict[int, int] = {}  # the component that each root stands for, so far
        nearer: list[int] = []
        crossing: list[tuple[tuple[int, int], ...]] = []
        for hops in range(int(max((far for far in distance if math.isfinite(far)), default=0)), 0, -1):
            ring = [group for group in range(self.count) if distance[group] == hops]
            for group in ring:
                root[group] = group
            for group in ring:
                for near in self._neighbours[group] & root.keys():
                    root[_find(root, near)] = _find(root, group)
            behind, newest = newest, {}
            for group in ring:
                if (top := _find(root, group)) not in newest:
                    newest[top] = len(nearer)
                    nearer.append(-1)
                    crossing.append(())
                component[group] = newest[top]
                if relays[group]:
                    crossing[newest[top]] += ((group, relays[group]),)
            for top, one in behind.items():
                nearer[one] = newest[_find(root, top)]
        return Contours(distance, component, tuple(nearer), tuple(crossing))

    def _relays(self, distance: tuple[float, ...]) -> list[int]:
        """For each group, how many of its clients are in a group a hop nearer to the hidden ones as well."""
        relays = [0] * self.count
        for kind, clients in self.kinds.items():
            least = min(distance[group] for group in kind)
            for group in kind:
                if distance[group] > least:
                    relays[group] += clients
        return relays


def _find(root: dict[int, int], group: int) -> int:
    while root[group] != group:
        root[group] = root[root[group]]
        group = root[group]
    return group
