"""The price of all pairs of clients in overlapping groups."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from onlooker import _check
from onlooker.privacy.contours import Sights
from onlooker.privacy.degradation import Case
from onlooker.privacy.fixed_size import Floats
from onlooker.privacy.overlap import prices
from onlooker.privacy.senders import GroupFacts, Sender, State, sender_of
from onlooker.privacy.topology import Groups


@dataclass(frozen=True)
class Matrix:
    """What each client gives away to each other one, and to the public.

    Clients of one membership and one bound are one class: as subjects they leave the same graph behind, as observers
    they see the same groups. A client that is the only one to link two groups is alone in its class, so the graph
    without it is not the graph without a colleague.

    Attributes:
        classes: `int64[clients]`, the class of each client.
        values: `float64[classes, classes]`, epsilon of a subject of the one class to another client of the other.
        public: `float64[classes]`, epsilon to whoever sees the published groups alone.
        theorems: `int64[classes, classes]`, the simplest theorem that gives the number: 1, 2 or 4.
        releases: `int64[classes, classes]`, how many releases of the subject's groups can arrive.
    """

    classes: NDArray[np.int64]
    values: Floats
    public: Floats
    theorems: NDArray[np.int64]
    releases: NDArray[np.int64]

    def epsilon(self, subject: int, observer: int) -> float:
        """Infinite for oneself, who holds the data."""
        if subject == observer:
            return math.inf
        return float(self.values[self.classes[subject], self.classes[observer]])

    @cached_property
    def dense(self) -> Floats:
        """`float64[clients, clients]`: subjects by observers, infinite on the diagonal."""
        every = self.values[np.ix_(self.classes, self.classes)]
        np.fill_diagonal(every, math.inf)
        return every


def matrix(
    groups: Groups,
    facts: GroupFacts,
    clients: int,
    rounds: int,
    delta: float,
    state: State = "nothing",
    own: Mapping[int, tuple[float, ...]] | None = None,
) -> Matrix:
    """Epsilon of every pair, as `overlap.decide` gives it; a thousand clients take seconds.

    Args:
        groups: who is in which group; every client is in one.
        facts: rates and noise.
        clients: N.
        rounds: T.
        delta: in (0, 1).
        state: what clients keep between rounds.
        own: for clients whose bound is not the largest, the noise over it in each of all groups (rule 17).

    Raises:
        TermsError: if a number is impossible, or the groups do not fit the clients.

    >>> line = Groups(((0, 1, 2), (2, 3, 4), (4, 5)), mixing_period=10)
    >>> matrix(line, GroupFacts.alike(line, 0.5, 3.0), clients=6, rounds=20, delta=1e-5).dense[0].round(2).tolist()
    [inf, 3.72, 3.72, 1.74, 1.74, 0.0]
    """
    groups.check(clients)
    _check.probability(privacy__delta=delta)
    _check.at_least(1, task__rounds=rounds)
    own = own or {}
    kinds: dict[tuple[tuple[int, ...], tuple[float, ...] | None], int] = {}
    classes = np.array(
        [kinds.setdefault((groups.groups_of(client), own.get(client)), len(kinds)) for client in range(clients)]
    )
    sights = {groups.observed(()): 0}
    seen = [sights.setdefault(groups.observed(()) | frozenset(kind), len(sights)) for kind, _ in kinds]
    senders = [sender_of(groups, facts, membership, rounds, state, multipliers) for membership, multipliers in kinds]
    cases: dict[Case, int] = {}
    rows = _rows([*sights])
    place = np.array([_cases(sender, [*sights], rows, cases) for sender in senders])
    found = prices(list(cases), delta)
    epsilons = np.array([one.epsilon for one in found])[place]
    theorems = np.array([one.theorem for one in found])[place]
    releases = np.array([sum(source.releases for source in case.sources) for case in cases])[place]
    return Matrix(classes, epsilons[:, seen], epsilons[:, 0], theorems[:, seen], releases[:, seen])


def _cases(sender: Sender, sights: Sequence[frozenset[int]], rows: Sights, cases: dict[Case, int]) -> NDArray[np.int64]:
    """`int64[k]`: the number of each sight's case, new ones among them; sights in one position are looked at once."""
    _, firsts, alike = np.unique(sender.positions(rows), axis=0, return_index=True, return_inverse=True)
    numbers = [cases.setdefault(sender.case(sights[int(first)]), len(cases)) for first in firsts]
    return np.array(numbers)[alike.reshape(-1)]


def _rows(sights: Sequence[frozenset[int]]) -> Sights:
    most = max(map(len, sights))
    return np.array([[*sorted(sight), *(-1,) * (most - len(sight))] for sight in sights], dtype=np.int64)
