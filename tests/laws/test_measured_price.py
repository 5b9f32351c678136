"""A private evaluation costs what a wider row costs, and never nothing."""

from __future__ import annotations

import math

import pytest
from dp_accounting import GaussianDpEvent
from hypothesis import given, settings
from hypothesis import strategies as some

from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.matrix import Tree
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.sampling import Cyclic, Everyone, FixedSize, Poisson, PoissonRecords, RandomAllocation
from onlooker.privacy.summation import Plain, Shared
from onlooker.privacy.terms import Terms
from onlooker.privacy.training import Training

OBSERVERS = ["public", "coordinator", "aux:0", "client:3", "aux:0+aux:1"]
SAMPLINGS = [Poisson(0.3), Everyone(), FixedSize(3), RandomAllocation(2, 8), Cyclic(2)]
RECORDS = Training("nothing", PoissonRecords(0.1), 100, 200)


def channel(z, name="model", size=20, records=False, mechanism=RoundedGaussian, summation=Shared()):
    noised_by = "servers" if isinstance(summation, Shared) else "server"
    most = {"sums_records": True, "max_records": 200} if records else {}
    return Channel(size, mechanism(z), Grid(1.0, 16, 32), noised_by, summation, bounds=1.0, name=name, **most)


def terms(*channels, sampling=Poisson(0.3), unit="client", training=Training(), adjacency="zero-out"):
    return Terms(unit, adjacency, 1e-5, 8, 10, sampling, training, channels)


def pairs(z, own, **more):
    """The terms with a channel for measures beside the model's, with one that is wider, and without."""
    built = {key: more.pop(key) for key in ("records", "mechanism", "summation") if key in more}
    joined = (z**-2 + own**-2) ** -0.5
    both = terms(channel(z, **built), channel(own, "evaluation", 3, **built), **more)
    return both, terms(channel(joined, size=23, **built), **more), terms(channel(z, **built), **more)


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda one: one.name)
def test_the_joint_price_is_that_of_one_wider_row(sampling, adjacency):
    both, wider, alone = pairs(1.5, 4.5, sampling=sampling, adjacency=adjacency)
    for observer in OBSERVERS:
        paid, expected, model = (Ledger.plan(one).epsilon(0, observer) for one in (both, wider, alone))
        assert paid == pytest.approx(expected, rel=1e-9) and (paid > model or math.isinf(model))


@pytest.mark.parametrize("sampling", [Everyone(), Cyclic(4)], ids=lambda one: one.name)
def test_correlated_noise_is_joined_for_the_whole_run(sampling):
    both, wider, alone = pairs(1.5, 4.5, sampling=sampling, mechanism=Tree, summation=Plain())
    paid, expected, model = (Ledger.plan(one).epsilon(0, "public") for one in (both, wider, alone))
    assert model < paid == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("unit", ["record", "person"])
def test_records_and_persons_pay_for_both_under_their_own_coin(unit):
    both, wider, alone = pairs(1.1, 2.2, unit=unit, training=RECORDS, sampling=Everyone(), records=True)
    paid, expected, model = (Ledger.plan(one).epsilon(0, "public") for one in (both, wider, alone))
    assert model < paid == pytest.approx(expected, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(some.floats(0.5, 20), some.floats(0.5, 200), some.floats(0.05, 1.0))
def test_measures_never_lower_a_price_and_are_one_gaussian(z, own, rate):
    both, _, alone = pairs(z, own, sampling=Poisson(rate))
    event = both.round_event(0, "aux:0")
    assert isinstance(event, GaussianDpEvent) and event.noise_multiplier == pytest.approx((z**-2 + own**-2) ** -0.5)
    assert Ledger.plan(both).epsilon(0, "public") >= Ledger.plan(alone).epsilon(0, "public")


def test_without_noise_on_the_measures_there_is_no_guarantee():
    assert math.isinf(Ledger.plan(pairs(2.0, 1.0)[0]).epsilon(0, "aux:0+aux:1"))
    silent = terms(channel(2.0), channel(0.0, "evaluation", 3))
    assert math.isinf(Ledger.plan(silent).epsilon(0, "public"))
