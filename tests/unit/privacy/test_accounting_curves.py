"""What each kind of round stands for: the distributions used, against integrals and enumerated cohorts."""

from __future__ import annotations

import itertools

import mpmath
import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from scipy.stats import norm

from onlooker.privacy import accounting, losses
from onlooker.privacy.curves import alone, missed
from onlooker.privacy.rounds import Round

INTERVAL = 0.01
LOSSES = np.array([0.0, 0.01, 0.05, 0.4, 1.0, 3.0, 8.0])
KINDS = ("plain", "poisson", "poisson-replaced", "fixed-size", "fixed-size-replaced")


def curves(kind: str, rate: float, shift: float, at: np.ndarray = LOSSES) -> list[np.ndarray]:
    """Both hockey-stick curves of one round, as composed."""
    ways = losses.directions(Round(kind, rate, shift), INTERVAL, -45)  # type: ignore[arg-type]
    return [np.array([way.get_delta_for_epsilon(loss) for loss in at.tolist()]) for way in (ways[0], ways[-1])]


def hockey_stick(first: list, second: list, at: np.ndarray = LOSSES, cells: int = 100_000) -> np.ndarray:
    """Between mixtures of Gaussians, (weight, mean) each, told apart by cells alone: never above the true one."""
    edges = np.concatenate(([-np.inf], np.linspace(-15, 25, cells + 1), [np.inf]))

    def masses(mixture: list) -> np.ndarray:
        below, above = (sum(w * f(edges, mean) for w, mean in mixture) for f in (norm.cdf, norm.sf))
        return np.where(below[:-1] < 0.5, np.diff(below), -np.diff(above))

    one, other = masses(first), masses(second)
    return np.array([np.maximum(0.0, one - np.exp(loss) * other).sum() for loss in at])


def worst(kind: str, rate: float, s: float) -> tuple[tuple[list, list], tuple[list, list]]:
    """Neighbours that show the most in each direction; in fixed-size cohorts these differ by direction."""
    nothing, mixed, far = [(1.0, 0.0)], [(1 - rate, 0.0), (rate, s)], [(1 - rate, 0.0), (rate, 2 * s)]
    match kind:
        case "plain":
            return ([(1.0, s)], nothing), (nothing, [(1.0, s)])
        case "poisson":
            return (mixed, nothing), (nothing, mixed)
        case "poisson-replaced":
            opposite = [(1 - rate, 0.0), (rate, -s)]
            return (mixed, opposite), (opposite, mixed)
        case "fixed-size":
            return (far, mixed), ([(1 - rate, s), (rate, 0.0)], [(1.0, s)])
        case _:
            return (far, nothing), (far, nothing)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rate", "shift"), [(0.5, 0.5), (0.01, 1.7), (0.9, 0.3)])
def test_every_curve_is_attained_by_some_neighbours(kind, rate, shift):
    rate = 1.0 if kind == "plain" else rate
    for curve, pair in zip(curves(kind, rate, shift), worst(kind, rate, shift), strict=True):
        assert curve == pytest.approx(hockey_stick(*pair), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rate", "shift"), [(0.3, 0.4), (0.02, 2.0), (0.999, 1.0)])
def test_the_grid_is_never_below_the_curve(kind, rate, shift):
    rate = 1.0 if kind == "plain" else rate
    between = LOSSES + INTERVAL / 3
    for curve, pair in zip(curves(kind, rate, shift, between), worst(kind, rate, shift), strict=True):
        assert np.all(curve >= hockey_stick(*pair, between) * (1 - 1e-9) - 1e-13)
        assert curve[0] > hockey_stick(*pair, between[:1]) * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_no_neighbours_exceed_the_fixed_size_curves(seed):
    """Random rows on a line, every cohort enumerated: the curves bound both directions of every adjacency."""
    random = np.random.default_rng(seed)
    units, size = 4, int(random.integers(1, 4))
    rows = random.choice([-1.0, 1.0, 0.0, 0.3, -0.7], size=units)
    rate, shift = size / units, float(random.uniform(0.3, 2.0))

    def release(own: float) -> list:
        return _cohorts_of(np.array([own, *rows[1:]]), size, shift)

    def shown(one: list, other: list) -> np.ndarray:
        return hockey_stick(one, other, cells=10_000)

    with_row, zero, other = release(rows[0]), release(0.0), release(float(random.choice([-1.0, 0.5])))
    without = _cohorts_of(rows[1:], size, shift)  # the cohort is drawn from the others
    forward, backward = curves("fixed-size", rate, shift)
    assert np.all(shown(with_row, zero) <= forward + 1e-12)
    assert np.all(shown(zero, with_row) <= backward + 1e-12)
    assert np.all(shown(with_row, other) <= curves("fixed-size-replaced", rate, shift)[0] + 1e-12)
    forward, backward = curves("poisson", rate, 2 * shift)
    assert np.all(shown(with_row, without) <= forward + 1e-12)
    assert np.all(shown(without, with_row) <= backward + 1e-12)


def _cohorts_of(rows: np.ndarray, size: int, shift: float) -> list:
    cohorts = list(itertools.combinations(rows.tolist(), size))
    return [(1 / len(cohorts), shift * sum(cohort)) for cohort in cohorts]


def test_a_poisson_curve_would_be_exceeded():
    """The test above can fail: the Poisson curve at the same noise is below what fixed-size neighbours show."""
    assert np.any(curves("fixed-size", 0.1, 0.5)[0] > curves("poisson", 0.1, 0.5)[0] + 1e-3)


@pytest.mark.parametrize(("rate", "z"), [(0.5, 1.0), (0.1, 20.0), (1e-3, 0.7)])
def test_how_far_the_library_s_curves_are_too_low(rate, z):
    """Against 40 digits, not by what is charged for every round; but by more than an ulp, so that it must be."""
    with mpmath.workdps(40):
        mechanism = GaussianPrivacyLoss(z, sampling_prob=rate, adjacency_type=AdjacencyType.REMOVE)
        at = [float(loss) for loss in np.linspace(0.0, 3 * rate / z, 101)]
        low = [float(_remove(rate, z, loss) - mechanism.get_delta_for_epsilon(loss)) for loss in at]
    assert 1e-17 < max(low) < accounting._ROUNDING


@pytest.mark.parametrize(("rate", "z"), [(0.5, 1.0), (0.1, 20.0), (1e-3, 0.7), (0.97, 0.2), (1e-5, 5.0)])
def test_our_curves_are_too_low_by_less_than_what_is_charged(rate, z):
    """At losses that count, and for the other direction beyond the largest that there is."""
    at, most = np.linspace(0.0, 3 * rate / z, 51), -np.log1p(-rate)
    back = np.linspace(0.0, 1.1 * most, 51)
    with mpmath.workdps(40):
        forth = [_remove(rate, z, loss) - found for loss, found in zip(at, alone(at, rate, 1 / z), strict=True)]
        reverse = [_add(rate, z, loss) - found for loss, found in zip(back, missed(back, rate, 1 / z), strict=True)]
        wrong = [_remove(rate, z, loss) - found for loss, found in zip(at, alone(at, rate, 0.999 / z), strict=True)]
    assert max(*forth, *reverse) < accounting._ROUNDING < max(wrong)
    assert min(*forth, *reverse) > -1e-15
    assert missed(np.array([0.99 * most, 1.01 * most]), rate, 1 / z).tolist()[1] == 0


def _add(rate: float, z: float, loss: float) -> mpmath.mpf:
    """The curve of N(0) against (1-q) N(0) + q N(1/z)."""
    q, shift, g = mpmath.mpf(rate), 1 / mpmath.mpf(z), mpmath.e ** mpmath.mpf(loss)
    left = 1 - g * (1 - q)
    if left <= 0:
        return mpmath.mpf(0)
    cut = mpmath.log(left / (g * q)) / shift + shift / 2
    return left * mpmath.ncdf(cut) - g * q * mpmath.ncdf(cut - shift)


def _remove(rate: float, z: float, loss: float) -> mpmath.mpf:
    """The curve of (1-q) N(0) + q N(1/z) against N(0)."""
    shift, gamma = 1 / mpmath.mpf(z), 1 + mpmath.expm1(loss) / mpmath.mpf(rate)
    cut = mpmath.log(gamma) / shift
    return rate * (mpmath.ncdf(shift / 2 - cut) - gamma * mpmath.ncdf(-shift / 2 - cut))
