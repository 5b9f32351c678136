"""Workers on the machines of a Ray cluster: the chunks of `pool` as tasks, and its bits with any number of machines.

The clients' data go to each machine once a run, and the starting models once a round. A chunk is sent its jobs and the
private parts of its clients; its sums stay where it was played, until they are added there. What a chunk comes to is a
function of the seed and the round, so that Ray plays it again where a process or a machine is lost, and nothing in the
sums can tell. Where randomness does not come again, a chunk that is played again is one that began later: the sums hold
the result of one playing or of another, and never of two.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, cast

from onlooker.engines.chunks import Chunk, are_exact, dealt, is_free
from onlooker.engines.joined import joined
from onlooker.engines.process import play_alone
from onlooker.engines.reduction import Lying, Parts, Reference, added, in_order, parts_of
from onlooker.engines.work import Gathered, Job, Rows, Worker
from onlooker.errors import WorkerError

_AHEAD = 2  # chunks for each processor, so that machines end together
_HEARD = 8  # chunks whose ends are waited for together
_RETRIES = 3


@dataclass(frozen=True)
class Cluster:
    """An engine on the machines that Ray has joined.

    How floats are rounded is also a matter of a processor's instructions: bits are the same where machines are alike.

    Attributes:
        worker: plays the clients.
        ray: the library.
        resident: the worker, in the object store.
        playing: the task that plays a chunk.
        adding: the task that adds sums.
    """

    worker: Worker
    ray: Any
    resident: Reference
    playing: Any
    adding: Any

    def play(self, round: int, cohorts: Sequence[Sequence[Job]], starts: Rows, private: Rows) -> dict[int, Parts]:
        """The sums of each group that has any; private parts are written where clients have trained them.

        Raises:
            WorkerError: if Ray lost a chunk again and again, or was lost itself.
        """
        method = self.worker.method
        exact = are_exact(self.worker, len(cohorts))
        try:
            processors = max(1, int(self.ray.cluster_resources().get("CPU", 0)))
            most = _AHEAD * processors if is_free(self.worker, len(cohorts)) else None
            chunks = dealt(cohorts, starts.shape[1], method.epochs > 1, most)
            return self._sums(round, chunks, exact, starts, private)
        except self.ray.exceptions.RayError as error:
            raise self._told(error, f"round {round}") from None

    def _sums(
        self, round: int, chunks: Sequence[Sequence[Chunk]], exact: bool, starts: Rows, private: Rows
    ) -> dict[int, Parts]:
        received = self.ray.put(starts)
        pending: dict[Reference, tuple[Chunk, Reference]] = {}
        totals: dict[int, Reference] = {}
        lying = Lying(self._add)
        for parts in chunks:
            sent = [self._sent(round, chunk, received, private) for chunk in parts]
            pending |= {end: (chunk, sums) for chunk, (end, sums) in zip(parts, sent, strict=True)}
            if parts and not exact:
                totals[parts[0].group] = in_order(self._add, [sums for _, sums in sent])
        for chunk, sums, machine, kept in self._ended(round, pending):
            if len(private):
                private[_seats(chunk)] = kept
            if exact:
                lying.put(chunk.group, machine, sums)
        totals |= lying.totals()
        return dict(zip(totals, self.ray.get([*totals.values()]), strict=True))

    def _sent(self, round: int, chunk: Chunk, received: Reference, private: Rows) -> tuple[Reference, Reference]:
        kept = private[_seats(chunk)] if len(private) else private
        return self.playing.remote([self.resident], round, chunk, received, kept)

    def _ended(
        self, round: int, pending: dict[Reference, tuple[Chunk, Reference]]
    ) -> Iterator[tuple[Chunk, Reference, str, Rows]]:
        """Each chunk when it was played, with its sums, where they lie, and private parts; it is pending no more."""
        while pending:
            ends, _ = self.ray.wait([*pending], num_returns=min(_HEARD, len(pending)), fetch_local=False)
            for end in ends:
                chunk, sums = pending.pop(end)
                try:
                    machine, kept = self.ray.get(end)
                except self.ray.exceptions.RayError as error:
                    first, last = chunk.jobs[0].client, chunk.jobs[-1].client
                    raise self._told(error, f"client:{first} to client:{last} of round {round}") from None
                yield chunk, sums, machine, kept

    def _add(self, parts: Sequence[Reference], machine: str | None) -> Reference:
        if machine is None:
            return self.adding.remote(*parts)
        there = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(machine, soft=True)
        return self.adding.options(scheduling_strategy=there).remote(*parts)

    def _told(self, error: Exception, what: str) -> Exception:
        """What a client's own code raised, as it was; else one sentence about what Ray lost."""
        cause: Exception = getattr(error, "cause", error)
        if not isinstance(cause, self.ray.exceptions.RayError):
            return cause
        return WorkerError(
            f"Ray lost {what} for good ({type(cause).__name__}), after playing again what can come again; `onlooker "
            "resume` goes on from the last whole round."
        )


@contextmanager
def cluster(worker: Worker, workers: int, address: str | None, folder: str) -> Generator[Cluster]:
    """A cluster for as long as the block lasts, in a process that does nothing else; arguments as of `joined`."""
    with joined(workers, address, folder) as ray:
        # A private part that was handed back cannot be taken back, and must be of the training that the sums are of.
        again = worker.source.repeatable or not len(worker.method.parts.private)
        options = {"num_returns": 2, "scheduling_strategy": "SPREAD", "max_retries": _RETRIES if again else 0}
        yield Cluster(
            worker,
            ray,
            ray.put(worker),
            ray.remote(num_cpus=1, **options)(_played),
            ray.remote(num_cpus=1, max_retries=_RETRIES)(added),
        )


def _played(
    resident: Sequence[Reference], round: int, chunk: Chunk, starts: Rows, kept: Rows
) -> tuple[tuple[str, Rows], Parts]:
    """Play a chunk in a worker's process: where, the private parts as they are now, and the sums."""
    (reference,) = resident  # in a list, for else Ray would unpack it again for every chunk
    worker = _unpacked(reference)
    into = [Gathered.nothing(one) for one in worker.method.terms.channels_of(chunk.group)]
    private = kept.copy()
    jobs = [replace(job, seat=seat) for seat, job in enumerate(chunk.jobs)]
    worker.play(round, jobs, starts, private, into)
    machine = importlib.import_module("ray").get_runtime_context().get_node_id()
    return (machine, private), parts_of(into)


@lru_cache(maxsize=1)
def _unpacked(resident: Reference) -> Worker:
    """The worker of a run, once in each process that plays for it, whose arrays are those of the object store."""
    play_alone()
    warnings.filterwarnings("ignore", "The given NumPy array is not writable")  # nobody writes there
    return cast(Worker, importlib.import_module("ray").get(resident))


def _seats(chunk: Chunk) -> list[int]:
    return [job.seat for job in chunk.jobs]
