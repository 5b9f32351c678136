"""Rényi divergences of rounds: cheap for every prefix of a run."""

from __future__ import annotations

import logging
import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

import numpy as np
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.pld.pld_pmf import DensePLDPmf
from dp_accounting.rdp.rdp_privacy_accountant import DEFAULT_RDP_ORDERS, RdpAccountant, compute_epsilon
from scipy import special

from onlooker.privacy.fixed_size import Floats
from onlooker.privacy.losses import directions, intervals
from onlooker.privacy.rounds import Round, Rounds

ORDERS: Floats = np.array([1.02, 1.05, *DEFAULT_RDP_ORDERS], dtype=np.float64)
"""dp-accounting's own orders, and two close to 1 for noise that is almost none."""


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
def divergence(round: Round, log_tail: int) -> Divergence:
    """The divergences of one round at `ORDERS`.

    In closed form without sampling; by dp-accounting for a row against nothing under Poisson sampling
    (Mironov, Talwar, Zhang 2019). The kinds that its RDP accountant refuses, or prices by a loose bound, are
    computed from the distribution of the loss up to one of probability e^`log_tail`, which is never below the true
    one.
    """
    if round.kind == "plain":
        return Divergence(ORDERS * round.shift**2 / 2)
    if round.kind == "poisson":
        accountant = RdpAccountant(ORDERS.tolist())
        with _quiet():
            accountant.compose(PoissonSampledDpEvent(round.rate, GaussianDpEvent(1 / round.shift)))
        return Divergence(_growing(cast(Floats, accountant.rdp)))
    _, interval = intervals(((round, 1),), log_tail)
    ways = directions(round, interval, log_tail)
    outside = max(float(way.get_delta_for_epsilon(math.inf)) for way in ways)
    return Divergence(_growing(np.max([_divergences(way) for way in ways], axis=0)), outside)


def epsilons(rounds: Rounds, repeats: Sequence[int], delta: float, log_tail: int) -> list[float]:
    """Of all rounds together, so many times each (Canonne, Kamath, Steinke 2020, Proposition 12)."""
    parts = [(divergence(round, log_tail), count) for round, count in rounds]
    once = sum((count * part.values for part, count in parts), np.zeros(len(ORDERS)))
    outside = sum(count * part.outside for part, count in parts)

    def after(times: int) -> float:
        epsilon, _ = compute_epsilon(ORDERS.tolist(), (times * once).tolist(), delta - times * outside)
        return float(epsilon)

    return [after(times) if times else 0.0 for times in repeats]


def _growing(values: Floats) -> Floats:
    """Bounds that grow with the order, as divergences do: each is also bounded by those of higher orders.

    dp-accounting drops some fractional orders and overstates others, the more so the less an order is above 1. What
    is below 0 was lost in rounding.
    """
    return np.maximum(0.0, np.minimum.accumulate(values[::-1])[::-1])


def _divergences(distribution: DensePLDPmf) -> Floats:
    """`log(E e^((a - 1) loss)) / (a - 1)` over the finite losses, for each order a."""
    inside = cast(Any, distribution)  # the library has no way to read it
    probabilities = cast(Floats, inside._probs)
    losses = inside._discretization * (inside._lower_loss + np.flatnonzero(probabilities))
    weights = np.log(probabilities[probabilities > 0])
    return np.array([special.logsumexp(weights + (order - 1) * losses) / (order - 1) for order in ORDERS])


@contextmanager
def _quiet() -> Generator[None]:
    """dp-accounting logs that it drops an order; the infinite value that it leaves says the same."""
    logger = logging.getLogger("absl")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
