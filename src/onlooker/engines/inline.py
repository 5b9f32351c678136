"""The chunks of `pool` in this process: what one worker does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
