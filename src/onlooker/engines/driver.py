"""The one process that speaks to Ray, which is not this one.

Where Ray is lost it ends the process that it is in, without a word; it takes its signals, and prints what it likes. In
a process of its own it can do all that, and whoever runs a study hears one sentence.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, cast

from onlooker.engines.arena import Parcel
from onlooker.engines.cluster import cluster
from onlooker.engines.member import portable, when_the_parent_ends
from onlooker.engines.process import context_of
from onlooker.engines.reduction import Parts, gathered_of
from onlooker.engines.work import Gathered, Job, Rows, Worker
from onlooker.errors import WorkerError
from onlooker.privacy.terms import Terms

_PATIENCE = 20.0  # seconds, in which Ray ends its processes


@dataclass(frozen=True)
class Driver:
    """An engine on the machines of a Ray cluster, as the process that runs the study sees it."""

    terms: Terms
    process: BaseProcess
    pipe: Connection

    def play(self, round: int, cohorts: Sequence[Sequence[Job]], starts: Rows, private: Rows) -> list[list[Gathered]]:
        """As `Engine.play`.

        Raises:
            WorkerError: if Ray lost a chunk again and again, or was lost itself; nothing of the round was released.
        """
        asked = round, cohorts, starts, private
        held, sums = cast(tuple[Rows, dict[int, Parts]], self._answer(asked, f"in round {round}"))
        private[:] = held
        channels = [self.terms.channels_of(group) for group in range(len(cohorts))]
        return [gathered_of(few, sums.get(group), len(cohorts[group])) for group, few in enumerate(channels)]

    def begun(self) -> Driver:
        """This, once Ray has been joined.

        Raises:
            ConfigError: if it cannot be.
        """
        self._answer(None, "before it was joined")
        return self

    def _answer(self, asked: object, when: str) -> Any:
        try:
            if asked is not None:
                self.pipe.send(asked)
            answer = pickle.loads(self.pipe.recv_bytes())
        except (EOFError, OSError):
            raise WorkerError(
                f"Ray ended {when}, and with it the process that speaks to it; `onlooker resume` goes on from the last "
                "whole round."
            ) from None
        except BaseException:
            self.process.terminate()  # it would not hear before the end of the round
            raise
        if isinstance(answer, Exception):
            raise answer
        return answer

    def end(self) -> None:
        """Have Ray left, and what was started for it ended."""
        with contextlib.suppress(OSError):
            self.pipe.send(None)
        self.process.join(_PATIENCE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()
        self.pipe.close()


@contextmanager
def driver(worker: Worker, workers: int, address: str | None, start_method: str) -> Generator[Driver]:
    """Join a cluster, or start one on this machine alone, and leave it however the block ends.

    Args:
        worker: plays the clients.
        workers: how many processes of one thread each, where a cluster is started.
        address: HOST:PORT of a cluster that this machine is part of, whose processors all play; None to start one.
        start_method: how the process that speaks to Ray starts.

    Raises:
        ConfigError: if Ray is not installed, or cannot be started or reached.
    """
    if sys.modules.get("ray"):  # a fork would inherit what Ray settled when it was imported: that nobody needs a token
        start_method = "spawn"
    context = context_of(start_method)
    with tempfile.TemporaryDirectory(prefix="onlooker-", ignore_cleanup_errors=True) as folder:
        ours, theirs = context.Pipe()
        asked = theirs, Parcel(worker), workers, address, folder
        process = context.Process(target=_serve, args=asked, name="ray")
        process.start()
        theirs.close()
        found = Driver(worker.method.terms, process, ours)
        try:
            yield found.begun()
        finally:
            found.end()


def _serve(pipe: Connection, parcel: Parcel, workers: int, address: str | None, folder: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this one ends it
    when_the_parent_ends(lambda: os.kill(os.getpid(), signal.SIGTERM))
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)
    worker = parcel.content
    assert isinstance(worker, Worker)
    try:
        with cluster(worker, workers, address, folder) as machines:
            answer: object = None
            while True:
                pipe.send(answer)
                asked = pipe.recv()
                if asked is None:
                    return
                round, cohorts, starts, private = asked
                answer = private, machines.play(round, cohorts, starts, private)
    except Exception as error:
        pipe.send_bytes(portable(error))
