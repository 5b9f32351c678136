"""Workers in processes of one thread each, and messages that carry nothing but places in shared memory."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

import numpy as np

from onlooker.engines.arena import Arena, Layout, Parcel
from onlooker.engines.chunks import Chunk, Slots, dealt, is_free
from onlooker.engines.member import DONE, Block, Task, serve
from onlooker.engines.process import context_of
from onlooker.engines.work import Gathered, Job, Rows, Worker
from onlooker.errors import WorkerError

_AHEAD = 2  # tasks that a worker has at a time, so that it never waits for the next one
_PIECES = 16  # of a round for each worker, where no bit depends on them, so that workers end together
_PATIENCE = 2.0  # seconds


@dataclass
class _Member:
    """One worker's process, as the others see it."""

    number: int
    process: BaseProcess
    pipe: Connection
    tasks: int = 0


@dataclass(frozen=True)
class Pool:
    """An engine of several processes: the same bits with any number of them, and however they are started."""

    worker: Worker
    members: tuple[_Member, ...]
    arena: Arena

    def play(self, round: int, cohorts: Sequence[Sequence[Job]], starts: Rows, private: Rows) -> list[list[Gathered]]:
        """As `Engine.play`.

        Raises:
            WorkerError: if a process dies; nothing of the round has been released.
        """
        method = self.worker.method
        most = _PIECES * len(self.members) if is_free(self.worker, len(cohorts)) else None
        chunks = dealt(cohorts, starts.shape[1], method.epochs > 1, most)
        layout = Layout(8 * len(self.members))
        blocks = (
            Block(layout.place(starts.shape, np.float32), *starts.shape),
            Block(layout.place(private.shape, np.float32), *private.shape),
        )
        slots = [
            Slots.placed(layout, method.terms.channels_of(group), len(self.members), len(parts))
            for group, parts in enumerate(chunks)
        ]
        self.arena.reach(layout.size)
        received, held = (one.on(self.arena) for one in blocks)
        received[:], held[:] = starts, private
        for one in slots:
            one.clear(self.arena)
        self._run(round, [chunk for parts in chunks for chunk in parts], blocks, slots)
        private[:] = held
        return [one.combined(self.arena, len(jobs)) for one, jobs in zip(slots, cohorts, strict=True)]

    def _run(self, round: int, chunks: Sequence[Chunk], blocks: tuple[Block, Block], slots: Sequence[Slots]) -> None:
        """Hand out chunks in order, to whoever has the least to do, until all are done."""
        waiting = deque(chunks)
        while waiting or any(member.tasks for member in self.members):
            for member in self.members:
                while waiting and member.tasks < _AHEAD:
                    chunk = waiting.popleft()
                    sums = slots[chunk.group].of(member.number, chunk.number)
                    self._send(member, Task(round, *blocks, chunk.group, tuple(sums), chunk.jobs), round)
            self._hear(round)

    def _send(self, member: _Member, task: Task, round: int) -> None:
        try:
            member.pipe.send_bytes(task.packed())
        except OSError:
            raise self._died(member, round) from None
        member.tasks += 1

    def _hear(self, round: int) -> None:
        """Wait for an answer."""
        heard = wait([one for member in self.members if member.tasks for one in (member.pipe, member.process.sentinel)])
        for member in self.members:
            if member.pipe in heard:  # before its end, for an answer may still lie there
                try:
                    answer = member.pipe.recv_bytes()
                except (EOFError, OSError):
                    raise self._died(member, round) from None
                if answer != DONE:
                    raise pickle.loads(answer)
                member.tasks -= 1
            elif member.process.sentinel in heard:
                raise self._died(member, round)

    def _died(self, member: _Member, round: int) -> WorkerError:
        member.process.join(_PATIENCE)
        client = int(self.arena.array(8 * member.number, (1,), np.int64)[0])
        code = member.process.exitcode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        return WorkerError(
            f"worker {member.number} ended {how} at client:{client} of round {round}; `onlooker resume` goes on from "
            f"the last whole round. If memory ran out, engine.workers below {len(self.members)} needs less."
        )


@contextmanager
def pool(worker: Worker, workers: int, start_method: str) -> Generator[Pool]:
    """Start the processes, and end them however the block ends."""
    context = context_of(start_method)
    arena = Arena()
    arena.reach(8 * workers)
    parcel = Parcel(worker)
    members: list[_Member] = []
    try:
        for number in range(workers):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=serve, args=(number, theirs, arena, parcel), name=f"worker:{number}", daemon=True
            )
            process.start()
            theirs.close()
            members.append(_Member(number, process, ours))
        yield Pool(worker, tuple(members), arena)
    finally:
        for member in members:
            _end(member)
        arena.close()


def _end(member: _Member) -> None:
    """Whatever it is doing."""
    member.pipe.close()
    member.process.terminate()
    member.process.join(_PATIENCE)
    if member.process.is_alive():
        member.process.kill()
        member.process.join()
    member.process.close()
