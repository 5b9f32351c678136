"""Additive shares in the ring of integers modulo 2^32 or 2^64: any n - 1 of n shares say nothing.

Server 0 holds the values less all masks; each other server holds a mask, which it can expand itself from a
key of 32 bytes. To whoever lacks the key of one mask, all shares but that one are as good as uniform,
whatever the values are: a computational guarantee, that of AES-256 in counter mode. Numpy's unsigned integers
wrap, and that is all of the ring's arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from onlooker import _check
from onlooker.privacy.blocks import BLOCK, blocks
from onlooker.privacy.random import Stream

Ring: TypeAlias = NDArray[np.uint32] | NDArray[np.uint64]
"""`uint32[d]` or `uint64[d]`: integers modulo 2^32 or 2^64."""
_RING_TYPES = (np.dtype(np.uint32), np.dtype(np.uint64))


def split(values: Ring, servers: int, streams: Sequence[Stream]) -> tuple[Ring, ...]:
    """Cut `values` into one share for each server: the difference first, then a mask from each stream.

    >>> shares = split(np.array([1, 2], dtype=np.uint32), 2, [Stream(bytes(32))])
    >>> [share.tolist() for share in shares]
    [[2269080101, 1987493728], [2025887196, 2307473570]]
    >>> combine(shares).tolist()
    [1, 2]

    Args:
        values: `uint32[d]` or `uint64[d]`, left as they are.
        servers: how many shares, at least 2.
        streams: a secret stream for each server but the first, used for nothing else.

    Raises:
        TermsError: `servers` is below 2: a single share would be the values themselves.
        ValueError: the streams are not one for each mask, or the values are of another type.
    """
    _check.at_least(2, servers=servers)
    if len(streams) != servers - 1:
        raise ValueError(f"{servers} servers need {servers - 1} streams for their masks, not {len(streams)}")
    _same_ring(values)
    masks = [mask(stream, len(values), 8 * values.itemsize) for stream in streams]
    difference: Ring = values - masks[0]
    for one in masks[1:]:
        np.subtract(difference, one, out=difference)
    return difference, *masks


def split_into(totals: Sequence[Ring], values: Ring, streams: Sequence[Stream]) -> None:
    """Add to each server's running sum its share of `values`: what `split` cuts, added, bit for bit.

    No share is ever whole in memory, which is why a simulator of all clients prefers this. Nothing but the sums
    is left of them: `values` end as the first server's share.

    Args:
        totals: the running sum of each server, at least two, changed in place.
        values: `uint32[d]` or `uint64[d]`, overwritten.
        streams: as for `split`.

    Raises:
        ValueError: the streams are not one for each mask, or the arrays are not of one ring and one length.
    """
    _same_ring(values, *totals)
    room = np.empty(min(len(values), BLOCK), dtype=values.dtype)
    for block in blocks(len(values)):
        rest = values[block]
        masked = room[: len(rest)]
        for total, stream in zip(totals[1:], streams, strict=True):
            stream.fill(masked)
            np.subtract(rest, masked, out=rest)
            np.add(total[block], masked, out=total[block])
        np.add(totals[0][block], rest, out=totals[0][block])


def mask(stream: Stream, count: int, ring_bits: int) -> Ring:
    """The next `count` uniform elements of the ring: what a server expands from the key that it was sent.

    An element is the next ring_bits / 8 bytes of the stream, the lowest first, on every machine.
    """
    drawn = cast(Ring, np.empty(count, dtype=f"u{ring_bits // 8}"))
    stream.fill(drawn)
    return drawn


def move_by_mask(by: np.ufunc, total: Ring, stream: Stream) -> None:
    """Add to a running sum, or subtract from it, what `mask` would give, block by block: no mask is whole in memory.

    Args:
        by: `np.add` or `np.subtract`.
        total: `uint32[d]` or `uint64[d]`, changed in place.
        stream: that of the mask.

    Raises:
        ValueError: the sum is of another type.
    """
    _same_ring(total)
    room = np.empty(min(len(total), BLOCK), dtype=total.dtype)
    for block in blocks(len(total)):
        drawn = room[: len(total[block])]
        stream.fill(drawn)
        by(total[block], drawn, out=total[block])


def combine(shares: Sequence[Ring]) -> Ring:
    """The values that `shares` were cut from: their sum in the ring.

    Raises:
        ValueError: there are no shares, or they are not of one ring and one length.
    """
    if not shares:
        raise ValueError("no shares to combine")
    _same_ring(*shares)
    total = shares[0].copy()
    for share in shares[1:]:
        np.add(total, share, out=total)
    return total


def add(a: Ring, b: Ring) -> Ring:
    """The sum of two shares of one server, which is its share of the sum."""
    return combine((a, b))


def _same_ring(*arrays: Ring) -> None:
    # Numpy would widen or broadcast them, and the sum would lose its modulus without a word.
    if arrays[0].dtype not in _RING_TYPES or len({(array.dtype, array.shape) for array in arrays}) != 1:
        kinds = ", ".join(f"{array.dtype}{list(array.shape)}" for array in arrays)
        raise ValueError(f"shares must be uint32 or uint64, of one type and length, not {kinds}")
