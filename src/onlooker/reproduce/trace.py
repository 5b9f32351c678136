"""What one run of a study left behind."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Trace:
    """What one run left behind.

    Attributes:
        rounds: those that were evaluated.
        values: accuracy and loss after each of them, None where not finite.
        seconds: processor time of the whole run, evaluations included: wall clock where one thread has a core alone.
        round_seconds: of one round without evaluation, the median; with it, where every round is evaluated.
        spent: the sound epsilon of each observer, in words.
        noise_multiplier: z.
    """

    rounds: tuple[int, ...]
    values: Mapping[str, tuple[float | None, ...]]
    seconds: float
    round_seconds: float
    spent: str
    noise_multiplier: float

    @classmethod
    def from_json(cls, text: str) -> Trace:
        """The trace that was written as JSON."""
        table = json.loads(text)
        return cls(
            rounds=tuple(table["rounds"]),
            values={name: tuple(each) for name, each in table["values"].items()},
            seconds=table["seconds"],
            round_seconds=table["round_seconds"],
            spent=table["spent"],
            noise_multiplier=table["noise_multiplier"],
        )
