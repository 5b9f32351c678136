"""A client's durable ledger of one data set over all tasks, and the limit that no server talks it past (rule 10c)."""

from __future__ import annotations

import sqlite3
import tomllib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import tomli_w

from onlooker._stored import database, refuse_what_others_read
from onlooker.errors import BudgetError, FolderError
from onlooker.privacy.accounting import Price
from onlooker.privacy.spending import Spent, spent
from onlooker.privacy.terms import Terms, from_dict, to_dict

_SCHEMA = """
create table if not exists tasks (digest blob primary key, client integer not null, terms text not null) without rowid;
create table if not exists reports (
    task blob not null references tasks, round integer not null, place integer not null,
    primary key (task, round, place)) without rowid;
"""
_SECONDS = 60.0
"""That another task's charge on the same data may take."""


class Budget:
    """What was charged for one data set, in one SQLite file.

    Several tasks, each in its own process, may charge the same file.

    Args:
        path: of the file; made if it is not there. It must never be put back from a backup while a task goes on: what
            was charged since would be forgotten.
        epsilon: the limit over all tasks.
        delta: that of the limit.

    Raises:
        FolderError: from any method, if the file cannot be used; nothing was charged then.
    """

    def __init__(self, path: Path, epsilon: float, delta: float) -> None:
        self._path, self._epsilon, self._delta = path, epsilon, delta
        with self._trouble():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if path.exists():
                refuse_what_others_read(path)
            self._base = database(path, _SCHEMA, patience=_SECONDS, any_thread=True)

    def charge(self, task: bytes, terms: Terms, client: int, round: int, group: int) -> Price:
        """Charge one report before it is sealed; one that was charged before costs nothing again.

        Returns:
            What all reports of all tasks cost now.

        Raises:
            BudgetError: if that would be more than the limit, or the data are in the task as another client already,
                so that both would be in one sum; it is not charged.
            TermsError: if the task guards another unit than those before it.
        """

        def act() -> Price:
            written = tomli_w.dumps(to_dict(terms))
            self._base.execute("insert or ignore into tasks values (?, ?, ?)", (task, client, written))
            self._refuse_another(task, client)
            self._base.execute("insert or ignore into reports values (?, ?, ?)", (task, round, group))
            price = spent(self._tasks(), self._delta)
            if not price.epsilon <= self._epsilon:
                raise BudgetError(
                    f"budget.epsilon = {self._epsilon:g} would be passed: with a report in round {round} all tasks on "
                    f"these data cost {price.epsilon:.4g} at delta {self._delta:g}; no report leaves."
                )
            return price

        return self._together(act)

    def charged(self, task: bytes) -> frozenset[tuple[int, int]]:
        """The rounds and groups of a task whose reports were charged."""
        with self._trouble():
            return frozenset(self._base.execute("select round, place from reports where task = ?", (task,)).fetchall())

    def price(self) -> Price:
        """What all reports of all tasks cost so far."""
        with self._trouble():
            return spent(self._tasks(), self._delta)

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def _tasks(self) -> list[Spent]:
        counts: dict[bytes, dict[int, int]] = {}
        for task, group, count in self._base.execute("select task, place, count(*) from reports group by task, place"):
            counts.setdefault(bytes(task), {})[group] = count
        rows = self._base.execute("select digest, client, terms from tasks order by digest")
        return [
            Spent(from_dict(tomllib.loads(terms)), client, counts[bytes(digest)])
            for digest, client, terms in rows
            if bytes(digest) in counts
        ]

    def _refuse_another(self, task: bytes, client: int) -> None:
        (found,) = self._base.execute("select client from tasks where digest = ?", (task,)).fetchone()
        if found != client:
            raise BudgetError(
                f"budget.file = {str(self._path)!r} holds what client:{found} spent in this task, and the same data as "
                f"client:{client} too would be in a sum twice; take part as one of them, with a budget of its own."
            )

    def _together(self, act: Callable[[], Price]) -> Price:
        """All of it or nothing, and before any other process's."""
        with self._trouble(), self._base:
            self._base.execute("begin immediate")
            return act()

    @contextmanager
    def _trouble(self) -> Generator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError) as error:
            raise FolderError(
                f"budget.file = {str(self._path)!r} cannot be used: {error}; no report leaves."
            ) from error
