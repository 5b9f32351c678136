"""What a method is: the two halves of a round that a process boundary separates, and the terms they run under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from onlooker.models import Model
from onlooker.privacy.random import Source, Stream
from onlooker.privacy.terms import Terms
from onlooker.types import Examples, Row

Vector = NDArray[np.float32]
"""`float32[d]`: the trainable parameters of a model as one vector."""


@dataclass(frozen=True)
class State:
    """What the coordinator keeps between rounds.

    Attributes:
        parameters: `float32[d]`, the global model theta^t.
        momentum: `float32[d]` of server momentum: made of releases alone, hence post-processing.
    """

    parameters: Vector
    momentum: Vector


@dataclass(frozen=True)
class ServerStep:
    """How the coordinator moves the model along a released mean: post-processing, which costs no privacy.

    Attributes:
        learning_rate: eta_g; 1 adds the mean update as it is.
        momentum: the share of the last step that is kept, in [0, 1).
    """

    learning_rate: float = 1.0
    momentum: float = 0.0

    def __call__(self, state: State, direction: Row) -> State:
        """The state after one step along `direction`, `float64[d]`."""
        velocity = self.momentum * state.momentum.astype(np.float64) + direction
        parameters = state.parameters.astype(np.float64) + self.learning_rate * velocity
        momentum = velocity.astype(np.float32) if self.momentum else state.momentum
        return State(parameters.astype(np.float32), momentum)


class Method(Protocol):
    """A published method under its terms. Nothing a method holds outlives a round but what `State` says."""

    @property
    def terms(self) -> Terms:
        """All that decides the method's privacy."""
        ...

    def local(
        self, model: Model, received: Vector, examples: Examples, stream: Stream, device: torch.device
    ) -> Mapping[str, Row]:
        """One client's half: a row for each channel, `float64[d]`, not yet clipped, noised or shared."""
        ...

    def update(self, state: State, released: Mapping[str, Row | None]) -> State:
        """The coordinator's half: the next state, made of what every channel released (None: nothing)."""
        ...


def initial_state(model: Model, source: Source) -> State:
    """The state before round 1: weights that no data decided, and no momentum."""
    parameters = model.initial(source.stream("initial weights").seed())
    return State(parameters, np.zeros_like(parameters))
