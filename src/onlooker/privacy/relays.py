"""What one release of a group gives away, as Rényi divergences: of a member, and of what its relays bring along.

A *relay* is a member of the group that is also in a group the observers do not see. In a round that mixes, it starts
from what it learned there, so its row depends on the hidden state of that group. Rows are bounded by 1 here, and the
noise has standard deviation s.

*Two hidden states.* Given what is exposed, a release is the same function of the hidden state, the coins and the
noise in both worlds, with and without the subject. D_a is quasi-convex in the pair of distributions, so D_a of the
release is at most its supremum over pairs of hidden states: d relays may send any rows v in one world and any v' in
the other. A relay is there in both, so one that takes part moves the sum by up to 2, not 1.

*R1.* Condition on the coins too: with k relays taking part (k ~ Binomial(d, q)) the sums differ by at most 2k, hence
D_a <= log E exp(a (a - 1) (2k)^2 / 2s^2) / (a - 1). It holds for observers who see the coins.

*R2.* By way of R, where all relays send 0: D_a(P, Q) <= (a - 1/2)/(a - 1) D_2a(P, R) + D_(2a-1)(R, Q) (Mironov 2017,
Corollary 4). For an integer A, exp((A - 1) D_A(P, R)) = E exp(sum_(i<j) <x_i, x_j> / s^2) over A independent copies x
of the sum of the rows, and <x_i, x_j> <= k_i k_j: rows that all point one way are the worst. So D_A(P, R) is at most
that of sum_k Binomial(k) N(k, s^2) from N(0, s^2). For D_b(R, Q), by convexity log E exp(b (b - 1) k^2 / 2s^2) / (b -
1); or, as log Q >= E_coins log N(x, s^2), by (b |E x|^2 + Var x) / 2s^2 <= (b (q d)^2 + d q (1 - q)) / 2s^2; or, for
one relay, the divergence of a sampled Gaussian, whose reverse is no larger (Mironov, Talwar, Zhang 2019). R2 needs
hidden coins.

*With the subject among the members*, its own row adds 1 in one world and nothing in the other: 2k + 1 in place of 2k
in R1, one more row in P alone in R2, which is taken in both directions.

*Contraction.* The total variation between two states is at most E[2 Phi(k/s) - 1], again given the coins.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy import special

from onlooker.privacy.fixed_size import Floats

ORDERS: NDArray[np.int64] = np.array([*range(2, 65), 80, 96, 128])
"""Whole orders alone: the worst case of several relays is only known at those."""
_MOST_CELLS = 4_000_000
_TAILS = 9.0
"""How many standard deviations beyond the outermost Gaussian the sum over a grid goes: 1e-19 of it is left out."""


@lru_cache(maxsize=4096)
def sampled(rate: float, multiplier: float) -> Floats:
    """`float64[orders]`: one release of a Poisson-sampled Gaussian, against a row or without, the larger of both.

    Args:
        rate: q, the probability of taking part.
        multiplier: the noise's standard deviation over the bound of the row.

    Source: Mironov, Talwar, Zhang 2019, section 3.3; the reverse direction is no larger (theorem 5).

    >>> bool(np.allclose(sampled(1.0, 2.0), ORDERS / 8))
    True
    """
    return _sampled_at(ORDERS, rate, multiplier)


@lru_cache(maxsize=4096)
def relayed(relays: int, rate: float, multiplier: float, own: float | None = None, seen: bool = False) -> Floats:
    """`float64[orders]`: one release in a round that mixes, min(R1, R2).

    Args:
        relays: d, the members, the subject aside, that are in a group outside what is exposed.
        rate: q of all members.
        multiplier: s, the noise over the members' bound.
        own: the noise over the subject's own bound where the subject is a member, else None.
        seen: True if the observers see who takes part, so that the subject's row is there for certain and R2 is not
            available.

    >>> bool(np.allclose(relayed(3, 1.0, 2.0), 2 * ORDERS * 9 / 4)), float(relayed(0, 0.5, 2.0).max())
    (True, 0.0)
    """
    if relays == 0:
        return np.zeros(len(ORDERS)) if own is None else sampled(1.0 if seen else rate, own)
    shift = 0.0 if own is None else multiplier / own
    least = _given_coins(relays, rate, multiplier, shift, 1.0 if seen else rate)
    if not seen and rate < 1:
        least = np.minimum(least, _by_way_of_nothing(relays, rate, multiplier, shift))
    return least


@lru_cache(maxsize=4096)
def contraction(relays: int, rate: float, multiplier: float) -> float:
    """Dobrushin's coefficient of one release over the hidden state: at most so much of any divergence gets through.

    >>> contraction(0, 0.5, 3.0), round(contraction(1, 0.5, 3.0), 4)
    (0.0, 0.1306)
    """
    counts = np.arange(relays + 1)
    weights = np.exp(_log_binomial(relays, rate))
    return min(1.0, float(weights @ special.erf(counts / (multiplier * math.sqrt(2)))))


def _sampled_at(orders: NDArray[np.int64], rate: float, multiplier: float) -> Floats:
    if rate >= 1:
        return orders / (2 * multiplier**2)
    counts = np.arange(int(orders.max()) + 1)
    log_weights = special.gammaln(orders[:, None] + 1) - special.gammaln(counts + 1)
    missing = np.maximum(orders[:, None] - counts, 0)
    log_weights = log_weights - special.gammaln(missing + 1) + counts * math.log(rate) + missing * math.log1p(-rate)
    terms = np.where(counts <= orders[:, None], log_weights + counts * (counts - 1.0) / (2 * multiplier**2), -np.inf)
    return np.maximum(0.0, _log_sum(terms)) / (orders - 1)


def _given_coins(relays: int, rate: float, multiplier: float, shift: float, own_rate: float) -> Floats:
    """R1: `shift` is the bound of the subject's own row over that of the others."""
    shifts, log_weights = _sums(np.arange(0.0, 2 * relays + 1, 2), _log_binomial(relays, rate), shift, own_rate)
    orders = ORDERS[:, None].astype(np.float64)
    return _log_sum(log_weights + orders * (orders - 1) * (shifts / multiplier) ** 2 / 2) / (ORDERS - 1)


def _by_way_of_nothing(relays: int, rate: float, multiplier: float, shift: float) -> Floats:
    """R2, the larger of both directions; infinite where its sum over a grid would take too long."""
    there, back = 2 * ORDERS, 2 * ORDERS - 1
    others = _sums(np.arange(relays + 1.0), _log_binomial(relays, rate), 0.0, rate)
    everyone = _sums(*others, shift, rate)
    factor = (ORDERS - 0.5) / (ORDERS - 1)
    least = factor * _aligned(there, *everyone, multiplier) + _back(back, *others, rate, multiplier)
    if shift == 0:
        return least
    return np.maximum(least, factor * _aligned(there, *others, multiplier) + _back(back, *everyone, rate, multiplier))


def _aligned(orders: NDArray[np.int64], shifts: Floats, log_weights: Floats, multiplier: float) -> Floats:
    """D_A of sum_k w_k N(k, s^2) from N(0, s^2) for whole orders.

    p^A r^(1-A) is a sum of Gaussians of deviation s about whole sums of shifts, each with a positive weight, and a sum
    over a grid of step s/2 gives each of them up to a relative 2 exp(-8 pi^2) = 1e-34 (Poisson's summation formula).
    """
    furthest = float(orders.max() * shifts.max())
    points = int((furthest / multiplier + 2 * _TAILS) * 2) + 2
    if points * (len(shifts) + len(orders)) > _MOST_CELLS:
        return np.full(len(orders), np.inf)
    grid = np.arange(points) / 2 - _TAILS  # in standard deviations
    scaled = shifts / multiplier
    ratio = _log_sum(log_weights + grid[:, None] * scaled - scaled**2 / 2)
    terms = orders[:, None] * ratio - grid**2 / 2 + math.log(0.5 / math.sqrt(2 * math.pi))
    return np.maximum(0.0, _log_sum(terms)) / (orders - 1)


def _back(orders: NDArray[np.int64], shifts: Floats, log_weights: Floats, rate: float, multiplier: float) -> Floats:
    """D_b of nothing from what is sent."""
    column = orders[:, None].astype(np.float64)
    by_coins = _log_sum(log_weights + column * (column - 1) * (shifts / multiplier) ** 2 / 2)
    mean = float(np.exp(log_weights) @ shifts)
    variance = float(np.exp(log_weights) @ (shifts - mean) ** 2)
    least = np.minimum(by_coins / (orders - 1), (orders * mean**2 + variance) / (2 * multiplier**2))
    return np.minimum(least, _sampled_at(orders, rate, multiplier)) if shifts.tolist() == [0.0, 1.0] else least


def _sums(shifts: Floats, log_weights: Floats, own: float, own_rate: float) -> tuple[Floats, Floats]:
    """What all rows add up to at most, the subject's included, and how likely."""
    if own == 0:
        return shifts, log_weights
    coin = _log_binomial(1, own_rate)
    return np.concatenate((shifts, shifts + own)), np.concatenate((log_weights + coin[0], log_weights + coin[1]))


def _log_sum(terms: Floats) -> Floats:
    """log sum exp along the last axis."""
    return cast(Floats, special.logsumexp(terms, axis=-1))


def _log_binomial(count: int, rate: float) -> Floats:
    successes = np.arange(count + 1.0)
    ways = special.gammaln(count + 1) - special.gammaln(successes + 1) - special.gammaln(count - successes + 1)
    return ways + special.xlogy(successes, rate) + special.xlog1py(count - successes, -rate)
