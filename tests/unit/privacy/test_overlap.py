"""Prices of pairs in overlapping groups: known numbers, closed forms, and what must not be confused."""

import json
import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent
from dp_accounting.rdp.rdp_privacy_accountant import RdpAccountant
from scipy import special

from onlooker.errors import TermsError
from onlooker.privacy.overlap import Path, decide, reach
from onlooker.privacy.overlap_matrix import matrix
from onlooker.privacy.overlap_plus import as_printed
from onlooker.privacy.relays import ORDERS, contraction, relayed, sampled
from onlooker.privacy.senders import GroupFacts
from onlooker.privacy.structures import grid, string
from onlooker.privacy.topology import Groups

DELTA = 1e-5


def line(period):
    """Four groups of ten, each sharing one client with the next."""
    return Groups(tuple(tuple(range(9 * group, 9 * group + 10)) for group in range(4)), period)


def epsilons(period, rounds=40, **more):
    groups = line(period)
    facts = GroupFacts.alike(groups, 0.5, 3.0)
    return [decide(groups, facts, 0, frozenset({seen}), rounds, DELTA, **more).epsilon for seen in range(4)]


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        (1, [5.42, 5.08, 4.74, 4.41]),
        (5, [5.42, 4.36, 3.57, 2.80]),
        (10, [5.42, 2.99, 2.15, 1.28]),
        (20, [5.42, 1.74, 0, 0]),
    ],
)
def test_a_string_of_four_groups(period, expected):
    assert epsilons(period) == pytest.approx(expected, abs=0.0051)


def test_a_string_of_four_groups_by_theorem_1_alone():
    assert epsilons(1, state="per-group") == pytest.approx([5.42, 5.34, 5.26, 5.18], abs=0.0051)
    assert epsilons(5, state="shared") == epsilons(1, state="per-group")


def test_reference_cases(shared):
    cases = json.loads((shared / "reference" / "observer_cases.json").read_text())
    checked = 0
    for case in cases:
        tables = case["config"]
        if tables["task"]["method"] != "dp-ogl":
            continue
        groups = Groups(tuple(map(tuple, tables["groups"]["members"])), tables["groups"]["mixing-period"])
        facts = GroupFacts.alike(groups, tables["sampling.clients"]["rate"], tables["privacy"]["noise-multiplier"])
        rounds, delta = tables["task"]["rounds"], tables["privacy"]["delta"]
        whole = matrix(groups, facts, tables["data"]["clients"], rounds, delta)
        for row in case["rows"]:
            if row["epsilon"] is not None:
                observer = int(row["observer"].removeprefix("client:"))
                assert whole.epsilon(0, observer) == pytest.approx(row["epsilon"], abs=6e-5)
                checked += 1
    assert checked == 6


def test_a_pair_tells_which_theorem_and_which_way_decided():
    groups = line(10)
    facts = GroupFacts.alike(groups, 0.5, 3.0)
    decisions = [decide(groups, facts, 0, frozenset({seen}), 40, DELTA) for seen in range(4)]
    assert [one.theorem for one in decisions] == [1, 2, 4, 4]
    assert [one.distance for one in decisions] == [0, 1, 2, 3]
    assert [one.releases for one in decisions] == [{0: 40}, {0: 30}, {0: 20}, {0: 10}]
    assert decisions[3].path == Path((0, 1, 2, 3), (9, 18, 27)) and decisions[0].path == Path((0,), ())
    both = Groups(((0, 1), (0, 2), (1, 3), (2, 3), (3, 4)))
    two = decide(both, GroupFacts.alike(both, 0.5, 3.0), 0, frozenset({2, 3}), 40, DELTA)
    assert two.path == Path((0, 2), (1,)), "of several shortest ways the one over the lowest numbers"
    assert decide(both, GroupFacts.alike(both, 0.5, 3.0), 0, frozenset({0, 4}), 40, DELTA).distance == 0
    apart = Groups(((0, 1), (2, 3)))
    nothing = decide(apart, GroupFacts.alike(apart, 0.5, 3.0), 0, frozenset({1}), 40, DELTA)
    assert (nothing.path, nothing.distance, nothing.epsilon, nothing.releases) == (None, math.inf, 0.0, {0: 0})
    assert decide(groups, facts, 0, groups.observed(()), 40, DELTA).epsilon == 0.0, "nothing is published"


@pytest.mark.parametrize("rate", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("multiplier", [0.6, 4.0])
def test_one_release_is_what_dp_accounting_says(rate, multiplier):
    accountant = RdpAccountant(ORDERS.tolist())
    accountant.compose(PoissonSampledDpEvent(rate, GaussianDpEvent(multiplier)))
    assert np.allclose(sampled(rate, multiplier), accountant.rdp, rtol=1e-9)


@pytest.mark.parametrize(("relays", "multiplier"), [(1, 0.5), (4, 3.0), (300, 20.0)])
def test_closed_forms_where_everybody_takes_part(relays, multiplier):
    assert np.allclose(relayed(relays, 1.0, multiplier), 2 * ORDERS * (relays / multiplier) ** 2)
    both = relayed(relays, 1.0, multiplier, own=multiplier)
    assert np.allclose(both, ORDERS * ((2 * relays + 1) / multiplier) ** 2 / 2)
    assert contraction(relays, 1.0, multiplier) == pytest.approx(2 * special.ndtr(relays / multiplier) - 1)


def test_a_trap_nothing_overflows():
    """Exponents such as a (a - 1) (2k)^2 / 2s^2 stay logarithms."""
    groups = Groups(string(400, 4, 60), mixing_period=3)
    for rate, multiplier in ((0.5, 1e-3), (1e-6, 0.01), (1.0, 1e-4), (0.999, 1e6)):
        for seen in range(4):
            decision = decide(groups, GroupFacts.alike(groups, rate, multiplier), 0, frozenset({seen}), 600, DELTA)
            assert np.isfinite(decision.divergences).all() and (decision.divergences >= 0).all()
            assert decision.epsilon < math.inf and decision.epsilon >= 0


def test_a_trap_a_coin_that_several_groups_share_costs_far_more_than_their_sum():
    """So coins are independent, and then prices add."""
    order = ORDERS == 16
    assert sampled(0.1, 2 / math.sqrt(2))[order][0] == pytest.approx(1.55, abs=0.005)
    assert 2 * sampled(0.1, 2.0)[order][0] == pytest.approx(0.09, abs=0.005)
    pair = Groups(((0, 1), (0, 1)))
    decision = decide(pair, GroupFacts.alike(pair, 0.1, 2.0), 0, frozenset({0, 1}), 1, DELTA)
    assert np.allclose(decision.divergences, 2 * sampled(0.1, 2.0))


def test_a_trap_a_client_of_several_groups_pays_for_all_of_them():
    """Also for one that is far from the observers, and its row of the matrix is not its column."""
    groups = Groups(((0, 1), (1, 2), (2, 0)), mixing_period=4)
    assert reach(groups, 0, frozenset({0}), 12) == {0: 12, 2: 4}
    facts = GroupFacts.alike(groups, 0.5, 8.0)
    far = decide(groups, facts, 0, frozenset({0}), 12, DELTA, "per-group")
    assert np.allclose(far.divergences, 16 * sampled(0.5, 8.0))
    tail = Groups(((0, 1, 3), (1, 2, 3)), mixing_period=4)
    whole = matrix(tail, GroupFacts.alike(tail, 0.5, 3.0), 4, 12, DELTA)
    assert whole.epsilon(1, 0) > whole.epsilon(0, 1) > whole.epsilon(0, 2) > 0


def test_a_trap_nothing_helps_within_a_group():
    for period in (1, 5, 40):
        assert epsilons(period)[0] == pytest.approx(5.42, abs=0.0051)


def test_a_trap_dp_ogl_plus_has_no_guarantee_in_group_and_a_dear_one_outside():
    for period, expected, sound in ((5, [2.18, 2.02, 1.85], [238, 205, 173]), (10, [1.45, 1.20, 0.88], None)):
        groups = line(period)
        facts = GroupFacts.alike(groups, 0.5, 3.0)
        every = [as_printed(groups, facts, 0, frozenset({seen}), 40, DELTA) for seen in range(4)]
        assert every[0].epsilon == every[0].assumed == math.inf
        assert [one.assumed for one in every[1:]] == pytest.approx(expected, abs=0.0051)
        assert [one.releases[0] for one in every] == [40 // period - hops for hops in range(4)]
        if sound:
            assert [one.epsilon for one in every[1:]] == pytest.approx(sound, abs=0.6)


def test_dp_ogl_plus_is_dp_ogl_where_an_interval_is_a_round():
    groups = line(1)
    facts = GroupFacts.alike(groups, 0.5, 3.0)
    for seen in range(4):
        printed = as_printed(groups, facts, 0, frozenset({seen}), 40, DELTA)
        assert printed.epsilon == printed.assumed == epsilons(1)[seen]


@pytest.mark.parametrize(("rounds", "period"), [(40, 5), (43, 5), (7, 2), (4, 5)])
def test_isolated_intervals_are_rounds_that_all_mix(rounds, period):
    """floor(T/S) - h releases of h hops reach the observers, floor(T/S) those in group."""
    whole = rounds // period
    groups = line(1)
    counts = [reach(groups, 0, frozenset({seen}), whole)[0] if whole else 0 for seen in range(4)]
    assert counts == [whole, *(max(0, whole - hops) for hops in (1, 2, 3))]


def test_who_sees_participation_pays_for_no_luck():
    """Theorem 1 at rate 1 where it is the subject's; R1 alone where it is the relays'."""
    groups = line(10)
    for seen, own_rate in ((frozenset({0}), 1.0), (frozenset({1}), 0.5)):
        facts = GroupFacts((0.5,) * 4, (3.0,) * 4, seen)
        far = decide(groups, facts, 0, frozenset({1}), 40, DELTA, "per-group")
        assert np.allclose(far.divergences, 30 * sampled(own_rate, 3.0))
    hidden = decide(groups, GroupFacts.alike(groups, 0.5, 3.0), 0, frozenset({1}), 40, DELTA)
    watched = decide(groups, GroupFacts((0.5,) * 4, (3.0,) * 4, frozenset({1})), 0, frozenset({1}), 40, DELTA)
    assert watched.epsilon > hidden.epsilon
    given_coins = (np.logaddexp(0, ORDERS * (ORDERS - 1) * 2.0 / 9) - math.log(2)) / (ORDERS - 1)
    assert np.allclose(relayed(1, 0.5, 3.0, seen=True), given_coins)
    with_own = np.logaddexp(ORDERS * (ORDERS - 1) / 18, ORDERS * (ORDERS - 1) / 2) - math.log(2)
    assert np.allclose(relayed(1, 0.5, 3.0, own=3.0, seen=True), with_own / (ORDERS - 1)), (
        "its row is there for certain"
    )


def test_a_bound_of_ones_own_is_priced_at_ones_own_noise():
    groups = line(10)
    facts = GroupFacts.alike(groups, 0.5, 3.0)
    half = decide(groups, facts, 0, frozenset({0}), 40, DELTA, own=(6.0,) * 4)
    assert np.allclose(half.divergences, 40 * sampled(0.5, 6.0))
    assert np.allclose(relayed(2, 0.5, 3.0, own=1e9), relayed(2, 0.5, 3.0), rtol=1e-6), "no row, no cost"


def test_contours_about_some_groups_of_a_subject_help_where_its_far_group_is_dear():
    """The subject is in a seen group of much noise and in a far one of little: the link between them is cheaper."""
    groups = Groups(((0, 1), (0, 2), (1, 2, 3)), mixing_period=200)
    facts = GroupFacts((1.0,) * 3, (40.0, 2.0, 40.0))
    decision = decide(groups, facts, 0, frozenset({0}), 600, DELTA)
    alone = decide(groups, facts, 0, frozenset({0}), 600, DELTA, "per-group")
    assert decision.releases == {0: 600, 1: 200} and decision.theorem == 2
    assert decision.epsilon < 0.7 * alone.epsilon


def test_numbers_that_cannot_be_are_refused():
    groups = line(1)
    facts = GroupFacts.alike(groups, 0.5, 3.0)
    with pytest.raises(TermsError, match="3 groups; groups.members names 4"):
        decide(groups, GroupFacts((0.5,) * 3, (3.0,) * 3), 0, frozenset({0}), 1, DELTA)
    with pytest.raises(TermsError, match="2 rates for 3"):
        GroupFacts((0.5,) * 2, (3.0,) * 3)
    with pytest.raises(TermsError, match="noise-multiplier = 0"):
        GroupFacts.alike(groups, 0.5, 0.0)
    with pytest.raises(TermsError, match="privacy.delta = 1"):
        decide(groups, facts, 0, frozenset({0}), 1, 1.0)
    with pytest.raises(TermsError, match="task.rounds = 0"):
        matrix(groups, facts, 37, 0, DELTA)
    with pytest.raises(TermsError, match="leaves out client 37"):
        matrix(groups, facts, 38, 1, DELTA)


@pytest.mark.parametrize(("build", "classes"), [(string, 199), (grid, 280)])
def test_a_thousand_clients_in_a_hundred_groups_are_few_classes(build, classes):
    groups = Groups(build(1000, 100, 1), mixing_period=10)
    whole = matrix(groups, GroupFacts.alike(groups, 0.5, 3.0), 1000, 40, DELTA)
    assert whole.values.shape == (classes, classes)
    assert whole.dense.shape == (1000, 1000) and np.isinf(np.diag(whole.dense)).all()
    assert np.isfinite(whole.values).all() and not whole.public.any()


@pytest.mark.parametrize("seed", range(4))
def test_sights_that_are_looked_at_once_are_one_case(seed):
    """Every entry of a matrix is that of its pair alone, on graphs that nobody designed, some groups published."""
    draw = np.random.default_rng(seed)
    members = [set() for _ in range(9)]
    for client in range(30):
        for group in draw.choice(9, 1 + int(draw.integers(0, 3)), replace=False):
            members[group].add(client)
    groups = Groups(tuple(tuple(sorted(one)) for one in members), mixing_period=3, publish=(0, 5) if seed % 2 else ())
    facts = GroupFacts.alike(groups, 0.5, 3.0)
    whole = matrix(groups, facts, 30, 20, DELTA)
    assert len(np.unique(whole.values)) > 10
    for subject in range(0, 30, 4):
        for observer in range(30):
            if observer != subject:
                decision = decide(groups, facts, subject, groups.observed((observer,)), 20, DELTA)
                assert whole.epsilon(subject, observer) == decision.epsilon
                assert whole.theorems[whole.classes[subject], whole.classes[observer]] == decision.theorem
