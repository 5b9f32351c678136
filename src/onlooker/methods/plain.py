"""The plainest way to compute what methods ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from onlooker.methods.records import clipped_sum, clipped_sum_of_persons
from onlooker.methods.trainer import Ask, ClippedSum, ClippedSumOfPersons, Descend, Measure
from onlooker.models import Model
from onlooker.models.model import score_each
from onlooker.types import Row


@dataclass(frozen=True)
class Plain:
    """By autograd, one batch after another, with a fresh module for each client: the oracle for every other trainer."""

    model: Model
    device: torch.device = torch.device("cpu")
    at_once: int = 1

    def answer(self, asks: Sequence[Ask]) -> list[Row]:
        """One after another, as their functions say."""
        return [self._one(ask) for ask in asks]

    def _one(self, ask: Ask) -> Row:
        match ask:
            case Descend():
                return ask.descent(self.model, ask.received, ask.examples, ask.stream, self.device)
            case ClippedSum():
                return clipped_sum(self.model, ask.parameters, ask.examples, ask.clip, ask.stream, self.device)
            case ClippedSumOfPersons():
                return clipped_sum_of_persons(
                    self.model, ask.parameters, ask.persons, ask.clip, ask.stream, self.device
                )
            case Measure():
                found = score_each(self.model, ask.parameters, ask.groups, device=self.device)
                return np.concatenate([one for pair in zip(*found, strict=True) for one in pair])
