"""Which records of a client one round of local training uses, where a round is several steps on small batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from dp_accounting import DpEvent, SampledWithoutReplacementDpEvent
from numpy.typing import NDArray

from onlooker import _check
from onlooker.privacy.random import Stream

Batches: TypeAlias = list[NDArray[np.int64]]
"""Indices of records, an array for each step; a step whose batch is empty is left out."""
_FINE = 10**9
"""Rates are priced in steps of its inverse, rounded up."""


@dataclass(frozen=True)
class WithoutReplacement:
    """Q batches of b records, all different: a uniform subset of Q b records, each used once (MS-PAFL, eq. 11, WOR).

    Attributes:
        steps: Q.
        batch_size: b.

    Guarantee: see `amplified`.
    """

    steps: int
    batch_size: int
    name: Literal["without-replacement"] = "without-replacement"

    def __post_init__(self) -> None:
        _check.at_least(1, training__steps=self.steps, training__batch_size=self.batch_size)

    def rate(self, records: int) -> float:
        """q = Q b / n, the probability that a record is used at all; 1 where there are not more than Q b."""
        return min(1.0, self.steps * self.batch_size / records)

    def draw(self, count: int, slots: int, stream: Stream) -> Batches:
        """The batches among `count` records, which take the first of `slots` places; empty places are passed over.

        So a record of a client with fewer records than the public knows of is used no more often than is priced.
        """
        places = max(count, slots)
        order = np.argsort(stream.integers(places), kind="stable")[: self.steps * self.batch_size]
        parts = np.array_split(order, self.steps) if len(order) >= self.steps else [order]
        return [part[part < count] for part in parts if (part < count).any()]

    def amplified(self, event: DpEvent, records: int) -> DpEvent:
        """The price of one round for one of at least `records` records of a client that keeps nothing.

        The event must be that of replace-one: a row that is clipped as a whole lies in a ball of radius C whatever the
        record is, so the rows of a draw with the record, of the same draw with another record in its place, and of
        the draw with the record changed, are at most 2C apart; see `fixed_size` for the proof that follows.
        """
        return _sampled(event, self.rate(records))


@dataclass(frozen=True)
class WithReplacement:
    """Q batches of b records, each drawn uniformly from all (MS-PAFL, eq. 11, WR).

    Attributes:
        steps: Q.
        batch_size: b.

    Guarantee: see `amplified`.
    """

    steps: int
    batch_size: int
    name: Literal["with-replacement"] = "with-replacement"

    def __post_init__(self) -> None:
        _check.at_least(1, training__steps=self.steps, training__batch_size=self.batch_size)

    def rate(self, records: int) -> float:
        """q = 1 - (1 - 1/n)^(Q b), the probability that a record is used at all."""
        if records == 1:
            return 1.0
        return -math.expm1(self.steps * self.batch_size * math.log1p(-1 / records))

    def draw(self, count: int, slots: int, stream: Stream) -> Batches:
        """As for `WithoutReplacement`, each place drawn anew."""
        places = max(count, slots)
        parts = stream.places(places, self.steps * self.batch_size).reshape(self.steps, self.batch_size)
        return [part[part < count] for part in parts if (part < count).any()]

    def amplified(self, event: DpEvent, records: int) -> DpEvent:
        """As for `WithoutReplacement`, at the rate of being drawn at least once.

        Given which draws take the record, the others are uniform over the other records; new uniform draws of those
        in the record's place give the law of a round without it. So the same mixture argument holds, and that the
        record may be drawn several times costs nothing, because the clip is on the whole row.
        """
        return _sampled(event, self.rate(records))


RecordBatches: TypeAlias = WithoutReplacement | WithReplacement


def _sampled(event: DpEvent, rate: float) -> DpEvent:
    if rate >= 1:
        return event
    return SampledWithoutReplacementDpEvent(_FINE, math.ceil(rate * _FINE), event)
