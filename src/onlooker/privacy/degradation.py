"""How what a subject sends degrades on its way through relays: theorems 2 to 4 of overlapping groups.

Notation: rounds 1 to T, of which s_j = (j - 1) S + 1 mix, j = 1 to J; a contour at s hops from the hidden groups,
with H_s the component beyond it that holds the observers, h hops away (see `contours`). All members of a group in H_s
start from exposed models, but for the relays of the groups at exactly s hops, and for them only in rounds that mix.
Nothing is kept by clients between rounds; coins and noises are fresh and independent.

*Theorem 2 (cut).* Hidden H^c contains all groups of the subject: D_a(view) <= (J - h) sum_m relayed(a; d_m) over the
groups m of the contour, d_m their relays. Proof: expose H_s. A release of a round that does not mix has one law in
both worlds, given the past; one that mixes costs `relayed`. A group at s hops from the hidden ones carries nothing
before s_(s+1), and, at e hops from the observers, what it sends after s_(J-e) never arrives; s + e >= h leaves J - h
rounds. Where some groups of the subject lie in H_s and others are hidden, those in H_s pay for each release as in
theorem 1, and for the up to J - 1 rounds that mix pay for relays and the subject's row at once. This is taken over
all contours and all choices of what is hidden.

*Theorem 3 (percolation).* K is the kernel of a release that is last in order, without the subject among its members,
eta its contraction over what is not exposed, U what else is exposed, W the hidden state it starts from. Every
hockey-stick divergence obeys E_g(U, K) <= (1 - eta) E_g(U) + eta E_g(U, W). Proof: let sigma_u = p(u) P(W|u) - g q(u)
Q(W|u), with positive part sigma_u^+ and total m_u. If m_u >= 0, split off m_u from the positive part; what is left
has total 0 and shrinks by eta: (sigma_u K)^+ <= m_u + eta (sigma_u^+ - m_u). If m_u < 0, split it off from the
negative part: (sigma_u K)^+ <= eta sigma_u^+. Both are (1 - eta) m_u^+ + eta sigma_u^+; sum over u. Every
f-divergence is a mixture of E_g, so also M_a = exp((a - 1) D_a), whichever world comes first. Several releases of one
round: eta = 1 - prod (1 - eta_m).

*Theorem 4 (both).* Let X_s(j) bound M_a of all releases of H_s through the j-th interval of S rounds, H_0 being
everything. Taking away the releases of s_j that have relays, either by theorem 3 (their hidden state lies in H_(s-1),
up to interval j - 1) or by paying for them as in theorem 2:
    X_0(j) = exp((a - 1) j S sum_m sampled(a; m)),  X_s(j) = 1 for j <= s,
    X_s(j) = min{(1 - eta_s) X_s(j-1) + eta_s X_(s-1)(j-1),  exp((a - 1) sum_m relayed(a; d_m)) X_s(j-1)},
and D_a(view) <= log X_h(J) / (a - 1). X grows in j, in each eta and each relayed, and falls in s (by induction), so
it never falls when observers join, and is never above theorem 2 at any contour.

*Observers who see who takes part* in some groups: the coins of those groups are part of the view. Theorem 3 stands as
it is (eta is a mean given the coins), theorem 2 and so 4 with R1 in place of min(R1, R2), theorem 1 at rate 1. *Noise
by clients:* participation is visible, and the sum carries the noise of each member that takes part, so at least that
of one where any row differs: all theorems stand, at the multiplier of a single client with participation seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeAlias

import numpy as np

from onlooker.privacy.fixed_size import Floats
from onlooker.privacy.relays import ORDERS, contraction, relayed, sampled

_MOST_INTERVALS = 10_000
"""Beyond so many theorem 4 would take too long, and the others stand."""


class Source(NamedTuple):
    """One group of the subject: how many of its releases can reach the observers, and what each costs.

    A named tuple, like what follows: a matrix hashes millions of them, and tuples are hashed far faster.
    """

    releases: int
    rate: float
    multiplier: float

    @property
    def each(self) -> Floats:
        """`float64[orders]`: one release."""
        return sampled(self.rate, self.multiplier)


class Crossing(NamedTuple):
    """One group of a contour; `source` is its place among the subject's groups, -1 where the subject is no member."""

    source: int
    relays: int
    rate: float
    multiplier: float
    seen: bool


Contour: TypeAlias = tuple[Crossing, ...]


class Partial(NamedTuple):
    """A contour about some of the subject's groups, with the other ones that lie beyond it, by their places."""

    exposed: tuple[int, ...]
    contour: Contour


class Case(NamedTuple):
    """All that decides the price of a pair; many pairs are one case.

    Attributes:
        sources: the subject's groups.
        period: S.
        intervals: J.
        contours: from one hop to h hops about all of them; empty where they are seen, out of reach, or clients keep
            state.
        partial: contours about some of them.
    """

    sources: tuple[Source, ...]
    period: int
    intervals: int
    contours: tuple[Contour, ...] = ()
    partial: tuple[Partial, ...] = ()


Way: TypeAlias = tuple[tuple[tuple[float, float], ...], int, int, tuple[Contour, ...]]
"""All that theorem 4 depends on: rate and multiplier in each group of the subject, S, J, and the contours."""


def way(case: Case) -> Way:
    """What theorem 4 depends on."""
    sources = tuple((source.rate, source.multiplier) for source in case.sources)
    return sources, case.period, case.intervals, case.contours


def bounds(case: Case, degraded: Mapping[Way, Floats]) -> tuple[tuple[int, Floats], ...]:
    """Rényi's divergences at `ORDERS` by each theorem that applies, the simplest first.

    Args:
        case: the pair.
        degraded: by theorem 4, as from `degrade`.
    """
    found = [(1, sum((source.releases * source.each for source in case.sources), np.zeros(len(ORDERS))))]
    if not found[0][1].any():
        return tuple(found)
    cuts = [_partial(case, cut) for cut in case.partial]
    if case.contours:
        often = case.intervals - len(case.contours)
        cuts += [often * _relayed(contour) for contour in case.contours]
    if cuts:
        found.append((2, np.min(cuts, axis=0)))
    if way(case) in degraded:
        found.append((4, degraded[way(case)]))
    return tuple(found)


def degrade(cases: Iterable[Case]) -> dict[Way, Floats]:
    """Rényi's divergences of all these cases by theorem 4; a longer way has those of all its beginnings on it."""
    found: dict[Way, Floats] = {}
    short = (case for case in cases if case.contours and case.intervals <= _MOST_INTERVALS)
    for case in sorted(short, key=lambda case: -len(case.contours)):
        sources, period, intervals, contours = way(case)
        if (sources, period, intervals, contours) not in found:
            for depth, curve in enumerate(_combined(case), start=1):
                found.setdefault((sources, period, intervals, contours[:depth]), curve)
    return found


@lru_cache(maxsize=65536)
def _relayed(contour: Contour) -> Floats:
    every = (relayed(one.relays, one.rate, one.multiplier, seen=one.seen) for one in contour)
    return sum(every, np.zeros(len(ORDERS)))


def _partial(case: Case, cut: Partial) -> Floats:
    """Theorem 2 where some of the subject's groups are exposed."""
    total = sum(
        (case.sources[place].releases * case.sources[place].each for place in cut.exposed), np.zeros(len(ORDERS))
    )
    for one in cut.contour:
        mixing = case.intervals - 1
        if one.source < 0:
            total = total + mixing * relayed(one.relays, one.rate, one.multiplier, seen=one.seen)
        else:
            own = case.sources[one.source]
            both = relayed(one.relays, one.rate, one.multiplier, own.multiplier, one.seen)
            total = total + min(mixing, own.releases) * (both - own.each)
    return total


def _combined(case: Case) -> Floats:
    """`float64[contours, orders]`: theorem 4 at each contour, in logarithms."""
    tilt = ORDERS - 1
    through = np.array([_contraction(contour) for contour in case.contours])[:, None]
    with np.errstate(divide="ignore"):  # nothing, or everything, gets through
        shut, open = np.log1p(-through), np.log(through)
    pays = tilt * np.array([_relayed(contour) for contour in case.contours])
    interval = tilt * case.period * sum((source.each for source in case.sources), np.zeros(len(ORDERS)))
    exposed = np.zeros((len(case.contours) + 1, len(ORDERS)))
    for passed in range(case.intervals):
        reached = slice(0, passed)  # at s hops nothing arrives in the first s intervals
        inner, outer = exposed[:-1][reached], exposed[1:][reached]
        grown = np.minimum(_log_sum(shut[reached] + outer, open[reached] + inner), outer + pays[reached])
        outer[...] = grown
        exposed[0] = (passed + 1) * interval
    return exposed[1:] / tilt


def _log_sum(one: Floats, other: Floats) -> Floats:
    """As numpy's logaddexp, which is several times slower."""
    high = np.maximum(one, other)
    return high + np.log1p(np.exp(np.minimum(one, other) - high))


@lru_cache(maxsize=65536)
def _contraction(contour: Contour) -> float:
    return float(1 - np.prod([1 - contraction(one.relays, one.rate, one.multiplier) for one in contour]))
