"""Who computes gradients: the one seam between what a method asks for and how fast a machine does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from onlooker.methods.descent import LocalDescent
from onlooker.methods.records import clipped_sum, clipped_sum_of_persons
from onlooker.models import Model
from onlooker.privacy.random import Stream
from onlooker.types import Examples, Row, Vector


class Trainer(Protocol):
    """Everything that a method computes on records.

    Every implementation gives what `Plain` gives, to the rounding of 32-bit floats, and clips what it says it clips to
    the very bound: a method's guarantee rests on `clipped_sum` and `clipped_sum_of_persons`, not on who computes them.
    """

    def descend(self, descent: LocalDescent, received: Vector, examples: Examples, stream: Stream) -> Row:
        """Delta of local training from `received` (`float32[d]`), `float64[d]`: see `LocalDescent`."""
        ...

    def clipped_sum(self, parameters: Vector, examples: Examples, clip: float, stream: Stream) -> Row:
        """The sum over records of their clipped gradients, `float64[d]`: see `records.clipped_sum`."""
        ...

    def clipped_sum_of_persons(
        self, parameters: Vector, persons: Sequence[Examples], clip: float, stream: Stream
    ) -> Row:
        """The sum over persons of their clipped mean gradients: see `records.clipped_sum_of_persons`."""
        ...


@dataclass(frozen=True)
class Plain:
    """By autograd, one batch after another, with a fresh module for each client: the oracle for every other trainer."""

    model: Model
    device: torch.device = torch.device("cpu")

    def descend(self, descent: LocalDescent, received: Vector, examples: Examples, stream: Stream) -> Row:
        """As `LocalDescent` does it."""
        return descent(self.model, received, examples, stream, self.device)

    def clipped_sum(self, parameters: Vector, examples: Examples, clip: float, stream: Stream) -> Row:
        """By `vmap` of `grad`."""
        return clipped_sum(self.model, parameters, examples, clip, stream, self.device)

    def clipped_sum_of_persons(
        self, parameters: Vector, persons: Sequence[Examples], clip: float, stream: Stream
    ) -> Row:
        """One person after another."""
        return clipped_sum_of_persons(self.model, parameters, persons, clip, stream, self.device)
