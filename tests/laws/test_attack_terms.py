"""Where a printed epsilon would be too small: each law here was broken, or nothing noticed when it was."""

import math
from dataclasses import replace

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NonPrivateDpEvent, PoissonSampledDpEvent, SampledWithoutReplacementDpEvent
from scipy.optimize import brentq
from scipy.stats import norm

from onlooker.errors import TermsError, UnpricedError
from onlooker.privacy.accounting import price
from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.mechanisms import Gaussian, RoundedGaussian
from onlooker.privacy.rounding import LEAST_ADDED_SIGMA
from onlooker.privacy.sampling import Everyone, FixedSize, Poisson, PoissonRecords
from onlooker.privacy.summation import Plain, Shared
from onlooker.privacy.target import noise_for
from onlooker.privacy.terms import Terms
from onlooker.privacy.training import Training

COINS, SERVERS, ALL = Poisson(0.5), Shared(), Everyone()
UNEQUAL = (0.25, *(1.0,) * 9)


def channel(z=2.0, noised_by="servers", summation=SERVERS, bounds=1.0, bits=20, ring=32, **more):
    return Channel(10, RoundedGaussian(z), Grid(1.0, bits, ring), noised_by, summation, bounds=bounds, **more)


def terms(channel, sampling=COINS, **more):
    defaults = {"unit": "client", "adjacency": "zero-out", "delta": 1e-5, "rounds": 40, "clients": 10}
    return Terms(sampling=sampling, channels=(channel,), **({"training": Training()} | defaults | more))


@pytest.mark.parametrize("observer", ["aux:0", "aux:1", "auditor:0", "client:3", "aux:0+client:5"])
def test_a_host_of_every_server_is_all_servers(observer):
    """A server sees what its host sees, and the host what each of its servers sees (rule 7b)."""
    one = terms(channel(summation=Shared(hosted_by=(3, 3))))
    assert one.round_event(0, observer) == NonPrivateDpEvent()


def test_a_host_of_two_of_three_servers_is_two_servers():
    one = terms(channel(summation=Shared(3, 1, hosted_by=(3, 3, 4))), ALL)
    left = one.round_event(0, "aux:1").noise_multiplier
    assert left == one.round_event(0, "aux:0+aux:1").noise_multiplier == pytest.approx(2.0 * math.sqrt(1 / 2))
    assert one.round_event(0, "aux:2") == GaussianDpEvent(2.0)


def test_a_client_that_hosts_an_honest_server_is_not_guarded_from_it():
    one = terms(channel(summation=Shared(hosted_by=(3, 4))), ALL)
    assert one.round_event(3, "aux:0") == NonPrivateDpEvent()
    assert one.round_event(3, "aux:1") == GaussianDpEvent(2.0)


def test_a_client_s_own_noise_is_priced_by_its_own_bound():
    """A short clip brings little noise along: z is z, not z times the largest clip over the own one."""
    for summation, observer in ((Plain(), "coordinator"), (Shared(), "aux:0+aux:1"), (Shared(), "public")):
        one = terms(channel(noised_by="clients", summation=summation, bounds=UNEQUAL), ALL)
        assert one.round_event(0, observer) == one.round_event(5, observer) == GaussianDpEvent(2.0)


def test_a_fixed_cohort_of_unequal_bounds_is_refused():
    with pytest.raises(UnpricedError, match="displaces"):
        terms(channel(bounds=UNEQUAL), FixedSize(5))
    for noised_by, bounds in (("servers", (1.0,) * 10), ("clients", UNEQUAL)):  # equal, or never amplified
        assert terms(channel(noised_by=noised_by, bounds=bounds), FixedSize(5)).has_guarantee(0, "public")


def test_whoever_a_short_client_displaces_may_be_long():
    """The counter-example: one of ten is drawn, the subject sends 1/4, any other -1; noise of deviation 1/2."""
    q, sigma, short, long, delta = 0.1, 0.5, 0.25, 1.0, 1e-3
    x = np.linspace(-8, 8, 400_001)

    def density(mean):
        return norm.pdf(x, mean, sigma)

    with_it, without = (
        (1 - q) * density(-long) + q * density(short),
        (1 - q) * density(-long) + q * density(0),
    )

    def excess(epsilon):
        return np.maximum(with_it - np.exp(epsilon) * without, 0).sum() * (x[1] - x[0]) - delta

    priced = price(SampledWithoutReplacementDpEvent(10, 1, GaussianDpEvent(sigma / short)), delta, "zero-out")
    assert brentq(excess, 0, 10) > 2 * priced.epsilon


def test_a_client_that_comes_displaces_one_whom_observers_may_know():
    """One of three is drawn, of whom two look on and were not: the third was there, or the subject was in its place.

    So the sum is moved by 2, not by the one bound that nobody displaced would cost.
    """
    with pytest.raises(UnpricedError, match="fixed-size"):
        terms(channel(), FixedSize(5), adjacency="add-or-remove")
    assert terms(channel(), COINS, adjacency="add-or-remove").has_guarantee(0, "public")
    x, delta = np.linspace(-14, 14, 280_001), 1e-3
    come, gone = (norm.pdf(x, 1) + norm.pdf(x, -1)) / 2, norm.pdf(x, -1)
    unsampled = price(GaussianDpEvent(1.0), delta, "add-or-remove").epsilon
    assert np.maximum(come - np.exp(unsampled) * gone, 0).sum() * (x[1] - x[0]) > 2 * delta


def test_a_client_that_goes_takes_its_noise_along():
    """So with noise by clients nothing like one Gaussian separates neighbours of which one lacks the client."""
    for sampling in (ALL, COINS, FixedSize(5)):
        with pytest.raises(UnpricedError, match="add-or-remove"):
            terms(channel(noised_by="clients"), sampling, adjacency="add-or-remove")
    records = Training("nothing", PoissonRecords(0.1), 100, 200)
    silos = channel(noised_by="clients", sums_records=True, max_records=200)
    one = terms(silos, ALL, adjacency="add-or-remove", unit="record", training=records)
    assert one.has_guarantee(0, "coordinator")  # a silo stays where a record goes, and so does its noise


def test_noises_that_are_rounded_apart_count_together_only_where_each_is_wide():
    narrow = LEAST_ADDED_SIGMA / 2**20
    for one in (channel(0.9 * narrow, "clients", Plain()), channel(1.2 * narrow, summation=Shared(3, 1))):
        with pytest.raises(TermsError, match="units of the grid"):
            terms(one, ALL)
    terms(channel(1.1 * narrow, "clients", Plain()), ALL)
    terms(channel(1.5 * narrow, summation=Shared(3, 1)), ALL)
    terms(channel(0.1 * narrow), ALL)  # of two servers' noises one alone is claimed, and that is exact
    with pytest.raises(TermsError, match="units of the grid"):
        terms(channel(2 * narrow, "clients", Plain(), bounds=(0.25,) + (1.0,) * 9), ALL)


def test_a_bound_below_one_unit_of_the_grid_is_refused():
    assert terms(channel(bounds=(2.0**-20, *(1.0,) * 9))).has_guarantee(0, "public")
    for least in (2.0**-21, 1e-300):
        with pytest.raises(TermsError, match="privacy.clip"):
            terms(channel(bounds=(least, *(1.0,) * 9)))


def test_a_delta_is_never_taken_for_another():
    ledger = Ledger.plan(terms(channel()))
    with pytest.raises(TermsError, match="delta = 0"):
        ledger.price(0, "public", delta=0.0)
    assert Ledger.plan(ledger.terms, 0).releases == ()


def test_calibration_pays_for_inexact_noise():
    """What the sampler takes of delta is in the noise that is found, so the promise does not exceed the target."""

    def terms_at(z):
        return terms(Channel(2, Gaussian(z), Grid(1.0, 12, 32), "servers", SERVERS, bounds=1.0), rounds=1)

    z = noise_for(0.5, terms_at, ["public", "aux:0"])
    found = Ledger.plan(terms_at(z)).price(0, "aux:0")
    assert 0 < found.delta_sampler <= 1e-7 and 0.499 < found.epsilon <= 0.5


def test_accomplices_lower_what_is_left_of_everybody_s_noise():
    """Nine of ten know their own noise and take it off; what is left is the subject's, whoever sums."""
    for summation in (Plain(), Shared()):
        one = terms(channel(noised_by="clients", summation=summation), ALL)
        for accomplices, left in ((1, 9), (5, 5), (9, 1)):
            names = "+".join(f"client:{client}" for client in range(1, 1 + accomplices))
            assert one.round_event(0, names).noise_multiplier == pytest.approx(2.0 * math.sqrt(left))


def test_records_are_not_amplified_by_what_their_silo_knows():
    """The silo itself, alone or in a coalition, is no stranger to its records."""
    records = Training("nothing", PoissonRecords(0.1), 100, 200)
    one = terms(channel(sums_records=True, max_records=200), ALL, unit="record", training=records)
    assert one.round_event(0, "client:0") == one.round_event(0, "public+client:0") == NonPrivateDpEvent()
    assert one.round_event(1, "client:0") == PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0))


def test_a_plan_of_some_rounds_is_a_prefix():
    whole = Ledger.plan(terms(channel()))
    some = replace(whole, releases=whole.releases[:7])
    assert some == Ledger.plan(whole.terms, 7)
    assert some.epsilon(0, "aux:0") == Ledger.plan(replace(whole.terms, rounds=7)).epsilon(0, "aux:0")


def test_rows_are_bounded_for_the_unit_that_is_priced():
    """A sum of records is bounded for a record alone, and by the clip and the cap that its C' was made for."""
    records = Training("nothing", PoissonRecords(0.1), 100, 200)
    summed = channel(sums_records=True, max_records=200)
    assert terms(summed, ALL, unit="record", training=records).has_guarantee(0, "public")
    for wrong, unit in (
        (summed, "client"),
        (channel(), "record"),  # whose records coins cannot draw, for its rows are clipped as a whole
        (replace(summed, max_records=100), "record"),
        (replace(summed, bounds=0.5), "record"),
    ):
        with pytest.raises(UnpricedError):
            terms(wrong, ALL, unit=unit, training=records)


def test_a_person_has_a_price_only_where_rows_are_summed_person_by_person():
    """And it is that of a record at the same rate: what is bounded is one person's part of the sum."""
    records = Training("nothing", PoissonRecords(0.1), 100, 200)
    summed = channel(sums_records=True, max_records=200)
    person = terms(summed, ALL, unit="person", training=records)
    assert person.event(0, "public") == terms(summed, ALL, unit="record", training=records).event(0, "public")
    for wrong in (channel(), replace(summed, max_records=100), replace(summed, bounds=0.5)):
        with pytest.raises(UnpricedError, match="person"):
            terms(wrong, ALL, unit="person", training=records)


def test_channels_are_told_apart_by_name():
    """Two of one name would draw one noise twice: the difference of their sums would have none."""
    with pytest.raises(TermsError, match="one name"):
        replace(terms(channel()), channels=(channel(), channel(z=1.0)))


def test_half_the_noise_from_each_of_two_servers_is_not_what_is_printed():
    """The page of FedDecouple: at sigma = 1.83, q = 0.5, T = 30 a server takes its own half off."""

    def epsilon(z, observer):
        return Ledger.plan(terms(channel(z), rounds=30)).epsilon(0, observer)

    assert epsilon(1.83, "public") == pytest.approx(8.0, abs=0.02)
    assert epsilon(1.83 / math.sqrt(2), "public") == pytest.approx(12.94, abs=0.01)
    assert epsilon(1.83 / math.sqrt(2), "aux:0") == pytest.approx(26.3, abs=0.05)


def record_terms(expected=100, most=200):
    records = Training("nothing", PoissonRecords(0.1), expected, most)
    return terms(channel(sums_records=True, max_records=most), ALL, unit="record", training=records)


def test_a_guarantee_for_a_record_says_nothing_of_a_client():
    ledger = Ledger.plan(record_terms())
    assert ledger.epsilon(0, "public") == ledger.epsilon(0, "public", unit="record") < math.inf
    assert ledger.epsilon(0, "public", unit="person") == ledger.epsilon(0, "public", unit="client") == math.inf
    whole = Ledger.plan(terms(channel()))
    assert whole.epsilon(0, "public", unit="client") == whole.epsilon(0, "public")
    exchanged = Ledger.plan(replace(terms(channel()), adjacency="replace-one")).epsilon(0, "public")
    for unit in ("person", "record"):  # a part of a client's data may turn its row round, which zero-out does not price
        assert whole.epsilon(0, "public", unit=unit) == exchanged > 1.2 * whole.epsilon(0, "public")


def test_a_cap_below_what_is_expected_is_refused():
    with pytest.raises(TermsError, match="data.max-records = 99"):
        record_terms(100, 99)


@pytest.mark.parametrize("hosts", [(3, 10), (-1, 3)])
def test_a_host_outside_the_roster_is_refused(hosts):
    with pytest.raises(TermsError, match="servers.hosted-by"):
        terms(channel(summation=Shared(hosted_by=hosts)))


def test_inexact_noise_is_paid_for_in_every_round():
    def error(rounds):
        inexact = Channel(2, Gaussian(2.0), Grid(1.0, 12, 32), "servers", SERVERS, bounds=1.0)
        return terms(inexact, rounds=rounds).sampler_error()

    assert error(40) == pytest.approx(40 * error(1))
    # Two servers' noises of 2 x 2^12 units in two coordinates, 2 sigma 2^-53 each.
    assert error(1) == pytest.approx(2 * 2 * 2 * 2.0 * 2**12 * 2.0**-53)


def test_calibration_keeps_every_client_and_every_observer():
    """The one who takes part most often decides, wherever it stands in the roster, and whoever sees most."""
    rates = Poisson((0.1, 0.1, 0.9))

    def terms_at(z):
        return terms(channel(z), rates, clients=3)

    for observers, least in ((["public"], (2, "public")), (["public", "aux:0"], (0, "aux:0"))):
        ledger = Ledger.plan(terms_at(noise_for(4.0, terms_at, observers)))
        found = {(client, name): ledger.epsilon(client, name) for client in range(3) for name in observers}
        assert max(found.values()) == found[least] <= 4.0 < 1.001 * found[least]
