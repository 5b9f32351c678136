"""The files of a deployment: the task that all parties share, and each party's own."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from pydantic import Field

from onlooker.config import Table, read
from onlooker.errors import ConfigError, TermsError
from onlooker.privacy.terms import Terms, from_dict
from onlooker.secagg.agreement import Task

ADDRESS = r"https://[^/\s]+:[0-9]{1,5}"
"""Of an auxiliary server."""


class PartiesTable(Table):
    """Everybody's public signing key, 64 hexadecimal digits each."""

    coordinator: str
    servers: list[str]
    clients: list[str]


class TaskFile(Table):
    """What all parties of a task share.

    Attributes:
        identity: 64 hexadecimal digits that no other task has.
        terms: the file of the terms, as a run folder has it.
        parties: their keys.
        addresses: of each auxiliary server, "https://host:port".
    """

    identity: str
    terms: str = "terms.toml"
    parties: PartiesTable
    addresses: list[str]


class TlsTable(Table):
    """How a party shows who it is on a connection."""

    certificate: str
    key: str
    authority: str


class ServerFile(Table):
    """One auxiliary server's own.

    Attributes:
        task: the file of the task.
        server: its number.
        listen: "host:port".
        folder: where it keeps its secrets and what it must not forget; for nobody else to read.
        signing_key: its long-term private key, PEM.
        round_patience: seconds after the end of a round's reports until it is given up, if other servers keep silent.
        audited_rounds: of how many of the last rounds the share before its noise is kept for the server's auditor.
        tls: its certificate.
    """

    task: str
    server: int
    listen: str
    folder: str
    signing_key: str
    round_patience: Annotated[float, Field(gt=0)] = 60.0
    audited_rounds: Annotated[int, Field(ge=1)] = 10
    tls: TlsTable


@dataclass(frozen=True)
class Shared:
    """A task and where its servers are."""

    task: Task
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Credentials:
    """How a party shows who it is on a connection, and whom it believes.

    Attributes:
        certificate: its own, PEM.
        key: the private key of it.
        authority: the certificate that all parties' certificates are signed with.
    """

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True)
class Own:
    """All that an auxiliary server is started with.

    Attributes:
        shared: what it has in common with others.
        server: its number.
        host: where it listens.
        port: at which port.
        folder: where it keeps what it must not forget.
        signing_key: its long-term key.
        credentials: of its connections.
        round_patience: in seconds.
        audited_rounds: of how many rounds sums are kept.
    """

    shared: Shared
    server: int
    host: str
    port: int
    folder: Path
    signing_key: Ed25519PrivateKey
    credentials: Credentials
    round_patience: float
    audited_rounds: int


def shared(path: Path) -> Shared:
    """Read a task's file.

    Raises:
        ConfigError: if it cannot be read, or a key is no key.
        TermsError: if the keys are not one for each party, or the terms cannot be.
    """
    file = read(TaskFile, path)
    parties = file.parties
    coordinator = _key(parties.coordinator, "parties.coordinator", path)
    servers = tuple(_key(one, f"parties.servers[{place}]", path) for place, one in enumerate(parties.servers))
    clients = tuple(_key(one, f"parties.clients[{place}]", path) for place, one in enumerate(parties.clients))
    identity = _key(file.identity, "identity", path)
    if len(file.addresses) != len(servers):
        raise ConfigError(f"{path.name}: addresses has {len(file.addresses)} in the place of {len(servers)}.")
    for address in file.addresses:
        if not re.fullmatch(ADDRESS, address):
            raise ConfigError(f'{path.name}: addresses has "{address}", which must be "https://host:port".')
    task = Task(identity, _terms(path.parent / file.terms), coordinator, servers, clients)
    return Shared(task, tuple(file.addresses))


def own(path: Path) -> Own:
    """Read a server's file, and the files that it names.

    Raises:
        ConfigError: if one cannot be read, or the server is none of the task.
        TermsError: as `shared`.
    """
    file = read(ServerFile, path)
    base = path.parent
    found = shared(base / file.task)
    if not 0 <= file.server < len(found.task.servers):
        raise ConfigError(f"{path.name}: server = {file.server} must be from 0 to {len(found.task.servers) - 1}.")
    key = own_key(path, file.signing_key, found.task.servers[file.server], f"aux:{file.server}", file.task)
    host, _, port = file.listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f'{path.name}: listen = "{file.listen}" must be "host:port", such as "0.0.0.0:9100".')
    return Own(
        found,
        file.server,
        host,
        int(port),
        base / file.folder,
        key,
        credentials_of(file.tls, path),
        file.round_patience,
        file.audited_rounds,
    )


def credentials_of(table: TlsTable, path: Path) -> Credentials:
    """How a party shows who it is, by the table in its file at `path`.

    Raises:
        ConfigError: if a file that it names is not there.
    """
    found = Credentials(*(path.parent / one for one in (table.certificate, table.key, table.authority)))
    for kept in (found.certificate, found.key, found.authority):
        if not kept.is_file():
            raise ConfigError(f"{path.name}: the file {kept} is not there; `onlooker keys` makes one for a trial.")
    return found


def own_key(path: Path, name: str, expected: bytes, party: str, task: str) -> Ed25519PrivateKey:
    """A party's private signing key, which its file at `path` names.

    Args:
        path: of the party's file.
        name: of the key's file, as it stands there.
        expected: its public key in the task, 32 bytes.
        party: who, such as "aux:1".
        task: the name of the task's file.

    Raises:
        ConfigError: as `signing_key`, or if it is another party's key.
    """
    key = signing_key(path.parent / name)
    if key.public_key().public_bytes_raw() != expected:
        raise ConfigError(f"{path.name}: signing-key is not the key of {party} in {task}.")
    return key


def signing_key(path: Path) -> Ed25519PrivateKey:
    """A private signing key, PEM.

    Raises:
        ConfigError: if it cannot be read, is no Ed25519 key, or others may read it.
    """
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(f"the key {path} may be read by others; `chmod 600` it, and replace it if others did.")
        key = load_pem_private_key(path.read_bytes(), None)
    except OSError as error:
        raise ConfigError(f"the key {path} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(f"the key {path} is no Ed25519 private key in PEM; `onlooker keys` makes one.")
    return key


def _key(text: str, name: str, path: Path) -> bytes:
    if not re.fullmatch(r"[0-9a-f]{64}", text):
        raise ConfigError(f'{path.name}: {name} = "{text}" must be 64 hexadecimal digits.')
    return bytes.fromhex(text)


def _terms(path: Path) -> Terms:
    try:
        return from_dict(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"the terms {path} cannot be read: {error.strerror}.") from error
    except (ValueError, TermsError) as error:
        raise ConfigError(f"{path.name} holds no terms of a task; `onlooker keys` writes them.") from error
