"""Intervals hold the true mean as often as they say, with the noise of the real channel, and only with its true scale.

The false alarm rate of each test is 1e-9; power was not sought by choosing seeds.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, chi2

from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.matrix import Banded, Tree
from onlooker.privacy.measures import BOUND, SIZE, Measures
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.random import Seeded
from onlooker.privacy.summation import Plain, Shared

ROUNDS = 4000
CLASSES = Measures("classification", 4.0)
KINDS = {"server": ("server", Plain()), "clients": ("clients", Plain()), "two servers": ("servers", Shared())}


def channel(noised_by, summation, z):
    return Channel(SIZE, RoundedGaussian(z), Grid(BOUND, 20, 32), noised_by, summation, bounds=BOUND)


def held(kind, clients, z, right, believed=1.0):
    """In how many rounds the interval holds the true accuracy, and in how many there is one.

    Args:
        kind: who adds noise.
        clients: how many take part.
        z: the noise multiplier.
        right: each client's own accuracy.
        believed: the noise that the interval is told of, over what there is.
    """
    one = channel(*KINDS[kind], z)
    rows = CLASSES.rows(np.full(clients, 1.0), np.full(clients, right))
    rows[:, 0] += np.linspace(-0.05, 0.05, clients)  # not all alike, which changes no mean
    noises, told, inside = Seeded(11), 0, 0
    sums = one.empty()
    for client in range(clients):
        one.gather(sums, rows[client], client, 1, noises)
    if kind == "clients":  # whose noise is in the rows
        encoded = [one.encode(row, client) for client, row in enumerate(rows)]
    for round in range(1, ROUNDS + 1):
        if kind == "clients":
            sums = one.empty()
            for client in range(clients):
                one.aggregate(sums, one.shard(encoded[client], client, round, noises))
        released = one.release(one.seal(sums, round, noises), 2.5)
        found = CLASSES.estimates(released, believed * one.deviation(clients, round) / 2.5)["accuracy"]
        if found is not None:
            told += 1
            inside += found.low <= right <= found.high
    return inside, told


def accepted(inside, told):
    low, high = binom.ppf([5e-10, 1 - 5e-10], told, 0.95)
    return low <= inside <= high


@pytest.mark.parametrize("right", [0.5, 0.8])
@pytest.mark.parametrize("kind, clients, z", [("server", 60, 3.0), ("two servers", 60, 3.0), ("clients", 8, 0.4)])
def test_an_interval_holds_the_true_accuracy_in_19_of_20_rounds(kind, clients, z, right):
    inside, told = held(kind, clients, z, right)
    assert told > 0.99 * ROUNDS and accepted(inside, told)


@pytest.mark.parametrize("believed", [0.7, 1.3])
def test_an_interval_for_another_noise_is_found_out(believed):
    inside, told = held("two servers", 60, 3.0, 0.8, believed)
    assert told > 0.99 * ROUNDS and not accepted(inside, told)


@pytest.mark.parametrize("mechanism", [Tree(2.0), Banded(2.0, 4)], ids=lambda one: one.name)
def test_each_round_of_correlated_noise_has_the_deviation_of_that_round(mechanism):
    """Accepted in each of eight rounds; the mean over all rounds, which would do for most purposes, is not."""
    one = Channel(20_000, mechanism, Grid(BOUND, 16, 32), "server", Plain(), bounds=BOUND)
    sealed, wrong = None, 0
    low, high = chi2.ppf([5e-10, 1 - 5e-10], one.size)
    for round in range(1, 9):
        sealed = one.seal(one.empty(), round, Seeded(3), () if sealed is None else sealed.states)
        square = float((one.release(sealed, 1.0) ** 2).sum())
        assert low < square / one.deviation(5, round) ** 2 < high
        wrong += not low < square / one.deviation(5) ** 2 < high
    assert wrong > 0


def test_where_the_count_is_hardly_above_the_noise_no_more_than_1_of_20_rounds_tells_a_wrong_interval():
    """Rounds that tell nothing are counted among the rounds: the set that they would give is no interval."""
    inside, told = held("two servers", 30, 6.0, 0.7)
    assert 0.2 * ROUNDS < told < 0.9 * ROUNDS
    assert told - inside <= binom.ppf(1 - 1e-9, ROUNDS, 0.05)
