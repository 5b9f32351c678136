"""Files that are whole or not there: tensors, lines, and their replacement at once and for good."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol, cast

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from onlooker.errors import FolderError
from onlooker.types import Array


class _Tensors(Protocol):
    """What is used of an opened safetensors file, which comes without types."""

    def keys(self) -> list[str]: ...
    def get_tensor(self, name: str) -> Array: ...
    def metadata(self) -> dict[str, str]: ...


def packed(tensors: Mapping[str, Array], round: int) -> bytes:
    """Tensors by name as the bytes of a safetensors file that names the round."""
    return save(dict(tensors), {"round": str(round)})


def unpacked(path: Path) -> tuple[dict[str, Array], int]:
    """The tensors of a file, and the round that it names.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is no such file.
    """
    try:
        with _opened(path) as file:
            return {name: file.get_tensor(name) for name in file.keys()}, int(file.metadata()["round"])
    except (SafetensorError, KeyError, TypeError) as error:
        raise ValueError(str(error)) from error


def _opened(path: Path) -> contextlib.AbstractContextManager[_Tensors]:
    return cast(contextlib.AbstractContextManager[_Tensors], safe_open(path, "numpy"))


def line_of(value: Mapping[str, Any]) -> bytes:
    """One line of strict JSON."""
    return json.dumps(value, allow_nan=False).encode() + b"\n"


@contextlib.contextmanager
def writing(path: Path) -> Generator[None]:
    """Within it, a file of a run folder is written.

    Raises:
        FolderError: if it cannot be, with what would do.
    """
    try:
        yield
    except OSError as error:
        raise FolderError(
            f"{path} cannot be written: {error.strerror or error}; make room and run `onlooker resume {path.parent}`."
        ) from error


def write(path: Path, content: bytes) -> None:
    """Write a file, and return once it is on disk."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def open_private(path: Path) -> BinaryIO:
    """A new file to write into that its owner alone may read, also while it is written.

    Raises:
        FileExistsError: if it is there.
    """
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def write_private(path: Path, content: bytes) -> None:
    """Write a whole file or none, for its owner alone, and return once it is on disk."""
    draft = path.with_name(f"{path.name}.draft")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    with open_private(draft) as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    replace_file(draft, path)


def database(
    path: Path | None, schema: str, *pragmas: str, patience: float = 5.0, any_thread: bool = False
) -> sqlite3.Connection:
    """A SQLite file whose statements are on disk when they return, each by itself unless a transaction is begun.

    Args:
        path: of the file, made if it is not there, and then for its owner alone; None for memory.
        schema: what is made in it where it is not there.
        pragmas: of this file beside the usual ones, such as "secure_delete = on".
        patience: seconds to wait for another process.
        any_thread: True if several threads use it, one after the other.

    Raises:
        sqlite3.Error: if the file is none, or is held by another.
        OSError: if it cannot be made.
    """
    if path is not None:
        path.touch(0o600)
    base = sqlite3.connect(path or ":memory:", isolation_level=None, timeout=patience, check_same_thread=not any_thread)
    for pragma in (*pragmas, "journal_mode = wal", "synchronous = full"):
        base.execute(f"pragma {pragma}")
    base.executescript(schema)
    return base


def refuse_what_others_read(*paths: Path) -> None:
    """Refuse files and folders that are not for their owner alone.

    Raises:
        FolderError: if one may be read by others, with what would do.
    """
    for path in paths:
        if path.stat().st_mode & 0o077:
            raise FolderError(f"{path} may be read by others, who could see what it keeps secret; `chmod go-rwx` it.")


def replace_file(draft: Path, final: Path) -> None:
    """Put the draft in place, at once and for good."""
    os.replace(draft, final)
    directory = os.open(final.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
