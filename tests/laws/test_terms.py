"""What the terms make of who sees what."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import (
    GaussianDpEvent,
    NonPrivateDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
)
from scipy.stats import norm

from onlooker.errors import TermsError, UnpricedError
from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.sampling import Everyone, FixedSize, Poisson, PoissonRecords
from onlooker.privacy.summation import Plain, Shared
from onlooker.privacy.terms import Terms, from_dict, to_dict
from onlooker.privacy.training import Training


def channel(z=2.0, noised_by="servers", summation=Shared(), bounds=1.0, name="model", **more):
    return Channel(10, RoundedGaussian(z), Grid(1.0, 20, 32), noised_by, summation, bounds=bounds, name=name, **more)


def terms(sampling=Poisson(0.5), channels=None, unit="client", training=Training(), **more):
    defaults = {"adjacency": "zero-out", "delta": 1e-5, "rounds": 40, "clients": 10}
    return Terms(
        unit=unit,
        sampling=sampling,
        training=training,
        channels=channels or (channel(),),
        **(defaults | more),
    )


def record_terms(sampling=Everyone(), keeps="nothing"):
    training = Training(keeps, PoissonRecords(0.1), 100, 200)
    return terms(sampling, (channel(sums_records=True, max_records=200),), "record", training)


def test_several_servers_leave_what_the_honest_ones_add():
    def left(count, corrupt, *colluding):
        one = terms(Everyone(), (channel(z=3.0, summation=Shared(count, corrupt)),))
        return one.round_event(0, "+".join(f"aux:{server}" for server in colluding) or "public")

    for colluding in ((), (0,), (1,)):
        assert left(2, 1, *colluding) == GaussianDpEvent(3.0)
        assert left(3, 1, *colluding) == GaussianDpEvent(3.0)  # never more than z is claimed
    assert left(3, 1, 0, 2).noise_multiplier == pytest.approx(3.0 * math.sqrt(1 / 2))
    assert left(4, 1, 0, 1, 2).noise_multiplier == pytest.approx(3.0 * math.sqrt(1 / 3))
    assert left(3, 2, 0, 2) == GaussianDpEvent(3.0)
    for count in (2, 3, 4):
        assert left(count, 1, *range(count)) == NonPrivateDpEvent()


@pytest.mark.parametrize(
    ("observer", "relay", "cover", "amplified"),
    [
        ("public", "coordinator", False, True),
        ("client:3", "coordinator", False, True),
        ("coordinator", "coordinator", False, False),
        ("coordinator", "aux:0", False, True),
        ("aux:1", "coordinator", False, False),
        ("aux:1", "coordinator", True, True),
        ("coordinator", "coordinator", True, True),
        ("coordinator+aux:0", "coordinator", True, True),
        ("auditor:1", "coordinator", False, False),
        ("client:3+coordinator", "coordinator", False, False),
    ],
)
def test_amplification_needs_ignorance(observer, relay, cover, amplified):
    one = terms(Poisson(0.5, cover), (channel(summation=Shared(relay=relay)),))
    assert one.amplified(0, observer) is amplified
    expected = PoissonSampledDpEvent(0.5, GaussianDpEvent(2.0)) if amplified else GaussianDpEvent(2.0)
    assert one.round_event(0, observer) == expected


def test_a_coordinator_that_draws_is_never_amplified_against():
    one = terms(FixedSize(5), (channel(summation=Shared(relay="aux:0")),))
    assert one.round_event(0, "coordinator") == GaussianDpEvent(2.0)
    assert one.round_event(0, "public") == SampledWithoutReplacementDpEvent(10, 5, GaussianDpEvent(2.0))


def test_a_client_knows_whether_it_was_drawn_itself():
    one = terms(FixedSize(5), (channel(),))
    assert one.round_event(0, "client:1") == SampledWithoutReplacementDpEvent(9, 5, GaussianDpEvent(2.0))
    assert one.round_event(0, "client:1+client:2") == SampledWithoutReplacementDpEvent(8, 5, GaussianDpEvent(2.0))
    assert one.round_event(0, "+".join(f"client:{i}" for i in range(1, 6))) == GaussianDpEvent(2.0)


def test_noise_by_clients_is_seen_row_by_row():
    for sampling, public in ((Poisson(0.5), 2.0), (Everyone(), 2.0 * math.sqrt(10)), (FixedSize(4), 4.0)):
        one = terms(sampling, (channel(noised_by="clients", summation=Plain()),))
        assert one.round_event(0, "coordinator") == GaussianDpEvent(2.0)
        assert one.round_event(0, "public").noise_multiplier == pytest.approx(public)
        accomplice = one.round_event(0, "client:1").noise_multiplier
        assert accomplice < public or accomplice == 2.0  # it subtracts its own noise
    shared = terms(Everyone(), (channel(noised_by="clients"),))
    assert shared.round_event(0, "coordinator").noise_multiplier == pytest.approx(2.0 * math.sqrt(10))
    assert shared.round_event(0, "aux:0+aux:1") == GaussianDpEvent(2.0)


def test_a_coordinator_that_adds_the_noise_has_no_guarantee_against_it():
    one = terms(channels=(channel(noised_by="server", summation=Plain()),))
    assert one.round_event(0, "coordinator") == NonPrivateDpEvent()
    assert one.round_event(0, "client:1+coordinator") == NonPrivateDpEvent()
    assert one.amplified(0, "public")


def test_nobody_is_guarded_from_himself_nor_from_the_host_of_all_servers():
    hosted = terms(channels=(channel(summation=Shared(hosted_by=(3, 3))),))
    assert hosted.round_event(0, "client:3") == NonPrivateDpEvent()
    half = terms(channels=(channel(summation=Shared(hosted_by=(3, 4))),))
    assert half.round_event(0, "client:3") == half.round_event(0, "aux:0+client:3") == GaussianDpEvent(2.0)
    assert half.round_event(0, "client:3+client:4") == NonPrivateDpEvent()
    assert half.round_event(0, "client:0") == NonPrivateDpEvent()


@pytest.mark.parametrize("observer", ["public", "coordinator", "aux:0", "client:1", "aux:1+client:1"])
@pytest.mark.parametrize("sampling", [Everyone(), Poisson(0.3), FixedSize(5)])
def test_a_record_is_charged_its_own_coin_alone(observer, sampling):
    assert record_terms(sampling).round_event(0, observer) == PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0))


def test_the_coin_of_a_silo_gives_nothing_to_its_records():
    """The counter-example of rule 4c: hockey sticks of an achievable pair above those of rate p q."""
    p, q, far = 0.5, 0.1, 80.0
    x = np.linspace(-40, 130, 1_700_001)

    def density(mean):
        return norm.pdf(x, mean)

    with_record = (1 - p) * density(0) + p * ((1 - q) * density(far) + q * density(far + 1))
    without = (1 - p) * density(0) + p * density(far)
    product = (1 - p * q) * density(0) + p * q * density(1)
    for epsilon in (0.05, 0.1, 0.3):
        achieved = np.maximum(with_record - np.exp(epsilon) * without, 0).sum() * (x[1] - x[0])
        claimed = np.maximum(product - np.exp(epsilon) * density(0), 0).sum() * (x[1] - x[0])
        assert achieved > 1.3 * claimed


def test_what_a_silo_keeps_cancels_record_sampling():
    one = record_terms(keeps="state")
    assert one.round_event(0, "public") == GaussianDpEvent(2.0)
    assert not one.amplified(0, "public")


def test_channels_under_one_coin_are_one_gaussian():
    """Two equal channels, q = .1, z = 1, T = 100: joined before amplification 14.28, not 9.97."""
    one = terms(Poisson(0.1), (channel(1.0, name="a"), channel(1.0, name="b")), rounds=100, clients=100)
    assert one.round_event(0, "public").event.noise_multiplier == pytest.approx(1 / math.sqrt(2))
    assert Ledger.plan(one).epsilon(0, "public") == pytest.approx(14.28, rel=2e-3)


def test_budgets_differ_in_public_ways_only():
    bounds = tuple(1.0 if client else 0.5 for client in range(10))
    one = terms(Poisson(tuple(0.1 + 0.05 * client for client in range(10))), (channel(bounds=bounds),))
    assert one.round_event(0, "public") == PoissonSampledDpEvent(0.1, GaussianDpEvent(4.0))
    assert one.round_event(3, "aux:0") == GaussianDpEvent(2.0)
    assert one.divisor == pytest.approx(sum(0.1 + 0.05 * client for client in range(10)))


def test_the_divisor_never_looks_at_a_cohort():
    assert terms(Poisson(0.5)).divisor == 5
    assert record_terms().divisor == pytest.approx(0.1 * 100 * 10)
    assert terms(FixedSize(4), weights=(2.0,) * 10).divisor == pytest.approx(8)


def test_terms_survive_being_written_down():
    for one in (
        terms(),
        record_terms(),
        terms(FixedSize(5), (channel(bounds=(1.0,) * 10, summation=Shared(hosted_by=(1, 2))),)),
    ):
        again = from_dict(to_dict(one))
        assert again == one and again.hash == one.hash
    with pytest.raises(TermsError):
        from_dict(to_dict(terms()) | {"delta": 2.0})


def test_every_privacy_key_is_in_the_hash():
    base = terms()
    others = [
        replace(base, delta=2e-5),
        replace(base, rounds=41),
        replace(base, clients=11),
        replace(base, adjacency="replace-one"),
        replace(base, sampling=Poisson(0.4)),
        replace(base, sampling=Poisson(0.5, True)),
        replace(base, channels=(channel(z=2.1),)),
        replace(base, channels=(channel(summation=Shared(3)),)),
        replace(base, channels=(channel(summation=Shared(relay="aux:1")),)),
        replace(base, channels=(channel(bounds=0.9),)),
        replace(base, training=Training("state")),
    ]
    assert len({base.hash, *(other.hash for other in others)}) == len(others) + 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: terms(channels=(channel(summation=Plain()),)), "needs auxiliary servers"),
        (lambda: terms(channels=(channel(noised_by="server"),)), "no price"),
        (lambda: terms(Poisson(0.5, True), (channel(noised_by="clients"),)), "cover-traffic"),
        (lambda: replace(terms(), channels=(replace(channel(), grid=None),)), "grid"),
    ],
)
def test_what_no_row_covers_is_refused(wrong, said):
    with pytest.raises(UnpricedError, match=said):
        wrong()


@pytest.mark.parametrize("name", ["aux:2", "client:10", "everybody", "aux:0+", "aux", ""])
def test_an_unknown_observer_is_named(name):
    with pytest.raises(TermsError, match="is not known"):
        terms().round_event(0, name)


def test_asking_changes_nothing():
    ledger = Ledger.plan(terms())
    before = (ledger, to_dict(ledger.terms))
    first = [ledger.epsilon(0, observer) for observer in ("public", "aux:0", "coordinator")]
    assert [ledger.epsilon(0, observer) for observer in ("public", "aux:0", "coordinator")] == first
    assert before == (ledger, to_dict(ledger.terms))


def test_a_client_that_adds_its_own_noise_scales_it_to_its_own_bound():
    bounds = tuple(1.0 if client else 0.5 for client in range(10))
    one = terms(Everyone(), (channel(noised_by="clients", summation=Plain(), bounds=bounds),))
    for client in (0, 1):
        assert one.round_event(client, "coordinator") == GaussianDpEvent(2.0)
        assert one.round_event(client, "public") == GaussianDpEvent(2.0)
