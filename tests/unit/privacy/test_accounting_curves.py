"""The curves of one round, against the library, brute force and what any privacy loss distribution obeys."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from dp_accounting.pld.privacy_loss_mechanism import AdjacencyType, GaussianPrivacyLoss
from scipy.stats import norm

from onlooker.privacy import fixed_size, losses
from onlooker.privacy.rounds import Round

LOSSES = np.array([0.0, 1e-6, 1e-3, 0.05, 0.4, 1.0, 3.0, 8.0])
KINDS = ("plain", "poisson", "poisson-replaced", "fixed-size", "fixed-size-replaced")


def by_library(rate: float, shift: float, adjacency: AdjacencyType) -> np.ndarray:
    mechanism = GaussianPrivacyLoss(1 / shift, sampling_prob=rate, adjacency_type=adjacency)
    return np.asarray(mechanism.get_delta_for_epsilon(LOSSES))


@pytest.mark.parametrize(("rate", "shift"), [(0.5, 0.5), (0.01, 1.7), (0.9, 0.1), (0.001, 3.0)])
def test_poisson_curves_are_the_library_s(rate, shift):
    pair = losses.poisson(rate, shift)
    assert pair.forward(LOSSES) == pytest.approx(by_library(rate, shift, AdjacencyType.REMOVE), rel=1e-7, abs=1e-14)
    assert pair.backward(LOSSES) == pytest.approx(by_library(rate, shift, AdjacencyType.ADD), rel=1e-7, abs=1e-14)
    replaced = losses.poisson_replaced(rate, shift)
    expected = by_library(rate, shift, AdjacencyType.REPLACE)
    assert replaced.forward(LOSSES) == pytest.approx(expected, rel=1e-7, abs=1e-14)


def hockey_stick(first: list, second: list, losses_: np.ndarray) -> np.ndarray:
    """Between mixtures of Gaussians, (weight, mean) each, by adding up small intervals."""
    edges = np.concatenate(([-np.inf], np.linspace(-15, 25, 100_001), [np.inf]))

    def masses(mixture: list) -> np.ndarray:
        below, above = (sum(w * f(edges, mean) for w, mean in mixture) for f in (norm.cdf, norm.sf))
        return np.where(below[:-1] < 0.5, np.diff(below), -np.diff(above))

    one, other = masses(first), masses(second)
    return np.array([np.maximum(0.0, one - np.exp(loss) * other).sum() for loss in losses_])


@pytest.mark.parametrize(("rate", "shift"), [(0.5, 0.5), (0.1, 1.0), (0.9, 0.3), (0.01, 2.0)])
def test_fixed_size_curves_are_attained(rate, shift):
    """Forward all others send -C, backward all send C: neighbours as bad as the curves say exist for each gamma."""
    pair = fixed_size.zeroed(rate, shift)
    opposed = hockey_stick([(1 - rate, 0), (rate, 2 * shift)], [(1 - rate, 0), (rate, shift)], LOSSES)
    agreed = hockey_stick([(1 - rate, shift), (rate, 0)], [(1, shift)], LOSSES)
    assert pair.forward(LOSSES) == pytest.approx(opposed, rel=1e-6, abs=1e-12)
    assert pair.backward(LOSSES) == pytest.approx(agreed, rel=1e-6, abs=1e-12)
    replaced = hockey_stick([(1 - rate, 0), (rate, 2 * shift)], [(1, 0)], LOSSES)
    assert fixed_size.replaced(rate, shift).forward(LOSSES) == pytest.approx(replaced, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("seed", range(16))
def test_no_neighbours_exceed_the_fixed_size_curves(seed):
    """Random rows on a line, every cohort enumerated: the curves bound both directions of every adjacency."""
    random = np.random.default_rng(seed)
    units, size = 4, int(random.integers(1, 4))
    rows = random.choice([-1.0, 1.0, 0.0, 0.3, -0.7], size=units)
    shift = float(random.uniform(0.3, 2.0))

    def release(own: float) -> list:
        return _cohorts_of(np.array([own, *rows[1:]]), size, shift)

    with_row, zero, other = release(rows[0]), release(0.0), release(float(random.choice([-1.0, 0.5])))
    pair, replaced = fixed_size.zeroed(size / units, shift), fixed_size.replaced(size / units, shift)
    assert np.all(hockey_stick(with_row, zero, LOSSES) <= pair.forward(LOSSES) + 1e-12)
    assert np.all(hockey_stick(zero, with_row, LOSSES) <= pair.backward(LOSSES) + 1e-12)
    assert np.all(hockey_stick(with_row, other, LOSSES) <= replaced.forward(LOSSES) + 1e-12)
    # Without the subject at all, the cohort is drawn from the others.
    without = _cohorts_of(rows[1:], size, shift)
    removed = losses.poisson(size / units, 2 * shift)
    assert np.all(hockey_stick(with_row, without, LOSSES) <= removed.forward(LOSSES) + 1e-12)
    assert np.all(hockey_stick(without, with_row, LOSSES) <= removed.backward(LOSSES) + 1e-12)


def _cohorts_of(rows: np.ndarray, size: int, shift: float) -> list:
    cohorts = list(itertools.combinations(rows.tolist(), size))
    return [(1 / len(cohorts), shift * sum(cohort)) for cohort in cohorts]


def test_a_poisson_curve_would_be_exceeded():
    """The test above can fail: the Poisson curve at the same noise is below what fixed-size neighbours show."""
    opposed = hockey_stick([(0.9, 0), (0.1, 1.0)], [(0.9, 0), (0.1, 0.5)], LOSSES)
    assert np.any(opposed > losses.poisson(0.1, 0.5).forward(LOSSES) + 1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("rate", "shift"), [(0.3, 0.4), (0.02, 2.0), (0.999, 1.0), (1e-5, 0.01)])
def test_the_grid_is_a_distribution_above_the_curve(kind, rate, shift):
    pair = Round(kind, rate, shift).pair()
    for way in (pair, pair.reversed()):
        discrete = losses.discretise(way, pair.deviation / 10, 9.0)
        total = discrete.probabilities.sum() + discrete.infinite
        assert total == pytest.approx(1, abs=1e-12)
        assert np.all(discrete.probabilities >= 0)
        grid = discrete.losses()[-discrete.lowest :][:40]
        assert _curve(discrete, grid) == pytest.approx(way.forward(grid), rel=1e-6, abs=1e-13)
        between = grid + discrete.interval / 3
        assert np.all(_curve(discrete, between) >= way.forward(between) * (1 - 1e-9) - 1e-15)
        assert _curve(discrete, between)[0] > way.forward(between)[0] * (1 + 1e-6)


def _curve(discrete: losses.Discrete, at: np.ndarray) -> np.ndarray:
    gained = np.maximum(discrete.losses()[:, None] - at, 0)
    return (discrete.probabilities[:, None] * -np.expm1(-gained)).sum(0) + discrete.infinite
