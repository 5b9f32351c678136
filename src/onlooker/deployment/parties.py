"""The file of a task, from the public keys that its parties hand out."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tomli_w
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from onlooker.deployment.files import ADDRESS
from onlooker.errors import ConfigError, FolderError
from onlooker.privacy.terms import Terms, to_dict


@dataclass(frozen=True)
class Parties:
    """Everybody's public signing key, 64 hexadecimal digits each.

    Attributes:
        coordinator: its key.
        servers: of each auxiliary server, in their order.
        clients: of each client, in their order.
        addresses: of each auxiliary server, "https://host:port".
    """

    coordinator: str
    servers: tuple[str, ...]
    clients: tuple[str, ...]
    addresses: tuple[str, ...]


def public_key(path: Path) -> str:
    """A public signing key in a PEM file, as 64 hexadecimal digits.

    Raises:
        ConfigError: if the file cannot be read, or holds none.
    """
    try:
        key = load_pem_public_key(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"the key {path} cannot be read: {error.strerror}.") from error
    except ValueError:
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigError(
            f"{path} holds no public Ed25519 key in PEM; `openssl pkey -in signing.pem -pubout` writes one of a "
            "private key."
        )
    return key.public_bytes_raw().hex()


def gathered(terms: Terms, coordinator: Path, servers: Sequence[tuple[Path, str]], clients: Sequence[Path]) -> Parties:
    """All parties of a task, of the files that they handed out.

    Args:
        terms: of the task.
        coordinator: the file with its key.
        servers: of each the file with its key, and its address.
        clients: of each the file with its key.

    Raises:
        ConfigError: if there are not as many as the terms say, two have one key, or an address is none.
    """
    for name, given, wanted in (
        ("--server", servers, terms.channels[0].summation.servers),
        ("--client", clients, terms.clients),
    ):
        if len(given) != wanted:
            raise ConfigError(f"{name} names {len(given)}, and the job has {wanted}; say it once for each, in order.")
    for _, address in servers:
        if not re.fullmatch(ADDRESS, address):
            raise ConfigError(f'--server names "{address}", which must be "https://host:port".')
    paths = [coordinator, *(path for path, _ in servers), *clients]
    keys = [public_key(path) for path in paths]
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise ConfigError(f"{paths[place]} holds the key of {paths[keys.index(key)]}; each party makes its own.")
    first = 1 + len(servers)
    return Parties(keys[0], tuple(keys[1:first]), tuple(keys[first:]), tuple(address for _, address in servers))


def write_task(folder: Path, terms: Terms, job: str, parties: Parties) -> None:
    """Write `task.toml`, `terms.toml` and `job.toml`, which all parties share; nothing in them is secret.

    Args:
        folder: where; made if it is not there.
        terms: of the task.
        job: the text of the configuration.
        parties: their keys.

    Raises:
        FolderError: if a file cannot be written, or a task is there already.
    """
    task = {
        "identity": secrets.token_hex(32),
        "terms": "terms.toml",
        "addresses": list(parties.addresses),
        "parties": {
            "coordinator": parties.coordinator,
            "servers": list(parties.servers),
            "clients": list(parties.clients),
        },
    }
    texts = {"job.toml": job, "terms.toml": tomli_w.dumps(to_dict(terms)), "task.toml": tomli_w.dumps(task)}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            with open(folder / name, "x", encoding="utf-8") as file:
                file.write(text)
    except FileExistsError as error:
        raise FolderError(f"{error.filename} is there already; a new task needs a folder of its own.") from error
    except OSError as error:
        raise FolderError(f"{folder} cannot be written: {error.strerror}; name another folder.") from error
