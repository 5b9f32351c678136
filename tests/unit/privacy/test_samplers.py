"""Schedules that are fixed for a run: who takes part, who knows, and what it costs."""

import importlib.util
import json
import math
from collections import Counter
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from onlooker.errors import TermsError, UnpricedError
from onlooker.privacy.accounting import price, so_far
from onlooker.privacy.allocation import RandomAllocationDpEvent
from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.random import Seeded, System
from onlooker.privacy.sampling import Cyclic, FixedOffset, Poisson, RandomAllocation, expected_weight
from onlooker.privacy.statement import find
from onlooker.privacy.summation import Shared
from onlooker.privacy.terms import Terms, from_dict, to_dict
from onlooker.privacy.training import Training

needs_package = pytest.mark.skipif(importlib.util.find_spec("PLD_accounting") is None, reason="no PLD_accounting")
SAMPLERS = [Cyclic(4), FixedOffset(4), RandomAllocation(5, 40)]


def terms(
    sampling, z=3.5813, rounds=40, adjacency="zero-out", noised_by="servers", summation=Shared(), keeps="nothing"
):
    """Ten clients whose rows two servers sum."""
    channel = Channel(6, RoundedGaussian(z), Grid(1.0, 20, 64), noised_by, summation, bounds=1.0)
    return Terms("client", adjacency, 1e-5, rounds, 10, sampling, Training(keeps), (channel,))


def seen(sampling, clients, rounds, source):
    """The rounds of each client."""
    cohorts = {round: sampling.cohort(clients, round, source) for round in range(1, rounds + 1)}
    return {client: [round for round, cohort in cohorts.items() if client in cohort] for client in range(clients)}


def test_cyclic_clients_take_turns():
    for client, rounds in seen(Cyclic(4), 10, 22, System()).items():
        assert rounds == [round for round in range(1, 23) if round % 4 == client % 4]
        assert len(rounds) <= Cyclic(4).participations(22) == 6


def test_a_fixed_offset_is_kept():
    taken = seen(FixedOffset(7), 50, 21, Seeded(1))
    assert all(len(rounds) == 3 and set(np.diff(rounds)) == {7} for rounds in taken.values())
    assert len({rounds[0] for rounds in taken.values()}) == 7
    assert taken == seen(FixedOffset(7), 50, 21, Seeded(1)) != seen(FixedOffset(7), 50, 21, Seeded(2))


def test_an_allocation_is_exactly_as_large_as_it_says():
    taken = seen(RandomAllocation(5, 12), 30, 12, Seeded(1))
    assert {len(rounds) for rounds in taken.values()} == {5}


@pytest.mark.parametrize("sampling", [FixedOffset(4), RandomAllocation(5, 40)])
def test_what_is_drawn_in_secret_must_be_kept(sampling):
    kept = sampling.draw(10, System())
    cohorts = [sampling.cohort(10, round, System(), kept) for round in range(1, 41)]
    assert cohorts == [sampling.cohort(10, round, System(), kept.copy()) for round in range(1, 41)]
    counts = Counter(client for cohort in cohorts for client in cohort)
    assert max(counts.values()) <= sampling.participations(40)
    for wrong in (None, kept[:9]):
        with pytest.raises(TermsError, match="put their draws back"):
            sampling.cohort(10, 1, System(), wrong)
    assert sampling.draw(10, Seeded(1)).tolist() == [list(sampling.pick(client, Seeded(1))) for client in range(10)]


def fits(counts, weights):
    """Whether counts fit the weights, at one in a million."""
    expected = np.array(weights) / sum(weights) * sum(counts)
    return stats.chisquare(counts, expected).pvalue > 1e-6


def test_offsets_are_uniform():
    offsets = FixedOffset(5).draw(8000, Seeded(3))[:, 0]
    counts = np.bincount(offsets, minlength=6)[1:]
    assert fits(counts, [1, 1, 1, 1, 1])
    assert not fits(counts, [1, 1, 1, 1, 1.3])
    assert not fits(counts, [1, 1, 1, 1, 0.7])


def test_every_set_of_rounds_is_equally_likely():
    counts = Counter(map(tuple, RandomAllocation(2, 5).draw(8000, Seeded(4)).tolist()))
    assert len(counts) == 10
    assert fits(list(counts.values()), [1] * 10)
    assert not fits(list(counts.values()), [1.3] + [1] * 9)
    assert not fits(list(counts.values()), [0.7] + [1] * 9)


@pytest.mark.parametrize("sampling", SAMPLERS)
def test_the_divisor_is_the_expected_cohort(sampling):
    expected = expected_weight(sampling, (1.0,) * 10)
    sizes = [len(sampling.cohort(10, round, Seeded(seed))) for seed in range(40) for round in range(1, 41, 3)]
    assert abs(np.mean(sizes) - expected) < 0.15 * expected
    assert terms(sampling).divisor == expected


@pytest.mark.parametrize("sampling", SAMPLERS)
def test_terms_survive_being_written_down(sampling):
    assert from_dict(to_dict(terms(sampling))) == terms(sampling)


@pytest.mark.parametrize(("sampling", "most"), [(Cyclic(4), 10), (Cyclic(7), 6), (FixedOffset(7), 6)])
def test_a_schedule_counts_in_full_as_often_as_a_client_comes(sampling, most):
    in_full = price(terms(Poisson(1.0), rounds=most).event(0, "public"), 1e-5, "zero-out").epsilon
    for observer in ("public", "coordinator", "aux:0", "client:1"):
        assert Ledger.plan(terms(sampling)).epsilon(0, observer) == in_full
        assert not terms(sampling).amplified(0, observer)
    assert Ledger.plan(terms(sampling), 1).epsilon(0, "public") < in_full


def test_everybody_knows_a_cycle_and_nobody_an_offset():
    assert all(view.participation for view in terms(Cyclic(4)).views(0, "public"))
    for sampling in (FixedOffset(4), RandomAllocation(5, 40)):
        assert not any(view.participation for view in terms(sampling).views(0, "public"))
        assert all(view.participation for view in terms(sampling).views(0, "coordinator"))
    reasons = {
        name: find(Ledger.plan(terms(sampling)), ["public"])[0].because
        for name, sampling in (("cyclic", Cyclic(4)), ("offset", FixedOffset(4)))
    }
    assert "public schedule" in reasons["cyclic"]
    assert "credited nothing: up to 10 rounds" in reasons["offset"]


def test_a_cycle_makes_sure_of_as_many_noisy_rows_as_come_at_the_least():
    def noise(sampling):
        return terms(sampling, noised_by="clients").views(0, "coordinator")[0].noise

    assert noise(Cyclic(4)) == pytest.approx(math.sqrt(2))  # 10 clients in four turns: two or three of them
    assert min(len(Cyclic(4).cohort(10, round, System())) for round in range(1, 9)) == 2
    assert noise(FixedOffset(4)) == noise(RandomAllocation(5, 40)) == 1


def rows(shared):
    table = json.loads((shared / "reference" / "reference_values.json").read_text())
    return table["random_allocation_k_of_T (PLD_accounting, add/remove)"]


@needs_package
def test_random_allocation_agrees_with_the_reference(shared):
    for row in rows(shared):
        sampling = RandomAllocation(row["k_participations"], row["T"])
        asked = terms(sampling, row["sigma_over_C"], row["T"])
        hidden = Ledger.plan(asked).epsilon(0, "public", row["delta"])
        assert row["eps_lower"] <= hidden
        assert 0.9995 * row["eps_random_allocation_upper"] <= hidden <= 1.005 * row["eps_random_allocation_upper"]
        in_full = Ledger.plan(asked).epsilon(0, "coordinator", row["delta"])
        assert in_full == pytest.approx(row["eps_unamplified_k"], rel=1e-3)


def curve(picks, rounds, sigma, epsilon):
    """The delta of an allocation at an epsilon, the larger of both directions, by summing densities on a lattice."""
    axis = np.arange(-7 * sigma, 1 + 7 * sigma, 0.08 * sigma)
    points = np.meshgrid(*(axis,) * rounds, indexing="ij")
    without = np.exp(-sum(one**2 for one in points) / (2 * sigma**2))
    likelihoods = [
        np.exp(sum(points[round] - 0.5 for round in picked) / sigma**2) for picked in combinations(range(rounds), picks)
    ]
    ratio = sum(likelihoods) / len(likelihoods)
    cell = (0.08 / math.sqrt(2 * math.pi)) ** rounds
    directions = np.maximum(ratio - math.exp(epsilon), 0), np.maximum(1 - math.exp(epsilon) * ratio, 0)
    return max(float(np.sum(without * excess)) * cell for excess in directions)


@needs_package
@pytest.mark.parametrize(
    ("picks", "rounds", "sigma", "tight"), [(1, 2, 1.0, 0.95), (1, 3, 2.0, 0.9), (2, 3, 1.5, 0.85)]
)
def test_a_small_allocation_is_bounded_as_its_densities_say(picks, rounds, sigma, tight):
    epsilon = price(terms(RandomAllocation(picks, rounds), sigma, rounds).event(0, "public"), 1e-5, "zero-out").epsilon
    assert curve(picks, rounds, sigma, epsilon) <= 1e-5 < curve(picks, rounds, sigma, tight * epsilon)


@needs_package
@pytest.mark.parametrize("adjacency", ["zero-out", "add-or-remove"])
def test_a_part_of_an_allocation_costs_the_lesser_of_two(adjacency):
    asked = terms(RandomAllocation(20, 40), adjacency=adjacency)
    spent = [Ledger.plan(asked, rounds).epsilon(0, "public") for rounds in range(0, 41, 4)]
    in_full = [Ledger.plan(asked, rounds).epsilon(0, "coordinator") for rounds in range(0, 41, 4)]
    assert spent == sorted(spent)
    assert spent == [min(one, spent[-1]) for one in in_full]
    assert spent[1] == in_full[1] and spent[-1] < in_full[-1]
    assert so_far(asked.event(0, "public"), 1e-5, adjacency) == spent[-1]
    assert asked.amplified(0, "public") and not asked.amplified(0, "coordinator")


@needs_package
def test_amplification_needs_ignorance():
    covered = replace(RandomAllocation(20, 40), cover_traffic=True)
    assert terms(covered).amplified(0, "aux:0") and not terms(RandomAllocation(20, 40)).amplified(0, "aux:0")
    (finding,) = find(Ledger.plan(terms(RandomAllocation(20, 40))), ["public"], [0])
    assert "hidden, in 20 of 40 rounds" in finding.because


@needs_package
@pytest.mark.parametrize(
    ("picks", "rounds", "z"), [(29, 30, 3.0), (1, 3, 1.0), (7, 10, 1e-3), (7, 10, 1e4), (2, 3, 0.2)]
)
def test_no_allocation_costs_more_than_all_its_picks_in_full(picks, rounds, z):
    asked = terms(RandomAllocation(picks, rounds), z, rounds)
    in_full = Ledger.plan(asked).epsilon(0, "coordinator")
    assert 0 < Ledger.plan(asked).epsilon(0, "public") <= in_full


def test_replacing_one_is_credited_nothing():
    asked = terms(RandomAllocation(20, 40), adjacency="replace-one")
    assert Ledger.plan(asked).epsilon(0, "public") == Ledger.plan(asked).epsilon(0, "coordinator") < math.inf


def test_all_rounds_picked_is_no_secret():
    assert not isinstance(terms(RandomAllocation(40, 40)).round_event(0, "public"), RandomAllocationDpEvent)


def test_what_clients_keep_has_no_price_with_several_picks():
    with pytest.raises(UnpricedError, match="participations = 1"):
        terms(RandomAllocation(2, 40), keeps="state")
    terms(RandomAllocation(1, 40), keeps="state")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda: Cyclic(0), "sampling.clients.period = 0"),
        (lambda: FixedOffset(0), "sampling.clients.period = 0"),
        (lambda: RandomAllocation(0, 5), "at least 1"),
        (lambda: RandomAllocation(6, 5), "at most task.rounds = 5"),
        (lambda: terms(RandomAllocation(5, 39)), "task.rounds = 40"),
        (lambda: terms(FixedOffset(41)), "longer than the run"),
        (lambda: terms(Cyclic(41)), "longer than the run"),
    ],
)
def test_impossible_schedules_are_refused(wrong, said):
    with pytest.raises(TermsError, match=said):
        wrong()
