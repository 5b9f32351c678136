"""The normal quantile of a 63-bit tail, from tables: near enough to decide nearly every coordinate of a noise.

Between two powers of two the tail is cut into 256 equal pieces, and on each a cubic through four Chebyshev points of
scipy's `ndtri` stands for it. Its error, at most `TABLE_ERROR`, is what whoever uses it must leave room for: measured
below 2^-42, and a test measures it again, in every piece. Four lookups and three products are about twice as fast as
`ndtri`, which asks of each value in which of three regions it lies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import special  # pyright: ignore[reportMissingTypeStubs]

normal_quantile = cast(Callable[[Any], Any], special.ndtri)
"""t from the mass of the standard normal distribution below it, elementwise."""
TABLE_ERROR = 2.0**-40
"""The most by which `tail_quantiles` is off, for tails of at least `SHALLOWEST`."""
SHALLOWEST = 2**42
_PIECE_BITS = 8
_OCTAVES = 63 - 42
_POINTS = 4
_MANTISSA_BITS, _EXPONENT_OF_ONE = 52, 1023
"""Of a float64, whose highest mantissa bits name the piece and whose others the place in it."""
_PLACE_BITS = _MANTISSA_BITS - _PIECE_BITS


def tail_quantiles(tails: NDArray[np.int64]) -> NDArray[np.float64]:
    """`float64[n]`, the t whose mass beyond is tail / 2^64, for tails from `SHALLOWEST` to 2^63 - 1 (`int64[n]`).

    What it says of smaller tails means nothing.

    >>> tail_quantiles(np.array([2**42, 2**60, 2**62, 2**63 - 1])).round(9).tolist()
    [5.035405969, 1.534120544, 0.67448975, 0.0]
    """
    places = tails.astype(np.float64)
    bits = places.view(np.int64)
    pieces = bits >> _PLACE_BITS
    pieces -= (_EXPONENT_OF_ONE + 42) << _PIECE_BITS
    bits &= 2**_PLACE_BITS - 1
    bits |= _EXPONENT_OF_ONE << _MANTISSA_BITS
    places -= 1 + 2.0 ** -(_PIECE_BITS + 1)
    tables = _tables()
    found = np.take(tables[-1], pieces, mode="clip")
    coefficients = np.empty_like(found)
    for table in tables[-2::-1]:
        found *= places
        np.take(table, pieces, mode="clip", out=coefficients)
        found += coefficients
    return found


@lru_cache(maxsize=1)
def _tables() -> NDArray[np.float64]:
    """`float64[4, pieces]`: the coefficients of each power of the distance from the middle of a piece, lowest first.

    The last piece is for tails that a float rounds up to 2^63.
    """
    pieces = np.arange((_OCTAVES << _PIECE_BITS) + 1)
    octaves, starts = pieces >> _PIECE_BITS, (pieces & (2**_PIECE_BITS - 1)) / 2**_PIECE_BITS
    points = np.cos((2 * np.arange(_POINTS) + 1) * np.pi / (2 * _POINTS))
    half = 2.0 ** -(_PIECE_BITS + 1)
    tails = np.ldexp(1 + starts[:, None] + half * (1 + points), octaves[:, None] + (42 - 64))
    values: NDArray[np.float64] = -normal_quantile(tails).T
    cubics = np.linalg.solve(np.vander(points, increasing=True), values)
    return cubics / half ** np.arange(_POINTS)[:, None]
