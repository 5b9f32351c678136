"""Measures of a model: rows that nothing makes longer than their bound, and ratios that are what they claim to be."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra.numpy import arrays

from onlooker.errors import TermsError
from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.measures import BOUND, SIZE, Measures, ratio
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.summation import Shared

CLASSES, LINE = Measures("classification", 2 * math.log(10)), Measures("regression", 4.0)
ANY = some.floats(allow_nan=True, allow_infinity=True, width=64)
BITS = some.integers(8, 25)


def channel(bits, **more):
    return Channel(SIZE, RoundedGaussian(1.0), Grid(BOUND, bits, 32), "servers", Shared(), bounds=BOUND, **more)


@given(some.sampled_from([CLASSES, LINE]), arrays(np.float64, 6, elements=ANY), arrays(np.float64, 6, elements=ANY))
def test_no_row_is_longer_than_its_bound_whatever_a_model_says(measures, losses, scores):
    rows = measures.rows(losses, scores)
    assert rows.shape == (6, SIZE) and np.isfinite(rows).all()
    assert (np.linalg.norm(rows, axis=1) < 0.987 * BOUND).all()
    assert (rows[:, 2] == 11 / 16).all()


@given(arrays(np.float64, (2, 6), elements=ANY), BITS)
def test_a_client_moves_the_sum_by_at_most_its_bound_in_integers_and_counts_exactly(answers, bits):
    encoded = channel(bits).encode(CLASSES.rows(*answers).mean(axis=0), 0)
    assert sum(int(one) ** 2 for one in encoded) <= 4**bits
    assert encoded[2] == 11 * 2**bits // 16


@given(arrays(np.float64, (2, 40), elements=ANY), some.integers(0, 39), BITS)
def test_a_record_moves_the_sum_by_at_most_the_bound_in_integers(answers, left_out, bits):
    """Also where the sum rounds differently in every coordinate once the record is gone."""
    one = channel(bits, sums_records=True, max_records=40)
    rows = one.record_clip * CLASSES.rows(*answers)
    moved = one.encode(rows.sum(axis=0), 0) - one.encode(np.delete(rows, left_out, axis=0).sum(axis=0), 0)
    assert sum(int(step) ** 2 for step in moved) <= 4**bits


@pytest.mark.parametrize("measures", [CLASSES, LINE])
def test_without_noise_the_sums_tell_the_means(measures):
    generator = np.random.default_rng(3)
    losses = generator.uniform(0, 1.5 * measures.loss_bound, 500)
    scores = (
        generator.integers(0, 2, 500).astype(float)
        if measures is CLASSES
        else generator.uniform(0, measures.widest, 500)
    )
    for divisor in (1.0, 37.5):
        found = measures.estimates(measures.rows(losses, scores).sum(axis=0) / divisor, 0.0)
        means = {measures.score: scores.mean(), "loss": np.minimum(losses, measures.loss_bound).mean()}
        assert {name: one.value for name, one in found.items()} == pytest.approx(means)
        assert all(one.low == pytest.approx(one.value) == one.high for one in found.values())


def test_what_is_not_finite_counts_as_wrong_and_as_the_largest_loss():
    for measures, worst in ((CLASSES, 0.0), (LINE, 2.0)):
        rows = measures.rows(np.array([math.nan, math.inf]), np.array([1.0, math.nan]))
        found = measures.estimates(rows.sum(axis=0), 0.0)
        assert found[measures.score].value == worst and found["loss"].value == measures.loss_bound


def test_a_count_that_noise_may_have_made_tells_nothing():
    few, many = np.array([0.1, -0.1, 1.9]), np.array([10.0, -10.0, 68.75])
    assert CLASSES.estimates(few, 1.0) == CLASSES.nothing == {"accuracy": None, "loss": None}
    assert CLASSES.estimates(-many, 1.0) == CLASSES.nothing
    found = CLASSES.estimates(many, 1.0)["accuracy"]
    assert 0 < found.low < found.value < found.high < 1 and found.value == pytest.approx(0.6)


@given(some.floats(-50, 50), some.floats(1, 100), some.floats(0.001, 10))
def test_the_ends_are_fiellers(numerator, denominator, deviation):
    found = ratio(numerator, denominator, deviation)
    if denominator <= 1.96 * deviation:
        assert found is None or denominator > 1.9599 * deviation
        return
    for end in (found.low, found.high):
        off, allowed = abs(numerator - end * denominator), 1.959963984540054 * deviation * math.hypot(1, end)
        assert off == pytest.approx(allowed, rel=1e-4, abs=1e-6)
    assert found.low <= found.value <= found.high


def test_an_interval_stays_where_the_mean_can_be():
    found = CLASSES.estimates(np.array([45.0, -45.0, 68.75]), 5.0)
    assert found["accuracy"].high == 1.0 and found["loss"].low == 0.0


def test_a_bound_of_nothing_is_refused():
    for bound in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(TermsError, match="evaluation.loss-bound"):
            Measures("classification", bound)
