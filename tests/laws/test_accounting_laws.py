"""What every price obeys, whatever the numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import (
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld.pld_pmf import DensePLDPmf
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from onlooker.privacy.accounting import live, price
from onlooker.privacy.calibration import calibrate
from onlooker.privacy.renyi import ORDERS, divergence
from onlooker.privacy.rounds import Round

ADJACENCIES = ("zero-out", "add-or-remove", "replace-one")
UNITS = 1000

samplers = st.sampled_from(("all", "poisson", "fixed-size"))
adjacencies = st.sampled_from(ADJACENCIES)
noises = st.floats(0.4, 20.0)
sizes = st.integers(1, UNITS - 1)
rounds_ = st.integers(1, 300)
deltas = st.sampled_from((1e-3, 1e-5, 1e-8, 1e-18))
few = settings(max_examples=10, deadline=None, derandomize=True)


def round_of(sampler: str, size: int, z: float) -> DpEvent:
    noise = GaussianDpEvent(z)
    if sampler == "poisson":
        return PoissonSampledDpEvent(size / UNITS, noise)
    return noise if sampler == "all" else SampledWithoutReplacementDpEvent(UNITS, size, noise)


def epsilon(sampler: str, size: int, z: float, rounds: int, delta: float, adjacency) -> float:
    return price(SelfComposedDpEvent(round_of(sampler, size, z), rounds), delta, adjacency).epsilon


@few
@given(samplers, sizes, noises, rounds_, deltas, adjacencies)
def test_more_rounds_or_a_higher_rate_cost_more(sampler, size, z, rounds, delta, adjacency):
    less = epsilon(sampler, size, z, rounds, delta, adjacency)
    assert less <= epsilon(sampler, size, z, 2 * rounds, delta, adjacency) * (1 + 1e-3)
    assert less <= epsilon(sampler, min(UNITS, size + 100), z, rounds, delta, adjacency) * (1 + 1e-3)


@few
@given(samplers, sizes, noises, rounds_, deltas, adjacencies)
def test_more_noise_or_a_larger_delta_cost_less(sampler, size, z, rounds, delta, adjacency):
    more = epsilon(sampler, size, z, rounds, delta, adjacency)
    assert epsilon(sampler, size, 1.2 * z, rounds, delta, adjacency) <= more * (1 + 1e-3)
    assert epsilon(sampler, size, z, rounds, 3 * delta, adjacency) <= more * (1 + 1e-3)


@few
@given(samplers, sizes, noises, rounds_, deltas, adjacencies)
def test_what_is_shown_live_is_never_below_the_promise(sampler, size, z, rounds, delta, adjacency):
    shown = live(round_of(sampler, size, z), rounds, delta, adjacency)
    assert shown >= epsilon(sampler, size, z, rounds, delta, adjacency)


@few
@given(noises, rounds_, deltas)
def test_replacing_is_zeroing_at_half_the_noise(z, rounds, delta):
    assert epsilon("all", 1, z, rounds, delta, "replace-one") == epsilon("all", 1, z / 2, rounds, delta, "zero-out")
    shown = [
        live(GaussianDpEvent(noise), rounds, delta, adjacency)
        for noise, adjacency in ((z, "replace-one"), (z / 2, "zero-out"))
    ]
    assert shown[0] == pytest.approx(shown[1], rel=1e-12)


@few
@given(st.sampled_from(("poisson", "fixed-size")), sizes, noises, rounds_)
def test_adjacencies_and_samplers_are_ordered(sampler, size, z, rounds):
    """A replaced unit is also one that is zeroed; a fixed-size cohort tells more than a Poisson one."""
    zeroed = epsilon(sampler, size, z, rounds, 1e-5, "zero-out")
    assert zeroed <= epsilon(sampler, size, z, rounds, 1e-5, "replace-one") * (1 + 1e-3)
    assert epsilon("poisson", size, z, rounds, 1e-5, "zero-out") <= zeroed * (1 + 1e-3)
    assert epsilon(sampler, size, z, rounds, 1e-5, "add-or-remove") <= epsilon(
        sampler, size, z, rounds, 1e-5, "replace-one"
    ) * (1 + 1e-3)


@pytest.mark.parametrize("kind", ["plain", "poisson", "poisson-replaced", "fixed-size", "fixed-size-replaced"])
@pytest.mark.parametrize(("rate", "shift"), [(0.5, 0.5), (0.01, 1.0), (0.2, 0.1)])
def test_renyi_divergences_do_not_fall_as_the_order_grows(kind, rate, shift):
    values = divergence(Round(kind, rate, shift), -42).values
    finite = values[np.isfinite(values)]
    assert len(finite) > len(ORDERS) - 20
    assert np.all(np.diff(finite) >= -1e-9 * finite[1:])


def shown_by(first: list, second: list, rounds: int, delta: float) -> float:
    """An epsilon that is certainly spent between these neighbours: outputs binned, losses rounded down."""
    grid = np.linspace(-12, 12 + 2 * max(mean for _, mean in first), 20_001)
    edges = np.concatenate(([-np.inf], grid, [np.inf]))

    def masses(mixture: list) -> np.ndarray:
        below, above = (sum(w * f(edges, mean) for w, mean in mixture) for f in (norm.cdf, norm.sf))
        return np.where(below[:-1] < 0.5, np.diff(below), -np.diff(above))

    one, other = masses(first), masses(second)
    some = (one > 1e-200) & (other > 1e-200)
    places = np.floor(np.log(one[some] / other[some]) / 4e-5).astype(int)
    probabilities = np.bincount(places - places.min(), weights=one[some])
    composed = DensePLDPmf(4e-5, int(places.min()), probabilities, 0.0, False).self_compose(rounds, 1e-14)
    return float(composed.get_epsilon_for_delta(1.001 * delta))


@pytest.mark.parametrize(
    ("size", "z", "rounds"),
    [
        (100, 2.0, 100),
        (900, 3.0, 30),
        (20, 1.2, 200),
    ],
)
def test_no_certified_lower_bound_is_crossed(size, z, rounds):
    """Neighbours that exist spend this much; the price is not below it, nor far above."""
    rate, shift, event = (
        size / UNITS,
        1 / z,
        SampledWithoutReplacementDpEvent(UNITS, size, GaussianDpEvent(z)),
    )
    away = [(1 - rate, 0.0), (rate, 2 * shift)]
    spent = shown_by(away, [(1 - rate, 0.0), (rate, shift)], rounds, 1e-5)
    zeroed = price(SelfComposedDpEvent(event, rounds), 1e-5, "zero-out").epsilon
    assert spent <= zeroed <= 1.1 * spent
    removed = shown_by(away, [(1.0, 0.0)], rounds, 1e-5)
    assert removed <= price(SelfComposedDpEvent(event, rounds), 1e-5, "add-or-remove").epsilon <= 1.01 * removed
    assert removed <= price(SelfComposedDpEvent(event, rounds), 1e-5, "replace-one").epsilon
    sampled = SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(z)), rounds)
    drawn = shown_by([(1 - rate, 0.0), (rate, shift)], [(1.0, 0.0)], rounds, 1e-5)
    assert drawn <= price(sampled, 1e-5, "zero-out").epsilon <= 1.02 * drawn
    # The bound has teeth: a Poisson price would not pass for a fixed-size cohort.
    assert price(sampled, 1e-5, "zero-out").epsilon < spent


@settings(max_examples=8, deadline=None, derandomize=True)
@given(samplers, sizes, rounds_, st.floats(0.05, 30.0), adjacencies)
def test_calibration_never_overshoots(sampler, size, rounds, target, adjacency):
    def event_of(z: float) -> DpEvent:
        return SelfComposedDpEvent(round_of(sampler, size, z), rounds)

    z = calibrate(event_of, target, 1e-5, adjacency)
    assert price(event_of(z), 1e-5, adjacency).epsilon <= target
    assert price(event_of(z * (1 - 1.01e-6)), 1e-5, adjacency).epsilon > target
    assert float(f"{z:.7g}") == z


@few
@given(samplers, sizes, noises, rounds_, adjacencies)
def test_asking_changes_nothing(sampler, size, z, rounds, adjacency):
    event = SelfComposedDpEvent(round_of(sampler, size, z), rounds)
    before, first = repr(event), price(event, 1e-5, adjacency)
    live(event.event, [1, rounds], 1e-5, adjacency)
    price(event, 1e-7, adjacency)
    assert price(event, 1e-5, adjacency) == first and repr(event) == before
    assert first.epsilon >= 0 and not math.isnan(first.epsilon)
