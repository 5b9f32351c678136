"""The one door: what comes out is the bounded sum plus noise of exactly the scale that is priced."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2

from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.random import Seeded, System
from onlooker.privacy.summation import Plain, Shared

SIZE = 20_000


def channel(noised_by="servers", summation=Shared(), z=2.0, clip=0.5, size=SIZE, ring=32, **more):
    return Channel(size, RoundedGaussian(z), Grid(clip, 20, ring), noised_by, summation, bounds=clip, **more)


def passed(channel, rows, source, round=1, divisor=1.0):
    sums = channel.empty()
    for client, row in enumerate(rows):
        channel.aggregate(sums, channel.shard(channel.encode(row, client), client, round, source))
    return channel.release(channel.seal(sums, round, source), divisor)


KINDS = {
    "server": ("server", Plain(), lambda clients: 1.0),
    "clients": ("clients", Plain(), lambda clients: math.sqrt(clients)),
    "clients in shares": ("clients", Shared(), lambda clients: math.sqrt(clients)),
    "two servers": ("servers", Shared(), lambda clients: math.sqrt(2)),
    "three servers, one corrupt": ("servers", Shared(3, 1), lambda clients: math.sqrt(3 / 2)),
    "three servers, two corrupt": ("servers", Shared(3, 2), lambda clients: math.sqrt(3)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_noise_of_the_whole_path_has_the_right_scale(kind):
    """Accepts the scale that the table says at a false alarm rate of 1e-9, and rejects 0.7 and 1.3 times it."""
    noised_by, summation, adders = KINDS[kind]
    one = channel(noised_by, summation)
    rows = np.zeros((4, SIZE))
    rows[:, 0] = 0.25
    noise = passed(one, rows, Seeded(5))[1:]
    assert one.deviation(4) == pytest.approx(2.0 * 0.5 * adders(4))

    def accepted(deviation):
        low, high = chi2.ppf([5e-10, 1 - 5e-10], len(noise))
        return low < (noise**2).sum() / deviation**2 < high

    assert accepted(one.deviation(4))
    assert not accepted(0.7 * one.deviation(4))
    assert not accepted(1.3 * one.deviation(4))
    assert abs(noise.mean()) < 6.5 * one.deviation(4) / math.sqrt(len(noise))


@pytest.mark.parametrize("observing", [0, 1])
def test_a_server_that_subtracts_its_own_noise_is_left_with_the_whole_z(observing):
    one, source = channel(), Seeded(6)
    released = passed(one, np.zeros((1, SIZE)), source)
    own = one.grid.decode(one._noise(1.0, 1, f"aux:{observing}", source))
    left = released - own
    low, high = chi2.ppf([5e-10, 1 - 5e-10], SIZE)
    assert low < (left**2).sum() / (2.0 * 0.5) ** 2 < high


def test_noises_of_servers_rounds_and_channels_are_unrelated():
    one, source = channel(), Seeded(7)
    drawn = [one._noise(1.0, round, party, source) for round in (1, 2) for party in ("aux:0", "aux:1")]
    drawn += [replace(one, name="other")._noise(1.0, 1, "aux:0", source)]
    table = np.corrcoef(np.array(drawn, dtype=float))
    assert np.abs(table - np.eye(len(drawn))).max() < 6.5 / math.sqrt(SIZE)


@pytest.mark.parametrize("summation", [Shared(2), Shared(3, 1), Shared(5, 4)])
@pytest.mark.parametrize("ring", [32, 64])
def test_servers_without_noise_are_the_plain_sum_bit_for_bit(summation, ring):
    rows = np.random.default_rng(1).normal(size=(7, 500)) * 0.1
    plain = passed(channel("server", Plain(), 0.0, size=500, ring=ring), rows, Seeded(1), divisor=3.5)
    shared = passed(channel("servers", summation, 0.0, size=500, ring=ring), rows, Seeded(2), divisor=3.5)
    assert np.array_equal(plain, shared)
    clipped = np.array([row * min(1, 0.5 / np.linalg.norm(row)) for row in rows])
    assert np.allclose(plain, clipped.sum(0) / 3.5, atol=1e-5)


def test_the_order_of_clients_changes_nothing():
    rows = np.random.default_rng(1).normal(size=(6, 300))
    one, source = channel(size=300), Seeded(3)

    def ordered(order):
        sums = one.empty()
        for client in order:
            one.aggregate(sums, one.shard(one.encode(rows[client], client), client, 1, source))
        return one.release(one.seal(sums, 1, source), 1.0)

    assert np.array_equal(ordered(range(6)), ordered(reversed(range(6))))


def test_one_client_moves_the_integer_sum_by_at_most_its_bound():
    rows = np.random.default_rng(2).normal(size=(5, 400)) * 10.0 ** np.arange(-3, 2)[:, None]
    bounds = (0.5, 0.5, 0.3, 0.5, 0.1)
    one = replace(channel(size=400), bounds=bounds)
    for client, row in enumerate(rows):
        moved = one.encode(row, client).astype(object)
        assert sum(moved**2) <= (bounds[client] / 0.5 * 2**20) ** 2


def test_an_empty_round_is_noise_where_servers_add_it_and_nothing_where_clients_do():
    nobody = np.zeros((0, SIZE))
    for kind in ("server", "two servers"):
        noised_by, summation, _ = KINDS[kind]
        one = channel(noised_by, summation)
        released = passed(one, nobody, Seeded(4))
        low, high = chi2.ppf([5e-10, 1 - 5e-10], SIZE)
        assert low < (released**2).sum() / one.deviation(0) ** 2 < high
    for kind in ("clients", "clients in shares"):
        noised_by, summation, _ = KINDS[kind]
        assert passed(channel(noised_by, summation), nobody, Seeded(4)) is None


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_adds_nothing(value):
    one = channel(z=0.0, size=300)
    good, bad = np.full(300, 0.01), np.full(300, 0.01)
    bad[17] = value
    assert np.array_equal(passed(one, [good, bad], Seeded(1)), passed(one, [good], Seeded(1)))


def test_a_share_alone_says_nothing_and_is_never_printed():
    one = channel(size=50_000, z=0.0)
    report = one.shard(one.encode(np.full(50_000, 0.002), 0), 0, 1, System())
    for share in report.shares:
        counts = np.bincount(share >> np.uint32(24), minlength=256)
        statistic = ((counts - 50_000 / 256) ** 2 / (50_000 / 256)).sum()
        assert chi2.ppf(1e-9, 255) < statistic < chi2.ppf(1 - 1e-9, 255)
    assert repr(report) == "Report(client:0, shares 2 x 50000)"


def test_sealing_again_gives_the_same_bytes_from_a_seed_and_others_from_the_system():
    one, rows = channel(size=100), np.zeros((1, 100))

    def digest(source):
        sums = one.empty()
        one.aggregate(sums, one.shard(one.encode(rows[0], 0), 0, 1, source))
        return one.seal(sums, 1, source).digest

    assert digest(Seeded(9)) == digest(Seeded(9)) != digest(Seeded(10))
    assert digest(System()) != digest(System())


def test_a_mask_is_never_used_twice():
    """Whoever held two rows under one mask would know their difference."""
    row = np.zeros(64)
    source = Seeded(8)
    masks = [
        replace(channel(size=64, z=0.0), name=name).shard(np.zeros(64, dtype=np.int64), client, round, source).shares[1]
        for name in ("model", "bits")
        for client in (0, 1)
        for round in (1, 2)
    ]
    three = channel(size=64, summation=Shared(3), z=0.0).shard(row.astype(np.int64), 0, 1, source)
    assert len({mask.tobytes() for mask in [*masks, three.shares[2]]}) == 9
    assert three.shares[1].tobytes() != three.shares[2].tobytes()


def test_noise_by_clients_is_scaled_to_each_bound():
    one = replace(channel("clients", Plain()), bounds=(0.5, 0.1))
    for client, bound in enumerate((0.5, 0.1)):
        report = one.shard(np.zeros(SIZE, dtype=np.int64), client, 1, Seeded(2))
        noise = one.grid.decode(one.grid.from_ring(report.shares[0]))
        low, high = chi2.ppf([5e-10, 1 - 5e-10], SIZE)
        assert low < (noise**2).sum() / (2.0 * bound) ** 2 < high
