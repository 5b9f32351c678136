"""One worker's process: it plays the tasks that it is sent, and knows nothing of a round but its places in memory."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait

import numpy as np

from onlooker.engines.arena import Arena, Parcel
from onlooker.engines.chunks import partial
from onlooker.engines.process import play_alone
from onlooker.engines.work import Job, Worker
from onlooker.privacy.channel import Channel
from onlooker.types import Integers

DONE = b"done"


@dataclass(frozen=True)
class Block:
    """A matrix of 32-bit floats in an arena."""

    offset: int
    rows: int
    columns: int

    def on(self, arena: Arena) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
        """The matrix itself."""
        return arena.array(self.offset, (self.rows, self.columns), np.float32)


@dataclass(frozen=True)
class Task:
    """Jobs of one group, and where in an arena lie what they start from and what they add to.

    Attributes:
        round: from 1.
        starts: the models that jobs name.
        private: the private parts that jobs name.
        group: whose jobs these are.
        sums: the place of the sum of each of the group's channels.
        jobs: what is to be played.
    """

    round: int
    starts: Block
    private: Block
    group: int
    sums: tuple[int, ...]
    jobs: tuple[Job, ...]

    def packed(self) -> bytes:
        """As bytes, without pickling anything."""
        blocks = [(one.offset, one.rows, one.columns) for one in (self.starts, self.private)]
        jobs = [(job.client, job.start, job.seat, job.covers) for job in self.jobs]
        head = [self.round, self.group, len(self.sums), *self.sums]
        return np.array([*head, *np.ravel(blocks), *np.ravel(jobs)], dtype=np.int64).tobytes()

    @staticmethod
    def unpacked(message: bytes) -> Task:
        """The task of these bytes."""
        numbers: list[int] = np.frombuffer(message, dtype=np.int64).tolist()
        round, group, count = numbers[:3]
        sums, rest = numbers[3 : 3 + count], numbers[3 + count :]
        starts, private = Block(*rest[:3]), Block(*rest[3:6])
        parts = zip(*[iter(rest[6:])] * 4, strict=True)
        jobs = tuple(Job(client, group, start, seat, bool(covers)) for client, start, seat, covers in parts)
        return Task(round, starts, private, group, tuple(sums), jobs)


def serve(number: int, pipe: Connection, arena: Arena, parcel: Parcel) -> None:
    """Play tasks until the pipe ends; answer each with `DONE`, or with the error that ended it.

    Args:
        number: of this worker.
        pipe: where tasks come from.
        arena: begins with one integer for each worker: the client that it is at.
        parcel: holds the `Worker`.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this one ends it
    when_the_parent_ends(lambda: os._exit(1))  # nobody would wait for the result
    play_alone()
    worker = parcel.content
    assert isinstance(worker, Worker)
    mark: Integers = arena.array(8 * number, (1,), np.int64)
    while True:
        try:
            message = pipe.recv_bytes()
        except EOFError:
            return
        try:
            _play(worker, arena, Task.unpacked(message), mark)
            pipe.send_bytes(DONE)
        except Exception as error:
            pipe.send_bytes(portable(error))


def _play(worker: Worker, arena: Arena, task: Task, mark: Integers) -> None:
    channels: Sequence[Channel] = worker.method.terms.channels_of(task.group)
    into = [partial(arena, channel, offset) for channel, offset in zip(channels, task.sums, strict=True)]
    starts, private = task.starts.on(arena), task.private.on(arena)
    worker.play(task.round, task.jobs, starts, private, into, lambda job: mark.__setitem__(0, job.client))


def portable(error: Exception) -> bytes:
    """An error as bytes; one that cannot travel goes as its text."""
    try:
        body = pickle.dumps(error)
        pickle.loads(body)
    except Exception:
        body = pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return body


def when_the_parent_ends(act: Callable[[], None]) -> None:
    """Do this then, in a thread, in whatever way it ends."""
    parent = parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        act()

    threading.Thread(target=watch, daemon=True).start()
