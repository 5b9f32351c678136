"""What MS-PAFL's paper prints, that it is no price, and what holds beside it."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent, get_epsilon_gaussian
from scipy import stats

from onlooker.errors import TermsError
from onlooker.privacy.accounting import Price, price
from onlooker.privacy.published import LABEL, Sound, ms_pafl
from onlooker.privacy.published import ms_pafl_sound as sound

DELTA = 1e-4
ONE = ms_pafl.lemma_1(1.0, DELTA)


@pytest.fixture
def reference(shared):
    return json.loads((shared / "reference" / "reference_values.json").read_text())["ms_pafl"]


def test_the_printed_values_are_those_of_the_reference(reference):
    for row in reference["theorem2_theorem4_table_N100_beta0.25_deltal1e-4_T100"]:
        local = ms_pafl.lemma_1(row["eps_l"], row["delta_l"])
        once = ms_pafl.corollary_1(local, row["p"], row["q"], 100)
        bound = ms_pafl.equation_22(local, row["p"], row["q"], 100)
        total = ms_pafl.theorem_4(once, 100)
        assert once.epsilon == pytest.approx(row["paper_thm2_eps_c"], rel=1e-5)
        assert once.delta == pytest.approx(row["paper_thm2_delta_c"], rel=1e-5)
        assert bound.epsilon == pytest.approx(row["paper_eq22_rhs"], rel=1e-5)
        assert (bound.epsilon < once.epsilon) == row["eq22_violated"]
        assert total.epsilon == pytest.approx(row["paper_thm4_T100_eps"], rel=1e-5)
        assert total.delta == pytest.approx(row["paper_thm4_T100_delta"], rel=1e-5)


def test_the_other_printed_values_are_those_of_the_reference(reference):
    for name, row in reference["delta_prime_2exp(-2 beta^2 N)"].items():
        clients, beta = (float(part.split("=")[1]) for part in name.split(","))
        assert ms_pafl.away_from_mean(int(clients), beta) == pytest.approx(row["delta_prime"], rel=1e-5)
    for epsilon, z in reference["local_sigma_over_C (Lemma1 classic, s=2C, delta 1e-4)"].items():
        assert ms_pafl.lemma_1(float(epsilon), DELTA).noise_multiplier == pytest.approx(z, rel=1e-5)
    assert pytest.approx(reference["theorem3_c0_from_C8_(C=1)"], rel=1e-5) == ms_pafl.CONSTANT


def test_printed_values_by_hand():
    assert ONE.noise_multiplier == pytest.approx(2 * math.sqrt(2 * math.log(12_500)), rel=1e-12)
    assert ms_pafl.theorem_1(ONE, 0.2).epsilon == pytest.approx(0.4)
    assert ms_pafl.theorem_1(ONE, 0.2).delta == pytest.approx(2e-5)
    stray = 2 * math.exp(-12.5)
    once = ms_pafl.corollary_1(ONE, 0.5, 0.5, 100)
    assert once.epsilon == pytest.approx(math.log(1 + 0.5 / (1 - stray) * (math.e - 1)), rel=1e-12)
    assert once.delta == pytest.approx(stray + 0.25e-4 / (1 - stray), rel=1e-12)
    alone = ms_pafl.theorem_3(ONE, 0.5, 0.2, 100, constant=2.0)
    assert alone.epsilon == pytest.approx(2 * 0.2 * math.sqrt(0.5 * 100 / 0.8), rel=1e-12)
    total = ms_pafl.theorem_4(once, 100)
    expected = math.sqrt(200 * math.log(1e4)) * once.epsilon + 100 * once.epsilon * math.expm1(once.epsilon)
    assert total.epsilon == pytest.approx(expected, rel=1e-12)


def test_theorem_2_is_the_worst_client():
    both = ms_pafl.theorem_2(ONE, [0.5] * 50 + [0.1] * 50, [0.1] * 50 + [0.3] * 50)
    alike = [ms_pafl.corollary_1(ONE, p, q, 100) for p, q in ((0.5, 0.1), (0.1, 0.3))]
    assert both.epsilon == max(one.epsilon for one in alike)
    assert both.delta == max(one.delta for one in alike)


@pytest.mark.parametrize("total", [0.1, 2.0, 20.0])
def test_the_printed_noise_gives_the_printed_epsilon(total):
    local = ms_pafl.printed_local(total, 0.5, 0.2, 100, 100)
    assert ms_pafl.theorem_4(ms_pafl.corollary_1(local, 0.5, 0.2, 100), 100).epsilon == pytest.approx(total, rel=1e-9)


def test_every_result_says_that_it_is_no_guarantee():
    once = ms_pafl.corollary_1(ONE, 0.5, 0.2, 100)
    results = [
        ONE,
        once,
        ms_pafl.theorem_1(ONE, 0.2),
        ms_pafl.theorem_2(ONE, [0.5] * 100, [0.2] * 100),
        ms_pafl.equation_22(ONE, 0.5, 0.2, 100),
        ms_pafl.theorem_3(ONE, 0.5, 0.2, 100),
        ms_pafl.theorem_4(once, 100),
        ms_pafl.printed_local(2.0, 0.5, 0.2, 100, 100),
    ]
    for result in results:
        assert result.label == LABEL and len(result.reason) > 30 and not isinstance(result, Price)
        assert result.noise_multiplier > 0


def test_every_result_goes_by_its_own_name():
    named = {
        "lemma-1": ONE,
        "theorem-1": ms_pafl.theorem_1(ONE, 0.2),
        "theorem-2": ms_pafl.theorem_2(ONE, [0.5] * 100, [0.2] * 100),
        "corollary-1": ms_pafl.corollary_1(ONE, 0.5, 0.2, 100),
        "equation-22": ms_pafl.equation_22(ONE, 0.5, 0.2, 100),
        "theorem-3": ms_pafl.theorem_3(ONE, 0.5, 0.2, 100),
        "theorem-4": ms_pafl.theorem_4(ms_pafl.corollary_1(ONE, 0.5, 0.2, 100), 100),
    }
    assert {name: found.formula for name, found in named.items()} == {name: name for name in named}
    assert {name: found.reason for name, found in named.items()} == ms_pafl.REASONS


def test_what_the_reason_of_corollary_1_says_of_single_samplings():
    """At q = 0.5 the coin of the client alone would print as much, and at p = 1 Theorem 1 less."""
    half, alone = ms_pafl.corollary_1(ONE, 0.3, 0.5, 100).epsilon, math.log1p(0.3 * math.expm1(1.0))
    assert half == pytest.approx(alone, rel=1e-4) and half >= alone
    assert ms_pafl.corollary_1(ONE, 1.0, 0.2, 100).epsilon > ms_pafl.theorem_1(ONE, 0.2).epsilon


def test_lemma_1_is_neither_the_least_noise_nor_always_enough():
    def true(epsilon):
        return get_epsilon_gaussian(ms_pafl.lemma_1(epsilon, DELTA).noise_multiplier / ms_pafl.SENSITIVITY, DELTA)

    assert true(1.0) < 0.75
    assert true(8.0) > 8.0


def test_theorem_1_holds_for_one_round_and_amplifies_nothing_from_a_half_on():
    for q in (0.01, 0.2, 0.5, 0.9):
        for epsilon in (0.1, 0.5, 1.0):
            printed = ms_pafl.theorem_1(ms_pafl.lemma_1(epsilon, DELTA), q).epsilon
            assert printed >= math.log1p(q * math.expm1(epsilon))
            assert (printed >= epsilon) == (q >= 0.5)


def test_the_probability_that_a_record_is_used():
    generator = np.random.default_rng(7)
    used = np.mean([0 in generator.integers(0, 325, 65) for _ in range(20_000)])
    q = ms_pafl.record_rate(5, 13, 325, replacement=True)
    margin = 5 * math.sqrt(q * (1 - q) / 20_000)
    assert abs(used - q) < margin
    assert not any(abs(used - factor * q) < margin for factor in (0.7, 1.3))
    assert ms_pafl.record_rate(1, 1, 1, replacement=True) == 1.0


def test_impossible_values():
    with pytest.raises(TermsError, match="records = 60 must be at least 65"):
        ms_pafl.record_rate(5, 13, 60, replacement=False)
    with pytest.raises(TermsError, match=r"data\.clients = 5 and beta = 0\.25 make delta' = 1\.07"):
        ms_pafl.away_from_mean(5)
    with pytest.raises(TermsError, match="name one each"):
        ms_pafl.theorem_2(ONE, [0.5], [0.2, 0.2])
    with pytest.raises(TermsError, match="one-less-the-rate = 0"):
        ms_pafl.theorem_3(ONE, 0.5, 1.0, 100)


def test_each_row_costs_what_the_reference_says(reference):
    for row in reference["sound_central_vs_local"]:
        found = sound.each_row(ms_pafl.lemma_1(row["eps_l"], DELTA).noise_multiplier, 100, DELTA)
        assert found.epsilon == pytest.approx(row["eps_LOCAL_view_T_rounds_q1"], rel=5e-4)


def test_printed_numbers_are_below_what_an_observer_learns():
    """At p = 0.1, against the coordinator behind secure aggregation; and of a client's own loss, always."""
    z = ONE.noise_multiplier
    total = ms_pafl.theorem_4(ms_pafl.corollary_1(ONE, 0.1, 0.2, 100), 100)
    assert total.epsilon < 0.8 * sound.summed_rows(z, 0.1, 100, 100, DELTA).epsilon
    alone = ms_pafl.theorem_3(ONE, 0.5, 0.2, 100)
    assert alone.epsilon < 0.5 * sound.each_row_of_a_record(z, 0.2, 100, DELTA).epsilon
    assert alone.epsilon < 0.1 * sound.each_row(z, 100, DELTA).epsilon


@pytest.mark.parametrize("p", [0.1, 0.5, 1.0])
def test_summed_rows_cover_cohorts_as_they_fall(p):
    """Delta at the claimed epsilon, averaged over drawn cohorts, is within the claim, and far above it at 0.7 of it."""
    z, rounds, claimed = ONE.noise_multiplier, 100, sound.summed_rows(ONE.noise_multiplier, p, 100, 100, DELTA).epsilon
    counts = 1 + np.random.default_rng(3).binomial(99, p, size=(20_000, rounds))
    shifts = 2 / z * np.sqrt((1 / counts).sum(axis=1))

    def delta(epsilon):
        upper = stats.norm.cdf(shifts / 2 - epsilon / shifts)
        return float(np.mean(upper - math.exp(epsilon) * stats.norm.cdf(-shifts / 2 - epsilon / shifts)))

    assert delta(claimed) <= DELTA < delta(0.7 * claimed)


@pytest.mark.parametrize(("rate", "z", "rounds"), [(0.2, 8.687, 100), (0.1, 2.0, 20)])
def test_a_record_costs_at_least_what_its_neighbours_attain(rate, z, rounds):
    """With the record the row is +C, without it -C: (1-q) N(-C) + q N(C) against N(-C) is attained."""
    attained = SelfComposedDpEvent(PoissonSampledDpEvent(rate, GaussianDpEvent(z / 2)), rounds)
    lower = price(attained, DELTA, "zero-out").epsilon
    assert 0.995 * lower <= sound.each_row_of_a_record(z, rate, rounds, DELTA).epsilon <= 1.1 * lower


def test_sound_numbers_name_who_is_guarded_against_whom():
    z = ONE.noise_multiplier
    found = [
        sound.each_row(z, 10, DELTA),
        sound.each_row_of_a_record(z, 0.2, 10, DELTA),
        sound.summed_rows(z, 0.5, 100, 10, DELTA),
        sound.public_sum(z, 0.5, 100, 10, DELTA),
        sound.public_sum_of_a_record(z, 0.5, 0.2, 100, 10, DELTA),
    ]
    for one in found:
        assert isinstance(one, Sound) and one.price.delta == DELTA
        assert one.label.startswith(f"sound, for one {one.unit}, against the ")
    assert len({one.label for one in found}) == len(found)


def test_sampling_can_only_lower_a_sound_price():
    z = ONE.noise_multiplier
    assert sound.each_row_of_a_record(z, 0.2, 100, DELTA).epsilon < sound.each_row(z, 100, DELTA).epsilon
    record = sound.public_sum_of_a_record(z, 0.5, 0.2, 100, 100, DELTA).epsilon
    assert (
        record < sound.public_sum(z, 0.5, 100, 100, DELTA).epsilon < sound.summed_rows(z, 0.5, 100, 100, DELTA).epsilon
    )
    full = sound.public_sum(z, 1.0, 100, 100, DELTA).epsilon
    assert full == pytest.approx(sound.summed_rows(z, 1.0, 100, 100, DELTA).epsilon, rel=3e-3)
