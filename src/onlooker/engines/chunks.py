"""How a round's clients are dealt to workers, so that the sums have the same bits however many workers there are.

Sums of integers do not depend on the order, so that each worker has one of its own; sums of floats do, so that each
chunk has its own, and they are added in the order of the chunks. The chunks depend on the cohort alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onlooker.engines.arena import Arena, Layout
from onlooker.engines.work import Gathered, Job, Worker, add_each
from onlooker.privacy.channel import Channel
from onlooker.types import Array

_CHUNKS = 32  # a round, or as many as there are groups: enough that workers end together
_FLOAT_SUMS = 2**25  # numbers in all sums of floats: 256 MiB


@dataclass(frozen=True)
class Chunk:
    """Jobs of one group that one worker plays in one go, and which of its group's chunks they are."""

    group: int
    number: int
    jobs: tuple[Job, ...]


def dealt(cohorts: Sequence[Sequence[Job]], size: int, whole: bool, most: int | None = None) -> list[list[Chunk]]:
    """The chunks of each group.

    Args:
        cohorts: the jobs of each group.
        size: d, how many coordinates a row has.
        whole: leave a group in one piece, where its members share within a round.
        most: in how many pieces, about, where no bit depends on them (`is_free`).
    """
    total = sum(len(jobs) for jobs in cohorts)
    most = most or max(1, min(_CHUNKS, _FLOAT_SUMS // size))
    dealt: list[list[Chunk]] = []
    for group, jobs in enumerate(cohorts):
        count = 1 if whole else max(1, min(len(jobs), -(-most * len(jobs) // max(1, total))))
        cuts = [len(jobs) * place // count for place in range(count + 1)]
        parts = [tuple(jobs[start:end]) for start, end in zip(cuts, cuts[1:], strict=False)]
        dealt.append([Chunk(group, number, part) for number, part in enumerate(parts) if part])
    return dealt


def is_exact(channel: Channel) -> bool:
    """True if a channel's sums are integers."""
    return channel.grid is not None


def are_exact(worker: Worker, groups: int) -> bool:
    """True if the sums of all groups are."""
    return all(is_exact(one) for group in range(groups) for one in worker.method.terms.channels_of(group))


def is_free(worker: Worker, groups: int) -> bool:
    """True if no bit depends on the chunks: all sums are of integers, and clients are trained one at a time."""
    return worker.trainer.at_once == 1 and are_exact(worker, groups)


def added(total: Gathered, part: Gathered) -> None:
    """Add a part to a sum, in place."""
    add_each(total.arrays, part.arrays)
    total.sums.reports += part.sums.reports


@dataclass(frozen=True)
class Slots:
    """Where in an arena one group's partial sums lie.

    Attributes:
        channels: of the group.
        offsets: for each channel, one place for each worker, or for each chunk.
    """

    channels: tuple[Channel, ...]
    offsets: tuple[tuple[int, ...], ...]

    @staticmethod
    def placed(layout: Layout, channels: tuple[Channel, ...], workers: int, chunks: int) -> Slots:
        """Places for the sums of a group."""
        places = [
            tuple(layout.place((_bytes(one),), np.uint8) for _ in range(workers if is_exact(one) else chunks))
            for one in channels
        ]
        return Slots(channels, tuple(places))

    def of(self, worker: int, chunk: int) -> list[int]:
        """The place of each channel's sum that a worker adds a chunk to."""
        pairs = zip(self.channels, self.offsets, strict=True)
        return [offsets[worker if is_exact(one) else chunk] for one, offsets in pairs]

    def clear(self, arena: Arena) -> None:
        """Start from nothing."""
        for one, offsets in zip(self.channels, self.offsets, strict=True):
            for offset in offsets:
                arena.array(offset, (_bytes(one),), np.uint8)[:] = 0

    def combined(self, arena: Arena, reports: int) -> list[Gathered]:
        """The group's sums, out of the arena."""
        totals: list[Gathered] = []
        for channel, offsets in zip(self.channels, self.offsets, strict=True):
            total = Gathered.nothing(channel)
            for offset in offsets:
                added(total, partial(arena, channel, offset))
            total.sums.reports = reports
            totals.append(total)
        return totals


def partial(arena: Arena, channel: Channel, offset: int) -> Gathered:
    """The partial sum at a place of the arena: what is added to it is added there."""
    arrays: list[Array] = []
    for kind in Gathered.kinds(channel):
        arrays.append(arena.array(offset, (channel.size,), kind))
        offset += arrays[-1].nbytes
    return Gathered.over(channel, arrays)


def _bytes(channel: Channel) -> int:
    return channel.size * sum(kind.itemsize for kind in Gathered.kinds(channel))
