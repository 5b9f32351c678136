"""The one machine that the client-level methods are settings of: train, split, clip, sum in groups, step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from onlooker.errors import UnpricedError
from onlooker.methods.descent import LocalDescent
from onlooker.methods.method import Local, Released, ServerStep, State
from onlooker.methods.trainer import Asking, Descend
from onlooker.models import Parts
from onlooker.privacy.random import Stream
from onlooker.privacy.terms import Terms
from onlooker.types import Examples, Row, Vector


@dataclass(frozen=True)
class Averaging:
    """Federated averaging of clipped rows, as far as a client or a coordinator computes it.

    What makes it DP-FedAvg, MS-PAFL, DP-OGL or FedDecouple are its terms - who feeds which sum, who adds the noise,
    how rows are summed - and its parts.

    Attributes:
        terms: all that decides its privacy.
        descent: local training.
        step: what a group does with a released mean.
        parts: which parameters leave a client.
        sends: "update", or "model" where a client sends its trained weights themselves (MS-PAFL, eq. 13).
        passes: how many times in a row a client runs its local training in a round, each from where the last one
            ended and with a fresh optimizer; more than 1 in the isolated form of DP-OGL+ alone.
        epochs: how often a round trains and shares within the group (DP-OGL+ as printed).
    """

    terms: Terms
    descent: LocalDescent
    step: ServerStep
    parts: Parts
    sends: Literal["update", "model"] = "update"
    passes: int = 1
    epochs: int = 1

    def local(self, received: Vector, kept: Vector, examples: Examples, stream: Stream) -> Asking[Local]:
        """The public part's update (or the public part itself), `float64[p]`, and the private part as trained."""
        start = self.parts.join(received, kept)
        if self.passes == 1 and self.sends == "update" and not len(self.parts.private):
            return Local({"model": (yield Descend(self.descent, start, examples, stream))}, kept)
        trained = start
        for _ in range(self.passes):
            moved = yield Descend(self.descent, trained, examples, stream)
            trained = (trained.astype(np.float64) + moved).astype(np.float32)
        public = trained[self.parts.public].astype(np.float64)
        row = public if self.sends == "model" else public - received.astype(np.float64)
        return Local({"model": row}, trained[self.parts.private])

    def update(self, state: State, released: Sequence[Released]) -> State:
        """Each group's model moves along its released mean, or stays where there is none."""
        return self.step(state, [self._direction(state, group, one["model"]) for group, one in enumerate(released)])

    def _direction(self, state: State, group: int, mean: Row | None) -> Row | None:
        if mean is None or self.sends == "update":
            return mean
        return mean - state.models[group].astype(np.float64)


def refuse_another_unit(method: str, terms: Terms, advice: str = "") -> None:
    """Refuse a client-level method for another unit.

    Raises:
        UnpricedError: if the unit is not the client.
    """
    if terms.unit != "client":
        raise UnpricedError(
            f'task.method = "{method}" guards clients, so privacy.unit = "{terms.unit}" must be "client"{advice}.'
        )
