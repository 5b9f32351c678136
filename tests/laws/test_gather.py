"""One pass of a simulator is the three verbs of clients and servers, bit for bit, and shares may be left out of it."""

import numpy as np
import pytest

from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.mechanisms import NoNoise, RoundedGaussian
from onlooker.privacy.random import Seeded
from onlooker.privacy.shares import combine
from onlooker.privacy.summation import Plain, Shared

SOURCE = Seeded(23)
CLIENTS = 5


def channel(kind, ring=32, size=20_000, z=2.0, sums_records=False):
    noised_by, summation = KINDS[kind]
    bounds = (0.5, 0.1, 0.5, 0.3, 0.5)
    grid = Grid(0.5, 20, ring)
    return Channel(size, RoundedGaussian(z), grid, noised_by, summation, bounds, sums_records, max_records=9)


KINDS = {
    "one server": ("server", Plain()),
    "two servers": ("servers", Shared()),
    "three servers": ("servers", Shared(3, 2)),
    "four servers": ("servers", Shared(4, 1)),
    "clients in the clear": ("clients", Plain()),
    "clients in shares": ("clients", Shared(3)),
}


def rows(size, kind=np.float64):
    """Rows within and above the bound, one whose coordinates are all lifted by rounding, one with a hole in it."""
    drawn = np.random.default_rng(4).standard_normal((CLIENTS, size)) * 10.0 ** np.arange(-6, 4, 2)[:, None]
    drawn[2] = 0.6 * 2.0**-20
    drawn[3, 0] = np.nan
    return drawn.astype(kind)


def by_verbs(one, rows):
    sums = one.empty()
    for client, row in enumerate(rows):
        one.aggregate(sums, one.shard(one.encode(row, client), client, 3, SOURCE))
    return sums


def in_one_pass(one, rows, **more):
    sums = one.empty()
    for client, row in enumerate(rows):
        one.gather(sums, row, client, 3, SOURCE, **more)
    return sums


def same(one, other):
    pairs = zip(one.shares, other.shares, strict=True)
    return one.reports == other.reports and all(np.array_equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ring", [32, 64])
@pytest.mark.parametrize("sums_records", [False, True])
def test_one_pass_is_the_three_verbs(kind, ring, sums_records):
    one, given = channel(kind, ring, sums_records=sums_records), rows(20_000)
    before = given.copy()
    verbs = by_verbs(one, given)
    assert same(in_one_pass(one, given), verbs)
    assert np.array_equal(given, before, equal_nan=True)
    assert not same(in_one_pass(one, 0.9 * given), verbs)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_half_the_width_are_the_same_rows(kind):
    one, narrow = channel(kind), rows(20_000, np.float32)
    assert same(in_one_pass(one, narrow), by_verbs(one, narrow.astype(np.float64)))


def test_without_a_grid_rows_are_added_as_they_are():
    one, given = Channel(300, NoNoise(), None, "server"), rows(300)[:2]
    assert same(in_one_pass(one, given), by_verbs(one, given))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ring", [32, 64])
def test_elided_shares_change_what_parties_hold_and_nothing_that_leaves(kind, ring):
    one, given = channel(kind, ring), rows(20_000)
    whole, elided = in_one_pass(one, given), in_one_pass(one, given, elide=True)
    assert same(whole, elided) == isinstance(one.summation, Plain)
    assert np.array_equal(combine(whole.shares), combine(elided.shares))
    sealed, other = one.seal(whole, 3, SOURCE), one.seal(elided, 3, SOURCE)
    assert sealed.digest == other.digest
    assert np.array_equal(one.release(sealed, 7.0), one.release(other, 7.0))
    nobody = one.seal(one.empty(), 3, SOURCE)
    assert nobody.digest != sealed.digest


@pytest.mark.parametrize("kind", ["one server", "two servers"])
def test_the_sum_before_its_noise_is_the_sum_of_what_clients_encoded(kind):
    """What a simulator may look at, and nobody else: it need not encode a row twice to know the sum in the clear."""
    one, given = channel(kind), rows(20_000)
    clean = one.grid.from_ring(combine(in_one_pass(one, given).shares))
    assert np.array_equal(clean, sum(one.encode(row, client) for client, row in enumerate(given)))
