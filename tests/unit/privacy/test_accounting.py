"""What an event costs: conventions, values that hold everywhere, and what is refused."""

from __future__ import annotations

import json
import logging
import math

import dp_accounting
import pytest
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from onlooker.errors import TermsError, UnpricedError
from onlooker.privacy import losses
from onlooker.privacy.accounting import Price, live, price
from onlooker.privacy.rounds import read

ADJACENCIES = ("zero-out", "add-or-remove", "replace-one")


def plain(z: float, rounds: int = 1) -> DpEvent:
    return SelfComposedDpEvent(GaussianDpEvent(z), rounds)


def poisson(rate: float, z: float, rounds: int = 1) -> DpEvent:
    return SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(z)), rounds)


def fixed(units: int, size: int, z: float, rounds: int = 1) -> DpEvent:
    return SelfComposedDpEvent(SampledWithoutReplacementDpEvent(units, size, GaussianDpEvent(z)), rounds)


@pytest.mark.parametrize(
    ("event", "adjacency", "expected"),
    [
        (poisson(0.5, 2.064, 40), "zero-out", 7.9995),
        (poisson(0.02, 1.2, 200), "zero-out", 1.2635),
        (poisson(0.01, 1.0, 500), "add-or-remove", 1.3261),
        (poisson(0.1, 1.0, 100), "zero-out", 7.0466),
        (poisson(0.01, 0.6, 1000), "zero-out", 7.43362),
        (poisson(0.5, 4.0, 40), "replace-one", 7.4419),
        (poisson(0.01, 1.0, 1000), "replace-one", 2.84345),
        (plain(2.064, 40), "zero-out", 17.1397),
        (plain(1.2, 200), "add-or-remove", 118.8542),
        (plain(4.0, 40), "replace-one", 17.8566),
        (fixed(100, 10, 2.0, 100), "replace-one", 7.80491),
        (fixed(10, 5, 4.0, 30), "replace-one", 7.29768),
    ],
)
def test_known_prices(event, adjacency, expected):
    priced = price(event, 1e-5, adjacency)
    assert priced.accountant == "pld"
    assert expected * (1 - 5e-4) <= priced.epsilon <= expected * 1.005


@pytest.mark.parametrize(
    ("event", "rounds", "expected"),
    [
        (PoissonSampledDpEvent(0.01, GaussianDpEvent(0.6)), 1000, 8.6804),
        (PoissonSampledDpEvent(0.5, GaussianDpEvent(8.0)), 40, 1.7122),
        (GaussianDpEvent(5.0), 30, 5.2524),
        (GaussianDpEvent(2.0), 1, 2.16572),
    ],
)
def test_known_live_epsilons(event, rounds, expected):
    assert live(event, rounds, 1e-5, "zero-out") == pytest.approx(expected, abs=1e-3)


def test_a_fixed_size_cohort_costs_more_than_poisson_and_less_than_replacement():
    """All others send -C and the subject C: 4.102 can be learned where Poisson sampling would cost 2.34."""
    event = fixed(100, 10, 2.0, 100)
    zeroed, replaced = price(event, 1e-5, "zero-out"), price(event, 1e-5, "replace-one")
    assert 4.102 <= zeroed.epsilon <= 4.31
    assert price(poisson(0.1, 2.0, 100), 1e-5, "zero-out").epsilon < 2.35
    assert replaced.epsilon > 7.80


def test_one_convention_for_replacement_whatever_the_library_reads():
    """For REPLACE_ONE one of the library's accountants takes z for sigma/C, the other for sigma/(2C)."""
    by_library = []
    for accountant in (
        PLDAccountant(NeighboringRelation.REPLACE_ONE),
        RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE),
    ):
        accountant.compose(GaussianDpEvent(2.0))
        by_library.append(accountant.get_epsilon(1e-5))
    assert by_library == pytest.approx([4.37718, 2.16572], abs=1e-4), "the trap is gone: simplify"
    event = GaussianDpEvent(2.0)
    assert price(event, 1e-5, "replace-one").epsilon == pytest.approx(4.37718, abs=1e-4)
    assert live(event, 1, 1e-5, "replace-one") == live(GaussianDpEvent(1.0), 1, 1e-5, "zero-out") > 4.37718
    for sampled in (poisson(0.5, 2.0), fixed(10, 5, 2.0)):
        unsampled = price(event, 1e-5, "replace-one").epsilon
        assert price(sampled, 1e-5, "replace-one").epsilon < unsampled
        assert live(sampled, 1, 1e-5, "replace-one") < live(event, 1, 1e-5, "replace-one")


@pytest.mark.parametrize("adjacency", ADJACENCIES)
def test_every_kind_of_round_has_a_price_in_every_adjacency(adjacency):
    for event in (plain(3.0, 10), poisson(0.2, 3.0, 10), fixed(20, 4, 3.0, 10)):
        priced = price(event, 1e-5, adjacency)
        assert priced.accountant == "pld"
        assert 0 < priced.epsilon <= live(event, 1, 1e-5, adjacency) < 25


def test_rounds_are_counted_however_they_are_nested():
    once = PoissonSampledDpEvent(0.1, GaussianDpEvent(1.5))
    nested = ComposedDpEvent([SelfComposedDpEvent(SelfComposedDpEvent(once, 5), 4), once, NoOpDpEvent()])
    assert price(nested, 1e-5, "zero-out") == price(SelfComposedDpEvent(once, 21), 1e-5, "zero-out")
    assert price(SelfComposedDpEvent(once, 0), 1e-5, "zero-out") == Price(0.0, 1e-5, "pld")


def test_channels_under_one_coin_are_one_gaussian():
    """Joined, two equal channels cost 14.28; under coins of their own they would seem to cost 9.97."""
    joined = PoissonSampledDpEvent(0.1, ComposedDpEvent([GaussianDpEvent(1.0), GaussianDpEvent(1.0)]))
    apart = ComposedDpEvent([poisson(0.1, 1.0), poisson(0.1, 1.0)])
    cost = [price(SelfComposedDpEvent(event, 100), 1e-5, "zero-out").epsilon for event in (joined, apart)]
    assert cost == pytest.approx([14.28, 9.97], abs=0.01)
    assert cost[0] == pytest.approx(price(poisson(0.1, 2**-0.5, 100), 1e-5, "zero-out").epsilon, rel=1e-6)


def test_different_rounds_compose():
    """A tenth of the rounds unsampled: more than without them, less than if both budgets were added."""
    mixed = price(ComposedDpEvent([poisson(0.1, 2.0, 90), plain(8.0, 10)]), 1e-5, "zero-out").epsilon
    accountant = PLDAccountant()
    accountant.compose(ComposedDpEvent([poisson(0.1, 2.0, 90), plain(8.0, 10)]))
    assert mixed == pytest.approx(accountant.get_epsilon(1e-5), rel=1e-3)


def test_a_cohort_of_everyone_is_not_sampled():
    assert price(fixed(10, 10, 3.0, 5), 1e-5, "zero-out") == price(plain(3.0, 5), 1e-5, "zero-out")
    assert price(fixed(10, 10, 3.0, 5), 1e-5, "replace-one") == price(plain(3.0, 5), 1e-5, "replace-one")
    assert price(poisson(1.0, 3.0, 5), 1e-5, "zero-out") == price(plain(3.0, 5), 1e-5, "zero-out")
    assert price(poisson(0.0, 3.0, 5), 1e-5, "zero-out").epsilon == 0
    assert price(fixed(10, 0, 3.0, 5), 1e-5, "zero-out").epsilon == 0


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize(
    "event",
    [
        NonPrivateDpEvent(),
        plain(0.0),
        poisson(0.1, 0.0),
        fixed(10, 1, 0.0),
        ComposedDpEvent([plain(1.0), NonPrivateDpEvent()]),
    ],
)
def test_without_noise_there_is_no_guarantee(event, adjacency):
    assert price(event, 1e-5, adjacency, sampler_error=1e-9) == Price(math.inf, 1e-5, "none")
    assert live(event, [1, 7], 1e-5, adjacency) == [math.inf, math.inf]


@pytest.mark.parametrize("adjacency", ADJACENCIES)
@pytest.mark.parametrize("kind", [lambda z: poisson(0.5, z, 100), lambda z: fixed(20, 3, z, 100)])
def test_hardly_any_noise_is_priced_without_a_warning(kind, adjacency):
    last = 0.0
    for z in (0.5, 0.01, 2e-3, 1e-4, 1e-8):
        epsilon = price(kind(z), 1e-5, adjacency).epsilon
        assert last < epsilon < math.inf
        last = epsilon
    assert last > 1e15


def test_long_runs():
    long, few = poisson(1e-3, 1.0, 10**5), poisson(1e-3, 1.0, 10**4)
    assert price(long, 1e-5, "zero-out").epsilon == pytest.approx(1.63718, rel=1e-3)
    assert price(few, 1e-5, "zero-out").epsilon < price(long, 1e-5, "zero-out").epsilon
    million = price(poisson(1e-4, 1.0, 10**6), 1e-5, "zero-out")
    assert million.accountant == "pld" and 0.4 < million.epsilon < 0.5
    endless = price(poisson(1e-5, 1.0, 10**8), 1e-5, "zero-out")
    assert endless.accountant == "rdp" and million.epsilon < endless.epsilon < 0.7


def test_a_delta_too_small_for_the_transform_is_priced_by_renyi():
    event = PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0))
    for delta, accountant in ((1e-10, "pld"), (1e-13, "rdp"), (1e-20, "rdp"), (1e-100, "rdp")):
        priced = price(SelfComposedDpEvent(event, 100), delta, "zero-out")
        assert priced.accountant == accountant
        assert math.isfinite(priced.epsilon)
        assert priced.epsilon <= live(event, 100, delta, "zero-out")
    assert price(plain(2.0, 100), 1e-100, "zero-out").accountant == "pld"


def test_rounding_in_the_transform_is_never_in_favour():
    """Composed, rounds that all but surely take place cost no less than in closed form, down to the smallest delta."""
    for rounds, total, delta in ((1000, 1.0, 3.1e-11), (10**5, 3.0, 3.1e-9), (10**6, 0.3, 3.1e-8)):
        missed = 1e-12
        priced = price(poisson(1 - missed, math.sqrt(rounds) / total, rounds), delta, "zero-out")
        all_drawn = rounds * math.log1p(-missed)
        exact = dp_accounting.get_epsilon_gaussian(1 / total, delta / math.exp(all_drawn))
        assert priced.accountant == "pld"
        assert exact + all_drawn <= priced.epsilon <= 1.005 * exact


def test_what_rounding_may_lose_is_charged():
    event, delta = poisson(0.1, 4.0, 1000), 3.1e-11
    rounds = read(event, "zero-out")
    _, interval = losses.intervals(rounds, -50)
    whole = losses.composed(rounds, interval, -50)
    charged = price(event, delta, "zero-out").epsilon
    assert charged >= whole.get_epsilon_for_delta(delta - 1000 * 2e-16) > whole.get_epsilon_for_delta(delta)


def test_what_the_library_cannot_take_is_rounded_up():
    assert price(poisson(1e-12, 1.0, 100), 1e-9, "zero-out") == price(poisson(1e-6, 1.0, 100), 1e-9, "zero-out")
    for adjacency in ADJACENCIES:
        unsampled = price(plain(1e-4, 100), 1e-5, adjacency)
        assert price(poisson(0.5, 1e-4, 100), 1e-5, adjacency) == unsampled
        # Without the subject another row is drawn, which may be opposite.
        displaced = price(plain(1e-4, 100), 1e-5, "replace-one") if adjacency == "add-or-remove" else unsampled
        assert price(fixed(10, 5, 1e-4, 100), 1e-5, adjacency) == displaced


def test_the_sampler_is_paid_out_of_delta():
    event = poisson(0.5, 2.064, 40)
    exact = price(event, 1e-5, "zero-out")
    paid = price(event, 1e-5, "zero-out", sampler_error=2e-11)
    assert paid.delta == 1e-5
    assert paid.delta_sampler == pytest.approx(2e-11 * (1 + math.exp(paid.epsilon)))
    assert paid.epsilon > exact.epsilon
    # What was set aside is enough: the rest of delta alone buys this epsilon.
    assert price(event, 1e-5 - paid.delta_sampler, "zero-out").epsilon <= paid.epsilon
    assert paid.epsilon == pytest.approx(exact.epsilon, rel=1e-3)


def test_a_sampler_that_costs_too_much_is_refused():
    with pytest.raises(UnpricedError, match=r"^privacy\.delta = 1e-05 cannot pay .* raise privacy\.delta"):
        price(poisson(0.5, 2.064, 40), 1e-5, "zero-out", sampler_error=3.5e-11)
    with pytest.raises(UnpricedError, match=r"privacy\.delta"):
        price(plain(1.2, 200), 1e-5, "zero-out", sampler_error=1e-30)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-5, 2.0, math.nan])
def test_impossible_delta(delta):
    with pytest.raises(TermsError, match=r"privacy\.delta = "):
        price(plain(1.0), delta, "zero-out")
    with pytest.raises(TermsError, match=r"privacy\.delta = "):
        live(GaussianDpEvent(1.0), 1, delta, "zero-out")


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (plain(-1.0), r"privacy\.noise-multiplier = -1\.0"),
        (plain(math.nan), r"privacy\.noise-multiplier = nan"),
        (poisson(1.5, 1.0), "rate = 1.5"),
        (poisson(-0.1, 1.0), "rate = -0.1"),
        (poisson(math.nan, 1.0), "rate = nan"),
        (fixed(10, 11, 1.0), "a cohort of 11 cannot be drawn from 10"),
    ],
)
def test_impossible_events(event, words):
    with pytest.raises(TermsError, match=words):
        price(event, 1e-5, "zero-out")


@pytest.mark.parametrize(
    "event",
    [
        LaplaceDpEvent(1.0),
        PoissonSampledDpEvent(0.1, LaplaceDpEvent(1.0)),
        PoissonSampledDpEvent(0.1, PoissonSampledDpEvent(0.1, GaussianDpEvent(1.0))),
        dp_accounting.SampledWithReplacementDpEvent(10, 2, GaussianDpEvent(1.0)),
    ],
)
def test_what_no_rule_prices_is_refused(event):
    with pytest.raises(UnpricedError, match="no rule prices"):
        price(event, 1e-5, "zero-out")


def test_an_unknown_adjacency_is_refused():
    with pytest.raises(TermsError, match=r'privacy\.adjacency = "neighbour" is not known; choose one of add-or-remove'):
        price(plain(1.0), 1e-5, "neighbour")  # type: ignore[arg-type]


def test_live_answers_many_prefixes_at_once():
    event = PoissonSampledDpEvent(0.5, GaussianDpEvent(2.064))
    many = live(event, [0, 1, 10, 40], 1e-5, "zero-out")
    assert many == pytest.approx([live(event, rounds, 1e-5, "zero-out") for rounds in (0, 1, 10, 40)])
    assert many == sorted(many) and many[0] == 0
    assert live(event, [], 1e-5, "zero-out") == []
    with pytest.raises(TermsError, match="rounds = -1"):
        live(event, [-1], 1e-5, "zero-out")


def test_dropped_orders_are_not_spoken_of(caplog):
    """The library drops orders at this rate and says so on a log of its own."""
    event = PoissonSampledDpEvent(0.5, GaussianDpEvent(1.0625))
    with caplog.at_level(logging.DEBUG):
        live(event, 3, 1e-5, "zero-out")
    assert caplog.records == []
    RdpAccountant().compose(event)
    assert any("Excluding this order" in record.message for record in caplog.records), "nothing left to silence"


def test_a_price_can_be_written_down():
    assert json.loads(json.dumps(vars(price(plain(2.0), 1e-5, "zero-out"))))["accountant"] == "pld"


def test_losses_beyond_what_floats_hold_go_to_renyi_without_a_warning():
    sampled, whole = (
        price(SelfComposedDpEvent(event, 265), 1e-8, "replace-one")
        for event in (PoissonSampledDpEvent(0.673, GaussianDpEvent(0.5)), GaussianDpEvent(0.5))
    )
    assert sampled.accountant == "rdp" and 100 < sampled.epsilon < whole.epsilon
