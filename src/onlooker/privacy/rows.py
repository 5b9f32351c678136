"""Rows of floats on their way to the grid: converted, and clipped without trusting float norms.

The floats are bounded with u = 2^-53 and with sums taken in any order, so a norm computed over d coordinates is within
a factor 1 + (d / 2 + 2) u of the true one (Higham, Accuracy and Stability of Numerical Algorithms, ch. 4).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from onlooker.privacy.blocks import blocks, squared_norm
from onlooker.types import Array

UNIT_ROUNDOFF = 2.0**-53
_LEAST_PLAIN, _MOST_PLAIN = 2.0**-400, 2.0**400
"""A squared norm between these was not touched by overflow, nor noticeably by underflow."""


def as_floats(row: ArrayLike) -> Array:
    """One row, flattened: as it is if it is `float64[d]` or `float32[d]`, which blocks convert; else as float64."""
    values = np.asarray(row)
    with np.errstate(over="ignore"):
        exact = values if values.dtype.name in ("float64", "float32") else values.astype(np.float64)
    return exact.ravel()


def finite_or_zero(row: Array) -> Array:
    """The row, or zeros in its place if one value is not finite (rule 1)."""
    return row if all(bool(np.isfinite(row[block]).all()) for block in blocks(len(row))) else np.zeros_like(row)


def shrunk(row: Array, bound: float) -> tuple[Array, float]:
    """A row, or a power of two times it, and the factor that takes its L2 norm to `bound`; 1 where it is within.

    **Guarantee**: the norm of the product, rounded to float64, is at most `bound` in exact arithmetic. Proof: where
    a square could overflow, or matter and underflow, the row is first scaled by a power of two; so what underflows
    is below 2^-200 of the norm. The float norm is then too small by at most a factor 1 - (d / 2 + 2) u, and the
    roundings of the factor and of the product add 3 u: less than (d + 8) u in all. The factor takes the float norm
    to (1 - (d + 8) u) bound, and is 1 if it is below that.

    A row with a value that is not finite becomes zero as a whole.

    Args:
        row: `float64[d]` or `float32[d]`.
        bound: from 1e-280 to 1e280.
    """
    allowed = bound * (1 - (len(row) + 8) * UNIT_ROUNDOFF)
    square = squared_norm(row)
    if _LEAST_PLAIN < square < _MOST_PLAIN and bound > _LEAST_PLAIN:
        return row, 1.0 if math.sqrt(square) <= allowed else allowed / math.sqrt(square)
    row = finite_or_zero(row.astype(np.float64))
    largest = float(np.abs(row).max(initial=0.0))
    if largest == 0:
        return row, 1.0
    exponent = math.frexp(largest)[1]
    scaled = np.ldexp(row, -exponent)
    scaled_norm = math.sqrt(squared_norm(scaled))
    with np.errstate(over="ignore"):
        norm = float(np.ldexp(scaled_norm, exponent))
    return (row, 1.0) if norm <= allowed else (scaled, allowed / scaled_norm)
