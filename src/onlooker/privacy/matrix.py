"""Noise that is correlated over rounds, so that it cancels in the sum of all of them: DP-FTRL (rule 14).

A strategy is a lower-triangular T x T matrix C with ones on its diagonal and no negative entry. Instead of the rows
x = (x_1, ..., x_T) the factorisation mechanism tells u = C x + Z, with Z independent Gaussian noise of one deviation,
ONCE for the whole run; every release is made of u. What counts is how far one client can move C x (`sensitivity`).
Kairouz et al. 2021 (the tree); Choquette-Choo et al. 2023 (bands); Denisov et al. 2022, theorem 2.1 (rows may depend
on earlier releases: the price of a Gaussian depends on the length of C x alone, and that is bounded on every path).

**Exact on the grid (rule 8).** Rows are integers, and all entries of C are multiples of 2^-g: C_ts = K_ts / 2^g. Let
W_t = round(2^g Z_t), which `rounded_gaussian` draws exactly, and let the noise of round t be

    n_t = floor((W_t - sum_{s<t} K_ts n_s) / 2^g + 1/2).

The release y_t = x_t + n_t is a function of u alone, so the release of the run costs what u costs, and no more. Proof:
2^g (C x)_t is an integer, so V_t = 2^g (C x)_t + W_t = round(2^g u_t) is a function of u_t. Put n_s = y_s - x_s for
s < t, and W_t = V_t - 2^g x_t - sum_{s<t} K_ts x_s: the x_s cancel, and what is rounded is
(V_t - sum_{s<t} K_ts y_s) / 2^g - x_t. As floor(a - x + 1/2) = floor(a + 1/2) - x for an integer x,

    y_t = floor((V_t - sum_{s<t} K_ts y_s) / 2^g + 1/2),

which by induction depends on V_1, ..., V_t only. (Rounding halves to even would not commute with an odd x.) Reducing
y_t modulo the ring is one more function of it. The noise of several parties is not claimed as one, since their
roundings do not add up; what one of them adds is claimed, and the others' noise is a further function.

**Rounds without a release.** Where round r ends without a sum, its row counts as x_r = 0 and its noise as n_r = 0
(`passed`): y_r = 0 is known to all, and the induction goes on without u_r. To leave such a round out of the count
instead would bring participations closer together than `sensitivity` takes them to be. Nor may r be released after a
later round, which was made as if x_r were 0.

**Within int64.** |W_t| <= 2^46 is checked; sigma is at most 2^40, so it fails with a probability below e^-2000. By
the recursion |n| <= rho (2^(46 - g) + 1/2), where rho, the largest sum of absolute values in a row of C^-1, is below
4 for every number of bands. So sum_s K_ts |n_s| <= 2^g 18 x 4 x 2^(46 - g) < 2^53. A tree's sums have at most 20 terms.

**Sensitivity.** Two neighbours differ by rows d_t of norm at most 1, all zero but where the client takes part. Then
||C d||^2 = sum_{t,s} (C'C)_ts <d_t, d_s> <= sum (C'C)_ts over the rounds of participation, for no entry of C'C is
negative: rows that all point the same way are the worst, and fewer participations are never worse. The first t rows
of a lower-triangular C see the first t rounds only, so the first t releases cost what the leading t x t block costs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import comb
from typing import Literal, TypeAlias, cast

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, NonPrivateDpEvent
from numpy.typing import NDArray
from scipy import signal  # pyright: ignore[reportMissingTypeStubs]

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy.random import Stream
from onlooker.privacy.rounding import rounded_gaussian
from onlooker.types import Integers

_FINEST = 16
"""Bits after the point of a band's coefficient: exact up to ten bands, rounded beyond."""
_MOST_BANDS = 256
_LARGEST_DRAWN = 2**46
_LONG = 1024
"""Rounds after which a band's noise has settled."""


@dataclass(frozen=True)
class Tree:
    """Each round's noise undoes that of the subtrees it completes: a prefix sum has at most log2(T) + 1 noises.

    Round t adds the node of the 2^i rounds up to t, 2^i being the largest power of two that divides t. These are all
    nodes that a prefix sum of a binary tree ever needs; the tree need not be full, and no other node is charged.

    Attributes:
        noise_multiplier: z, the standard deviation of each node's noise, divided by the clip.
    """

    noise_multiplier: float
    name: Literal["tree"] = "tree"

    def __post_init__(self) -> None:
        _check.multiplier(privacy__noise_multiplier=self.noise_multiplier)

    @property
    def finer_bits(self) -> int:
        """g: fresh noise is drawn in units of 2^-g of the grid."""
        return 0

    def noise(self, deviation: float, count: int, stream: Stream) -> Integers:
        """W: `int64[count]` of fresh noise for one round, `deviation` being in units of the grid."""
        return rounded_gaussian(deviation, count, stream)

    def step(self, state: Integers, fresh: Integers, round: int) -> tuple[Integers, Integers]:
        """What round `round` (from 1) adds to its sum, `int64[d]`, and the state after it.

        Args:
            state: `int64[k, d]`, the noises of the nodes that make up rounds 1 to round - 1, the largest node first.
            fresh: `int64[d]`, from `noise`.
            round: from 1.

        Raises:
            TermsError: if the state is not that of this round: noise that was forgotten cannot be made up for.
        """
        _check_step(state, fresh, ((round - 1).bit_count(), len(fresh)), round)
        kept = _whole_before(state, round)
        return fresh - state[kept:].sum(axis=0), np.vstack([state[:kept], fresh])

    def passed(self, state: Integers, round: int) -> Integers:
        """The state after a round that released nothing, `int64[k, d]`; as `step` without its noise."""
        kept = _whole_before(state, round)
        return np.vstack([state[:kept], state[kept:].sum(axis=0, keepdims=True)])

    def event(self, multiplier: float) -> DpEvent:
        """The price of one row on its own; see `sensitivity` for that of a run."""
        return GaussianDpEvent(multiplier) if multiplier > 0 else NonPrivateDpEvent()

    def sampler_error(self, deviation: float, count: int) -> float:
        """The total variation between what is drawn and what is priced: none."""
        del deviation, count
        return 0.0

    def sensitivity(self, period: int, rounds: int) -> float:
        """The longest that rows of norm 1, `period` rounds apart, make C x: over all offsets, in `rounds` rounds.

        >>> round(Tree(1.0).sensitivity(period=30, rounds=30) ** 2, 9)  # one participation is in five nodes
        5.0
        """
        return _tree_sensitivity(period, rounds)

    def round_variances(self, rounds: int) -> NDArray[np.float64]:
        """`float64[rounds]`: the variance of each round's noise, in units of a node's."""
        return np.array([float((t & -t).bit_length()) for t in range(1, rounds + 1)])

    def prefix_variances(self, rounds: int) -> NDArray[np.float64]:
        """`float64[rounds]`: the variance of the noise in each prefix sum, in units of a node's."""
        return np.array([float(t.bit_count()) for t in range(1, rounds + 1)])


@dataclass(frozen=True)
class Banded:
    """Each round's noise takes back part of the last `bands` - 1 noises: C is Toeplitz, and 1, 1/2, 3/8, 5/16, ...

    These are the coefficients of 1 / sqrt(1 - x), which make the largest error of a prefix sum nearly as small as can
    be. All are dyadic; beyond ten bands they are rounded to multiples of 2^-16, which is a strategy like any other.

    Attributes:
        noise_multiplier: z, the standard deviation of Z, divided by the clip.
        bands: how many diagonals of C are not 0; best as large as the period of participation, or less.
    """

    noise_multiplier: float
    bands: int
    name: Literal["banded"] = "banded"

    def __post_init__(self) -> None:
        _check.multiplier(privacy__noise_multiplier=self.noise_multiplier)
        _check.at_least(2, privacy__bands=self.bands)
        _check.at_most(_MOST_BANDS, privacy__bands=self.bands)

    @property
    def finer_bits(self) -> int:
        """g: fresh noise is drawn in units of 2^-g of the grid."""
        return _toeplitz(self.bands)[0]

    @property
    def coefficients(self) -> NDArray[np.float64]:
        """`float64[bands]`: the first column of C, exactly.

        >>> Banded(1.0, 4).coefficients.tolist()
        [1.0, 0.5, 0.375, 0.3125]
        """
        finer_bits, numerators = _toeplitz(self.bands)
        return np.array(numerators) / 2.0**finer_bits

    def noise(self, deviation: float, count: int, stream: Stream) -> Integers:
        """W: `int64[count]` of fresh noise for one round in units of 2^-g, `deviation` being in units of the grid."""
        return rounded_gaussian(deviation * 2.0**self.finer_bits, count, stream)

    def step(self, state: Integers, fresh: Integers, round: int) -> tuple[Integers, Integers]:
        """What round `round` (from 1) adds to its sum, `int64[d]`, and the state after it.

        Args:
            state: `int64[k, d]`, what the last bands - 1 rounds added, or all if there are fewer, the newest last.
            fresh: `int64[d]`, from `noise`.
            round: from 1.

        Raises:
            TermsError: if the state is not that of this round: noise that was forgotten cannot be made up for.
        """
        _check_step(state, fresh, (min(round, self.bands) - 1, len(fresh)), round)
        finer_bits, numerators = _toeplitz(self.bands)
        left = fresh + (1 << finer_bits >> 1)
        for numerator, earlier in zip(numerators[1:], state[::-1], strict=False):
            left -= numerator * earlier
        noise = left >> finer_bits
        return noise, np.vstack([state, noise])[1 - self.bands :]

    def passed(self, state: Integers, round: int) -> Integers:
        """The state after a round that released nothing, `int64[k, d]`; as `step` without its noise."""
        del round
        return np.vstack([state, np.zeros((1, state.shape[1]), dtype=np.int64)])[1 - self.bands :]

    def event(self, multiplier: float) -> DpEvent:
        """The price of one row on its own; see `sensitivity` for that of a run."""
        return GaussianDpEvent(multiplier) if multiplier > 0 else NonPrivateDpEvent()

    def sampler_error(self, deviation: float, count: int) -> float:
        """The total variation between what is drawn and what is priced: none."""
        del deviation, count
        return 0.0

    def sensitivity(self, period: int, rounds: int) -> float:
        """The longest that rows of norm 1, `period` rounds apart, make C x: over all offsets, in `rounds` rounds.

        The first offset is the worst: a later one gives the same C x, moved down and cut off.

        >>> round(Banded(1.0, 4).sensitivity(period=4, rounds=40), 5)
        3.85782
        """
        return _toeplitz_sensitivity(self.bands, period, rounds)

    def round_variances(self, rounds: int) -> NDArray[np.float64]:
        """`float64[rounds]`: the variance of each round's noise, in units of Z's: rows of C^-1, squared and summed."""
        return np.cumsum(self._response(np.eye(1, rounds)[0]) ** 2)

    def prefix_variances(self, rounds: int) -> NDArray[np.float64]:
        """`float64[rounds]`: the variance of the noise in each prefix sum, in units of Z's: rows of B = A C^-1."""
        return np.cumsum(self._response(np.ones(rounds)) ** 2)

    def _response(self, column: NDArray[np.float64]) -> NDArray[np.float64]:
        """C^-1 times a column."""
        return cast(NDArray[np.float64], signal.lfilter([1.0], self.coefficients, column))


Correlated: TypeAlias = Tree | Banded


def no_noise_yet(size: int) -> Integers:
    """The state before the first round, `int64[0, size]`."""
    return np.zeros((0, size), dtype=np.int64)


def spread(mechanism: Correlated, round: int | None = None) -> float:
    """The deviation of one round's noise over that of fresh noise: without a round, its root mean square."""
    variances = mechanism.round_variances(_LONG if round is None else round)
    return float(np.sqrt(variances.mean() if round is None else variances[-1]))


def peak(mechanism: Correlated, rounds: int) -> float:
    """The largest deviation of one round's noise in a run, over that of fresh noise: what the ring must have room for.

    >>> round(peak(Banded(1.0, 2), 40), 3), peak(Tree(1.0), 8)
    (1.155, 2.0)
    """
    return float(np.sqrt(mechanism.round_variances(rounds).max()))


@lru_cache(maxsize=256)
def _toeplitz(bands: int) -> tuple[int, tuple[int, ...]]:
    """The bits after the point and the numerators: comb(2 j, j) / 4^j over one power of two, as short as can be."""
    rounded = [(comb(2 * j, j) * 2 ** (_FINEST + 1) // 4**j + 1) // 2 for j in range(bands)]
    spare = min((numerator & -numerator).bit_length() - 1 for numerator in rounded)
    return _FINEST - spare, tuple(numerator >> spare for numerator in rounded)


@lru_cache(maxsize=4096)
def _toeplitz_sensitivity(bands: int, period: int, rounds: int) -> float:
    participations = np.zeros(rounds, dtype=np.int64)
    participations[::period] = 1
    finer_bits, numerators = _toeplitz(bands)
    return float(np.linalg.norm(np.convolve(participations, numerators)[:rounds] / 2.0**finer_bits))


@lru_cache(maxsize=4096)
def _tree_sensitivity(period: int, rounds: int) -> float:
    """Over all offsets: the root of the sum, over completed nodes, of the squared number of participations in it."""
    leaves = np.arange(rounds)
    offsets = leaves % period
    squares = np.zeros(min(period, rounds))
    for level in range(rounds.bit_length()):
        nodes = leaves >> level
        used = (nodes % 2 == 0) & ((nodes + 1) << level <= rounds)
        keys, counts = np.unique(nodes[used] * period + offsets[used], return_counts=True)
        squares += np.bincount(keys % period, counts.astype(np.float64) ** 2, len(squares))
    return float(np.sqrt(squares.max()))


def _whole_before(state: Integers, round: int) -> int:
    """How many of the nodes before a round of a tree stay when its own is completed."""
    return len(state) - ((round & -round).bit_length() - 1)


def _check_step(state: Integers, fresh: Integers, expected: tuple[int, int], round: int) -> None:
    if state.shape != expected:
        raise TermsError(
            f"the noise state of round {round} has shape {state.shape} and must have {expected}: correlated noise goes "
            "on only with the noise that was added before; put the state back."
        )
    if int(np.abs(fresh).max(initial=0)) > _LARGEST_DRAWN:
        raise TermsError(f"a noise above 2^46 units was drawn in round {round}; that is no Gaussian within 2^40 units.")
