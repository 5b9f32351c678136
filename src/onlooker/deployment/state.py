"""What an auxiliary server keeps of a task: its secrets, and the store that belongs to them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from onlooker._stored import write_private
from onlooker.errors import FolderError
from onlooker.secagg.envelope import EnvelopeKey
from onlooker.secagg.secret import Secret

_SECRET, _ENVELOPE, _ENDED = "secret", "envelope-key", "ended"


@dataclass(frozen=True)
class State:
    """One task's folder.

    Attributes:
        secret: where the server's noise comes from.
        envelope_key: what opens envelopes.
        store: the file of its store.
    """

    secret: Secret
    envelope_key: EnvelopeKey
    store: Path


def begun(folder: Path, identity: bytes, server: int) -> State:
    """A task's state; made where it is not there, and then the same for ever.

    Args:
        folder: of the server, for all its tasks.
        identity: of the task.
        server: its number in the task.

    Raises:
        FolderError: if it cannot be made or read, others may read it, or the task has ended here.
    """
    place = _place(folder, identity)
    try:
        if not (place / _SECRET).exists():
            _make(place, server)
        for part in (folder, place, place / _SECRET, place / _ENVELOPE):
            if part.stat().st_mode & 0o077:
                raise FolderError(
                    f"{part} may be read by others; `chmod go-rwx` it, and begin a new task if others did."
                )
        if (place / _ENDED).exists():
            raise FolderError(
                f"this task has ended here: {(place / _ENDED).read_text(encoding='utf-8')} Begin a new task."
            )
        secret = Secret(server, (place / _SECRET).read_bytes())
        return State(secret, EnvelopeKey.from_bytes((place / _ENVELOPE).read_bytes()), place / "store.db")
    except (OSError, ValueError) as error:
        raise FolderError(f"{place} cannot be used: {error}.") from error


def kept(folder: Path, identity: bytes, server: int) -> tuple[Secret, Path]:
    """The secret and the store of a task that was begun, also after its end, for the server's own auditor.

    Raises:
        FolderError: if there is none.
    """
    place = _place(folder, identity)
    try:
        return Secret(server, (place / _SECRET).read_bytes()), place / "store.db"
    except (OSError, ValueError) as error:
        raise FolderError(f"{place} holds nothing of this task: {error}.") from error


def end(folder: Path, identity: bytes, why: str) -> None:
    """End a task here for good, and forget what opens its envelopes.

    Raises:
        FolderError: if that cannot be written.
    """
    place = _place(folder, identity)
    try:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(place / _ENDED, why.encode())
        if (place / _ENVELOPE).exists():
            os.truncate(place / _ENVELOPE, 0)
    except OSError as error:
        raise FolderError(f"{place} cannot be written: {error.strerror}.") from error


def end_all(folder: Path, why: str) -> int:
    """End every task that a server's folder has; how many."""
    tasks = [one for one in folder.iterdir() if (one / _SECRET).exists()] if folder.is_dir() else []
    for one in tasks:
        if not (one / _ENDED).exists():
            end(folder, bytes.fromhex(one.name), why)
    return len(tasks)


def _place(folder: Path, identity: bytes) -> Path:
    return folder / identity.hex()


def _make(place: Path, server: int) -> None:
    """New secrets, both or neither: the secret comes last, and what was there before it is overwritten."""
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    place.parent.chmod(0o700)
    write_private(place / _ENVELOPE, EnvelopeKey.generate().to_bytes())
    write_private(place / _SECRET, Secret.generate(server).to_bytes())
