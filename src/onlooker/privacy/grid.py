"""Real rows on an integer grid and in the ring of two servers, so that sensitivity is counted, not estimated.

A row x is sent as the integers nearest to x 2^f / clip: in units of clip / 2^f. Where one client is the unit
(`Grid.encode_row`) the norm of the integers is checked exactly, so a row moves the sum by at most 2^f units,
which is the clip. Where a row is itself a sum over records (`Grid.encode_sum`), rounding it can move each
coordinate by one more unit, so each record is clipped a little lower (`Grid.record_bound`). Both are rule 8b
of docs/privacy.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy.blocks import blocks, scratch
from onlooker.privacy.rows import UNIT_ROUNDOFF, as_floats, finite_or_zero, shrunk
from onlooker.privacy.shares import Ring
from onlooker.types import Array, Row, Unit

_MOST_FRACTION_BITS = 30
_SMALLEST_CLIP, _LARGEST_CLIP = 1e-280, 1e280
_LARGEST_ENCODED = 2.0**62


@dataclass(frozen=True)
class Grid:
    """The integers that stand for the reals from -clip to clip, and the ring in which they are added.

    Attributes:
        clip: the largest L2 norm of one unit's row; it is 2^fraction_bits units of the grid.
        fraction_bits: f, from 0 to 30; 30 is what keeps a checked row's squared norm within 64 bits.
        ring_bits: 32 or 64; sums are taken modulo 2 to this power.

    Raises:
        TermsError: one of the three is out of range.
    """

    clip: float
    fraction_bits: int
    ring_bits: int

    def __post_init__(self) -> None:
        _check_clip(self.clip)
        _check_ring(self.ring_bits)
        if not 0 <= self.fraction_bits <= _MOST_FRACTION_BITS:
            raise TermsError(f"fraction-bits = {self.fraction_bits} must be from 0 to {_MOST_FRACTION_BITS}.")

    def encode_row(self, row: ArrayLike, bound: float | None = None) -> NDArray[np.int64]:
        """One unit's row, `float64[d]`, as `int64[d]` whose norm is checked in integers: see `put_row`."""
        values = as_floats(row)
        encoded = np.empty(len(values), dtype=np.int64)
        self.put_row(values, encoded, bound)
        return encoded

    def put_row(self, row: ArrayLike, out: Array, bound: float | None = None) -> None:
        """Write one unit's row, `float64[d]`, as integers into `out`.

        **Guarantee**: sum_i x_i^2 <= (bound / clip 2^f)^2, exactly, for every input.

        A row with a value that is not finite becomes zero as a whole; a row that is too long is scaled down;
        minus zero becomes 0; an empty row stays empty.

        Rounding adds about d / 12 to the squared norm, with a deviation of L / sqrt 3 for a norm of L units.
        So no row keeps more than the bound less d / (24 L) + 2 units, which leaves seven deviations. A row
        that is still too long (its coordinates all just above a half, say) is rounded toward zero instead.

        Proof that the check is exact. Let S be the exact sum of squares, and s the same in float64. The x_i are
        integers as floats; no square goes through more than d roundings, in whatever order they are added, and
        each takes off at most a factor 1 - u, so s >= S (1 - u)^d >= S (1 - d u). If s <= B (1 - (d + 4) u), as
        computed, with three more roundings, then S <= B, the squared bound. Otherwise the row is rounded again,
        and summed in integers.

        Args:
            row: the row, anything that numpy can convert.
            out: `int64[d]`, or the ring's own `uint32[d]` or `uint64[d]`; all of it is overwritten.
            bound: the largest L2 norm, at most `clip`; `clip` itself where absent.

        Raises:
            TermsError: `bound` is out of range.
        """
        bound = self._checked_bound(bound)
        longest = max(1.0, bound / self.clip * 2.0**self.fraction_bits)
        squared_bound = math.floor((Fraction(bound) / Fraction(self.clip) * 2**self.fraction_bits) ** 2)
        values = as_floats(row)
        allowance = min(0.5, len(values) / (24 * longest**2) + 2 / longest)
        values, factor = shrunk(values, bound * (1 - allowance))
        scale = factor / self._unit  # no over- nor underflow: 2^f bounds over the clip and a norm, or 2^f over the clip
        square = _round(values, scale, out)
        if not square <= squared_bound * (1 - (len(values) + 4) * UNIT_ROUNDOFF):
            units = np.multiply(values, scale, dtype=np.float64)
            np.copyto(out, _within(units, squared_bound), casting="unsafe")

    def encode_sum(self, row: ArrayLike) -> NDArray[np.int64]:
        """A sum over records, `float64[d]`, as `int64[d]`: see `put_sum`."""
        values = as_floats(row)
        encoded = np.empty(len(values), dtype=np.int64)
        self.put_sum(values, encoded)
        return encoded

    def put_sum(self, row: ArrayLike, out: Array) -> None:
        """Write a sum over records, `float64[d]`, as integers into `out`: rounded, with no check of the norm.

        **Guarantee**: if each record was clipped to `record_bound`, leaving one out changes the result by at
        most 2^f units in L2 norm. Records that are not finite must have become zero before they were added,
        as `clip` does; a sum that is not finite all the same becomes zero as a whole.

        Args:
            row: the sum, anything that numpy can convert.
            out: as in `put_row`.
        """
        values = finite_or_zero(as_floats(row))
        room = scratch(len(values))
        for block in blocks(len(values)):
            units = room[: len(out[block])]
            with np.errstate(over="ignore"):
                np.divide(values[block], self._unit, out=units, dtype=np.float64)
            np.rint(units, out=units)
            # Beyond int64 there is no sum of clipped records; and a clamp moves no two sums further apart.
            np.clip(units, -_LARGEST_ENCODED, _LARGEST_ENCODED, out=units)
            # By way of int64 only, a float wraps around in the ring of 32 bits.
            np.copyto(out[block], units.astype(np.int64), casting="unsafe")

    def record_bound(self, d: int, max_records: int) -> float:
        """The clip C' of one record, so that one record moves a rounded sum of records by at most `clip`.

        Proof. Let a record be clipped in float64 (its float32 gradient is exact there), so that its norm is
        at most C' (1 + a), a = (d + 8) u. A float64 sum of at most B such rows, in any order, is off by at
        most 1.01 B u times the sum of their norms, in L2 norm; scaling it to the grid, by 2 u times the same.
        With the record and without, that is at most 2 (1.01 B + 2) B C' (1 + a) u <= 7 B^2 C' (1 + a) u.
        Rounding to integers moves the difference by at most one unit a coordinate, sqrt(d) in all. So the
        integers differ by at most C' (1 + a) (1 + 7 B^2 u) 2^f / clip + sqrt(d), and C' is what makes that
        2^f.

        Args:
            d: how many coordinates.
            max_records: B, the most records in one sum.

        Raises:
            TermsError: the grid is so coarse, or the records so many, that C' would be below half of the
            clip.
        """
        _check.at_least(0, d=d)
        _check.at_least(1, max_records=max_records)
        kept = 1 - math.sqrt(d) / 2.0**self.fraction_bits
        floats = (1 + (d + 8) * UNIT_ROUNDOFF) * (1 + 7 * float(max_records) ** 2 * UNIT_ROUNDOFF)
        if kept < 0.5 or floats > 2:
            raise TermsError(
                f"data.max-records = {max_records} and {d} parameters leave less than half of the clip at"
                f" {self.fraction_bits} fraction bits; servers.ring-bits = 64 or fewer of either would do."
            )
        # The last factor makes up for the ten roundings of these very lines.
        return self.clip * kept / floats * (1 - 2.0**-49)

    def decode(self, total: NDArray[np.int64]) -> Row:
        """The reals, `float64[d]`, that a sum on the grid stands for."""
        return total.astype(np.float64) * (self.clip / 2.0**self.fraction_bits)

    def to_ring(self, values: NDArray[np.int64]) -> Ring:
        """The integers modulo 2^ring_bits, `uint32[d]` or `uint64[d]`."""
        return cast(Ring, values.astype(f"u{self.ring_bits // 8}"))

    def from_ring(self, values: Ring) -> NDArray[np.int64]:
        """The representatives from -2^(ring_bits - 1) to 2^(ring_bits - 1) - 1, `int64[d]`.

        Raises:
            ValueError: the values are of another ring.
        """
        if values.dtype != f"u{self.ring_bits // 8}":
            raise ValueError(f"a ring of {self.ring_bits} bits has no values of type {values.dtype}")
        return values.view(f"i{self.ring_bits // 8}").astype(np.int64)

    @property
    def _unit(self) -> float:
        """The length of one unit. Dividing by it rounds once: the power of two is exact."""
        return self.clip / 2.0**self.fraction_bits

    def _checked_bound(self, bound: float | None) -> float:
        if bound is None:
            return self.clip
        _check_clip(bound)
        if bound > self.clip:
            raise TermsError(f"bound = {bound} must be at most the clip of the grid, {self.clip}.")
        return bound


def clip(arrays: Sequence[ArrayLike], bound: float) -> Row:
    """All arrays as one row `float64[d]`, scaled down so that its L2 norm is at most `bound` (rule 1).

    Arrays are laid one after the other, flattened; scalars, integers, booleans and halves are converted to
    float64. If one value is not finite the whole row is zero. No arrays make an empty row.

    **Guarantee**: the norm of the result is at most `bound` in exact arithmetic (proof at `rows.shrunk`).

    >>> clip([[3.0, 0.0], 4], 1.0).round(12).tolist()
    [0.6, 0.0, 0.8]
    >>> clip([[float("nan")], 1], 1.0).tolist()
    [0.0, 0.0]

    Raises:
        TermsError: `bound` is not from 1e-280 to 1e280.
    """
    _check_clip(bound)
    row, factor = shrunk(_flat(arrays), bound)
    return row if factor == 1 else row * factor


def _round(values: Array, scale: float, out: Array) -> float:
    """Write scale times the values into `out`, rounded to integers; their squared norm in float64 arithmetic."""
    signed, square = out.view(f"i{out.itemsize}"), 0.0
    room = scratch(len(values))
    for block in blocks(len(values)):
        units = room[: len(signed[block])]
        np.multiply(values[block], scale, out=units, dtype=np.float64)
        np.rint(units, out=units)
        square += float(np.einsum("i,i->", units, units))  # not by BLAS, whose threads cost more than the sum
        np.copyto(signed[block], units, casting="unsafe")
    return square


def _within(units: Row, squared_bound: int) -> NDArray[np.int64]:
    """The units rounded to the nearest integers; toward zero, if the exact squared norm would be above the bound."""
    encoded = np.rint(units).astype(np.int64)
    # The norm is at most 2^30 + sqrt(d) / 2 units, so the product cannot leave int64. One truncation is
    # enough, as the units are within the bound; the loop makes that certain without trusting the floats.
    while int(encoded @ encoded) > squared_bound:
        encoded = np.trunc(units).astype(np.int64)
        units *= 1 - 2.0**-10
    return encoded


def choose_fraction_bits(
    ring_bits: int, rows: int, noise_multiplier: float, servers: int, *, dimension: int, unit: Unit, finer_bits: int = 0
) -> int:
    """The finest grid on which a round's sum, with its noise, stays within a quarter of the ring.

    That is f = ring_bits - 2 - ceil(log2(rows + 6 z sqrt(servers))), at most 30: `rows` units of 2^f each,
    all in one coordinate, and six deviations of the noise add up to at most 2^(ring_bits - 2). Nor is what one
    adder draws wider than 2^40 units, which is how far its sampler is proved.

    >>> choose_fraction_bits(32, 10, 2.064, 2, dimension=6_500_000, unit="client")
    25

    Args:
        ring_bits: 32 or 64.
        rows: the most units that one round can sum: clients, or records over all clients.
        noise_multiplier: z, the noise that one server adds, in clips.
        servers: how many parties add it, servers or clients.
        dimension: how many coordinates a row has.
        unit: "record" and "person" rows are sums, and lose sqrt(d) / 2^f of the clip to rounding (at most a
            quarter); others lose d / (24 4^f) (at most a tenth).
        finer_bits: by how many bits the noise is drawn finer than the grid.

    Raises:
        TermsError: the ring is too narrow for that.
    """
    _check_ring(ring_bits)
    _check.at_least(1, rows=rows, servers=servers, dimension=dimension)
    _check.non_negative(noise_multiplier=noise_multiplier)
    widest = math.ceil(min(rows + 6 * noise_multiplier * math.sqrt(servers), 2.0**ring_bits))
    room = (widest - 1).bit_length() + 2
    needed = _needed_fraction_bits(dimension, unit)
    widest_sampled = 40 - finer_bits - math.ceil(math.log2(max(1.0, noise_multiplier)))
    finest = min(ring_bits - room, _MOST_FRACTION_BITS, widest_sampled)
    if finest < needed:
        remedy = "64" if ring_bits < 64 and needed + room <= 64 else "fewer rows, less noise or fewer parameters"
        raise TermsError(
            f"servers.ring-bits = {ring_bits} is too narrow: a sum of {rows} rows with its noise takes {room}"
            f" bits and the rounding of {dimension} parameters takes {needed}; {remedy} would do."
        )
    return finest


def _needed_fraction_bits(dimension: int, unit: Unit) -> int:
    """The fewest f at which rounding takes no more of the clip than a quarter (sums) or a tenth (rows)."""
    least_power = 16 * dimension if unit in ("record", "person") else dimension / 2.4
    return max(0, math.ceil(math.log2(least_power) / 2))


def _flat(arrays: Sequence[ArrayLike]) -> Row:
    with np.errstate(over="ignore"):
        flat = [np.asarray(array, dtype=np.float64).ravel() for array in arrays]
    return np.concatenate([np.empty(0), *flat])


def _check_clip(clip: float) -> None:
    if not _SMALLEST_CLIP <= clip <= _LARGEST_CLIP:
        raise TermsError(f"clip = {clip} must be a number from {_SMALLEST_CLIP} to {_LARGEST_CLIP}.")


def _check_ring(ring_bits: int) -> None:
    if ring_bits not in (32, 64):
        raise TermsError(f"servers.ring-bits = {ring_bits} is not known; choose 32 or 64.")
