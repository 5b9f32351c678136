"""What every engine does alike: some clients of one group, from what they received to their part of each sum."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlooker.methods.method import Local, Method
from onlooker.methods.trainer import Asking, Trainer, answered
from onlooker.privacy.channel import Channel
from onlooker.privacy.mechanisms import NoNoise
from onlooker.privacy.random import Source
from onlooker.privacy.sums import Sums
from onlooker.privacy.topology import Groups
from onlooker.types import Array, Examples, Integers, Row, Vector

Rows = NDArray[np.float32]
"""`float32[k, p]`: vectors of parameters below each other."""


@dataclass(frozen=True)
class Job:
    """One client's part of a round in one of its groups.

    Attributes:
        client: who.
        group: in which group.
        start: the row of the starting models that it received.
        seat: the row of the round's private parts that is its own, where models are split.
        covers: True of a client that stays out, and sends a row of zeros as cover for those that do not (rule 4b).
    """

    client: int
    group: int = 0
    start: int = 0
    seat: int = 0
    covers: bool = False


@dataclass
class Gathered:
    """One channel's sums of a round as they grow.

    Attributes:
        channel: whose.
        sums: of each summing party.
        clean: `int64[d]`, the sum of rows before their clients' own noise, which only a simulator has; None where it
            is that of the shares, because clients add none.
    """

    channel: Channel
    sums: Sums
    clean: Integers | None

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What it is made of, in the order of `kinds`."""
        return self.sums.shares if self.clean is None else (*self.sums.shares, self.clean)

    @staticmethod
    def kinds(channel: Channel) -> list[np.dtype[Any]]:
        """What a channel's sums are made of, an array of `channel.size` for each: its shares, then `clean`."""
        if channel.grid is None:
            return [np.dtype(np.float64)]
        clean = [np.dtype(np.int64)] if channel.noised_by == "clients" else []
        return [np.dtype(f"u{channel.grid.ring_bits // 8}")] * channel.summation.servers + clean

    @staticmethod
    def over(channel: Channel, arrays: Sequence[Array]) -> Gathered:
        """The sums that lie in these arrays, in the order of `kinds`."""
        servers = channel.summation.servers
        return Gathered(channel, Sums(tuple(arrays[:servers])), arrays[servers] if arrays[servers:] else None)

    @staticmethod
    def nothing(channel: Channel) -> Gathered:
        """The sums of nobody."""
        return Gathered.over(channel, [np.zeros(channel.size, kind) for kind in Gathered.kinds(channel)])


def add_each(total: Iterable[Array], part: Iterable[Array]) -> None:
    """Add each array of a part to its own of a sum, in place."""
    for one, other in zip(total, part, strict=True):
        np.add(one, other, out=one)


@dataclass(frozen=True)
class Worker:
    """Everything that the clients of a run have between them; it plays any of them.

    Attributes:
        method: under its terms.
        trainer: who computes gradients.
        clients: the rows of each.
        source: where their coins, masks and noise come from.
        elide: give whole rows to the first party and cut no shares, which changes no sum, no noise and no release.
    """

    method: Method
    trainer: Trainer
    clients: Sequence[Examples]
    source: Source
    elide: bool = False

    def play(
        self,
        round: int,
        jobs: Sequence[Job],
        starts: Rows,
        private: Rows,
        into: Sequence[Gathered],
        mark: Callable[[Job], None] = lambda job: None,
    ) -> None:
        """Play jobs of one group and add what they send to the group's sums.

        A client's streams depend on its name, the group's and the round's alone, so what is added does not depend on
        the order.

        Args:
            round: from 1.
            jobs: of one group; all of its cohort where a round shares within the group.
            starts: the model of each group, then others that jobs name.
            private: the private parts that jobs name: read, and written as they are after training; no rows where
                models are not split.
            into: the group's sums.
            mark: told of each job before it begins.
        """
        drawn = [job for job in jobs if not job.covers]
        for job, local in self._played(round, drawn, starts, private, mark):
            if len(local.kept):
                private[job.seat] = local.kept
            for one in into:
                self._add(one, job.client, local.rows[one.channel.kind], round)
        for job in jobs:
            if job.covers:
                mark(job)
                for one in into:
                    self._add(one, job.client, np.zeros(one.channel.size), round)

    def _played(
        self, round: int, jobs: Sequence[Job], starts: Rows, private: Rows, mark: Callable[[Job], None]
    ) -> Iterator[tuple[Job, Local]]:
        """What each client that takes part comes to."""
        if self.method.epochs > 1:
            return self._interval(round, jobs, starts, mark)
        return self._trained(round, jobs, {job: starts[job.start] for job in jobs}, private, mark)

    def _interval(
        self, round: int, jobs: Sequence[Job], starts: Rows, mark: Callable[[Job], None]
    ) -> Iterator[tuple[Job, Local]]:
        """DP-OGL+ as printed: epochs whose sums the group shares without noise, and each worker's total at the end."""
        if not jobs:
            return
        terms, size, group = self.method.terms, starts.shape[1], jobs[0].group
        received = {job: starts[job.start] for job in jobs}
        shared = starts[group].astype(np.float64)
        within = Channel(size, NoNoise(), None, "server", name=f"within/{group}")
        totals = {job: np.zeros(size) for job in jobs}
        for epoch in range(self.method.epochs):
            sums = within.empty()
            for job, local in self._trained(round, jobs, received, _NO_ROWS, mark, f"/epoch:{epoch}"):
                totals[job] += local.rows["model"]
                row = terms.weight(job.client) * local.rows["model"]
                within.gather(sums, row, job.client, round, self.source)
            mean = within.release(within.seal(sums, round, self.source), terms.divisor_of(group))
            shared = shared if mean is None else shared + mean
            again: Vector = shared.astype(np.float32)
            received = dict.fromkeys(jobs, again)
        for job, total in totals.items():
            yield job, Local({"model": total}, _NOTHING)

    def _trained(
        self,
        round: int,
        jobs: Sequence[Job],
        received: Mapping[Job, Vector],
        private: Rows,
        mark: Callable[[Job], None],
        part: str = "",
    ) -> Iterator[tuple[Job, Local]]:
        """Each job with what its local half comes to, as many side by side as the trainer likes."""
        for first in range(0, len(jobs), self.trainer.at_once):
            few = jobs[first : first + self.trainer.at_once]
            asking: list[Asking[Local]] = []
            for job in few:
                mark(job)
                stream = self.source.stream("local training", round, self._party(job) + part)
                kept = private[job.seat] if len(private) else _NOTHING
                asking.append(self.method.local(received[job], kept, self.clients[job.client], stream))
            yield from zip(few, answered(asking, self.trainer), strict=True)

    def _add(self, one: Gathered, client: int, row: Row, round: int) -> None:
        weight = self.method.terms.weight(client)
        row = row if weight == 1 else weight * row
        if one.clean is None:
            one.channel.gather(one.sums, row, client, round, self.source, elide=self.elide)
            return
        encoded = one.channel.encode(row, client)
        one.clean += encoded
        one.channel.aggregate(one.sums, one.channel.shard(encoded, client, round, self.source))

    def _party(self, job: Job) -> str:
        """The name that a job's streams of a round have: one client may train in several groups."""
        grouped = isinstance(self.method.terms.topology, Groups)
        return f"client:{job.client}/group:{job.group}" if grouped else f"client:{job.client}"


_NOTHING: Vector = np.empty(0, dtype=np.float32)
_NO_ROWS: Rows = np.empty((0, 0), dtype=np.float32)
