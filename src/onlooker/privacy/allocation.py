"""Random allocation: a client secretly picks k of T rounds, and the whole run is priced at once (rule 5).

The bound is that of the package PLD_accounting (Feldman and Shenfeld, "Efficient Privacy Loss Accounting for
Subsampling and Random Allocation", ICML 2026): picking k of T uniformly is to split the rounds at random, whatever the
data, into k blocks of T / k (rounded down or up) and to pick one of each, so the run is at most the composition of k
picks of one. It covers neighbours that differ by one row in a sum, there or zero, in both directions: "zero-out", and
"add-or-remove", as what others pick is independent of it. For "replace-one" nothing is credited.

Whoever sees who takes part sees k rounds in full, and no more; that bounds the hidden view as well, and the lesser of
the two counts. So it is for the first t rounds, which cost at most what all do, and at most min(k, t) in full.
"""

from __future__ import annotations

import importlib
import math
import warnings
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from dp_accounting import DpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

_RELATIVE_STEP = 0.05
_LEAST_STEP, _MOST_STEP = 1e-6, 0.1
_TAIL = 0.1
"""The grid that the package itself starts from: in parts of epsilon, and of delta."""
_MOST_POINTS = 4096
"""Of one grid: with more, blocks of a thousand rounds take minutes; fewer only make the bound larger."""
_LEAST_DELTA = 1e-12
_MOST_EPSILON = 100.0
_LEAST_NOISE = 0.05
"""Beyond these the package is not asked, and every round that is picked counts in full."""


@dataclass(frozen=True)
class RandomAllocationDpEvent(DpEvent):
    """A run in which a unit takes part in `selected` rounds of `rounds`, picked uniformly and in secret.

    Attributes:
        event: what one round costs a unit that takes part in it.
        selected: k.
        rounds: T.
        elapsed: how many rounds have been released.
    """

    event: DpEvent
    selected: int
    rounds: int
    elapsed: int

    @property
    def in_full(self) -> DpEvent:
        """What the elapsed rounds cost if every pick were seen."""
        return SelfComposedDpEvent(self.event, min(self.selected, self.elapsed))

    @property
    def as_poisson(self) -> DpEvent:
        """Coins of the same rate: no bound, but near enough to choose a grid by."""
        return SelfComposedDpEvent(PoissonSampledDpEvent(self.selected / self.rounds, self.event), self.rounds)


@lru_cache(maxsize=4096)
def hidden_epsilon(sigma: float, selected: int, rounds: int, delta: float, near: float) -> float:
    """The epsilon of a whole run to whoever does not see participation; infinite where the package is not asked.

    Args:
        sigma: the noise that one participation meets, over the bound of its row.
        selected: k.
        rounds: T.
        delta: in (0, 1).
        near: about the answer, by which the grid is chosen.
    """
    if delta < _LEAST_DELTA or sigma < _LEAST_NOISE or not 0 < near <= _MOST_EPSILON:
        return math.inf
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # Of its import, that it could be faster; of its grids, that they were made coarser, which is still a bound.
        warnings.simplefilter("ignore")
        epsilon = _bound(sigma, selected, rounds, delta, min(_MOST_STEP, max(_LEAST_STEP, _RELATIVE_STEP * near)))
    return math.inf if math.isnan(epsilon) else epsilon


def _bound(sigma: float, selected: int, rounds: int, delta: float, step: float) -> float:
    package: Any = importlib.import_module("PLD_accounting")  # untyped, and slow to import
    parameters = package.PrivacyParams(sigma=sigma, num_steps=rounds, num_selected=selected, delta=delta)
    grid = package.AllocationSchemeConfig(
        loss_discretization=step,
        tail_truncation=_TAIL * delta,
        max_grid_mult=_MOST_POINTS,
        convolution_method=package.ConvolutionMethod.GEOM,
    )
    return float(package.gaussian_allocation_epsilon_configurable(params=parameters, config=grid))
