"""When a smallest batch would show the coin that a price rests on, and that such a deployment does not begin."""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from onlooker.errors import UnpricedError
from onlooker.privacy.batches import (
    _in_all_groups,
    _most_telling,
    refuse_what_batches_tell,
    shows_coins,
    telling,
)
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.random import Seeded
from secure_rounds import terms_of

POISSON = {"sampling.clients.name": '"poisson"', "sampling.clients.rate": 0.5}


def by_hand(rates, least):
    """Every outcome of every other's coin."""
    whole = 0.0
    for coins in itertools.product((0, 1), repeat=len(rates)):
        if sum(coins) == least - 1:
            whole += math.prod(rate if coin else 1 - rate for rate, coin in zip(rates, coins, strict=True))
    return whole


@pytest.mark.parametrize("least", [1, 2, 5, 6, 7])
def test_it_is_the_probability_that_the_others_are_one_too_few(least):
    terms = terms_of(**POISSON, **{"servers.min-batch": least, "task.rounds": 1})
    assert telling(terms, 0) == pytest.approx(by_hand([0.5] * 5, least))


def test_also_where_rates_differ():
    rates = [0.1, 0.2, 0.3, 0.4, 0.5, 1.0]
    terms = terms_of(**{**POISSON, "sampling.clients.rate": rates, "servers.min-batch": 3, "task.rounds": 1})
    for subject in range(6):
        others = [rate for one, rate in enumerate(rates) if one != subject]
        assert telling(terms, subject) == pytest.approx(by_hand(others, 3))


def test_it_is_what_a_simulation_finds():
    terms = terms_of(**POISSON, **{"servers.min-batch": 3, "task.rounds": 1})
    source, found = Seeded(5), 0
    for round in range(1, 3001):
        others = [one for one in terms.sampling.cohort(terms.clients, round, source) if one != 0]
        found += len(others) == 2
    expected, wrong = telling(terms, 0), by_hand([0.5] * 6, 3)
    near = 4.5 * np.sqrt(expected * (1 - expected) / 3000)
    assert abs(found / 3000 - expected) < near < abs(found / 3000 - wrong)


def test_it_adds_up_over_rounds_and_is_nothing_under_cover():
    one = telling(terms_of(**POISSON, **{"servers.min-batch": 6, "task.rounds": 1}), 0)
    assert telling(terms_of(**POISSON, **{"servers.min-batch": 6, "task.rounds": 5}), 0) == pytest.approx(5 * one)
    assert telling(terms_of(**POISSON, **{"sampling.clients.cover-traffic": "true"}), 0) == 0


def test_it_adds_up_over_the_groups_of_the_subject():
    """Each has its own coin, and its own batch: in m groups it is m times as likely that one shows."""
    members = [sorted({0, 1, *range(2 + 60 * group, 62 + 60 * group)}) for group in range(4)]
    groups = {"task.method": '"dp-ogl"', "groups.members": members, "servers.count": 2, "servers.min-batch": 5}
    terms = terms_of(**POISSON, **groups, **{"data.clients": 242})
    one = telling(terms, 2)
    most = _most_telling(terms)[0]
    assert telling(terms, 0, 3) == pytest.approx(one, rel=1e-6)
    assert _in_all_groups(terms, 0) == pytest.approx(4 * one, rel=1e-6)
    assert shows_coins(terms) == (4 * one > most)


def test_what_is_left_of_delta_is_no_number_that_is_shown():
    """At the edge: delta less all that the case may cost has the same epsilon to six digits."""
    terms = terms_of(**{**POISSON, "data.clients": 400, "sampling.clients.rate": 0.3})
    for subject, most in _most_telling(terms).items():
        epsilon = Ledger.plan(terms).epsilon(subject, "public")
        cost = most * (1 + math.exp(epsilon))
        exact = Ledger.plan(terms).epsilon(subject, "public", terms.delta - cost)
        assert exact == pytest.approx(epsilon, rel=1e-6)


def test_few_that_are_there_show_coins_that_all_would_hide():
    terms = terms_of(**{**POISSON, "data.clients": 400, "sampling.clients.rate": 0.1, "servers.min-batch": 5})
    refuse_what_batches_tell(terms)
    assert not shows_coins(terms) and not shows_coins(terms, range(400))
    for there in (range(50), range(350, 400)):
        assert shows_coins(terms, there)
        expected = 5 * stats.binom.pmf(4, 49, 0.1)
        assert telling(terms, there[0], present=there) == pytest.approx(expected)
        assert expected > 0.5


def test_a_silo_that_takes_part_by_a_coin_hides_its_records_by_theirs():
    """A record's price rests on no coin that a batch could show."""
    settings = {
        "task.method": '"dp-sgd"',
        "sampling.records.rate": 0.1,
        "data.expected-records": 200,
        "data.max-records": 400,
        "servers.min-batch": 6,
    }
    for sampling in ({}, POISSON):
        refuse_what_batches_tell(terms_of(**settings, **sampling))


@pytest.mark.parametrize("away", [0, 1, 2])
def test_of_a_fixed_cohort_it_is_that_others_are_away(away):
    """By every cohort: the subject's coin decides where one too few of the others that are drawn are there."""
    size, least = 4, 3
    settings = {"sampling.clients.name": '"fixed-size"', "sampling.clients.rate": 4 / 8, "data.clients": 8}
    terms = terms_of(**settings, **{"servers.min-batch": least, "task.rounds": 1})
    there, telling_draws, draws = set(range(8 - away)), 0, 0
    for others in itertools.combinations(range(1, 8), size - 1):
        for displaced in set(range(1, 8)) - set(others):
            with_subject = len(there & {0, *others}) >= least
            draws, telling_draws = (
                draws + 1,
                telling_draws + (with_subject != (len(there & {displaced, *others}) >= least)),
            )
    assert telling_draws / draws <= telling(terms, 0, present=there)
    assert (telling(terms, 0, present=there) > 0) == (away > 0)
    if not away:
        assert telling_draws == 0


def delta_of(pairs, epsilon):
    """The hockey-stick divergence of two mixtures over outcomes that are seen: sums, and none."""
    grid = np.linspace(-40, 40, 160_001)
    step = grid[1] - grid[0]
    return sum(np.maximum(p(grid) - math.exp(epsilon) * q(grid), 0).sum() * step for p, q in pairs)


@pytest.mark.parametrize(("clients", "rate", "least"), [(3, 0.5, 2), (4, 0.3, 2), (6, 0.5, 3), (6, 0.2, 1)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("forth", [True, False])
def test_a_round_that_tells_costs_what_is_added_for_it_by_every_outcome(clients, rate, least, epsilon, forth):
    """Whoever sees whether there was a sum, and knows the others' coins: its exact divergence, with z = 1."""
    coins = stats.binom(clients - 1, rate)

    def mixed(moved, weight):
        return lambda x: weight * ((1 - rate) * stats.norm.pdf(x) + rate * stats.norm.pdf(x - moved))

    hidden = [mixed(1, 1.0), mixed(0, 1.0)]
    priced = delta_of([hidden if forth else hidden[::-1]], epsilon)
    exact = 0.0
    for others in range(clients):
        weight = float(coins.pmf(others))
        if others >= least:
            pair = [mixed(1, weight), mixed(0, weight)]
        elif others == least - 1:  # a sum if and only if the subject's coin says so
            pair = [
                lambda x, w=weight: w * rate * stats.norm.pdf(x - 1),
                lambda x, w=weight: w * rate * stats.norm.pdf(x),
            ]
        else:
            continue
        exact += delta_of([pair if forth else pair[::-1]], epsilon)
        if others == least - 1:  # and none, as likely on both sides
            exact += weight * (1 - rate) * max(0.0, 1 - math.exp(epsilon))
    told = float(coins.pmf(least - 1))
    assert exact <= priced + (1 + math.exp(epsilon)) * told + 1e-9


def test_a_price_that_rests_on_coins_which_batches_show_is_refused():
    groups = {"task.method": '"dp-ogl"', "groups.members": [[0, 1, 2, 3], [2, 3, 4, 5]], "servers.count": 2}
    for settings in (POISSON, {**POISSON, **groups}):
        with pytest.raises(UnpricedError, match=r"servers\.min-batch = 2 may decide .*cover-traffic = true"):
            refuse_what_batches_tell(terms_of(**settings))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {**POISSON, "sampling.clients.cover-traffic": "true"},
        {**POISSON, "data.clients": 400, "sampling.clients.rate": 0.3},
        {"sampling.clients.name": '"cyclic"', "sampling.clients.period": 2},
        {"sampling.clients.name": '"fixed-offset"', "sampling.clients.period": 2},
        {**POISSON, "sampling.clients.rate": 1.0},
    ],
)
def test_one_that_does_not_is_not(settings):
    refuse_what_batches_tell(terms_of(**settings))
