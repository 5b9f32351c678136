"""Federated DP-SGD: each silo sums clipped per-record gradients, the auxiliary servers add one noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onlooker.errors import UnpricedError
from onlooker.methods.method import Local, Released, ServerStep, State
from onlooker.methods.trainer import Asking, ClippedSum, ClippedSumOfPersons
from onlooker.models import Parts
from onlooker.privacy.random import Stream
from onlooker.privacy.sampling import PoissonRecords
from onlooker.privacy.terms import Terms
from onlooker.types import Examples, Vector


@dataclass(frozen=True)
class DPSGD:
    """DP-SGD (Abadi et al. 2016, Algorithm 1) over silos: one step of descent a round.

    Every record of a silo is used in a round by its own secret coin of rate q; its gradient is clipped to C', a little
    below C so that rounding the sum cannot exceed C (rule 8b); the silo's row is the sum. The divisor is the expected
    lot q n K (paper: L), with the public n = `expected_records`.

    Where the unit is a person, one coin decides on all rows of a person, and what is clipped is the gradient of the
    mean loss over them; n is then a number of persons. However many rows a person has, they move the sum by at most C.

    Guarantee: record level, or person level within one silo, against everybody outside the silo; each observer's
    epsilon is the ledger's.
    """

    terms: Terms
    step: ServerStep
    parts: Parts
    weight_decay: float = 0.0
    epochs: int = 1

    def __post_init__(self) -> None:
        if self.terms.unit not in ("record", "person") or self.terms.training.records is None:
            raise UnpricedError(
                f'task.method = "dp-sgd" guards records or persons, so privacy.unit = "{self.terms.unit}" must be '
                '"record" or "person".'
            )

    def local(self, received: Vector, kept: Vector, examples: Examples, stream: Stream) -> Asking[Local]:
        """Minus the sum of the clipped gradients of the units drawn, `float64[d]`; zero where none was."""
        training, channel = self.terms.training, self.terms.channels[0]
        assert isinstance(training.records, PoissonRecords)
        if self.terms.unit == "person":
            persons = examples.rows_by_person()
            drawn = training.records.draw(min(len(persons), training.max_records or len(persons)), stream)
            taken = [examples.take(persons[int(one)]) for one in drawn]
            found = yield ClippedSumOfPersons(received, taken, channel.record_clip, stream)
            return Local({"model": -found}, kept)
        drawn = training.records.draw(min(len(examples), training.max_records or len(examples)), stream)
        found = yield ClippedSum(received, examples.take(drawn), channel.record_clip, stream)
        return Local({"model": -found}, kept)

    def update(self, state: State, released: Sequence[Released]) -> State:
        """theta - eta times the released mean gradient, less the decay of the weights."""
        (one,) = released
        mean = one["model"]
        if mean is None:
            return state
        return self.step(state, [mean - self.weight_decay * state.models[0].astype(np.float64)])
