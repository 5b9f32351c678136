"""One round as a privacy loss distribution: two hockey-stick curves, put on a grid from above.

What a round gives away about a unit is the pair of curves `H_gamma(P || Q)` and `H_gamma(Q || P)`, where P
and Q are the distributions of its release with and without the unit's row, and `H_gamma(P || Q) = sup_A P(A)
- gamma Q(A)`. Curves that lie above those of all neighbours, and are curves of some pair themselves, may be
composed in their place (Zhu, Dong, Wang, "Optimal Accounting of Differential Privacy via Characteristic
Function", AISTATS 2022, Theorem 10).

Throughout, `gamma = e^loss`, noise has standard deviation 1 and distances are in units of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, cast

import numpy as np
from dp_accounting.pld.pld_pmf import DensePLDPmf
from numpy.typing import NDArray
from scipy import special

Floats: TypeAlias = NDArray[np.float64]
Curve: TypeAlias = Callable[[Floats], Floats]


@dataclass(frozen=True)
class Pair:
    """What bounds one round: both hockey-stick curves, and their scales.

    Attributes:
        forward: losses, `float64[n]` of 0 and above, to `H(P || Q)` there; convex in `e^loss`.
        backward: the same for `H(Q || P)`.
        reach: the privacy loss of an output that lies so many standard deviations beyond the farther mean.
        deviation: about the standard deviation of the loss; it decides how fine a grid is, never a price.
    """

    forward: Curve
    backward: Curve
    reach: Callable[[float], float]
    deviation: float

    def reversed(self) -> Pair:
        """The pair seen from the other side."""
        return Pair(self.backward, self.forward, self.reach, self.deviation)


def gaussian(log_gamma: Floats, shift: float) -> Floats:
    """`H_gamma(N(shift, 1) || N(0, 1))` (Balle and Wang 2018, Theorem 8), for a gamma on either side of 1.

    >>> gaussian(np.zeros(1), 2.0).round(6).tolist()
    [0.682689]
    """
    cut = log_gamma / shift
    return difference(log_phi(shift / 2 - cut), log_gamma + log_phi(-shift / 2 - cut))


def outside_sampling(losses: Floats, rate: float) -> Floats:
    """The log of gamma = 1 + (e^loss - 1)/q.

    It is what a round without sampling is asked about where the sampled one is asked about e^loss: the change
    of variable of advanced joint convexity (Balle, Barthe, Gaboardi 2018, Theorem 2).
    """
    return log_sum(0.0, log_excess(losses) - math.log(rate))


def plain(shift: float) -> Pair:
    """Without sampling: N(shift) against N(0)."""

    def curve(losses: Floats) -> Floats:
        return gaussian(losses, shift)

    return Pair(curve, curve, sampled_reach(1.0, shift), sampled_deviation(1.0, shift))


def poisson(rate: float, shift: float) -> Pair:
    """Poisson sampling, a row against nothing: (1-q) N(0) + q N(shift) against N(0), both curves exact."""

    def forward(losses: Floats) -> Floats:
        return rate * gaussian(outside_sampling(losses, rate), shift)

    def backward(losses: Floats) -> Floats:
        # N(0) - g ((1-q) N(0) + q N(shift)) is nowhere positive from g = 1/(1-q) on.
        left = np.maximum(0.0, -np.expm1(np.minimum(0.0, losses + math.log1p(-rate))))
        curve, some = np.zeros_like(losses), left > 0
        log_gamma = losses[some] + math.log(rate) - np.log(left[some])
        curve[some] = left[some] * gaussian(log_gamma, shift)
        return curve

    return Pair(forward, backward, sampled_reach(rate, shift), sampled_deviation(rate, shift))


def poisson_replaced(rate: float, shift: float) -> Pair:
    """Poisson sampling, a row against its opposite: (1-q) N(0) + q N(-shift) against (1-q) N(0) + q N(shift).

    By the lemma of `fixed_size`, with nothing in the place of the displaced row, no rows have a larger curve.

    The loss falls as the output x grows, so the curve is P - g Q below the one x where the loss is log g.
    There u = e^(-x shift) solves u - g/u = c (g - 1) with c = (1-q)/q e^(shift^2 / 2).
    """
    stay, go = math.log1p(-rate), math.log(rate)

    def log_mass(cut: Floats, mean: float) -> Floats:
        return log_sum(stay + log_phi(cut), go + log_phi(cut - mean))

    def curve(losses: Floats) -> Floats:
        log_sinh = log_excess(losses) - losses / 2 - math.log(2)
        bend = stay - go + shift**2 / 2 + log_sinh
        asinh = log_sum(bend, log_sum(0.0, 2 * bend) / 2)
        cut = -(losses / 2 + asinh) / shift
        return difference(log_mass(cut, -shift), losses + log_mass(cut, shift))

    def reach(spread: float) -> float:
        up = np.logaddexp(stay, go + shift**2 / 2 + spread * shift)
        return float(up - np.logaddexp(stay, go - 3 * shift**2 / 2 - spread * shift))

    deviation = 2 * min(shift, rate * math.sqrt(math.sinh(min(shift**2, 600.0))))
    return Pair(curve, curve, reach, deviation)


@dataclass(frozen=True)
class Discrete:
    """A privacy loss distribution on a grid, whose curve is never below the one it stands for.

    Attributes:
        interval: the distance between losses.
        lowest: the first loss over `interval`.
        probabilities: `float64[n]`, of the losses from there on.
        infinite: the probability of an infinite loss.
    """

    interval: float
    lowest: int
    probabilities: Floats
    infinite: float

    def losses(self) -> Floats:
        """`float64[n]`: where the probabilities lie."""
        return self.interval * (self.lowest + np.arange(len(self.probabilities), dtype=np.float64))

    def variance(self) -> float:
        """The variance of a finite loss."""
        losses = self.losses()
        mean = float(np.dot(losses, self.probabilities))
        return float(np.dot((losses - mean) ** 2, self.probabilities))

    def composable(self) -> DensePLDPmf:
        """The same, as dp-accounting composes it."""
        return DensePLDPmf(self.interval, self.lowest, self.probabilities, self.infinite, True)


def discretise(pair: Pair, interval: float, spread: float) -> Discrete:
    """The distribution of the loss of P against Q on multiples of `interval`.

    Between the grid's points the curve is replaced by its chords in gamma, which lie above it because it is
    convex ("Connect the Dots", Doroshenko et al. 2022, Algorithm 1). What is left of the curve at
    `reach(spread)` becomes the probability of an infinite loss. Sound for any interval and spread; tight for
    small and large ones.
    """
    count = max(1, math.ceil(pair.reach(spread) / interval))
    losses = interval * np.arange(count + 1, dtype=np.float64)
    forward, backward = pair.forward(losses), pair.backward(losses)
    above = _masses(forward, interval)
    # What Q sees at loss l against P, P sees at loss -l against Q, with e^-l times the probability.
    below = np.trim_zeros(_masses(backward, interval) * np.exp(-losses[1:]), "b")
    infinite = float(forward[-1])
    at_zero = max(0.0, 1.0 - infinite - float(above.sum()) - float(below.sum()))
    return Discrete(interval, -len(below), np.concatenate((below[::-1], [at_zero], above)), infinite)


def sampled_reach(rate: float, shift: float) -> Callable[[float], float]:
    """The reach of (1-q) N(0) + q N(shift) against N(0)."""
    stay = math.log1p(-rate) if rate < 1 else -math.inf

    def reach(spread: float) -> float:
        return float(np.logaddexp(stay, math.log(rate) + shift**2 / 2 + spread * shift))

    return reach


def sampled_deviation(rate: float, shift: float) -> float:
    """The standard deviation of the likelihood ratio, at most that of the loss without sampling."""
    return min(shift, rate * math.sqrt(math.expm1(min(shift**2, 600.0))))


def difference(log_gain: Floats, log_loss: Floats) -> Floats:
    """e^log_gain - e^log_loss, at least 0, from logs that may be far below those of the smallest number."""
    return np.exp(log_gain) * -np.expm1(np.minimum(log_loss - log_gain, 0.0))


def log_excess(losses: Floats) -> Floats:
    """log(e^loss - 1), without overflow."""
    with np.errstate(divide="ignore"):
        return losses + np.log(-np.expm1(-losses))


def log_phi(x: Floats) -> Floats:
    """The log of the standard normal distribution function."""
    return cast(Floats, special.log_ndtr(x))


def log_sum(one: Floats | float, other: Floats) -> Floats:
    """log(e^one + e^other)."""
    return cast(Floats, np.logaddexp(one, other))


def _masses(curve: Floats, interval: float) -> Floats:
    """The probability, under the first distribution, of each loss above 0: how far the chords bend there.

    A negative one can only be rounding; zero in its place raises the curve.
    """
    steps = np.diff(curve, append=curve[-1])
    return np.maximum(0.0, (steps[1:] * math.exp(-interval) - steps[:-1]) / -math.expm1(-interval))
