"""Gaussian noise rounded to the nearest integer, drawn exactly (rule 8 of docs/privacy.md).

For an integer x, x + round(N) = round(x + N): a rounded Gaussian on integers is a Gaussian that was processed
afterwards, so whatever is proved about the Gaussian holds for it. That is worth nothing if the sampler is
only nearly right, because each of some 10^8 coordinates adds its own error to delta: a float64 inverse of the
distribution function errs by about 2^-52 sigma in total variation, at every one. So this sampler does not.

**Proof.** Let Q(t) = erfc(t / sqrt 2) / 2 be the mass of the normal distribution above t. A coordinate is a
fair sign and a magnitude n: the bin [n - 1/2, n + 1/2] that holds sigma t, where Q(t) = U is uniform on
(0, 1/2). The first word of a coordinate gives the sign (its highest bit) and a tail k (its other 63): U is
uniform on [k, k + 1] / 2^64. Each further word cuts that interval into 2^64 equal parts and picks one. If the
interval lies wholly within one bin, n is that bin whatever U would turn out to be; otherwise one more word is
drawn. The intervals shrink to U, which is no edge of a bin with probability 1, so the loop ends and n has
exactly its distribution. It remains that "wholly within" is never claimed falsely. Two ways lead to it.

1. *The fast way*, for k >= 2^42, in float64. Take sigma t at the middle of the interval, and accept its
   nearest integer if the next edge is over 2^-40 sigma + 2^-50 away. The errors, in units of sigma:

   - A factor 1 + r on U moves t by at most 1.26 r, since |Q / Q'| <= sqrt(pi / 2). The interval reaches no
     further than r = 2^-43 (0.16 x 2^-40); rounding k and k + 1/2 to floats makes r <= 2^-51.
   - `ndtri` is assumed to be within 2^-41 for U from 2^-22 to 1/2 (0.5 x 2^-40). Measured: within 2^-49; a
     test measures it again, and fails above 2^-47.
   - The product with sigma rounds by less than 2^-53 x 5.1.

   Together they stay below 0.7 x 2^-40. The distance to the edge is exact but for one rounding near 1/2.
2. *The slow way*, for all others, in integers: floor(2^(b + 64) Q(edge)) against the ends of an interval of b
   bits, at b + 128 bits of precision, and undecided within 2 of equality. mpmath's erfc is assumed to err by
   less than 2^40 units in its last place, and conditioning costs 2^10 more; a test finds one unit.

Total variation left: 0. Left to trust: that the stream is uniform to whoever lacks its key.

**Several adders.** Where m parties add R_j = round(N_j), each of deviation sigma, their sum is not one rounded
Gaussian, but as good as one of deviation sqrt(m) sigma. For let U_j be uniform on [-1/2, 1/2] and f the
density of N_j + U_j, whose values at the integers are the probabilities of R_j. The m-fold convolution of f,
taken at the integers, is the distribution of round(N_1 + ... + N_m + U_2 + ... + U_m), a Gaussian processed
afterwards. It differs from that of R_1 + ... + R_m only by sums that stand for integrals, m - 1 times: by
Poisson's formula, each by less than 0.6 exp(-(pi sigma)^2) / sigma at any integer, since the transform of f is
below exp(-(sigma t)^2 / 2). Over the integers within 9 sqrt(m) sigma^2, beyond which there is less than that
again, the total variation is below 12 m^1.5 sigma exp(-(pi sigma)^2) a coordinate: for sigma >=
`LEAST_ADDED_SIGMA` and a million adders, below 10^-260.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import mpmath  # pyright: ignore[reportMissingTypeStubs]
import numpy as np
from numpy.typing import NDArray
from scipy import special  # pyright: ignore[reportMissingTypeStubs]

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy.random import Stream

_normal_quantile = cast(Callable[[Any], Any], special.ndtri)
LEAST_ADDED_SIGMA = 8.0
"""In grid units: from here on the noises of several adders are claimed as one."""
_TAIL = 2**63 - 1
_SHALLOWEST = 2**42
_SMALLEST_SIGMA, _LARGEST_SIGMA = 2.0**-40, 2.0**40
_SMALLEST_FLOAT = 5e-324


def rounded_gaussian(sigma: float, count: int, stream: Stream, *, chunk: int = 2**14) -> NDArray[np.int64]:
    """Draw `int64[count]`, each coordinate round(N(0, sigma^2)), exactly and independently.

    The result depends on `sigma` and the bits of the stream alone: not on `chunk`, nor on the machine. The
    stream is used in this order: one 64-bit word for each coordinate, then the words that refine those that
    need it, coordinate by coordinate.

    >>> rounded_gaussian(1.5, 6, Stream(bytes(32))).tolist()
    [-3, -3, -1, -3, 0, 2]

    Args:
        sigma: standard deviation before rounding, in grid units, taken at its exact value: 0 (nothing is
            drawn from the stream), or from 2^-40 to 2^40.
        count: how many coordinates.
        stream: where the bits come from.
        chunk: how many coordinates are worked on at a time; changes memory and speed only.

    Raises:
        TermsError: `sigma` is out of range, or `count` is negative.
    """
    _check.non_negative(sigma=sigma)
    _check.at_least(0, count=count)
    if sigma == 0:
        return np.zeros(count, dtype=np.int64)
    if not _SMALLEST_SIGMA <= sigma <= _LARGEST_SIGMA:
        raise TermsError(f"sigma = {sigma} must be 0, or from 2^-40 to 2^40 grid units.")
    drawn = np.empty(count, dtype=np.int64)
    doubtful = [np.empty(0, dtype=np.int64)]
    for start in range(0, count, chunk):
        part = drawn[start : start + chunk]
        doubtful.append(start + _draw_candidates(part, sigma, stream.integers(len(part))))
    bins = _Bins(sigma)
    for index in np.concatenate(doubtful).tolist():
        drawn[index] = _refine(bins, int(drawn[index]), stream)
    return drawn


def sampler_error(sigma: float, count: int) -> float:
    """The total variation between `count` coordinates of `rounded_gaussian` and what they stand for: none.

    A release pays (1 + e^epsilon) times this in delta (rule 8 of docs/privacy.md). It is asked for by `sigma`
    and `count` because a sampler that errs answers by them: a float64 inverse errs by 2^-52 sigma count.

    >>> sampler_error(1.4e5, 6_500_000)
    0.0
    """
    del sigma, count
    return 0.0


def _draw_candidates(part: NDArray[np.int64], sigma: float, words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Fill `part` by the fast way; where that does not decide, leave the word there and return the place."""
    signed = words.view(np.int64)
    tail = signed & np.int64(_TAIL)
    magnitude = _normal_quantile((tail.astype(np.float64) + 0.5) * 2.0**-64)
    magnitude *= -sigma
    nearest = np.rint(magnitude)
    magnitude -= nearest
    doubtful = np.abs(magnitude, out=magnitude) > 0.5 - (sigma * 2.0**-40 + 2.0**-50)
    doubtful |= tail < _SHALLOWEST
    part[:] = nearest
    np.negative(part, out=part, where=signed < 0)
    np.copyto(part, signed, where=doubtful)
    return np.flatnonzero(doubtful)


def _refine(bins: _Bins, word: int, stream: Stream) -> int:
    """Decide one coordinate by the slow way, from its first word (as int64) and as many more as it takes."""
    tail, bits = word & _TAIL, 64
    while (magnitude := bins.holding(tail, bits)) is None:
        tail, bits = tail << 64 | int(stream.integers(1)[0]), bits + 64
    return -magnitude if word < 0 else magnitude


class _Bins:
    """The bins of the magnitude, as intervals of the uniform."""

    def __init__(self, sigma: float) -> None:
        self._sigma = sigma
        # Its own, because the precision of mpmath's shared context is global, and threads would change it.
        self._context: Any = mpmath.MPContext()

    def holding(self, tail: int, bits: int) -> int | None:
        """The bin that holds all of [tail, tail + 1] / 2^bits; None if an edge cuts it, or may cut it."""
        middle = max((2 * tail + 1) / 2 ** (bits + 1), _SMALLEST_FLOAT)
        magnitude = round(-float(_normal_quantile(middle)) * self._sigma)
        while (beyond := self._beyond(magnitude, tail, bits)) is True:
            magnitude += 1
        while beyond is False and magnitude > 0:
            beyond = self._beyond(magnitude - 1, tail, bits)
            if beyond is True:
                return magnitude
            magnitude -= 1
        return None if beyond is None else magnitude

    def _beyond(self, magnitude: int, tail: int, bits: int) -> bool | None:
        """Whether [tail, tail + 1] / 2^bits lies beyond the outer edge of a bin; None if not certain."""
        self._context.prec = bits + 128
        root_two_sigma = self._context.sqrt(2) * self._sigma
        mass = self._context.erfc((magnitude + self._context.mpf(0.5)) / root_two_sigma) / 2
        edge = int(self._context.ldexp(mass, bits + 64))
        if (tail + 1) << 64 <= edge - 2:
            return True
        return False if tail << 64 >= edge + 2 else None
