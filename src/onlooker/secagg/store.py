"""What an auxiliary server must not forget, in one SQLite file that is safe when a call returns.

Whatever a server hears in a round becomes an entry of the round's log before it is answered, each entry hashed with
all before it (`Store.head`). A server that is started again reads the log and is where it was. A place (a round and a
group) has one context for ever, and a context one sealed share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from onlooker._stored import database
from onlooker.secagg.hashing import Use, digest

_SCHEMA = """
create table if not exists contexts (
    place blob primary key, context blob not null unique, opening blob not null) without rowid;
create table if not exists entries (
    context blob not null, number integer not null, body blob not null, head blob not null,
    primary key (context, number)) without rowid;
create table if not exists envelopes (
    context blob not null, client integer not null, body blob not null, primary key (context, client)) without rowid;
create table if not exists shares (context blob primary key, body blob not null) without rowid;
create table if not exists sums (number integer primary key, context blob not null unique, body blob not null);
create table if not exists states (name text primary key, body blob not null) without rowid;
create table if not exists owner (announcement blob not null);
create table if not exists witnesses (
    context blob not null, owner integer not null, server integer not null, body blob not null,
    primary key (context, owner, server)) without rowid;
"""


class Store:
    """One task's file.

    Args:
        path: of the file, made if it is not there; None for memory, which forgets.

    Raises:
        sqlite3.Error: from any method, where the disk fails; nothing was changed then.
    """

    def __init__(self, path: Path | None) -> None:
        self._base = database(
            path,
            _SCHEMA,
            "page_size = 65536",  # envelopes are long, and each page has its costs
            "secure_delete = on",  # envelopes that are dropped, however SQLite was built
        )
        if path is not None:
            path.chmod(0o600)

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def claim(self, announcement: bytes) -> bool:
        """Give the file an owner for ever, by what the server announces; False if it has another one."""
        with self._base:
            self._base.execute("begin immediate")
            found = self.owner()
            if found is None:
                self._base.execute("insert into owner values (?)", (announcement,))
            return found in (None, announcement)

    def owner(self) -> bytes | None:
        """What its owner announced; None where nobody has claimed it."""
        found = self._base.execute("select announcement from owner").fetchone()
        return None if found is None else bytes(found[0])

    def begin(self, place: bytes, context: bytes, opening: bytes) -> bool:
        """Give a place its context for ever; False if it has another one."""
        self._base.execute("insert or ignore into contexts values (?, ?, ?)", (place, context, opening))
        row = self._base.execute("select context from contexts where place = ?", (place,)).fetchone()
        return bytes(row[0]) == context

    def openings(self) -> list[bytes]:
        """What opened each round, in the order of places."""
        return [bytes(one) for (one,) in self._base.execute("select opening from contexts order by place")]

    def append(self, context: bytes, body: bytes, envelope: tuple[int, bytes] | None = None) -> None:
        """One more entry of a round's log, with the envelope of a client that it is about."""
        with self._base:
            self._base.execute("begin immediate")
            if envelope is not None:
                self._base.execute("insert into envelopes values (?, ?, ?)", (context, *envelope))
            self._append(context, body)

    def entries(self, context: bytes) -> list[bytes]:
        """A round's log, from its beginning."""
        return [body for body, _ in self.chain(context)]

    def chain(self, context: bytes) -> list[tuple[bytes, bytes]]:
        """A round's log, each entry with the hash of the log up to there."""
        rows = self._base.execute("select body, head from entries where context = ? order by number", (context,))
        return [(bytes(body), bytes(head)) for body, head in rows]

    def head(self, context: bytes) -> bytes:
        """The hash of a round's log, 32 bytes."""
        return self._last(context)[1]

    def envelope(self, context: bytes, client: int) -> bytes:
        """A client's envelope."""
        found = self._base.execute(
            "select body from envelopes where context = ? and client = ?", (context, client)
        ).fetchone()
        return bytes(found[0])

    def seal(
        self, context: bytes, body: bytes, entry: bytes, sums: bytes, states: Mapping[str, bytes], keep: int | None
    ) -> None:
        """Keep a round's noisy share, and what the noise of later rounds rests on, and drop its envelopes.

        Args:
            context: of which round.
            body: the message with the share.
            entry: the last of the round's log.
            sums: the share before its noise, for the server's own auditor.
            states: what the noise of later rounds rests on.
            keep: of how many rounds at the most to keep the sums, this one among them; None for all.

        Raises:
            sqlite3.IntegrityError: if it has one.
        """
        with self._base:
            self._base.execute("begin immediate")
            self._base.execute("insert into shares values (?, ?)", (context, body))
            self._base.execute("insert into sums (context, body) values (?, ?)", (context, sums))
            if keep is not None:
                self._base.execute("delete from sums where number <= (select max(number) from sums) - ?", (keep,))
            for name, state in states.items():
                self._base.execute("insert or replace into states values (?, ?)", (name, state))
            self._drop(context)
            self._append(context, entry)

    def end(self, context: bytes, entry: bytes) -> None:
        """The last entry of a round without a share; its envelopes are dropped."""
        with self._base:
            self._base.execute("begin immediate")
            self._drop(context)
            self._append(context, entry)

    def share(self, context: bytes) -> bytes | None:
        """A round's noisy share as it was first sent; None where there is none."""
        found = self._base.execute("select body from shares where context = ?", (context,)).fetchone()
        return None if found is None else bytes(found[0])

    def sums(self, context: bytes) -> bytes | None:
        """A round's share before its noise; None where it was not kept."""
        found = self._base.execute("select body from sums where context = ?", (context,)).fetchone()
        return None if found is None else bytes(found[0])

    def countersign(self, context: bytes, owner: int, server: int, body: bytes) -> bytes:
        """Keep a server's countersignature of the end of an owner's log; the first one, if there is one."""
        self._base.execute("insert or ignore into witnesses values (?, ?, ?, ?)", (context, owner, server, body))
        (kept,) = self._base.execute(
            "select body from witnesses where context = ? and owner = ? and server = ?", (context, owner, server)
        ).fetchone()
        return bytes(kept)

    def witnesses(self, owner: int, context: bytes | None = None) -> list[bytes]:
        """The countersignatures of an owner's logs, or of one of them, in the order of servers."""
        rows = self._base.execute(
            "select body from witnesses where owner = ? and (? is null or context = ?) order by server, context",
            (owner, context, context),
        )
        return [bytes(one) for (one,) in rows]

    def states(self, names: Iterable[str]) -> dict[str, bytes]:
        """What the noise of later rounds rests on, of those sums that have any."""
        rows = self._base.execute("select name, body from states")
        kept = {name: bytes(body) for name, body in rows}
        return {name: kept[name] for name in names if name in kept}

    def _append(self, context: bytes, body: bytes) -> None:
        number, head = self._last(context)
        after = digest(Use.TRANSCRIPT, head, body)
        self._base.execute("insert into entries values (?, ?, ?, ?)", (context, number + 1, body, after))

    def _last(self, context: bytes) -> tuple[int, bytes]:
        found = self._base.execute(
            "select number, head from entries where context = ? order by number desc limit 1", (context,)
        ).fetchone()
        return (0, digest(Use.TRANSCRIPT, context)) if found is None else (found[0], bytes(found[1]))

    def _drop(self, context: bytes) -> None:
        self._base.execute("delete from envelopes where context = ?", (context,))
