"""Rényi divergences of rounds and their conversion to epsilon: cheap for every prefix of a run."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS, RdpAccountant

from onlooker.privacy.losses import Discrete, Floats, discretise
from onlooker.privacy.rounds import Round

ORDERS: Floats = np.array([1.02, 1.05, *DEFAULT_RDP_ORDERS], dtype=np.float64)
"""dp-accounting's own orders, and two close to 1 for noise that is almost none."""

_FINENESS = 25
"""Points of the grid for each standard deviation of a loss: a divergence 0.05 % too large."""
_MOST_POINTS = 2**17


@dataclass(frozen=True)
class Divergence:
    """The larger of both directions' Rényi divergences of one round, outside an event of small probability.

    Attributes:
        values: `float64[orders]`; infinite where an order cannot be computed.
        outside: the probability that the divergences leave out; it is charged to delta.
    """

    values: Floats
    outside: float = 0.0


@lru_cache(maxsize=256)
def divergence(round: Round, spread: float) -> Divergence:
    """The divergences of one round at `ORDERS`.

    In closed form without sampling; by dp-accounting for a row against nothing under Poisson sampling
    (Mironov, Talwar, Zhang 2019). The kinds that its RDP accountant refuses, or prices by a loose bound, are
    computed from the discretised privacy loss distribution up to `spread` standard deviations, which is never
    below the true one.
    """
    if round.kind == "plain":
        return Divergence(ORDERS * round.shift**2 / 2)
    if round.kind == "poisson":
        accountant = RdpAccountant(ORDERS.tolist())
        with _quiet():
            accountant.compose(PoissonSampledDpEvent(round.rate, GaussianDpEvent(1 / round.shift)))
        return Divergence(_growing(cast(Floats, accountant.rdp)))
    pair = round.pair()
    interval = max(pair.deviation / _FINENESS, pair.reach(spread) / _MOST_POINTS)
    ways = [discretise(way, interval, spread) for way in (pair, pair.reversed())]
    return Divergence(_growing(np.maximum(*map(_divergences, ways))), max(way.infinite for way in ways))


def epsilons(divergences: Floats, delta: Floats) -> Floats:
    """The least epsilon, `float64[n]`, for `divergences`, `float64[orders, n]`, and `delta`, `float64[n]`.

    By Canonne, Kamath, Steinke (2020), Proposition 12: `rho + log(1 - 1/a) - log(a delta) / (a - 1)`; and 0
    where the total variation, at most sqrt(1 - e^-rho) by Bretagnolle and Huber, is at most delta.
    """
    orders = ORDERS[:, None]
    converted = divergences + np.log1p(-1 / orders) - np.log(delta * orders) / (orders - 1)
    converted[-np.expm1(-divergences) <= delta**2] = 0.0
    return np.maximum(0.0, converted.min(axis=0))


def _growing(values: Floats) -> Floats:
    """Bounds that grow with the order, as divergences do: each is also bounded by those of higher orders.

    dp-accounting drops some fractional orders and overstates others, the more so the less an order is above 1. What
    is below 0 was lost in rounding.
    """
    return np.maximum(0.0, np.minimum.accumulate(values[::-1])[::-1])


def _divergences(distribution: Discrete) -> Floats:
    """`log(E e^((a - 1) loss)) / (a - 1)` over the finite losses, for each order a."""
    kept = distribution.probabilities > 0
    losses, weights = distribution.losses()[kept], np.log(distribution.probabilities[kept])

    def at(order: float) -> float:
        exponents = weights + (order - 1) * losses
        peak = float(exponents.max())
        return (peak + float(np.log(np.exp(exponents - peak).sum()))) / (order - 1)

    return np.array([at(float(order)) for order in ORDERS])


@contextmanager
def _quiet() -> Generator[None]:
    """dp-accounting logs that it drops an order; the infinite value that it leaves says the same."""
    logger = logging.getLogger("absl")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
