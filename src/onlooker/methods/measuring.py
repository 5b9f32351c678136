"""Any method, whose clients also tell under noise how good the model was that they received (rule 10)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onlooker.errors import UnpricedError
from onlooker.methods.method import Local, Method, Released, State
from onlooker.methods.trainer import Ask, Asking, ClippedSum, ClippedSumOfPersons, Measure
from onlooker.models import Parts
from onlooker.privacy import measures
from onlooker.privacy.channel import Channel
from onlooker.privacy.measures import Estimate, Measures
from onlooker.privacy.random import Stream
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups
from onlooker.types import Examples, Row, Vector


@dataclass(frozen=True)
class Measuring:
    """A method with a second row: what its client's rows of data say of the model before it trains on them.

    A client's row is the mean over all its rows of data; a silo's is the sum over the records (or persons) that the
    round draws, the very ones whose gradients are summed, so that one coin decides on both.

    Guarantee: the method's own, at the price of both channels joined (proof in `privacy/measures.py`).

    Attributes:
        method: whose rows, updates and terms these are; the terms have a channel for the measures.
        measures: what is measured.

    Raises:
        UnpricedError: if clients are in groups, or records are guarded by drawing them for a row that is clipped as a
            whole: all records of a client would be measured, drawn or not.
    """

    method: Method
    measures: Measures

    def __post_init__(self) -> None:
        channel = self.terms.measured_by
        if channel is None or isinstance(self.terms.topology, Groups):
            raise UnpricedError("measures of a model need a channel of their own, beside one for the model.")
        if self.terms.unit != "client" and not channel.sums_records:
            raise UnpricedError(
                f'evaluation.private = true has no price for privacy.unit = "{self.terms.unit}" where a row is clipped '
                "as a whole, for the records that a round does not draw would be measured as well."
            )

    @property
    def terms(self) -> Terms:
        """All that decides the method's privacy."""
        return self.method.terms

    @property
    def parts(self) -> Parts:
        """Which parameters leave a client."""
        return self.method.parts

    @property
    def epochs(self) -> int:
        """As the method's."""
        return self.method.epochs

    @property
    def channel(self) -> Channel:
        """The one that carries the measures."""
        found = self.terms.measured_by
        assert found is not None
        return found

    def local(self, received: Vector, kept: Vector, examples: Examples, stream: Stream) -> Asking[Local]:
        """The method's half, and `float64[3]` of measures beside it."""
        asking = self.method.local(received, kept, examples, stream)
        if self.channel.sums_records:
            local, row = yield from self._of_drawn(asking)
        else:
            row = yield from self._mean(self.parts.join(received, kept), examples)
            local = yield from asking
        return replace(local, rows={**local.rows, measures.CHANNEL: row})

    def update(self, state: State, released: Sequence[Released]) -> State:
        """The method's: measures move nothing."""
        return self.method.update(state, released)

    def _mean(self, parameters: Vector, examples: Examples) -> Asking[Row]:
        """Over all rows of data; a client without any is not counted."""
        if not len(examples):
            return np.zeros(measures.SIZE)
        answer = yield Measure(parameters, (examples,))
        return measures.BOUND * self._rows(answer).mean(axis=0)

    def _of_drawn(self, asking: Asking[Local]) -> Asking[tuple[Local, Row]]:
        """What the method comes to, and the sum over the units that it draws, each scaled to the channel's C'."""
        ask = next(asking)
        row = yield from self._sum(ask)
        answer = yield ask
        try:
            asking.send(answer)
        except StopIteration as end:
            return end.value, row
        raise AssertionError("units are drawn once in a round, for else they would be counted twice")

    def _sum(self, ask: Ask) -> Asking[Row]:
        """The sum over the units drawn, `float64[3]`, for each of whom the mean over its rows stands.

        Each is computed alone: a kernel rounds a row by how many others there are, and where two classes tie, whether
        another record is right could change with it.
        """
        if isinstance(ask, ClippedSumOfPersons):
            units = tuple(ask.persons)
        else:
            assert isinstance(ask, ClippedSum)
            units = tuple(ask.examples.take(np.array([place])) for place in range(len(ask.examples)))
        if not units:
            return np.zeros(measures.SIZE)
        rows = self._rows((yield Measure(ask.parameters, units)))
        ends = np.cumsum([len(one) for one in units])[:-1]
        means = [one.mean(axis=0) for one in np.split(rows, ends)]
        return self.channel.record_clip * np.sum(means, axis=0)

    def _rows(self, answer: Row) -> Row:
        """`float64[n, 3]` of what a trainer answered."""
        losses, scores = answer.reshape(2, -1)
        return self.measures.rows(losses, scores)


def estimated(
    method: Method, released: Sequence[Released], reports: int, divisor: float, round: int
) -> Mapping[str, Estimate | None]:
    """What a round's releases tell of the model that it started from, by name: post-processing, for whoever has them.

    Empty where clients do not measure it; None where a round released no sums, or the noise hides how many took part.

    Args:
        method: as it runs.
        released: by the channels of each group.
        reports: how many reports were summed: looked at where clients add the noise, whose observers all see it.
        divisor: of the round.
        round: from 1.
    """
    if not isinstance(method, Measuring):
        return {}
    (sums,) = (one[measures.CHANNEL] for one in released)
    if sums is None:
        return method.measures.nothing
    return method.measures.estimates(sums, method.channel.deviation(reports, round) / divisor)
