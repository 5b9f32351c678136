"""Hockey-stick curves of Gaussian mixtures at many losses at once, and the distributions that they make.

A curve is H_g(P || Q) at g = e^loss. The library computes the same ones, but a loss at a time, which for a run of many
rounds takes longer than everything else that is priced.
"""

from __future__ import annotations

import math
from typing import TypeAlias, cast

import numpy as np
from dp_accounting.pld.pld_pmf import PLDPmf, create_pmf_pessimistic_connect_dots_fixed_gap
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from numpy.typing import NDArray
from scipy import special

Floats: TypeAlias = NDArray[np.float64]


def poisson(rate: float, shift: float, interval: float, log_tail: float) -> PrivacyLossDistribution:
    """A row that is drawn with probability q = `rate` < 1 against nothing; `shift` is C over the noise's deviation.

    `interval` lies between the losses; at the last, at most e^`log_tail` of the curves is left.
    """
    losses = grid(alone_loss(rate, shift, 1.0, log_tail), interval)
    forward, backward = alone(losses, rate, shift), missed(losses, rate, shift)
    return PrivacyLossDistribution(distribution(forward, backward, losses), distribution(backward, forward, losses))


def alone(losses: Floats, rate: float, distance: float) -> Floats:
    """The curve q H_gamma(N(distance) || N(0)): a row against nothing, which moves no other. `losses` are 0 or more.

    With gamma = 1 + (g - 1)/q. All in logs, without overflow.
    """
    go = math.log(rate)
    threshold = np.logaddexp(0.0, log_excess(losses) - go)  # log gamma
    gained = log_phi(distance / 2 - threshold / distance)
    lost = threshold + log_phi(-distance / 2 - threshold / distance)
    return np.exp(go + gained) * -np.expm1(np.minimum(0.0, lost - gained))


def missed(losses: Floats, rate: float, distance: float) -> Floats:
    """The curve of N(0) against (1-q) N(0) + q N(distance), the other way round. `losses` are 0 or more.

    The densities' ratio is g below the point t where e^(t distance - distance^2/2) = (1/g - (1-q))/q, which is nowhere
    once g (1-q) is 1: no output can tell more than that the row was not drawn. With a = 1 - g (1-q) the curve is
    a Phi(t) - g q Phi(t - distance).
    """
    stay, go = math.log1p(-rate), math.log(rate)
    curve = np.zeros_like(losses)
    told = losses + stay < 0
    some = losses[told]
    left = np.log(-np.expm1(some + stay))  # log a
    cut = (left - some - go) / distance + distance / 2
    gained, lost = left + log_phi(cut), some + go + log_phi(cut - distance)
    curve[told] = np.exp(gained) * -np.expm1(np.minimum(0.0, lost - gained))
    return curve


def reach(loss: GaussianPrivacyLoss) -> float:
    """The largest loss that counts."""
    return cast(float, loss.connect_dots_bounds().epsilon_upper)


def log_excess(losses: Floats) -> Floats:
    """The log of g - 1 at g = e^loss."""
    with np.errstate(divide="ignore"):
        return losses + np.log(-np.expm1(-losses))


def alone_loss(rate: float, shift: float, distance: float, log_tail: float) -> GaussianPrivacyLoss:
    """A row of norm `distance` C against nothing, whose curve is q H_gamma(N(distance C) || N(0))."""
    return GaussianPrivacyLoss(
        1 / shift,
        distance,
        log_mass_truncation_bound=log_tail,
        sampling_prob=rate,
        adjacency_type=AdjacencyType.REMOVE,
    )


def grid(loss: GaussianPrivacyLoss, interval: float) -> Floats:
    """Losses from 0 to the largest that counts."""
    return interval * np.arange(2 + math.floor(reach(loss) / interval), dtype=np.float64)


def distribution(curve: Floats, reverse: Floats, losses: Floats) -> PLDPmf:
    """From a curve at losses of 0 and above, and below from the reverse one; each as far as it is above 0."""
    above, below = (min(len(losses) - 1, 1 + int(np.flatnonzero(one).max(initial=0))) for one in (curve, reverse))
    negative = losses[below:0:-1]
    lower = -np.expm1(-negative) + np.exp(-negative) * reverse[below:0:-1]
    deltas = np.concatenate((lower, curve[: above + 1]))
    return create_pmf_pessimistic_connect_dots_fixed_gap(float(losses[1]), -below, above, deltas)


def log_phi(x: Floats) -> Floats:
    """The log of the normal distribution function."""
    return cast(Floats, special.log_ndtr(x))
