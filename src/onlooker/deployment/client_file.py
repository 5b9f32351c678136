"""One client's own file: what it was given by the task, and what is nobody else's business."""

from __future__ import annotations

import grp
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import Field

from onlooker.config import Prepared, Table, read
from onlooker.deployment.files import own_key, shared
from onlooker.deployment.job import Rows, agreed
from onlooker.errors import ConfigError
from onlooker.secagg.agreement import Task

_LONGEST_SOCKET = 100
"""Bytes of the path of a socket, which systems bound."""


class BudgetTable(Table):
    """How much may be learned of the data, over all tasks."""

    file: str
    epsilon: Annotated[float, Field(gt=0)]
    delta: Annotated[float, Field(gt=0, lt=1)]


class RowsTable(Table):
    """Where the client's rows are."""

    root: str | None = None
    own: bool = True


class ClientFile(Table):
    """One client's own.

    Attributes:
        task: the file of the task.
        job: the configuration that all parties have.
        client: its place in the roster.
        folder: where it keeps what it must not forget; for nobody else to read.
        socket: where it waits for invitations: a path on this machine.
        socket_group: the group of users who may come there too, such as that of the SuperNode, which then needs no
            right to anything else of the client's; without it the owner alone.
        signing_key: its private key, PEM.
        functions: "package.module:function" of the job that it is willing to run; no other code is.
        reply_after: seconds from an invitation to its answer at the least, where traffic is to cover who takes part:
            longer than training ever takes.
        data: its rows.
        budget: its limit.
    """

    task: str
    job: str
    client: int
    folder: str
    socket: str
    socket_group: str | None = None
    signing_key: str
    functions: list[str] = []
    reply_after: Annotated[float, Field(ge=0)] = 0.0
    data: RowsTable = RowsTable()
    budget: BudgetTable


@dataclass(frozen=True)
class OwnClient:
    """All that a client is started with.

    Attributes:
        task: what all parties have agreed on.
        prepared: the job, under the terms of the task.
        client: its place in the roster.
        folder: where it keeps what it must not forget.
        socket: where it waits.
        socket_group: the number of the group that may come there too; None for nobody.
        signing_key: its own.
        rows: where its data are.
        reply_after: in seconds.
        budget: the file of it.
        epsilon: its limit.
        delta: of that.
    """

    task: Task
    prepared: Prepared
    client: int
    folder: Path
    socket: Path
    socket_group: int | None
    signing_key: Ed25519PrivateKey
    rows: Rows
    reply_after: float
    budget: Path
    epsilon: float
    delta: float


def own_client(path: Path) -> OwnClient:
    """Read a client's file, and the files that it names.

    Raises:
        ConfigError: if one cannot be read, or the client is none of the task.
        OnlookerError: as `files.shared` and `job.agreed`.
    """
    file = read(ClientFile, path)
    base = path.parent
    task = shared(base / file.task).task
    if not 0 <= file.client < len(task.roster):
        raise ConfigError(f"{path.name}: client = {file.client} must be from 0 to {len(task.roster) - 1}.")
    key = own_key(path, file.signing_key, task.roster[file.client], f"client:{file.client}", file.task)
    socket = base / file.socket
    if len(str(socket.absolute()).encode()) > _LONGEST_SOCKET:
        raise ConfigError(f'{path.name}: socket = "{file.socket}" is too long a path; choose a shorter one.')
    if task.terms.sampling.cover_traffic and not file.reply_after:
        raise ConfigError(
            f"{path.name}: reply-after is missing, and sampling.clients.cover-traffic = true needs it: write the "
            "seconds that training takes at the very most, so that answers come at one time whoever trained."
        )
    return OwnClient(
        task,
        agreed(base / file.job, task, file.functions),
        file.client,
        base / file.folder,
        socket,
        None if file.socket_group is None else _group(file.socket_group, path),
        key,
        Rows(None if file.data.root is None else base / file.data.root, file.data.own),
        file.reply_after,
        base / file.budget.file,
        file.budget.epsilon,
        file.budget.delta,
    )


def _group(name: str, path: Path) -> int:
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise ConfigError(
            f'{path.name}: socket-group = "{name}" is no group of this machine; name the one of the user who runs the '
            "SuperNode."
        ) from None
