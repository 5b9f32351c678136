"""What clients of overlapping groups learn of each other: a price, and what decided it, for every pair of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onlooker.privacy import overlap_matrix
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.overlap import Path, shortest
from onlooker.privacy.pairs import by_theorems, facts_of, pair_of
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups

MOST_SINGLE, MOST_EXACT, MOST_SHOWN = 30, 30, 60
"""Up to so many clients each has a row of its own; so many rows are priced exactly; so many are drawn at all."""


@dataclass(frozen=True)
class Cell:
    """The dearest pair of one row and one column.

    Attributes:
        subject: the client whose data it is.
        observer: the client who looks.
        epsilon: infinite without a guarantee; None where the observer holds the data itself.
        releases: how many releases of the subject's groups can reach the observer.
        distance: hops from the subject's groups to what the observer sees; infinite without a way.
        theorem: 1, 2 or 4; 0 where nothing arrives, or nothing is proven.
        path: a shortest way; None without one.
        assumed: for DP-OGL+ as printed, what is not proven; else None.
    """

    subject: int
    observer: int
    epsilon: float | None
    releases: int = 0
    distance: float = 0.0
    theorem: int = 0
    path: Path | None = None
    assumed: float | None = None


@dataclass(frozen=True)
class Between:
    """All pairs.

    Attributes:
        rounds: how many are charged, or planned where none is.
        rows: the clients of each row, and of the column of the same place.
        cells: subjects by observers.
        worst: the dearest pair at each distance, the nearest first.
        accountant: "exact" where the least of all that is proven is shown, "rdp" for Rényi's divergences alone.
        merged: True where a row has clients of several prices, and a cell the worst of them.
        left_out: how many clients have no row.
    """

    rounds: int
    rows: tuple[tuple[int, ...], ...]
    cells: tuple[tuple[Cell, ...], ...]
    worst: tuple[Cell, ...]
    accountant: Literal["exact", "rdp"]
    merged: bool = False
    left_out: int = 0


def between(ledger: Ledger) -> Between | None:
    """What was charged, pair by pair, or what is planned where nothing was yet; None where nobody is in a group.

    A thousand clients in a hundred groups take seconds: then prices come from Rényi's divergences alone, of all pairs
    at once, and neighbours share a row.
    """
    terms, rounds = ledger.terms, len(ledger.releases) or ledger.terms.rounds
    groups = terms.topology
    if not isinstance(groups, Groups) or terms.unit == "none":
        return None
    hops = hops_of(groups)
    kinds = _kinds(terms)
    if len(kinds) > MOST_EXACT and _is_by_theorems(terms):
        return _quick(terms, groups, rounds, hops)
    rows = [(client,) for client in range(terms.clients)] if terms.clients <= MOST_SINGLE else kinds
    shown = tuple(rows[:MOST_EXACT])
    far = _distances(terms, shown, hops).tolist()
    cells = tuple(
        tuple(_exact(terms, rounds, distance, row, column) for distance, column in zip(distances, shown, strict=True))
        for distances, row in zip(far, shown, strict=True)
    )
    worst = _by_distance([cell for line in cells for cell in line])
    return Between(rounds, shown, cells, worst, "exact", left_out=sum(map(len, rows[MOST_EXACT:])))


def _kinds(terms: Terms) -> list[tuple[int, ...]]:
    """Clients of one price, together."""
    found: dict[object, list[int]] = {}
    for client in range(terms.clients):
        found.setdefault(terms.kind_of(client), []).append(client)
    return [tuple(clients) for clients in found.values()]


def _is_by_theorems(terms: Terms) -> bool:
    """True where Rényi's divergences bound every pair, so that the matrix of all of them says the same or more."""
    hosted = bool(terms.shared and terms.shared.hosted_by)
    printed = terms.within == "shared" and terms.interval > 1
    return by_theorems(terms) and not hosted and not printed


def _pair(row: Sequence[int], column: Sequence[int]) -> tuple[int, int] | None:
    """Two different clients of a row and a column; None where both are one client."""
    observer = next((one for one in column if one != row[0]), None)
    return None if observer is None else (row[0], observer)


def _exact(terms: Terms, rounds: int, distance: float, row: Sequence[int], column: Sequence[int]) -> Cell:
    found = _pair(row, column)
    if found is None:
        return Cell(row[0], row[0], None)
    pair = pair_of(terms, found[0], f"client:{found[1]}", rounds, terms.delta)
    return Cell(*found, pair.price.epsilon, pair.releases, distance, pair.theorem, pair.path, pair.assumed)


def _quick(terms: Terms, groups: Groups, rounds: int, hops: NDArray[np.float64]) -> Between:
    multipliers = [tuple(channel.multiplier(client) for channel in terms.channels) for client in range(terms.clients)]
    state = "nothing" if terms.training.keeps == "nothing" else "per-group"
    own = dict(enumerate(multipliers))
    matrix = overlap_matrix.matrix(groups, facts_of(terms), terms.clients, rounds, terms.delta, state, own)
    kinds = [np.flatnonzero(matrix.classes == kind).tolist() for kind in range(len(matrix.values))]
    known = _Known(terms, groups, kinds, matrix, _without_oneself(matrix.values, kinds), _distances(terms, kinds, hops))
    bins = np.array_split(np.arange(len(kinds)), min(MOST_SHOWN, len(kinds)))
    rows = tuple(tuple(np.flatnonzero(np.isin(matrix.classes, part)).tolist()) for part in bins)
    cells = tuple(tuple(known.worst(np.ix_(across, down)) for down in bins) for across in bins)
    return Between(rounds, rows, cells, known.by_distance(), "rdp", merged=len(bins) < len(kinds))


@dataclass(frozen=True)
class _Known:
    """Epsilon and distance of each kind to each, `float64[kinds, kinds]`; no epsilon where a kind is one client."""

    terms: Terms
    groups: Groups
    kinds: Sequence[Sequence[int]]
    matrix: overlap_matrix.Matrix
    values: NDArray[np.float64]
    distances: NDArray[np.float64]

    def worst(self, part: tuple[NDArray[np.int64], ...]) -> Cell:
        """The dearest pair of some kinds with others."""
        values = self.values[part]
        row, column = np.unravel_index(int(np.argmax(values)), values.shape)
        return self.cell(int(part[0].ravel()[row]), int(part[1].ravel()[column]))

    def by_distance(self) -> tuple[Cell, ...]:
        """The dearest pair at each distance, of all kinds."""
        found: list[Cell] = []
        for distance in np.unique(self.distances[self.values >= 0]):
            values = np.where(self.distances == distance, self.values, -1.0)
            row, column = np.unravel_index(int(np.argmax(values)), values.shape)
            found.append(self.cell(int(row), int(column)))
        return tuple(found)

    def cell(self, row: int, column: int) -> Cell:
        """What decided the price of one kind to another."""
        pair = _pair(self.kinds[row], self.kinds[column])
        epsilon, distance = float(self.values[row, column]), float(self.distances[row, column])
        if pair is None:
            return Cell(self.kinds[row][0], self.kinds[row][0], None)
        releases = int(self.matrix.releases[row, column])
        theorem = int(self.matrix.theorems[row, column]) if releases else 0
        path = shortest(self.groups, pair[0], self.terms.observed(f"client:{pair[1]}"))
        return Cell(*pair, epsilon, releases, distance, theorem, path)


def _without_oneself(values: NDArray[np.float64], kinds: Sequence[Sequence[int]]) -> NDArray[np.float64]:
    single = [kind for kind, clients in enumerate(kinds) if len(clients) == 1]
    marked = values.copy()
    marked[single, single] = -1.0
    return marked


def _distances(terms: Terms, kinds: Sequence[Sequence[int]], hops: NDArray[np.float64]) -> NDArray[np.float64]:
    """`float64[kinds, kinds]`: hops from the groups of a subject to what an observer sees."""
    start = np.array([hops[list(terms.topology.groups_of(clients[0]))].min(axis=0) for clients in kinds])
    seen = [sorted(terms.observed(f"client:{clients[0]}")) for clients in kinds]
    return np.stack([start[:, groups].min(axis=1) for groups in seen], axis=1)


def hops_of(groups: Groups) -> NDArray[np.float64]:
    """`float64[g, g]`: how many hops lie between two groups, each over a client of both; infinite without a way."""
    linked = shared_members(groups) > 0
    hops = np.where(linked, 1.0, np.inf)
    np.fill_diagonal(hops, 0.0)
    for middle in range(len(hops)):
        hops = np.minimum(hops, hops[:, middle : middle + 1] + hops[middle])
    return hops


def shared_members(groups: Groups) -> NDArray[np.int64]:
    """`int64[g, g]`: how many clients two groups share; on the diagonal how many a group has."""
    incidence = groups.incidence(1 + max(groups.memberships)).astype(np.int64)
    return incidence @ incidence.T


def _by_distance(cells: Sequence[Cell]) -> tuple[Cell, ...]:
    """The dearest pair at each distance, the nearest first."""
    places = sorted({cell.distance for cell in cells if cell.epsilon is not None})
    return tuple(max((cell for cell in cells if cell.distance == place), key=_epsilon) for place in places)


def _epsilon(cell: Cell) -> float:
    return -1.0 if cell.epsilon is None else cell.epsilon
