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
exactly its distribution. It remains that "wholly within" is never claimed falsely. Three ways lead to it.

1. *The fast way*, for k >= 2^42, in float64. Take sigma t near the interval, from tables (`quantile`), and accept
   its nearest integer if the next edge is over 2^-39 sigma + 2^-50 away. The errors, in units of sigma:

   - A factor 1 + r on U moves t by at most 1.26 r, since |Q / Q'| <= sqrt(pi / 2). The interval reaches no
     further than r = 2^-42 (0.32 x 2^-40); rounding k to a float makes r <= 2^-53.
   - The tables are off by at most 2^-40 (1 x 2^-40).
   - The product with sigma rounds by less than 2^-53 x 5.1.

   Together they stay below 1.4 x 2^-40. The distance to the edge is exact but for one rounding near 1/2.
2. *The finer way*, for what is left, with scipy's `ndtri` at the middle of the interval. It accepts as the fast way
   does, at 2^-45 sigma + 2^-50 for k >= 2^52 (U from 2^-12 to 1/2) and at 2^-40 sigma + 2^-50 for k >= 2^42.

   - `ndtri` is assumed to be within 2^-46 for U from 2^-12 to 1/2 and within 2^-41 from 2^-22 on. Measured: within
     2^-49; a test measures it again, and fails above 2^-48.
   - The interval reaches r = 2^-53 and r = 2^-43 from its middle; rounding k and k + 1/2 to floats makes
     r <= 2^-52 more; t is below 3.6 and 5.1. Together that is 1.1 x 2^-46, and 0.7 x 2^-40.
3. *The slow way*, for all others, in integers: floor(2^(b + 64) Q(edge)) against the ends of an interval of b
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

from functools import lru_cache
from typing import Any

import numpy as np
from mpmath import libmp  # pyright: ignore[reportMissingTypeStubs]
from numpy.typing import NDArray

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy.blocks import BLOCK
from onlooker.privacy.quantile import SHALLOWEST, TABLE_ERROR, normal_quantile, tail_quantiles
from onlooker.privacy.random import Stream
from onlooker.types import Integers

_exact: Any = libmp
"""Arithmetic whose precision is an argument: that of mpmath's contexts is state, which threads would share."""
LEAST_ADDED_SIGMA = 8.0
"""In grid units: from here on the noises of several adders are claimed as one."""
_TAIL = 2**63 - 1
_COMMON = 2**52
_FAST, _FINE, _FINE_WHERE_SHALLOW = 2 * TABLE_ERROR, 2.0**-45, 2.0**-40
"""How near to an edge, in units of sigma, each way is not trusted."""
_SMALLEST_SIGMA, _LARGEST_SIGMA = 2.0**-40, 2.0**40
_SMALLEST_FLOAT = 5e-324


def rounded_gaussian(sigma: float, count: int, stream: Stream, *, chunk: int = BLOCK) -> Integers:
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
    for index in np.concatenate(doubtful).tolist():
        drawn[index] = _refine(sigma, int(drawn[index]), stream)
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


def _draw_candidates(part: Integers, sigma: float, words: NDArray[np.uint64]) -> Integers:
    """Fill `part` by the fast ways; where they do not decide, leave the word there and return the places."""
    signed = words.view(np.int64)
    tails = signed & np.int64(_TAIL)
    nearest, near_an_edge = _rounded(tail_quantiles(tails), sigma, _FAST)
    # Bit 63 of a word is the sign of the float that its bits would be.
    part[:] = np.copysign(nearest, words.view(np.float64), out=nearest)
    places = np.flatnonzero(near_an_edge | (tails < SHALLOWEST))
    if not len(places):
        return places
    left = tails[places]
    slack = np.where(left < _COMMON, _FINE_WHERE_SHALLOW, _FINE)
    nearest, near_an_edge = _rounded(-normal_quantile((left.astype(np.float64) + 0.5) * 2.0**-64), sigma, slack)
    undecided = near_an_edge | (left < SHALLOWEST)
    decided = np.copysign(nearest, words[places].view(np.float64)).astype(np.int64)
    part[places] = np.where(undecided, signed[places], decided)
    return places[undecided]


def _rounded(
    quantiles: NDArray[np.float64], sigma: float, slack: float | NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The integers nearest to sigma times the quantiles, which are overwritten, and where an edge is too near."""
    quantiles *= sigma
    nearest = np.rint(quantiles)
    quantiles -= nearest
    return nearest, np.abs(quantiles, out=quantiles) > 0.5 - (sigma * slack + 2.0**-50)


def _refine(sigma: float, word: int, stream: Stream) -> int:
    """Decide one coordinate by the slow way, from its first word (as int64) and as many more as it takes."""
    tail, bits = word & _TAIL, 64
    while (magnitude := _bin_of(sigma, tail, bits)) is None:
        tail, bits = tail << 64 | int(stream.integers(1)[0]), bits + 64
    return -magnitude if word < 0 else magnitude


def _bin_of(sigma: float, tail: int, bits: int) -> int | None:
    """The bin that holds all of [tail, tail + 1] / 2^bits; None if an edge cuts it, or may cut it."""
    middle = max((2 * tail + 1) / 2 ** (bits + 1), _SMALLEST_FLOAT)
    magnitude = round(-float(normal_quantile(middle)) * sigma)
    while (beyond := _beyond(sigma, magnitude, tail, bits)) is True:
        magnitude += 1
    while beyond is False and magnitude > 0:
        beyond = _beyond(sigma, magnitude - 1, tail, bits)
        if beyond is True:
            return magnitude
        magnitude -= 1
    return None if beyond is None else magnitude


def _beyond(sigma: float, magnitude: int, tail: int, bits: int) -> bool | None:
    """Whether [tail, tail + 1] / 2^bits lies beyond the outer edge of a bin of the magnitude; None if not certain."""
    precision = bits + 128
    edge = _exact.mpf_div(_exact.from_int(2 * magnitude + 1), _root_eight_sigma(sigma, precision), precision)
    mass = int(_exact.to_fixed(_exact.mpf_erfc(edge, precision), bits + 63))
    if (tail + 1) << 64 <= mass - 2:
        return True
    return False if tail << 64 >= mass + 2 else None


@lru_cache(maxsize=64)
def _root_eight_sigma(sigma: float, precision: int) -> Any:
    return _exact.mpf_mul(_exact.mpf_sqrt(_exact.from_int(8), precision), _exact.from_float(sigma), precision)
