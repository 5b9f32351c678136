"""How good a model is, as a bounded row that a client can send, and what a noisy sum of such rows tells.

**What is sent.** A unit (a client, a person or a record) sends (r - 1/2, l - 1/2, c): r is the share of its rows that
the model gets right (of a regression the absolute error, from 0 to 1 of its bound), l its loss from 0 to 1 of a public
bound, and c = 11/16 counts the unit. The first two are centred (rule 10a), which halves their sensitivity.

**Sensitivity.** |r - 1/2| and |l - 1/2| are at most 1/2 for every input, so the squared norm is at most 1/4 + 1/4 +
121/256 < 0.98, and the norm below 0.987: within the bound of 1, with more room than all roundings of a mean or a sum
take (rule 8b: `Grid.put_row` checks a client's row in integers; a row that is a sum over records has each of them
scaled by the channel's C', which leaves the sum within the bound when one is left out). c is dyadic, so that counting
clients is exact on any grid of 4 bits or more. What is not finite counts as wrong, and as the largest loss.

**Price.** The channel that carries these rows is fed under the coin of the model's, so both are one Gaussian, whose
rows are wider by three coordinates: z_round = (sum z_c^-2)^(-1/2) (`events.of_round`). Whatever is made of the released
sums is post-processing.

**What the sums tell.** Let X be a centred sum and Y the count, each with independent noise of the known deviation
sigma. The mean that is sought is the ratio of what they are without noise: of A to c N, say. Not A over the public
divisor: how many took part is hidden and may be far from what is expected, and the ratio does not care, nor does it
care for weights or for how rows are scaled. At the true ratio R the number X - R Y is normal with mean 0 and deviation
sigma sqrt(1 + R^2), so {R : |X - R Y| <= 1.96 sigma sqrt(1 + R^2)} holds R with a probability of 0.95, however small
the count is (Fieller 1954, "Some problems in interval estimation"; the delta method is its limit for large counts).
It is an interval if and only if |Y| > 1.96 sigma; otherwise the count is not significantly above 0, the set is
unbounded, and nothing is told. The interval is about those who took part in the round: that others would have given
another mean is not in it. Rounding to the grid, by at most 2^-(f+1) of a mean of clients, is not in it either.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onlooker import _check
from onlooker.types import Row, Task

CHANNEL = "evaluation"
"""The name of the channel."""
SIZE = 3
"""Coordinates of a row."""
BOUND = 1.0
"""The L2 bound of what one unit adds."""
_COUNT = 11 / 16
_QUANTILE = 1.959963984540054
"""Of the standard normal distribution at 0.975."""


@dataclass(frozen=True)
class Estimate:
    """A number that is read from noisy sums, and the ends of its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Measures:
    """What is measured.

    Attributes:
        task: of a classification the accuracy, of a regression the mean absolute error; of both the mean loss.
        loss_bound: the public number that a row's loss is cut off at: nats, or a squared error.
    """

    task: Task
    loss_bound: float

    def __post_init__(self) -> None:
        _check.positive(evaluation__loss_bound=self.loss_bound)

    @property
    def score(self) -> str:
        """What is measured beside the loss."""
        return "accuracy" if self.task == "classification" else "mean-absolute-error"

    @property
    def widest(self) -> float:
        """The largest score: 1, or the absolute error whose square is the largest loss."""
        return 1.0 if self.task == "classification" else math.sqrt(self.loss_bound)

    @property
    def nothing(self) -> Mapping[str, Estimate | None]:
        """What a round tells that released no sums."""
        return {self.score: None, "loss": None}

    def rows(self, losses: Row, scores: Row) -> NDArray[np.float64]:
        """`float64[n, 3]`: what n rows of data come to, each within `BOUND` for every input.

        Args:
            losses: `float64[n]`.
            scores: `float64[n]`: 1 where the model is right and 0 where it is not, or the absolute error.
        """
        worst = 0.0 if self.task == "classification" else 1.0
        finite = np.isfinite(losses) & np.isfinite(scores)
        shares = np.where(finite, np.clip(losses / self.loss_bound, 0.0, 1.0), 1.0)
        right = np.where(finite, np.clip(scores / self.widest, 0.0, 1.0), worst)
        return np.column_stack([right - 0.5, shares - 0.5, np.full(len(losses), _COUNT)])

    def estimates(self, sums: Row, deviation: float) -> Mapping[str, Estimate | None]:
        """The score and the loss, each None where the count is not significantly above 0.

        Args:
            sums: `float64[3]`: the released sums, over any divisor.
            deviation: of the noise on each, over the same divisor.
        """
        score, loss = (ratio(float(one), float(sums[2]), deviation) for one in sums[:2])
        return {self.score: _scaled(score, self.widest), "loss": _scaled(loss, self.loss_bound)}


def ratio(numerator: float, denominator: float, deviation: float) -> Estimate | None:
    """What the ratio of two numbers is, of which each is known up to independent noise of this deviation.

    Fieller's interval: the roots R of (X - R Y)^2 = q^2 sigma^2 (1 + R^2). None where Y is not above q sigma.

    >>> ratio(5.0, 10.0, 0.0)
    Estimate(value=0.5, low=0.5, high=0.5)
    >>> ratio(5.0, 10.0, 6.0) is None
    True
    """
    reach = _QUANTILE * deviation
    if not denominator > reach:
        return None
    leading = denominator**2 - reach**2
    middle = numerator * denominator / leading
    half = reach * math.sqrt(max(0.0, numerator**2 + leading)) / leading
    return Estimate(numerator / denominator, middle - half, middle + half)


def half_width(units: float, deviation: float) -> float:
    """How far from a true accuracy of one half its interval reaches, if so many units take part; infinite for none.

    Args:
        units: how many, or their weight.
        deviation: of the noise on each sum.

    >>> round(half_width(140, 2.77), 3), half_width(5, 8.5)
    (0.039, inf)
    """
    found = ratio(0.0, _COUNT * units, deviation)
    return math.inf if found is None else _COUNT * found.high


def _scaled(found: Estimate | None, widest: float) -> Estimate | None:
    """From a ratio of sums to a mean between 0 and `widest`, which it is known to be."""
    if found is None:
        return None
    low, value, high = (widest * min(1.0, max(0.0, 0.5 + _COUNT * one)) for one in (found.low, found.value, found.high))
    return Estimate(value, low, high)
