"""Cohorts of a fixed size: the price where drawing one unit displaces another (rule 2b).

Let S be a uniform subset of m of N units, q = m/N < 1, and the release the sum of the rows of S, each of norm
at most C, plus Gaussian noise. D holds the subject's row x; D' holds x' in its place; P and Q are their
releases.

*Lemma.* For g >= 1 and gamma = 1 + (g - 1)/q, with distances in standard deviations of the noise,

    H_g(P || Q) <= q sup_p [p - (gamma - g) F(p, max_j |x - x_j|) - g F(p, |x - x'|)],

where x_j are the other units' rows and F(p, d) = Phi(Phi^-1(p) - d).

*Proof.* Given that the subject is not in S, both releases have one distribution w0; given that it is, they
have w1 and w1'. So P = (1-q) w0 + q w1 and Q = (1-q) w0 + q w1', hence P - g Q = q [w1 - (gamma - g) w0 - g
w1'] (advanced joint convexity: Balle, Barthe, Gaboardi 2018, Theorem 2). Draw a set R of m - 1 of the other
units, and one unit j outside R. Then w1, w0 and w1' are the same mixture, over (R, j), of Gaussians about s +
x, s + x_j and s + x', where s is the sum of R. For any event A and each (R, j), let p be its probability
under the first. By Neyman and Pearson, the second gives A at least F(p, |x - x_j|) and the third at least
F(p, |x - x'|); F falls as the distance grows. So the bracket is at most that of the lemma for each (R, j),
and for their mixture.

Equality holds, by half-lines A, where all rows lie on one line with x_j and x' on the same side of x. So for
each g the curves below are attained by some neighbours, and no smaller curves hold for all. Largest values of
convex functions, they are convex. For g < 1 use H_g(P || Q) = 1 - g + g H_(1/g)(Q || P).
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from scipy import stats

from onlooker.privacy.curves import Floats, alone, alone_loss, distribution, grid, log_excess, log_phi, reach


def zeroed(rate: float, shift: float, interval: float, log_tail: float) -> PrivacyLossDistribution:
    """The subject's row against zero; `shift` is C over the standard deviation of the noise.

    Forward, |x - x_j| <= 2C and |x - x'| <= C: the curve of `opposed`. Backward, a zero row is at most C from x_j and
    from x: the curve of (1-q) N(0) + q N(C) against N(0), which is what happens where everyone sends C. `interval`
    lies between the losses; at the last, at most e^`log_tail` of the curves is left.
    """
    losses = grid(alone_loss(rate, shift, 2.0, log_tail), interval)
    forward, backward = opposed(losses, rate, shift), alone(losses, rate, shift)
    return PrivacyLossDistribution(distribution(forward, backward, losses), distribution(backward, forward, losses))


def replaced(rate: float, shift: float, interval: float, log_tail: float) -> PrivacyLossDistribution:
    """The subject's row against any other: all distances are at most 2C.

    So both curves are q H_gamma(N(2C) || N(0)). They are those of Zhu, Dong and Wang (2022) for sampling without
    replacement.
    """
    losses = grid(alone_loss(rate, shift, 2.0, log_tail), interval)
    curve = alone(losses, rate, 2 * shift)
    return PrivacyLossDistribution(distribution(curve, curve, losses))


def counted(
    population: int, rate: float, shift: float, zeroed: bool, interval: float, log_tail: float
) -> PrivacyLossDistribution:
    """Coins of one rate whose number of heads n everybody sees; `zeroed` or else `replaced` rows.

    Coins do not depend on data, and given n the cohort is a uniform subset of n of the N units: so a curve is the mean
    over n of those above at q = n/N. Each of these is jointly convex in the pair, and the pair is linear in q, so that
    n may be moved, with its probability, to neighbouring points of a coarser grid. With all N drawn no one is
    displaced: the row stands against its neighbour alone.
    """
    rates, weights, left = _counts(population, rate, log_tail)
    losses = grid(max((alone_loss(one, shift, 2.0, log_tail) for one in rates), key=reach), interval)
    forward, backward = np.full(len(losses), left), np.full(len(losses), left)
    for one, weight in zip(rates, weights, strict=True):
        small = alone(losses, one, shift if zeroed else 2 * shift)
        forward += weight * (opposed(losses, one, shift) if zeroed and one < 1 else small)
        backward += weight * small
    return PrivacyLossDistribution(distribution(forward, backward, losses), distribution(backward, forward, losses))


_POINTS = 64


def _counts(population: int, rate: float, log_tail: float) -> tuple[list[float], list[float], float]:
    """Rates n/N with their probabilities, and the probability that is left out."""
    tail = math.exp(log_tail) / 2
    binomial = cast(Any, stats.binom)(population, rate)
    low = max(0, min(population - 1, int(binomial.ppf(tail)) - 1))
    high = max(low + 1, min(population, int(binomial.isf(tail)) + 1))
    counts = np.arange(low, high + 1)
    probabilities = cast(Floats, binomial.pmf(counts))
    points = np.unique(np.linspace(low, high, min(len(counts), _POINTS)).round())
    above = np.clip(np.searchsorted(points, counts), 1, len(points) - 1)
    share = (counts - points[above - 1]) / (points[above] - points[above - 1])
    weights = np.bincount(above, share * probabilities, len(points))
    weights += np.bincount(above - 1, (1 - share) * probabilities, len(points))
    drawn = points > 0  # of nobody nothing is seen
    left = float(max(0.0, 1 - probabilities.sum()))
    return (points[drawn] / population).tolist(), weights[drawn].tolist(), left


def opposed(losses: Floats, rate: float, shift: float) -> Floats:
    """The curve of (1-q) N(0) + q N(2C) against (1-q) N(0) + q N(C), where all others send -C and the subject C.

    The densities' ratio is g = e^loss at one point t, where e^(t shift) solves a quadratic equation. `losses` are 0
    or more; all in logs, without overflow.
    """
    stay, go = math.log1p(-rate), math.log(rate)
    excess = log_excess(losses)
    linear = losses - shift**2 / 2
    root = np.logaddexp(2 * linear, math.log(4) + stay - go + excess - 2 * shift**2) / 2
    cut = (2 * shift**2 - math.log(2) + np.logaddexp(linear, root)) / shift
    gained = go + log_phi(2 * shift - cut)
    lost = np.logaddexp(stay + excess + log_phi(-cut), go + losses + log_phi(shift - cut))
    return np.exp(gained) * -np.expm1(np.minimum(0.0, lost - gained))
