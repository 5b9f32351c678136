"""The chunks of `pool` in this process: what one worker does."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from onlooker.engines.chunks import added, dealt, is_exact
from onlooker.engines.work import Gathered, Job, Rows, Worker


@dataclass(frozen=True)
class Inline:
    """An engine without processes, whose sums have the bits of a pool's."""

    worker: Worker

    def play(self, round: int, cohorts: Sequence[Sequence[Job]], starts: Rows, private: Rows) -> list[list[Gathered]]:
        """As `Engine.play`."""
        method = self.worker.method
        chunks = dealt(cohorts, starts.shape[1], method.epochs > 1)
        gathered = [[Gathered.nothing(one) for one in method.terms.channels_of(group)] for group in range(len(cohorts))]
        for totals, parts in zip(gathered, chunks, strict=True):
            for chunk in parts:
                into = [one if is_exact(one.channel) else Gathered.nothing(one.channel) for one in totals]
                self.worker.play(round, chunk.jobs, starts, private, into)
                for total, one in zip(totals, into, strict=True):
                    if one is not total:
                        added(total, one)
        return gathered


@contextmanager
def one_thread() -> Generator[None]:
    """Within it torch computes with one thread, as workers do: a sum in two parts has other bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
