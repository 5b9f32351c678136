"""Who computes gradients: the one seam between what a method asks for and how fast a machine does it.

A method's local half is a generator that yields what it wants computed and is sent the answer, so that whoever plays
many clients may answer several of them in one go.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from onlooker.methods.descent import LocalDescent
from onlooker.privacy.random import Stream
from onlooker.types import Examples, Row, Vector

Left = TypeVar("Left")


@dataclass(frozen=True)
class Descend:
    """Delta of local training from `received` (`float32[d]`), `float64[d]`: see `LocalDescent`."""

    descent: LocalDescent
    received: Vector
    examples: Examples
    stream: Stream


@dataclass(frozen=True)
class ClippedSum:
    """The sum over records of their clipped gradients, `float64[d]`: see `records.clipped_sum`."""

    parameters: Vector
    examples: Examples
    clip: float
    stream: Stream


@dataclass(frozen=True)
class ClippedSumOfPersons:
    """The sum over persons of their clipped mean gradients: see `records.clipped_sum_of_persons`."""

    parameters: Vector
    persons: Sequence[Examples]
    clip: float
    stream: Stream


@dataclass(frozen=True)
class Measure:
    """The loss of each row, and then its score, `float64[2 n]`: see `models.model.score_each`.

    The groups are computed one by one, so that what a row comes to does not depend on the rows of other groups.
    """

    parameters: Vector
    groups: Sequence[Examples]


Ask: TypeAlias = Descend | ClippedSum | ClippedSumOfPersons | Measure
"""What a method may want computed on a client's records."""
Asking: TypeAlias = Generator[Ask, Row, Left]
"""A computation that asks on its way, and what it comes to."""


class Trainer(Protocol):
    """Everything that a method computes on records.

    Every implementation gives what `plain.Plain` gives, to the rounding of 32-bit floats, and clips what it says it
    clips to the very bound: a guarantee rests on what is clipped, not on who computes it.
    """

    @property
    def at_once(self) -> int:
        """How many clients it likes to be asked about together."""
        ...

    def answer(self, asks: Sequence[Ask]) -> list[Row]:
        """The answer to each, in order; at most `at_once` of them."""
        ...


def answered(asking: Sequence[Asking[Left]], trainer: Trainer) -> list[Left]:
    """Run computations side by side to their ends, and answer them together as often as they ask."""
    left: dict[int, Left] = {}
    asks: dict[int, Ask] = {}

    def go_on(place: int, answer: Row | None) -> None:
        try:
            asks[place] = next(asking[place]) if answer is None else asking[place].send(answer)
        except StopIteration as end:
            asks.pop(place, None)
            left[place] = end.value

    for place in range(len(asking)):
        go_on(place, None)
    while asks:
        for place, answer in zip(list(asks), trainer.answer(list(asks.values())), strict=True):
            go_on(place, answer)
    return [left[place] for place in range(len(asking))]
