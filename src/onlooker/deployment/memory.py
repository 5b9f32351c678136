"""What a client must not forget of one task: its coins, its reports as they were first sent, and its private parts.

A row of the table is the commit point of a round. The private part that training leaves is in a file of its own before
that; without its row it is as if it were not there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from onlooker._stored import database, packed, refuse_what_others_read, unpacked, write_private
from onlooker.errors import FolderError
from onlooker.types import Vector

_SCHEMA = """
create table if not exists owner (task blob not null, client integer not null, picked text not null);
create table if not exists rounds (
    round integer not null, place integer not null, context blob not null, drawn integer not null,
    report blob, keeps integer not null default 0, primary key (round, place)) without rowid;
"""
_PRIVATE = "private"


@dataclass(frozen=True)
class Decided:
    """What a client once decided for a round in one of its groups.

    Attributes:
        context: of which round, with which model.
        drawn: whether it takes part.
        report: what it sent, as bytes; None where it sent none yet, or never does.
    """

    context: bytes
    drawn: bool
    report: bytes | None


class Memory:
    """One task's folder of one client.

    Args:
        folder: made if it is not there, for its owner alone.
        task: the digest of the task.
        client: its place in the roster.
        picked: what the client drew for the whole run, if this is its first start; else what it drew then stays.

    Attributes:
        picked: what it drew for the whole run.

    Raises:
        FolderError: from any method, if a file cannot be used, others may read it, or the folder is another task's
            or client's.
    """

    def __init__(self, folder: Path, task: bytes, client: int, picked: Sequence[int]) -> None:
        self._folder = folder
        with self._trouble():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            path = folder / "rounds.db"
            refuse_what_others_read(*(one for one in (folder, path) if one.exists()))
            # One process a client, or it would report twice.
            self._base = database(path, _SCHEMA, "locking_mode = exclusive", patience=0.1, any_thread=True)
            with self._base:
                self._base.execute("begin immediate")
                found = self._base.execute("select task, client, picked from owner").fetchone()
                if found is None:
                    found = (task, client, " ".join(map(str, picked)))
                    self._base.execute("insert into owner values (?, ?, ?)", found)
        if bytes(found[0]) != task or found[1] != client:
            raise FolderError(f"{folder} is of another task, or of another client of it; give each its own.")
        self.picked = tuple(int(one) for one in str(found[2]).split())

    def decided(self, round: int, group: int) -> Decided | None:
        """What was decided for a round; None where nothing was."""
        with self._trouble():
            found = self._base.execute(
                "select context, drawn, report from rounds where round = ? and place = ?", (round, group)
            ).fetchone()
        if found is None:
            return None
        return Decided(bytes(found[0]), bool(found[1]), None if found[2] is None else bytes(found[2]))

    def places(self) -> tuple[frozenset[tuple[int, int]], frozenset[tuple[int, int]]]:
        """The rounds and groups that something was decided for, and those of them that a report was sealed for."""
        with self._trouble():
            rows = self._base.execute("select round, place, report is not null from rounds").fetchall()
        return frozenset(row[:2] for row in rows), frozenset(row[:2] for row in rows if row[2])

    def decide(self, round: int, group: int, context: bytes, drawn: bool) -> None:
        """Remember a coin before anything follows from it."""
        with self._trouble():
            self._base.execute(
                "insert into rounds (round, place, context, drawn) values (?, ?, ?, ?)", (round, group, context, drawn)
            )

    def keep(self, round: int, group: int, report: bytes, private: Vector | None) -> None:
        """Remember a report before it leaves, and the private part that training left, if it left any."""
        with self._trouble():
            if private is not None:
                write_private(self._private(round, group), packed({_PRIVATE: private}, round))
            self._base.execute(
                "update rounds set report = ?, keeps = ? where round = ? and place = ?",
                (report, private is not None, round, group),
            )
            for old in self._folder.glob(f"{_PRIVATE}.{group}.*.safetensors"):
                if private is not None and old != self._private(round, group):
                    old.unlink()

    def private(self, group: int, first: Vector) -> Vector:
        """The private part in a group, `float32[a]`: as the last report left it, or the first one."""
        with self._trouble():
            (round,) = self._base.execute(
                "select max(round) from rounds where place = ? and keeps = 1", (group,)
            ).fetchone()
            if round is None or not len(first):
                return first
            found = unpacked(self._private(round, group))[0][_PRIVATE]
        if found.shape != first.shape:
            raise FolderError(f"{self._private(round, group)} holds another model's private part; put it back.")
        return np.asarray(found, dtype=np.float32)

    def last(self) -> int:
        """The last round that anything was decided for; 0 before the first."""
        with self._trouble():
            (round,) = self._base.execute("select max(round) from rounds").fetchone()
        return 0 if round is None else int(round)

    def close(self) -> None:
        """Close it."""
        self._base.close()

    def _private(self, round: int, group: int) -> Path:
        return self._folder / f"{_PRIVATE}.{group}.{round}.safetensors"

    @contextmanager
    def _trouble(self) -> Generator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            if "locked" in str(error):
                raise FolderError(
                    f"{self._folder} is used by another process; one client is one process, or it would report twice."
                ) from error
            raise FolderError(f"{self._folder} cannot be used: {error}; no report leaves.") from error
