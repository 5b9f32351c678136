"""The noise for a target: never too little, hardly too much."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)

from onlooker.errors import TermsError, UnpricedError
from onlooker.privacy.accounting import price
from onlooker.privacy.calibration import calibrate


def poisson(rate: float, rounds: int) -> Callable[[float], DpEvent]:
    return lambda z: SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(z)), rounds)


def plain(rounds: int) -> Callable[[float], DpEvent]:
    return lambda z: SelfComposedDpEvent(GaussianDpEvent(z), rounds)


@pytest.mark.parametrize(
    ("event_of", "epsilon", "delta", "adjacency", "expected"),
    [
        (poisson(0.5, 40), 8.0, 1e-5, "zero-out", 2.0641),
        (poisson(0.5, 30), 4.0, 1e-5, "replace-one", 5.9042),
        (poisson(0.01, 500), 1.0, 1e-5, "add-or-remove", 1.147),
        (plain(40), 8.0, 1e-5, "zero-out", 3.7962),
        (plain(30), 4.0, 1e-5, "replace-one", 11.844),
        (plain(1), 8.0, 1e-4, "zero-out", 0.543075),
        (plain(1), 0.1, 1e-5, "zero-out", 30.7496),
    ],
)
def test_known_noise(event_of, epsilon, delta, adjacency, expected):
    z = calibrate(event_of, epsilon, delta, adjacency)
    assert z == pytest.approx(expected, rel=1e-3)
    assert price(event_of(z), delta, adjacency).epsilon <= epsilon


def test_every_event_is_kept_to_the_target():
    """The public sees an amplified release, a server every participation: the server decides."""
    server = calibrate(plain(40), 8.0, 1e-5, "zero-out")
    assert server == pytest.approx(3.7962, rel=2e-5)
    assert calibrate(lambda z: [poisson(0.5, 40)(z), plain(40)(z)], 8.0, 1e-5, "zero-out") == server


def test_the_target_holds_with_the_sampler_paid():
    free, paid = (calibrate(poisson(0.5, 40), 8.0, 1e-5, "zero-out", error) for error in (0.0, 2e-11))
    assert free <= paid <= 1.001 * free
    assert price(poisson(0.5, 40)(paid), 1e-5, "zero-out", 2e-11).epsilon <= 8.0
    with pytest.raises(UnpricedError, match=r"privacy\.delta"):
        calibrate(poisson(0.5, 40), 8.0, 1e-5, "zero-out", 1e-9)


def test_progress_is_told():
    told: list[tuple[float, float]] = []
    z = calibrate(poisson(0.5, 40), 8.0, 1e-5, "zero-out", progress=lambda z, epsilon: told.append((z, epsilon)))
    assert 4 < len(told) < 30
    assert told == [(tried, price(poisson(0.5, 40)(tried), 1e-5, "zero-out").epsilon) for tried, _ in told]
    assert z in [tried for tried, epsilon in told if epsilon <= 8.0]


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 3e2, 1e7])
def test_extreme_targets(epsilon):
    z = calibrate(poisson(0.1, 100), epsilon, 1e-5, "zero-out")
    assert price(poisson(0.1, 100)(z), 1e-5, "zero-out").epsilon <= epsilon
    assert price(poisson(0.1, 100)(z * (1 - 2e-6)), 1e-5, "zero-out").epsilon > epsilon


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.nan, math.inf])
def test_impossible_targets(epsilon):
    with pytest.raises(TermsError, match=r"^privacy\.epsilon = .* must be a finite number above 0\.$"):
        calibrate(plain(1), epsilon, 1e-5, "zero-out")


@pytest.mark.parametrize(
    "event_of",
    [
        lambda z: ComposedDpEvent([GaussianDpEvent(z), GaussianDpEvent(1.0)]),
        lambda z: [GaussianDpEvent(z), NonPrivateDpEvent()],
    ],
)
def test_a_target_that_noise_cannot_reach(event_of):
    with pytest.raises(TermsError, match=r"^privacy\.epsilon = 1 cannot be reached at privacy\.delta = 1e-05"):
        calibrate(event_of, 1.0, 1e-5, "zero-out")


def test_a_target_that_asks_for_no_noise():
    with pytest.raises(TermsError, match=r"^privacy\.epsilon = 1e\+20 asks for no noise"):
        calibrate(plain(1), 1e20, 1e-5, "zero-out")
