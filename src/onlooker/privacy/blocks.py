"""Long arrays, worked on a block at a time: what lies between two steps then stays in a core's cache."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from onlooker.types import Array, Row

BLOCK = 2**14
"""Coordinates: 128 KiB of floats, an eighth of a usual second-level cache, and long enough for numpy's own overhead."""


def blocks(count: int) -> Iterator[slice]:
    """Consecutive slices that cover 0 to `count` - 1.

    >>> list(blocks(20_000))
    [slice(0, 16384, None), slice(16384, 20000, None)]
    """
    return (slice(start, min(start + BLOCK, count)) for start in range(0, count, BLOCK))


def scratch(count: int) -> Row:
    """Room for a block of `count` coordinates, `float64[min(count, BLOCK)]`."""
    return np.empty(min(count, BLOCK))


def squared_norm(row: Array) -> float:
    """The squared L2 norm of a row of floats, in float64; infinity where it overflows, nan where the row has one.

    It is `np.square(row).sum()` to the last bit, on every machine, because it cuts where numpy's pairwise summation
    cuts; but the squares are never all in memory at once.

    >>> squared_norm(np.array([3.0, 4.0]))
    25.0
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return _pairwise(row, scratch(len(row)))


def _pairwise(row: Array, room: Row) -> float:
    if len(row) <= BLOCK:
        return float(np.square(row, out=room[: len(row)], dtype=np.float64).sum())
    half = len(row) // 2 - len(row) // 2 % 8
    return _pairwise(row[:half], room) + _pairwise(row[half:], room)
