"""The ends of servers' logs that a coordinator was told, which it must keep for the whole task.

From them a server that was put back from a backup learns that it was (`secagg.memory`).
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from onlooker._stored import line_of, write_private, writing
from onlooker.errors import FolderError, MessageError
from onlooker.secagg.wire import Signed


class Ends:
    """Every server's, in one file of a line each, on disk before anything follows from it.

    Args:
        path: of the file; None for memory, which forgets.
        servers: how many there are.

    Raises:
        FolderError: if the file is damaged, or cannot be written.
    """

    def __init__(self, path: Path | None, servers: int) -> None:
        self._path = path
        self._of: list[list[Signed]] = [[] for _ in range(servers)]
        if path is not None and not path.exists():
            with writing(path):
                write_private(path, b"")  # whose name is then on disk, too
        elif path is not None:
            whole, _, torn = path.read_bytes().rpartition(b"\n")
            for line in whole.splitlines():
                self._read(line, path)
            if torn:  # what a death left half written was never told on
                os.truncate(path, path.stat().st_size - len(torn))

    def of(self, server: int) -> list[Signed]:
        """Those of one server, in the order in which they were heard."""
        return list(self._of[server])

    def require(self, rounds: int) -> None:
        """Refuse to go on with a file that was lost or put back, whose coordinator would hide what it has heard.

        Args:
            rounds: that are finished, each after an end of every server's log was kept.

        Raises:
            FolderError: if a server has fewer ends.
        """
        if any(len(some) < rounds for some in self._of):
            raise FolderError(
                f"{self._path} lacks ends of servers' logs that were heard in {rounds} finished rounds, so it is a new "
                "file or an old copy; put back the one that was in use."
            )

    def add(self, server: int, end: Signed) -> None:
        """Keep one more, if it is one more."""
        if end in self._of[server]:
            return
        if self._path is not None:
            with writing(self._path), open(self._path, "ab") as file:
                file.write(line_of({"server": server, "end": end.to_bytes().hex()}))
                file.flush()
                os.fsync(file.fileno())
        self._of[server].append(end)

    def _read(self, line: bytes, path: Path) -> None:
        try:
            kept = json.loads(line)
            self._of[kept["server"]].append(Signed.from_bytes(bytes.fromhex(kept["end"])))
        except (ValueError, TypeError, KeyError, IndexError, MessageError) as error:
            raise FolderError(f"{path} is damaged: {line[:60]!r} is no end of a server's log; put it back.") from error
