"""The rounded Gaussian has its distribution: the right scale is accepted, 0.7x and 1.3x are rejected."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from onlooker.privacy.random import Seeded
from onlooker.privacy.rounding import rounded_gaussian

FALSE_ALARM = 1e-6
STUDY = Seeded(20260)
WRONG = (0.7, 1.3)


def draw(sigma: float, count: int, round: int = 0, party: str = "aux:0") -> np.ndarray:
    return rounded_gaussian(sigma, count, STUDY.stream("noise", round, party))


def chi_square(drawn: np.ndarray, sigma: float) -> float:
    """The p-value of a sample against differences of the normal distribution function, tails pooled."""
    last = int(np.ceil(4 * sigma))
    inner_edges = np.arange(-last, last + 2) - 0.5
    expected = np.diff(stats.norm.cdf(np.concatenate([[-np.inf], inner_edges, [np.inf]]), scale=sigma))
    seen = np.bincount(np.clip(drawn, -last - 1, last + 1) + last + 1, minlength=len(expected))
    kept = expected * len(drawn) > 10
    rest = [seen[~kept].sum(), expected[~kept].sum() * len(drawn)]
    seen, expected = seen[kept], expected[kept] * len(drawn)
    if rest[1] > 10:
        seen, expected = np.append(seen, rest[0]), np.append(expected, rest[1])
    statistic = float(((seen - expected) ** 2 / expected).sum())
    return float(stats.chi2.sf(statistic, len(expected) - 1))


def kolmogorov_smirnov(drawn: np.ndarray, sigma: float) -> float:
    """The p-value at the edges of the bins; on a lattice it is too large, so the test is cautious."""
    values, counts = np.unique(drawn, return_counts=True)
    steps = np.cumsum(counts) / len(drawn)
    above = np.abs(steps - stats.norm.cdf(values + 0.5, scale=sigma))
    below = np.abs(steps - counts / len(drawn) - stats.norm.cdf(values - 0.5, scale=sigma))
    return float(stats.kstwobign.sf(np.sqrt(len(drawn)) * max(above.max(), below.max())))


@pytest.mark.parametrize("sigma", [0.3, 1.0, 4.0])
def test_the_probabilities_are_differences_of_the_normal_distribution(sigma: float) -> None:
    assert chi_square(draw(sigma, 1_000_000), sigma) > FALSE_ALARM
    for factor in (*WRONG, 0.99, 1.01):
        assert chi_square(draw(factor * sigma, 1_000_000), sigma) < FALSE_ALARM


def test_a_large_scale_follows_the_normal_distribution_on_its_lattice() -> None:
    assert kolmogorov_smirnov(draw(1e4, 300_000), 1e4) > FALSE_ALARM
    for factor in WRONG:
        assert kolmogorov_smirnov(draw(factor * 1e4, 300_000), 1e4) < FALSE_ALARM


@pytest.mark.parametrize("sigma", [0.3, 4.0, 1.4e5, 2.0**30])
def test_the_variance_is_the_rounded_one(sigma: float) -> None:
    """With a million draws the variance is known to 0.14 %; five deviations of that are allowed."""
    count = 1_000_000
    spread = np.arange(-12, 13)
    mass = np.diff(stats.norm.cdf(np.arange(-12, 14) - 0.5, scale=sigma))
    # Sheppard's correction is exact for all but the smallest scale, where the sum has few terms.
    variance, fourth = (
        (float(spread**2 @ mass), float(spread**4 @ mass))
        if sigma < 1
        else (sigma**2 + 1 / 12, 3 * (sigma**2 + 1 / 12) ** 2)
    )
    deviation = np.sqrt((fourth - variance**2) / count)

    def accepted(drawn: np.ndarray) -> bool:
        return abs(float(np.mean(drawn.astype(np.float64) ** 2)) - variance) < 5 * deviation

    assert accepted(draw(sigma, count))
    for factor in WRONG:
        assert not accepted(draw(factor * sigma, count))


def test_the_tails_are_full() -> None:
    """Beyond 4.5 deviations: a mean of 34 in ten million on each side, and none where the tail is cut off."""
    drawn = np.concatenate([draw(1e3, 1_000_000, round) for round in range(10)])
    mean = len(drawn) * stats.norm.sf(4.5)
    for side in (drawn > 4500, drawn < -4500):
        seen = int(side.sum())
        assert min(stats.poisson.sf(seen - 1, mean), stats.poisson.cdf(seen, mean)) > FALSE_ALARM


def test_streams_of_other_rounds_and_servers_are_uncorrelated_and_so_are_neighbours() -> None:
    count, sigma, limit = 200_000, 50.0, 5.5
    rows = [draw(sigma, count, round, party) / sigma for round in (0, 1) for party in ("aux:0", "aux:1")]

    def correlation(a: np.ndarray, b: np.ndarray) -> float:
        return abs(float(a @ b)) / np.sqrt(len(a))

    for a, b in itertools.combinations(rows, 2):
        assert correlation(a, b) < limit
        # A fiftieth of shared noise would be seen.
        assert correlation(a, b + a / 50) > limit
    for lag in (1, 2, 3, 2**14):
        assert correlation(rows[0][lag:], rows[0][:-lag]) < limit
