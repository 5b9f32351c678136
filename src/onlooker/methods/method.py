"""What a method is: the two halves of a round that a process boundary separates, and the terms they run under."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from onlooker.methods.trainer import Asking
from onlooker.models import Parts
from onlooker.privacy.random import Source, Stream
from onlooker.privacy.terms import Terms
from onlooker.types import Examples, Row, Vector

if TYPE_CHECKING:  # it needs torch, and a plan does not
    from onlooker.models import Model

Released = Mapping[str, Row | None]
"""What the channels of one group released, by kind of channel; None where nothing was."""


@dataclass(frozen=True)
class State:
    """What the coordinator keeps between rounds, made of releases alone.

    Attributes:
        models: `float32[g, p]`, the public part of the model of each group; one row where there are no groups.
        momentum: `float32[g, p]` of server momentum: hence post-processing.
    """

    models: NDArray[np.float32]
    momentum: NDArray[np.float32]


@dataclass(frozen=True)
class Local:
    """What one client's half of a round comes to.

    Attributes:
        rows: a row for each kind of channel, `float64[p]`, not yet clipped, noised or shared.
        kept: `float32[a]`, the private part of the model as it is now: it never leaves the client.
    """

    rows: Mapping[str, Row]
    kept: Vector


@dataclass(frozen=True)
class ServerStep:
    """How the coordinator moves a model along a released mean: post-processing, which costs no privacy.

    Attributes:
        learning_rate: eta_g; 1 adds the mean update as it is.
        momentum: the share of the last step that is kept, in [0, 1).
    """

    learning_rate: float = 1.0
    momentum: float = 0.0

    def __call__(self, state: State, directions: Sequence[Row | None]) -> State:
        """The state after one step along each group's direction, `float64[p]`; None leaves a group as it was."""
        models, momenta = state.models.copy(), state.momentum.copy()
        for group, direction in enumerate(directions):
            if direction is None:
                continue
            velocity = self.momentum * state.momentum[group].astype(np.float64) + direction
            models[group] = state.models[group].astype(np.float64) + self.learning_rate * velocity
            if self.momentum:
                momenta[group] = velocity
        return State(models, momenta)


class Method(Protocol):
    """A published method under its terms.

    Nothing a method holds outlives a round but what `State` says, and the private parts that clients keep.
    """

    @property
    def terms(self) -> Terms:
        """All that decides the method's privacy."""
        ...

    @property
    def parts(self) -> Parts:
        """Which parameters leave a client."""
        ...

    @property
    def epochs(self) -> int:
        """How often a round trains and shares within the group before it is summed under noise; 1 but for DP-OGL+."""
        ...

    def local(self, received: Vector, kept: Vector, examples: Examples, stream: Stream) -> Asking[Local]:
        """One client's half: from the public part that it received and the private part that it kept."""
        ...

    def update(self, state: State, released: Sequence[Released]) -> State:
        """The coordinator's half: the next state, made of what the channels of each group released."""
        ...


def initial_vector(model: Model, source: Source) -> Vector:
    """The weights that everybody starts from, `float32[d]`, which no data decided."""
    return model.initial(source.stream("initial weights").seed())
