"""Memory that the processes of a run share: without a name, so that it is gone with the last of them, however they end.

What is written here is never copied through a pipe: a message between processes carries places in it.
"""

from __future__ import annotations

import mmap
import os
import pickle
import tempfile
from multiprocessing import reduction
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import DTypeLike

from onlooker.types import Array

_ALIGNMENT = 64
_MEMORY = Path("/dev/shm")


class Arena:
    """A stretch of shared memory that can grow; arrays in it are views.

    A view of before it grew stays what it was, and shows the same memory.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        self._descriptor = _anonymous() if descriptor is None else descriptor
        self._mapped: mmap.mmap | None = None
        self._size = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self._descriptor),)

    def reach(self, size: int) -> None:
        """Make `size` bytes of it usable here."""
        if size <= self._size:
            return
        if os.fstat(self._descriptor).st_size < size:
            os.ftruncate(self._descriptor, size)
        self._size = os.fstat(self._descriptor).st_size
        self._mapped = mmap.mmap(self._descriptor, self._size)

    def array(self, offset: int, shape: tuple[int, ...], kind: DTypeLike) -> Array:
        """A view of the memory from `offset`, in bytes."""
        count = int(np.prod(shape, dtype=np.int64))
        if not count:
            return np.empty(shape, kind)
        self.reach(offset + count * np.dtype(kind).itemsize)
        assert self._mapped is not None
        return np.frombuffer(self._mapped, kind, count, offset).reshape(shape)

    def close(self) -> None:
        """Give the file back; views stay usable for as long as somebody holds them."""
        self._mapped = None
        os.close(self._descriptor)


class Layout:
    """Places in an arena, given out one after another."""

    def __init__(self, start: int = 0) -> None:
        self.size = -(-start // _ALIGNMENT) * _ALIGNMENT

    def place(self, shape: tuple[int, ...], kind: DTypeLike) -> int:
        """The offset of the next array of this shape."""
        offset = self.size
        count = int(np.prod(shape, dtype=np.int64))
        self.size += -(-count * np.dtype(kind).itemsize // _ALIGNMENT) * _ALIGNMENT
        return offset


class Parcel:
    """An object that another process unpacks without copying the arrays in it.

    A process that is forked has the object itself; to any other its arrays go through an arena.
    """

    def __init__(self, content: object) -> None:
        self.content = content

    def __reduce__(self) -> tuple[Any, ...]:
        buffers: list[pickle.PickleBuffer] = []
        body = pickle.dumps(self.content, protocol=5, buffer_callback=buffers.append)
        layout, raw = Layout(), [buffer.raw() for buffer in buffers]
        places = [(layout.place((len(one),), np.uint8), len(one)) for one in raw]
        arena = Arena()
        arena.reach(layout.size)
        for (offset, size), one in zip(places, raw, strict=True):
            arena.array(offset, (size,), np.uint8)[:] = np.asarray(one)
        return _unpacked, (body, arena, places)


def _unpacked(body: bytes, arena: Arena, places: list[tuple[int, int]]) -> Parcel:
    arrays = [arena.array(offset, (size,), np.uint8) for offset, size in places]
    return Parcel(pickle.loads(body, buffers=arrays))


def _received(duplicate: Any) -> Arena:
    return Arena(cast(int, duplicate.detach()))


def _anonymous() -> int:
    folder = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    descriptor, name = tempfile.mkstemp(prefix="onlooker-", dir=folder)
    os.unlink(name)
    return descriptor
