"""One client at a time, plainly and in this process: the oracle that every other engine is tested against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onlooker.engines.work import Gathered, Job, Rows, Worker


@dataclass(frozen=True)
class Loop:
    """An engine that has nothing to start or to stop."""

    worker: Worker

    def play(self, round: int, cohorts: Sequence[Sequence[Job]], starts: Rows, private: Rows) -> list[list[Gathered]]:
        """As `Engine.play`."""
        terms = self.worker.method.terms
        gathered = [[Gathered.nothing(one) for one in terms.channels_of(group)] for group in range(len(cohorts))]
        for jobs, into in zip(cohorts, gathered, strict=True):
            self.worker.play(round, jobs, starts, private, into)
        return gathered
