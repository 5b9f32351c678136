"""The sampler is exact: at the edges of bins, in the deepest tail, in what it assumes of libraries."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.special import ndtri

from onlooker.errors import TermsError
from onlooker.privacy.quantile import SHALLOWEST, TABLE_ERROR, tail_quantiles
from onlooker.privacy.random import Seeded
from onlooker.privacy.rounding import rounded_gaussian, sampler_error

SIGN = 2**63
EXACT = mpmath.MPContext()
EXACT.prec = 700


class Words:
    """A stream that says what it is told, and counts what was asked of it."""

    def __init__(self, *words: int) -> None:
        self.left = list(words)
        self.used = 0

    def integers(self, count: int) -> np.ndarray:
        assert count <= len(self.left), "the sampler asked for more bits than the test foresaw"
        said, self.left = self.left[:count], self.left[count:]
        self.used += count
        return np.array(said, dtype=np.uint64)


def outer_edge(sigma: float, magnitude: int):
    """The mass beyond the outer edge of a bin, on one side."""
    return EXACT.erfc((2 * EXACT.mpf(magnitude) + 1) / (EXACT.sqrt(8) * EXACT.mpf(sigma))) / 2


def base_2_64(mass, digits: int) -> list[int]:
    """The first digits of a mass in base 2^64: the words that keep a stream on it."""
    scaled = int(EXACT.floor(EXACT.ldexp(mass, 64 * digits)))
    return [scaled >> 64 * (digits - 1 - i) & (2**64 - 1) for i in range(digits)]


def magnitude_of(sigma: float, uniform) -> int:
    """The bin of a tail probability, by bisection of its distribution function."""
    low, high = -1, math.ceil(64 * sigma) + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if uniform > outer_edge(sigma, middle) else (middle, high)
    return high


def wide(sigma: float, magnitude: int) -> bool:
    """Whether a bin is wider than four words, so that words beside one edge are clear of the next."""
    inner = outer_edge(sigma, magnitude - 1) if magnitude else EXACT.mpf(0.5)
    return (inner - outer_edge(sigma, magnitude)) * 2**64 > 4


EDGES = [
    (sigma, magnitude)
    for sigma in (0.3, 1.0, 7.25, 1.4e5, 3.3e9, 2.0**40)
    for magnitude in sorted({0, 1, 2, *(round(sigma * t) for t in (0.5, 1.0, 2.0, 4.0, 5.07, 6.0, 8.5))})
    if wide(sigma, magnitude) and wide(sigma, magnitude + 1)
]


@pytest.mark.parametrize(("sigma", "magnitude"), EDGES)
def test_words_beside_an_edge_are_decided_without_more_bits(sigma: float, magnitude: int) -> None:
    (cut,) = base_2_64(outer_edge(sigma, magnitude), 1)
    for word, expected in ((cut + 1, magnitude), (cut - 1, magnitude + 1)):
        stream = Words(word, word | SIGN)
        assert rounded_gaussian(sigma, 2, stream).tolist() == [expected, -expected]
        assert stream.used == 2


@pytest.mark.parametrize(("sigma", "magnitude"), EDGES)
def test_a_word_on_an_edge_is_refined_until_it_leaves_it(sigma: float, magnitude: int) -> None:
    cut, second, third = base_2_64(outer_edge(sigma, magnitude), 3)
    for sign, side in ((0, 1), (SIGN, -1)):
        for refinements, expected in (
            ([second + 1], magnitude),
            ([second - 1], magnitude + 1),
            ([second, third + 1], magnitude),
            ([second, third - 1], magnitude + 1),
        ):
            stream = Words(cut | sign, *refinements)
            assert rounded_gaussian(sigma, 1, stream).tolist() == [side * expected]
            assert stream.used == 1 + len(refinements)


def test_the_float_candidate_alone_would_err_at_the_edges() -> None:
    """Otherwise the two tests above would prove nothing about the refinement."""
    wrong = 0
    for sigma, magnitude in EDGES:
        (cut,) = base_2_64(outer_edge(sigma, magnitude), 1)
        candidates = [round(-sigma * ndtri((word + 0.5) * 2.0**-64)) for word in (cut - 1, cut + 1)]
        wrong += candidates != [magnitude + 1, magnitude]
    assert wrong > len(EDGES) / 2


@pytest.mark.parametrize("sigma", [1e-3, 0.3, 1.0, 1.4e5, 2.0**40])
@pytest.mark.parametrize("zeros", [1, 2, 3])
def test_the_deepest_tail_draws_until_it_has_a_probability(sigma: float, zeros: int) -> None:
    last = 0x9E3779B97F4A7C15
    stream = Words(*[0] * zeros, last)
    drawn = rounded_gaussian(sigma, 1, stream).tolist()
    assert drawn == [magnitude_of(sigma, EXACT.ldexp(last, -64 * (zeros + 1)))]
    assert stream.used == zeros + 1


def test_the_middle_is_zero() -> None:
    assert rounded_gaussian(2.0**40, 2, Words(SIGN - 1, 2 * SIGN - 1)).tolist() == [0, 0]


def test_the_sign_is_fair_bit_by_bit() -> None:
    words = Seeded(3).stream("words").integers(2000)
    plain = rounded_gaussian(1e5, 2000, Words(*words.tolist()))
    mirrored = rounded_gaussian(1e5, 2000, Words(*(words ^ np.uint64(SIGN)).tolist()))
    assert np.array_equal(plain, -mirrored)
    assert np.count_nonzero(plain) > 1900


@pytest.mark.parametrize("chunk", [1, 3, 7, 64, 10_000])
def test_the_chunk_changes_nothing(chunk: int) -> None:
    first, second = (base_2_64(outer_edge(9.0, magnitude), 2) for magnitude in (4, 11))
    words = [7 << 55, first[0], 9 << 57, 0, second[0], 5 << 58]
    refinements = [first[1] - 1, 77 << 56, second[1] + 1]
    drawn = rounded_gaussian(9.0, 6, Words(*words, *refinements), chunk=chunk)
    assert drawn[[1, 4]].tolist() == [5, 11]
    assert np.array_equal(drawn, rounded_gaussian(9.0, 6, Words(*words, *refinements)))
    study = Seeded(4)
    large = rounded_gaussian(2.0**34, 500, study.stream("noise"), chunk=chunk)
    assert np.array_equal(large, rounded_gaussian(2.0**34, 500, study.stream("noise")))


def test_ndtri_errs_far_less_than_the_margin() -> None:
    """The assumptions of the finer way: 2^-46 for U from 2^-12 to 1/2 and 2^-41 from 2^-22; measured, better."""
    context = mpmath.MPContext()
    context.prec = 120
    branch = math.exp(-2)
    common = np.concatenate(
        [
            np.geomspace(2.0**-12, 0.5, 6000),
            np.linspace(2.0**-12, 0.5, 3000),
            branch * (1 + np.arange(-200, 200) * 2.0**-52),
            branch * (1 + np.arange(-200, 200) * 2.0**-30),
            0.5 - np.arange(200) * 2.0**-54,
            2.0**-12 * (1 + np.arange(200) * 2.0**-52),
        ]
    )

    def worst(masses: np.ndarray) -> float:
        def error(uniform: float) -> float:
            quantile = context.mpf(float(ndtri(uniform)))
            mass = context.erfc(-quantile / context.sqrt(2)) / 2
            return float(abs(mass - uniform) / context.npdf(quantile))

        return max(map(error, masses.tolist()))

    assert 0 < worst(common) < 2.0**-48
    assert worst(np.geomspace(2.0**-22, 2.0**-12, 2000)) < 2.0**-47
    # Deeper, it is only where the slow way starts to look.
    deep = np.concatenate([np.geomspace(2.0**-200, 2.0**-22, 500), math.exp(-32) * (1 + np.arange(-99, 99) * 2.0**-50)])
    assert worst(deep) < 2.0**-40


def test_the_tables_err_less_than_the_margin_in_every_piece() -> None:
    """The assumption of the fast way: 2^-40. At 33 places of each of 5376 pieces, both ends among them."""
    starts = np.ldexp(1 + np.arange(256) / 256, np.arange(42, 63)[:, None]).ravel()
    ends = np.append(starts[1:], 2.0**63) - np.maximum(1, np.spacing(starts))
    tails = np.linspace(starts, ends, 33).astype(np.int64).ravel()
    assert tails.min() == SHALLOWEST
    tails = np.append(tails, [2**63 - 1, 2**63 - 512, 2**63 - 513])
    error = np.abs(tail_quantiles(tails) + ndtri(tails.astype(np.float64) * 2.0**-64)).max()
    assert 2.0**-46 < error < TABLE_ERROR / 4


@pytest.mark.parametrize("bits", [192, 256, 320])
def test_erfc_errs_by_its_last_bit(bits: int) -> None:
    plain, fine = mpmath.MPContext(), mpmath.MPContext()
    plain.prec, fine.prec = bits, 3 * bits
    for x in np.concatenate([np.linspace(0, 7, 400), np.geomspace(1e-12, 400, 200)]).tolist():
        ratio = fine.mpf(plain.erfc(plain.mpf(x))) / fine.erfc(fine.mpf(x))
        assert abs(ratio - 1) < fine.ldexp(1, 8 - bits)


def test_the_shared_precision_of_mpmath_is_left_alone() -> None:
    before = mpmath.mp.prec
    rounded_gaussian(2.0**40, 10, Seeded(5).stream("noise"))
    assert mpmath.mp.prec == before


def test_no_sigma_no_noise_and_no_bits() -> None:
    assert rounded_gaussian(0.0, 3, Words()).tolist() == [0, 0, 0]
    assert rounded_gaussian(1.0, 0, Words()).shape == (0,)


@pytest.mark.parametrize("sigma", [-1.0, math.nan, math.inf, 2.0**41, 2.0**-41])
def test_a_sigma_out_of_range_is_refused(sigma: float) -> None:
    with pytest.raises(TermsError, match="sigma"):
        rounded_gaussian(sigma, 1, Words())


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(TermsError, match="count"):
        rounded_gaussian(1.0, -1, Words())


def test_a_float_sampler_would_be_refused_and_this_one_is_not() -> None:
    """Rule 8's numbers: 40 rounds of 6.5 million coordinates at sigma 1.4e5, epsilon 8, delta 1e-5."""
    sigma, count, epsilon, delta = 1.4e5, 6_500_000 * 40, 8.0, 1e-5

    def refused(total_variation: float) -> bool:
        return (1 + math.exp(epsilon)) * total_variation > delta / 100

    float_sampler = 2 * sigma * 2.0**-53 * count
    assert float_sampler == pytest.approx(8e-3, rel=0.05)
    assert refused(float_sampler)
    assert not refused(sampler_error(sigma, count))
