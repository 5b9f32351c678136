"""When a smallest batch would show the coin that a price rests on, and that such a deployment does not begin."""

import itertools
import math

import numpy as np
import pytest

from onlooker.errors import UnpricedError
from onlooker.privacy.batches import refuse_what_batches_tell, telling
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
