"""`onlooker client`: a process of the client's own, which holds its data, its key and its budget.

It waits on a socket of its machine, where files' permissions say who may come; a model comes in, a sealed report goes
out. Whatever carries them, a Flower SuperNode or a script, holds no secret.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import torch
from starlette.applications import Starlette

from onlooker.config.engine import trainer_name
from onlooker.deployment.budget import Budget
from onlooker.deployment.client_file import OwnClient
from onlooker.deployment.desk import ANSWER, GREET
from onlooker.deployment.http import Answer, application, listening_at, many, server_at
from onlooker.deployment.job import initial, rows_of
from onlooker.deployment.memory import Memory
from onlooker.deployment.participant import Participant
from onlooker.engines import trainer_of
from onlooker.errors import ConfigError, MessageError, OnlookerError, ProtocolError
from onlooker.privacy.participation import picked
from onlooker.privacy.random import System
from onlooker.secagg.messages import Greeting
from onlooker.secagg.wire import packed

_OVERHEAD = 1_000_000
"""Bytes of an invitation beside its models: announcements, openings."""


def participant(own: OwnClient) -> Participant:
    """The client, with its data read and its files open.

    Raises:
        OnlookerError: if a file cannot be used.
    """
    device, source, prepared = torch.device("cpu"), System(), own.prepared
    examples = rows_of(prepared, own.rows, own.client)
    name = trainer_name(prepared.configuration.engine, prepared.method, prepared.model, examples, device)
    place = own.folder / own.task.identity.hex()
    return Participant(
        own.task,
        own.client,
        prepared.method,
        trainer_of(name, prepared.model, device),
        examples,
        initial(prepared, own.task),
        own.signing_key,
        Memory(place, own.task.digest, own.client, picked(own.task.terms, own.client, source)),
        Budget(own.budget, own.epsilon, own.delta),
        source,
    )


def wait(own: OwnClient, say: Callable[[str], None]) -> None:
    """Wait for invitations until the process is asked to stop.

    Args:
        own: what it is started with.
        say: shows its operator a sentence.

    Raises:
        OnlookerError: if it cannot start.
    """
    one = participant(own)
    try:
        asyncio.run(_waited(own, one, say))
    except KeyboardInterrupt:
        say(f"client:{own.client} was stopped.")
    finally:
        one.memory.close()
        one.budget.close()
        with contextlib.suppress(OSError):
            own.socket.unlink()


async def _waited(own: OwnClient, one: Participant, say: Callable[[str], None]) -> None:
    desk = _Desk(own, one, say)
    listening = _listening(own.socket, own.socket_group)
    say(
        f"client:{own.client} of task {own.task.identity.hex()[:12]} waits at {own.socket} with {_held(one)}; "
        f"{desk.spent()}."
    )
    await server_at(desk.application()).serve(sockets=[listening])


class _Desk:
    """What a client answers, one invitation after the other, in a thread of its own."""

    def __init__(self, own: OwnClient, one: Participant, say: Callable[[str], None]) -> None:
        self._own, self._one, self._say = own, one, say
        self._alone = ThreadPoolExecutor(1)

    def application(self) -> Starlette:
        """What it answers."""
        answers: dict[str, Answer] = {GREET: self._greet, ANSWER: self._answer}
        groups = len(self._own.task.terms.topology.groups_of(self._own.client))
        return application(answers, _OVERHEAD + 4 * groups * len(self._one.method.parts.public), self._running)

    @asynccontextmanager
    async def _running(self, app: Starlette) -> AsyncGenerator[None]:
        del app
        yield
        self._alone.shutdown()

    def spent(self) -> str:
        """What all tasks on these data cost so far, in words."""
        own = self._own
        return f"spent so far epsilon {self._one.budget.price().epsilon:.4g} of {own.epsilon:g} at delta {own.delta:g}"

    async def _greet(self, body: bytes) -> bytes:
        del body
        return packed(Greeting(self._own.task.digest, self._own.client))

    async def _answer(self, body: bytes) -> bytes:
        began = time.monotonic()
        try:
            reports = await asyncio.get_running_loop().run_in_executor(self._alone, self._answered, body)
        except OnlookerError as error:
            self._say(f"client:{self._own.client} refused: {error}")
            if isinstance(error, MessageError | ProtocolError):  # about what came; all else is its own affair
                raise
            raise ProtocolError(f"client:{self._own.client} sends no report; why stands in its own terminal.") from None
        await asyncio.sleep(max(0.0, self._own.reply_after - (time.monotonic() - began)))
        return many(reports)

    def _answered(self, body: bytes) -> list[bytes]:
        reports = self._one.answer(body)
        what = f"sealed {len(reports)} report{'s' * (len(reports) > 1)} of" if reports else "stays out of"
        self._say(f"client:{self._own.client} {what} round {self._one.memory.last()}; {self.spent()}.")
        return reports


def _held(one: Participant) -> str:
    persons = f" of {len(one.examples.rows_by_person())} persons" if one.task.terms.unit == "person" else ""
    return f"{len(one.examples)} rows{persons}"


def _listening(path: Path, group: int | None) -> socket.socket:
    """At the path, where what a dead process left is removed; a live one would hold the client's memory."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.unlink(missing_ok=True)
        return listening_at(path, group)
    except OSError as error:
        raise ConfigError(
            f'socket = "{path}" cannot be used: {error.strerror}; name a path of this machine, and a socket-group, if '
            "any, that you are in."
        ) from error
