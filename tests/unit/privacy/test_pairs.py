"""The price of a pair: which accountant and which theorem it takes, and how it says so."""

import math
from dataclasses import replace

import pytest
from dp_accounting import GaussianDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent

from onlooker.privacy.accounting import Price, price
from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.overlap import Path
from onlooker.privacy.overlap_plus import as_printed
from onlooker.privacy.pairs import Pair, because, decided, facts_of, pair_of
from onlooker.privacy.sampling import Everyone, Poisson
from onlooker.privacy.senders import GroupFacts
from onlooker.privacy.statement import find, to_json
from onlooker.privacy.summation import Plain
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups
from onlooker.privacy.training import Training

DELTA = 1e-5
LINE = Groups(((0, 1), (1, 2), (2, 3), (4,)), mixing_period=10)


def terms_of(groups=LINE, multipliers=(3.0, 3.0, 3.0, 3.0), noised_by="server", bounds=1.0, **more):
    channels = tuple(
        Channel(10, RoundedGaussian(one), Grid(1.0, 20, 64), noised_by, Plain(), bounds=bounds, name=f"model/{group}")
        for group, one in enumerate(multipliers)
    )
    given = {"unit": "client", "adjacency": "zero-out", "delta": DELTA, "rounds": 40, "clients": 5}
    given |= {"sampling": Poisson(0.5), "training": Training()}
    return Terms(channels=channels, topology=groups, **given | more)


def test_before_any_round_nothing_is_charged():
    assert pair_of(terms_of(), 0, "client:1", 0, DELTA) == Pair(Price(0.0, DELTA, "pld"), 0, 0, None)


def test_the_least_of_two_accountants_is_taken():
    """Theorem 1 by loss distributions where every round mixes, and theorem 2 by Rényi's divergences where few do."""
    often, seldom = terms_of(replace(LINE, mixing_period=1)), terms_of()
    by_loss, by_cut = (pair_of(terms, 0, "client:2", 40, DELTA) for terms in (often, seldom))
    assert (by_loss.theorem, by_loss.price.accountant, by_loss.releases) == (1, "pld", 39)
    assert by_loss.price.epsilon < 0.99 * decided(often, 0, frozenset({1, 2}), 40, DELTA).epsilon
    assert (by_cut.theorem, by_cut.price.accountant, by_cut.releases) == (2, "rdp", 30)
    exact = price(seldom.event(0, "client:2", 40), DELTA, "zero-out").epsilon
    assert by_cut.price.epsilon == decided(seldom, 0, frozenset({1, 2}), 40, DELTA).epsilon < exact
    assert by_cut.path == Path((0, 1), (1,))


def test_other_neighbours_and_groups_without_noise_are_left_to_theorem_1():
    replaced = terms_of(adjacency="replace-one")
    assert pair_of(replaced, 0, "client:2", 40, DELTA) == Pair(
        price(replaced.event(0, "client:2", 40), DELTA, "replace-one"), 30, 1, Path((0, 1), (1,))
    )
    silent = terms_of(multipliers=(3.0, 3.0, 0.0, 3.0))
    assert pair_of(silent, 0, "client:2", 40, DELTA).price == price(silent.event(0, "client:2", 40), DELTA, "zero-out")
    assert pair_of(silent, 3, "client:2", 40, DELTA).price.epsilon == math.inf


def test_theorem_2_applies_to_who_sees_some_of_the_subject_s_groups():
    """The subject is in a seen group of much noise and in a far one of little."""
    groups = Groups(((0, 1), (0, 2), (1, 2, 3)), mixing_period=200)
    terms = terms_of(groups, (40.0, 2.0, 40.0), clients=4, rounds=600, sampling=Everyone())
    found = pair_of(terms, 0, "client:1", 600, DELTA)
    assert found.theorem == 2
    assert found.price.epsilon < 0.7 * price(terms.event(0, "client:1", 600), DELTA, "zero-out").epsilon


def test_what_theorems_rest_on_is_each_group_s_own():
    groups = replace(LINE, rates=(0.1, 0.2, 0.3, 0.4))
    facts = facts_of(terms_of(groups, (1.0, 2.0, 3.0, 4.0)))
    assert facts == GroupFacts((0.1, 0.2, 0.3, 0.4), (1.0, 2.0, 3.0, 4.0))
    watched = facts_of(terms_of(groups, noised_by="clients"))
    assert watched.seen == {0, 1, 2, 3}, "who takes part is seen where clients add the noise"


def test_a_private_part_leaves_theorem_1_and_a_short_row_costs_less():
    kept = terms_of(training=Training(keeps="state"))
    far = pair_of(kept, 0, "client:2", 40, DELTA)
    assert far.theorem == 1 and far.price == price(kept.event(0, "client:2", 40), DELTA, "zero-out")
    seldom = replace(LINE, mixing_period=2)
    short = terms_of(seldom, (30.0,) * 4, bounds=(1.0, 1.0, 1.0, 0.25, 1.0))
    ends = [decided(short, subject, frozenset({1}), 40, DELTA).epsilon for subject in (0, 3)]
    assert ends[1] < 0.5 * ends[0]


PRINTED = replace(LINE, mixing_period=1)


def test_sums_without_noise_inside_an_interval_are_priced_as_printed():
    terms = terms_of(PRINTED, (30.0,) * 4, rounds=8, interval=5, within="shared", bounds=(1.0, 1.0, 1.0, 0.5, 1.0))
    found = pair_of(terms, 3, "client:1", 6, DELTA)
    printed = as_printed(LINE_OF_FIVE, facts_of(terms), 3, frozenset({0, 1}), 30, DELTA, (60.0,) * 4)
    exact = price(terms.event(3, "client:1", 6), DELTA, "zero-out")
    assert found.assumed == printed.assumed and found.releases == 5 == sum(printed.releases.values())
    assert found.price.epsilon == min(exact.epsilon, printed.epsilon) < max(exact.epsilon, printed.epsilon)
    assert printed.assumed < found.price.epsilon


def test_what_is_assumed_stands_beside_the_sound_number_for_other_neighbours_too():
    """Under replace-one an interval's total goes from one end of its ball to the other, and five of them arrive."""
    terms = terms_of(PRINTED, (30.0,) * 4, rounds=8, interval=5, within="shared", adjacency="replace-one")
    found = pair_of(terms, 0, "client:2", 6, DELTA)
    total = SelfComposedDpEvent(PoissonSampledDpEvent(0.5, GaussianDpEvent(30.0)), 5)
    assert found.assumed == price(total, DELTA, "replace-one").epsilon < found.price.epsilon < math.inf
    because, row = reason(terms, 0, "client:2", 6)[0], found_row(terms, 6)
    assert f"or {found.assumed:.2f} if an interval moved by 2 sqrt(S) clips alone" in because
    assert (row["epsilon"], row["assumed-not-proven"]) == (found.price.epsilon, found.assumed)
    assert pair_of(terms, 0, "client:1", 6, DELTA).assumed is None, "within the group there is nothing to stand beside"
    assert found_row(replace(terms, within="alone"), 6)["assumed-not-proven"] is None


def found_row(terms, rounds):
    ledger = Ledger.plan(terms, rounds)
    return to_json(ledger, find(ledger, ["client:2"], [0]))["rows"][0]


LINE_OF_FIVE = replace(LINE, mixing_period=5)


def reason(terms, subject, observer, rounds=40):
    pair = pair_of(terms, subject, observer, rounds, DELTA)
    return because(terms, subject, observer, pair, "sees"), pair


@pytest.mark.parametrize(
    ("subject", "observer", "words"),
    [
        (0, "client:1", "sees, 40 releases (theorem 1); participation is hidden"),
        (0, "client:2", "sees, 30 releases over groups 0 - 1 by client:1 (theorem 2); participation is hidden"),
        (0, "client:4", "sees, and no release reaches it in time"),
        (
            0,
            "client:3",
            "sees, 20 releases over groups 0 - 1 - 2 by client:1, client:2 (theorem 4); participation is hidden",
        ),
        (0, "coordinator", "no guarantee: sees"),
    ],
)
def test_a_reason_says_how_much_arrives_by_which_way_and_theorem(subject, observer, words):
    assert reason(terms_of(), subject, observer)[0] == words


def test_a_reason_says_one_release_and_that_participation_is_seen():
    terms = terms_of(PRINTED, noised_by="clients", rounds=2)
    words, pair = reason(terms, 0, "client:2", 2)
    assert words == f"sees, 1 release over groups 0 - 1 by client:1 (theorem {pair.theorem}); participation is seen"


def test_a_reason_says_that_nobody_stays_away():
    assert reason(terms_of(sampling=Everyone()), 0, "client:2")[0].endswith(
        "; this client takes part in every round of its groups"
    )


def test_a_reason_says_why_there_is_no_guarantee_and_what_is_assumed():
    silent = terms_of(multipliers=(0.0,) * 4)
    assert reason(silent, 0, "client:1")[0] == "no guarantee: the noise multiplier is 0 (sees)"
    terms = terms_of(PRINTED, (30.0,) * 4, rounds=8, interval=5, within="shared")
    inside = "no guarantee: sees sums of the subject's group without noise inside an interval"
    assert reason(terms, 0, "client:1", 8)[0] == inside
    assert reason(replace(terms, within="alone"), 0, "client:1", 8)[0].startswith("sees, 8 releases")
    words, pair = reason(terms, 0, "client:2", 8)
    assert f"theorem 1, or {pair.assumed:.2f} if an interval moved by sqrt(S) clips alone" in words
