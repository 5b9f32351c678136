"""Rows too many to copy, of which a few change at a time, so that a death never tears what was committed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onlooker._stored import writing
from onlooker.types import Vector

_NEVER = 2


@dataclass(frozen=True, eq=False)
class Shadowed:
    """Rows with two places each: the one in use, and a shadow that the next change goes to.

    Where the places are a file, whoever has written `used` down can read the rows again, whatever was changed once
    after that: a change touches no place that is in use. An object is right until the next change but one.

    Attributes:
        start: `float32[a]`, every row that was never changed.
        places: `float32[2, n, a]`.
        used: `uint8[n]`, which place each row is at; 2 where it is still `start`.
        path: the file that `places` is a view of; None where it is an array.
    """

    start: Vector
    places: NDArray[np.float32]
    used: NDArray[np.uint8]
    path: Path | None = None

    @staticmethod
    def in_memory(count: int, start: Vector) -> Shadowed:
        """`count` rows that are `start`."""
        return Shadowed(start, np.zeros((2, count, len(start)), dtype=np.float32), _unused(count))

    @staticmethod
    def on_disk(count: int, start: Vector, path: Path, used: NDArray[np.uint8] | None = None) -> Shadowed:
        """Rows in a file, which takes no more of a disk than was written.

        Args:
            count: n.
            start: what a row is at first.
            path: of the file; it is made anew where nothing was changed yet.
            used: what was written down with it; None where nothing was changed yet.

        Raises:
            OSError: if it cannot be opened or made.
            ValueError: if it is of another size.
        """
        shape = (2, count, len(start))
        size = 4 * int(np.prod(shape))
        if used is None:
            with open(path, "wb") as file:
                file.truncate(size)
        elif path.stat().st_size != size:
            raise ValueError(f"it has {path.stat().st_size} bytes and not {size}")
        return Shadowed(
            start, np.memmap(path, np.float32, "r", shape=shape), _unused(count) if used is None else used, path
        )

    def __len__(self) -> int:
        return len(self.used)

    def take(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Some rows, `float32[k, a]`, as a copy."""
        chosen = np.asarray(rows, dtype=np.int64)
        used = self.used[chosen]
        found = self.places[used % _NEVER, chosen]
        found[used == _NEVER] = self.start
        return found

    def changed(self, rows: Sequence[int], values: NDArray[np.float32]) -> Shadowed:
        """The same with some rows changed; in a file they are there, but for good only after `flush`.

        Raises:
            FolderError: if the file cannot be written.
        """
        chosen = np.asarray(rows, dtype=np.int64)
        used = self.used.copy()
        used[chosen] = (used[chosen] + 1) % _NEVER
        if self.path is None:
            places = self.places.copy()
            places[used[chosen], chosen] = values
            return replace(self, places=places, used=used)
        # Not through the map, in which a full disk is a signal and no error.
        with writing(self.path), open(self.path, "r+b", buffering=0) as file:
            for row, value in zip(rows, values, strict=True):
                offset = 4 * len(self.start) * (int(used[row]) * len(self) + int(row))
                os.pwrite(file.fileno(), value.tobytes(), offset)
        return replace(self, used=used)

    def flush(self) -> None:
        """Return once every change is on disk.

        Raises:
            FolderError: if it cannot be.
        """
        if self.path is not None:
            with writing(self.path), open(self.path, "r+b", buffering=0) as file:
                os.fsync(file.fileno())


def _unused(count: int) -> NDArray[np.uint8]:
    return np.full(count, _NEVER, dtype=np.uint8)
