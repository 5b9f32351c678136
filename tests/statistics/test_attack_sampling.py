"""The sampler that runs is the one that is priced: its rate is accepted, others are rejected, no coin comes twice.

The limits of six deviations are crossed by chance once in five hundred million.
"""

import math

import numpy as np
import pytest
from dp_accounting import GaussianDpEvent

from onlooker.privacy.random import Seeded, System
from onlooker.privacy.sampling import FixedSize, Poisson, PoissonRecords

ROUNDS, CLIENTS = 400, 50
NOISE = GaussianDpEvent(1.0)


def taken(sampling, source, rounds=ROUNDS, clients=CLIENTS):
    """`bool[rounds, clients]`: who takes part when."""
    table = np.zeros((rounds, clients), dtype=bool)
    for round in range(rounds):
        table[round, list(sampling.cohort(clients, round + 1, source))] = True
    return table


def accepted(count, tries, rate):
    return abs(count - tries * rate) < 6 * math.sqrt(tries * rate * (1 - rate))


@pytest.mark.parametrize("source", [Seeded(5), System()])
def test_coins_fall_at_the_rate_that_is_priced(source):
    sampling = Poisson(0.3)
    table = taken(sampling, source)
    rate = sampling.amplified(NOISE, 0, CLIENTS, 0).sampling_probability
    assert accepted(table.sum(), table.size, rate)
    assert not accepted(table.sum(), table.size, 0.7 * rate)
    assert not accepted(table.sum(), table.size, 1.3 * rate)


@pytest.mark.parametrize("source", [Seeded(6), System()])
def test_coins_of_clients_and_of_rounds_are_unrelated(source):
    """Numbers per round, and per client, spread as independent coins do: one coin for all would spread far more."""
    table = taken(Poisson(0.5), source)
    for axis, tries in ((1, CLIENTS), (0, ROUNDS)):
        counts = table.sum(axis=axis)
        spread = counts.var() / (tries / 4)
        assert 0.2 < spread < 3  # one in ten million falls outside; one coin for all gives tens


def test_each_client_has_its_own_rate():
    sampling = Poisson((0.1, 0.9, 0.5))
    table = taken(sampling, Seeded(7), clients=3)
    for client in range(3):
        rate = sampling.amplified(NOISE, client, 3, 0).sampling_probability
        assert accepted(table[:, client].sum(), ROUNDS, rate)
        assert not accepted(table[:, client].sum(), ROUNDS, {0.1: 0.5, 0.9: 0.5, 0.5: 0.1}[rate])


def test_a_fixed_cohort_has_its_size_and_every_pair_its_chance():
    sampling = FixedSize(3)
    table = taken(sampling, Seeded(8), rounds=3000, clients=8)
    event = sampling.amplified(NOISE, 0, 8, 0)
    assert (table.sum(axis=1) == event.sample_size).all()
    single, pair = event.sample_size / event.source_dataset_size, 3 * 2 / (8 * 7)
    for one in range(8):
        assert accepted(table[:, one].sum(), 3000, single)
        for other in range(one):
            both = (table[:, one] & table[:, other]).sum()
            assert accepted(both, 3000, pair)
            assert not accepted(both, 3000, 0.5 * pair) and not accepted(both, 3000, 1.5 * pair)


def test_a_cohort_says_nothing_of_the_next():
    table = taken(FixedSize(4), Seeded(9), rounds=3000, clients=8)
    again = (table[1:] & table[:-1]).sum()
    assert accepted(again, table[1:].size, 1 / 4)
    assert not accepted(again, table[1:].size, 1 / 2)  # where every round drew the same


def test_records_are_drawn_at_the_rate_that_is_priced():
    sampling, stream = PoissonRecords(0.2), Seeded(10).stream("records")
    draws = [sampling.draw(1000, stream) for _ in range(20)]
    rate = sampling.amplified(NOISE).sampling_probability
    count = sum(len(draw) for draw in draws)
    assert accepted(count, 20_000, rate)
    assert not accepted(count, 20_000, 0.7 * rate) and not accepted(count, 20_000, 1.3 * rate)
    assert all(np.array_equal(draw, np.unique(draw)) for draw in draws)
    common = len(np.intersect1d(draws[0], draws[1]))
    assert accepted(common, 1000, rate**2) and not accepted(common, 1000, rate)


def test_an_integer_below_a_bound_is_uniform_also_where_the_bound_divides_nothing():
    """Without rejection the lowest third of this bound would come up half of the time."""
    stream, bound = Seeded(11).stream("below"), 3 * 2**62
    lowest = sum(stream.below(bound) < 2**62 for _ in range(3000))
    assert accepted(lowest, 3000, 1 / 3) and not accepted(lowest, 3000, 1 / 2)


def test_every_subset_has_its_chance():
    """All ordered ways to draw 2 of 3 lead to three subsets, each a third of the time."""
    drawn = [Seeded(12).stream("subset", round).subset(2, 3) for round in range(6000)]
    for subset in ((0, 1), (0, 2), (1, 2)):
        count = drawn.count(subset)
        assert accepted(count, 6000, 1 / 3)
        assert not accepted(count, 6000, 4 / 9) and not accepted(count, 6000, 2 / 9)


def test_the_coins_of_a_round_are_one_stream_and_a_client_keeps_its_place_in_it():
    """Who asks for which members, and how often, changes nobody's coin; another round or group has other coins."""
    sampling, members = Poisson(0.5), tuple(range(0, 3000, 3))
    together = sampling.among(members, 4, Seeded(13))
    drawn = Seeded(13).stream("participation", 4).coins(0.5, len(members))
    assert together == tuple(np.array(members)[drawn]) == sampling.among(members, 4, Seeded(13))
    assert set(sampling.among(members[:500], 4, Seeded(13))) == {one for one in together if one < 1500}
    for other in (sampling.among(members, 5, Seeded(13)), sampling.among(members, 4, Seeded(13), 0)):
        common = len(set(together) & set(other))
        assert accepted(common, 1000, 0.25) and not accepted(common, 1000, 0.5)
