"""Correlated noise: exact on the grid, restart-safe, of the right size, and priced once."""

import json
import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, NonPrivateDpEvent
from hypothesis import given, settings
from hypothesis import strategies as st

from onlooker.errors import TermsError, UnpricedError
from onlooker.privacy.accounting import price, so_far
from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid, choose_fraction_bits
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.matrix import Banded, Tree, no_noise_yet, peak, spread
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.random import Seeded, Stream
from onlooker.privacy.sampling import (
    Cyclic,
    Everyone,
    FixedOffset,
    FixedSize,
    Poisson,
    PoissonRecords,
    RandomAllocation,
)
from onlooker.privacy.summation import Plain, Shared
from onlooker.privacy.terms import Terms, from_dict, to_dict
from onlooker.privacy.training import Training

STRATEGIES = [Tree(1.0), Banded(1.0, 2), Banded(1.0, 5), Banded(1.0, 12)]


def matrix(strategy, rounds):
    """C, times 2^g: exact integers."""
    entries = np.zeros((rounds, rounds), dtype=np.int64)
    for row in range(rounds):
        if isinstance(strategy, Tree):
            entries[row, row + 1 - ((row + 1) & -(row + 1)) : row + 1] = 1
        else:
            numerators = (strategy.coefficients * 2**strategy.finer_bits).astype(np.int64)[: row + 1]
            entries[row, row + 1 - len(numerators) : row + 1] = numerators[::-1]
    return entries


def noises(strategy, fresh):
    """What each round adds, `int64[T, d]`."""
    state, added = no_noise_yet(fresh.shape[1]), []
    for round, drawn in enumerate(fresh, 1):
        noise, state = strategy.step(state, drawn, round)
        added.append(noise)
    return np.array(added)


def as_told(entries, finer_bits, told):
    """The releases, from V alone: y_t = floor((V_t - sum K_ts y_s) / 2^g + 1/2), in integers without bounds."""
    released = []
    for row, value in zip(entries.tolist(), told, strict=True):
        left = value - sum(entry * earlier for entry, earlier in zip(row, released, strict=False))
        released.append((2 * left + 2**finer_bits) // 2 ** (finer_bits + 1))
    return released


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(seed=st.integers(0, 2**32), rounds=st.integers(1, 40), bits=st.integers(1, 45))
@settings(max_examples=40, deadline=None)
def test_the_releases_are_a_function_of_u_alone(strategy, seed, rounds, bits):
    draw = np.random.default_rng(seed)
    rows, fresh = draw.integers(-(2**20), 2**20, rounds), draw.integers(-(2**bits), 2**bits, rounds)
    entries = matrix(strategy, rounds)
    told = [int(one) for one in entries.astype(object) @ rows.astype(object) + fresh.astype(object)]
    released = rows + noises(strategy, fresh[:, None])[:, 0]
    assert released.tolist() == as_told(entries, strategy.finer_bits, told)


def test_rounding_halves_to_even_would_not_be():
    strategy, rows, fresh = Banded(1.0, 2), np.array([1, 0]), np.array([1, 0])
    told = matrix(strategy, 2) @ rows + fresh
    to_even = rows[0] + round(fresh[0] / 2)
    assert to_even != round(told[0] / 2)
    assert rows[0] + noises(strategy, fresh[:, None])[0, 0] == as_told(matrix(strategy, 2), 1, told.tolist())[0]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_restart_goes_on_with_the_same_noise(strategy):
    fresh = np.random.default_rng(3).integers(-(2**30), 2**30, (23, 7))
    whole = noises(strategy, fresh)
    for stop in range(1, 23):
        state = no_noise_yet(7)
        for round in range(1, stop + 1):
            _, state = strategy.step(state, fresh[round - 1], round)
        state = np.frombuffer(state.tobytes(), dtype=np.int64).reshape(state.shape)
        for round in range(stop + 1, 24):
            noise, state = strategy.step(state, fresh[round - 1], round)
            assert np.array_equal(noise, whole[round - 1])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_forgotten_noise_is_noticed(strategy):
    with pytest.raises(TermsError, match="put the state back"):
        strategy.step(no_noise_yet(3), np.zeros(3, dtype=np.int64), 2)
    with pytest.raises(TermsError, match="2\\^46"):
        strategy.step(no_noise_yet(1), np.array([2**46 + 1]), 1)


@pytest.mark.parametrize("bands", [2, 3, 10, 11, 100, 256])
def test_no_noise_grows_beyond_four_times_the_largest_draw(bands):
    inverse = Banded(1.0, bands)._response(np.eye(1, 30_000)[0])
    assert np.abs(inverse).sum() < 4
    assert abs(inverse[-1]) < 1e-9  # so that what was cut off the sum is nothing


def accepted(values, variance):
    """Whether the mean square of Gaussian values fits a variance, within five standard errors."""
    return abs(np.mean(values**2) / variance - 1) < 5 * math.sqrt(2 / values.size)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_drawn_noise_has_the_variances_that_are_claimed(strategy):
    sigma, rounds, size = 50.0, 12, 20_000
    fresh = np.array([strategy.noise(sigma, size, Stream(bytes([t]) * 32)) for t in range(rounds)])
    added = noises(strategy, fresh)
    prefix = np.cumsum(added, axis=0)
    for values, claimed in ((added, strategy.round_variances(rounds)), (prefix, strategy.prefix_variances(rounds))):
        for t in (0, 5, 7, 11):
            variance = claimed[t] * sigma**2
            assert accepted(values[t], variance)
            assert not accepted(values[t], 0.7 * variance)
            assert not accepted(values[t], 1.3 * variance)


def test_noise_of_two_rounds_is_correlated_as_the_inverse_says():
    strategy, size = Banded(1.0, 2), 40_000
    fresh = np.array([strategy.noise(100.0, size, Stream(bytes([t]) * 32)) for t in range(2)])
    first, second = noises(strategy, fresh) / 100.0
    covariance = float(np.mean(first * second))
    assert abs(covariance + 0.5) < 0.03 < abs(covariance + 0.5 * 0.7)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("rounds", [1, 2, 7, 16, 30])
@pytest.mark.parametrize("period", [1, 2, 3, 5, 30])
def test_sensitivity_is_the_worst_over_offsets_and_directions(strategy, rounds, period):
    dense = matrix(strategy, rounds) / 2.0**strategy.finer_bits
    draw = np.random.default_rng(rounds * 100 + period)
    longest = 0.0
    for offset in range(min(period, rounds)):
        taken = np.zeros((rounds, 1))
        taken[offset::period] = 1
        longest = max(longest, np.linalg.norm(dense @ taken))
        rows = taken * draw.standard_normal((rounds, 3))
        rows /= np.maximum(1e-9, np.linalg.norm(rows, axis=1, keepdims=True))
        assert np.linalg.norm(dense @ rows) <= strategy.sensitivity(period, rounds) * (1 + 1e-12)
    assert strategy.sensitivity(period, rounds) == pytest.approx(longest, rel=1e-12)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_sensitivity_never_falls_as_rounds_pass(strategy):
    lengths = [strategy.sensitivity(4, rounds) for rounds in range(1, 50)]
    assert lengths == sorted(lengths)


def reference(shared, key):
    return json.loads((shared / "reference" / "reference_values.json").read_text())[key]


def test_factors_agree_with_the_reference(shared):
    for row in reference(shared, "banded_mf"):
        strategy, rounds = Banded(1.0, row["bands"]), row["T"]
        assert strategy.coefficients == pytest.approx(row["toeplitz_coefs"], rel=1e-6)
        assert strategy.sensitivity(rounds, rounds) == pytest.approx(row["sens_single"], rel=1e-5)
        assert strategy.sensitivity(row["min_sep"], rounds) == pytest.approx(row["sens_multi_numpy"], rel=2e-6)
        assert strategy.prefix_variances(rounds).max() == pytest.approx(row["max_rowvar_B"], rel=1e-5)
        assert strategy.prefix_variances(rounds).mean() == pytest.approx(row["mean_rowvar_B"], rel=1e-5)


def test_the_tree_uses_the_nodes_that_a_prefix_sum_needs():
    assert Tree(1.0).prefix_variances(8).tolist() == [1, 1, 2, 1, 2, 2, 3, 1]
    assert Tree(1.0).round_variances(8).tolist() == [1, 2, 1, 3, 1, 2, 1, 4]
    assert (spread(Tree(1.0)), peak(Tree(1.0), 8)) == (pytest.approx(math.sqrt(2), rel=1e-3), 2.0)


def terms(mechanism, sampling, rounds=40, adjacency="zero-out", noised_by="servers", summation=Shared(), **more):
    """Twelve clients under correlated noise, by default added by each of two servers."""
    channel = Channel(6, mechanism, Grid(1.0, 14, 64), noised_by, summation, bounds=1.0)
    more = {"unit": "client", "training": Training(), **more}
    return Terms(
        more["unit"], adjacency, 1e-5, rounds, 12, sampling, more["training"], more.get("channels", (channel,))
    )


def test_prices_agree_with_the_reference(shared):
    for row in reference(shared, "tree_aggregation_single_epoch"):
        asked = terms(Tree(row["noise_multiplier"]), FixedOffset(row["steps"]), row["steps"])
        epsilon = Ledger.plan(asked).epsilon(0, "public", row["delta"])
        assert 0.9995 * row["eps_pld_equiv"] <= epsilon <= 1.005 * row["eps_pld_equiv"]
    for row in reference(shared, "banded_mf"):
        asked = terms(Banded(4 * row["sens_multi"], row["bands"]), Cyclic(row["min_sep"]), row["T"])
        epsilon = Ledger.plan(asked).epsilon(0, "public", 1e-5)
        assert epsilon == pytest.approx(row["eps_for_sigma_over_sens_4"], rel=5e-4)
    (row,) = [
        one for one in reference(shared, "amplified_bandmf_jax_privacy") if one["sampling_prob_within_group"] == 1
    ]
    single = Banded(1.0, row["bands"]).sensitivity(row["iterations"], row["iterations"])
    asked = terms(Banded(row["noise_multiplier"] * single, row["bands"]), Cyclic(row["bands"]), row["iterations"])
    assert Ledger.plan(asked).epsilon(0, "public") == pytest.approx(row["eps"], rel=5e-4)


@pytest.mark.parametrize("mechanism", [Tree(8.0), Banded(8.0, 4)])
@pytest.mark.parametrize("sampling", [Everyone(), Cyclic(4), FixedOffset(4)])
def test_a_run_is_priced_once_and_a_part_never_above_it(mechanism, sampling):
    asked = terms(mechanism, sampling)
    planned = [Ledger.plan(asked, rounds).epsilon(3, "public") for rounds in (0, 1, 5, 20, 40)]
    assert planned == sorted(planned)
    ledger = Ledger(asked)
    for round in range(1, 41):
        ledger = ledger.charge(round, f"{round}")
    assert ledger.epsilon(3, "public") == planned[-1] == so_far(asked.event(3, "public"), 1e-5, "zero-out")
    period = getattr(sampling, "period", 1)
    assert asked.event(3, "public") == GaussianDpEvent(8.0 / mechanism.sensitivity(period, 40))


def test_independent_rounds_would_be_priced_too_low():
    asked = terms(Banded(8.0, 4), Cyclic(4))
    independent = Ledger.plan(terms(RoundedGaussian(8.0), Cyclic(4))).epsilon(0, "public")
    assert Ledger.plan(asked).epsilon(0, "public") > 1.05 * independent


def test_replacing_one_counts_twice():
    replaced = Ledger.plan(terms(Tree(8.0), Cyclic(4), adjacency="replace-one")).epsilon(0, "public")
    assert replaced == Ledger.plan(terms(Tree(4.0), Cyclic(4))).epsilon(0, "public")


def test_each_server_has_its_own_noise_and_its_own_memory():
    asked = terms(Tree(8.0), Cyclic(4))
    (channel,) = asked.channels
    assert asked.event(0, "aux:1") == asked.event(0, "public")
    assert Ledger.plan(asked).epsilon(0, "aux:0+aux:1") == math.inf
    states = ()
    for round in range(1, 8):
        sealed = channel.seal(channel.empty(), round, Seeded(5), states)
        again = channel.seal(channel.empty(), round, Seeded(5), states)
        assert (sealed.digest, len(sealed.states)) == (again.digest, 2)
        assert not np.array_equal(*sealed.states)
        states = sealed.states
    with pytest.raises(TermsError, match="put the state back"):
        channel.seal(channel.empty(), 8, Seeded(5))


def test_the_sum_of_all_releases_is_hardly_noisy():
    channel = Channel(4000, Banded(4.0, 8), Grid(1.0, 14, 64), "server", bounds=1.0)
    total, states = np.zeros(4000), ()
    for round in range(1, 31):
        sealed = channel.seal(channel.empty(), round, Seeded(2), states)
        states, released = sealed.states, channel.release(sealed, 1.0)
        total += released
    variance = 16 * channel.mechanism.prefix_variances(30)[-1]
    assert accepted(total, variance)
    assert not accepted(total, 1.3 * variance)
    assert not accepted(total, 0.7 * variance)
    assert variance < 0.3 * 30 * 16  # independent noises of the same deviation would be that


def test_terms_survive_being_written_down():
    for mechanism in (Tree(8.0), Banded(8.0, 4)):
        asked = terms(mechanism, FixedOffset(4))
        assert from_dict(to_dict(asked)) == asked
        assert from_dict(json.loads(json.dumps(to_dict(asked)))).hash == asked.hash


TWO = tuple(
    Channel(6, Banded(8.0, bands), Grid(1.0, 14, 64), "servers", Shared(), bounds=1.0, name=f"{bands}")
    for bands in (2, 3)
)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"sampling": Poisson(0.5)}, "choose cyclic, fixed-offset or all"),
        ({"sampling": FixedSize(3)}, "choose cyclic, fixed-offset or all"),
        ({"sampling": RandomAllocation(1, 40)}, "choose cyclic, fixed-offset or all"),
        ({"sampling": Cyclic(4), "summation": Shared(3, 1)}, "all but one corrupt"),
        ({"sampling": Cyclic(4), "noised_by": "clients", "summation": Plain()}, "one party's noise"),
        ({"sampling": Cyclic(4), "channels": TWO}, "the same correlation"),
        (
            {"sampling": Everyone(), "unit": "record", "training": Training(records=PoissonRecords(0.1))},
            '"client" alone',
        ),
    ],
)
def test_what_is_not_priced_is_refused(more, said):
    with pytest.raises(UnpricedError, match=said):
        terms(Banded(8.0, 4), **more)


def test_noise_too_wide_for_its_sampler_is_refused_before_a_run():
    fine = Channel(6, Banded(8.0, 10), Grid(1.0, 30, 64), "servers", Shared(), bounds=1.0)
    with pytest.raises(TermsError, match="fewer bands"):
        terms(Banded(8.0, 10), Cyclic(10), channels=(fine,))
    bits = choose_fraction_bits(64, 10, 8.0, 2, dimension=6, unit="client", finer_bits=Banded(8.0, 10).finer_bits)
    terms(
        Banded(8.0, 10),
        Cyclic(10),
        channels=(Channel(6, Banded(8.0, 10), Grid(1.0, bits, 64), "servers", Shared(), bounds=1.0),),
    )


def test_impossible_numbers_are_refused():
    for wrong in (lambda: Banded(1.0, 1), lambda: Banded(1.0, 257), lambda: Tree(-1.0), lambda: Tree(1e-12)):
        with pytest.raises(TermsError, match="privacy"):
            wrong()
    assert price(terms(Tree(0.0), Everyone()).event(0, "public"), 1e-5, "zero-out").epsilon == math.inf


@pytest.mark.parametrize("mechanism", [Tree(0.0), Banded(0.0, 4)])
def test_without_noise_there_is_no_guarantee(mechanism):
    assert mechanism.event(0.0) == NonPrivateDpEvent() and mechanism.event(2.0) == GaussianDpEvent(2.0)


def test_coefficients_are_the_nearest_that_there_are():
    """Comb(2j, j) / 4^j, exactly up to ten bands, and to the nearest multiple of 2^-16 beyond."""
    ideal = np.cumprod([1.0, *((2 * j - 1) / (2 * j) for j in range(1, 64))])
    assert np.abs(Banded(1.0, 64).coefficients - ideal).max() <= 2.0**-17
    assert np.allclose(Banded(1.0, 9).coefficients, ideal[:9], rtol=1e-15)
