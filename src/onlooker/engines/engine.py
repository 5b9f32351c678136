"""What an engine is, and which one a run takes."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from onlooker.engines.loop import Loop
from onlooker.engines.work import Gathered, Job, Rows, Worker
from onlooker.methods.method import Method
from onlooker.methods.trainer import Plain
from onlooker.models import Model
from onlooker.privacy.random import Source
from onlooker.types import Examples


class Engine(Protocol):
    """Who plays the clients of a round."""

    def play(self, round: int, cohorts: Sequence[Sequence[Job]], starts: Rows, private: Rows) -> list[list[Gathered]]:
        """Every group's sums, one for each of its channels.

        Args:
            round: from 1.
            cohorts: the jobs of each group.
            starts: `float32[k, p]`: the model of each group, then others that jobs name.
            private: `float32[seats, a]`: written where clients have trained their private parts.
        """
        ...


@dataclass(frozen=True)
class Settings:
    """What the `[engine]` table says.

    Attributes:
        name: "loop", the plain one.
    """

    name: Literal["loop"] = "loop"


@contextmanager
def opened(
    settings: Settings,
    method: Method,
    model: Model,
    clients: Sequence[Examples],
    source: Source,
    device: torch.device,
) -> Generator[Engine]:
    """The engine of a run, for as long as it lasts."""
    del settings
    yield Loop(Worker(method, Plain(model, device), clients, source))
