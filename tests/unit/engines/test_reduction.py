"""How sums that lie on several machines are added: which, where, and in which order."""

from functools import reduce

import numpy as np
import pytest

from onlooker.engines.chunks import dealt
from onlooker.engines.reduction import Lying, added, gathered_of, in_a_tree, in_order, parts_of
from onlooker.engines.work import Gathered, Job
from onlooker.privacy.channel import Channel
from onlooker.privacy.mechanisms import NoNoise

COUNTS = [1, 2, 7, 8, 9, 64, 65, 100]


class Adding:
    """Adds at once, and notes how many it was given each time, and where."""

    def __init__(self):
        self.done = []

    def __call__(self, parts, machine):
        self.done.append((len(parts), machine))
        return added(*parts)


def floats(count, size=50):
    drawn = np.random.default_rng(count)
    return [((drawn.standard_normal(size) * 10.0 ** drawn.integers(-8, 8, size),),) for _ in range(count)]


def integers(count, size=50):
    drawn = np.random.default_rng(count)
    return [((drawn.integers(0, 2**32, size, dtype=np.uint32),), (np.arange(3),)) for _ in range(count)]


@pytest.mark.parametrize("count", COUNTS)
def test_floats_are_added_from_left_to_right(count):
    parts, adding = floats(count), Adding()
    expected = reduce(np.add, [part[0][0] for part in parts])
    assert np.array_equal(in_order(adding, parts)[0][0], expected)
    assert all(given <= 8 for given, _ in adding.done)


def test_the_order_counts_for_floats():
    parts = floats(65)
    assert not np.array_equal(in_order(Adding(), parts)[0][0], in_a_tree(Adding(), parts)[0][0])


@pytest.mark.parametrize("count", COUNTS)
def test_integers_are_added_in_a_tree(count):
    parts, adding = integers(count), Adding()
    total = in_a_tree(adding, parts)
    assert np.array_equal(total[0][0], reduce(np.add, [part[0][0] for part in parts]))
    assert np.array_equal(total[1][0], count * np.arange(3))
    assert all(given <= 8 for given, _ in adding.done)


@pytest.mark.parametrize("machines", [1, 2, 20])
def test_each_part_is_added_once_and_first_where_it_lies(machines):
    groups, parts, adding = 3, integers(150), Adding()
    lying = Lying(adding)
    for place, part in enumerate(parts):
        lying.put(place % groups, f"machine {place // groups % machines}", part)
        assert all(len(held) < 8 for held in lying.parts.values())
    totals = lying.totals()
    for group in range(groups):
        assert np.array_equal(totals[group][0][0], reduce(np.add, [part[0][0] for part in parts[group::groups]]))
    between = [given for given, machine in adding.done if machine is None]
    assert sum(between) - len(between) == groups * (machines - 1)  # all that travels


def test_what_is_added_stays_as_it_was():
    parts = integers(2)
    for part in parts:
        for arrays in part:
            arrays[0].flags.writeable = False
    before = [part[0][0].copy() for part in parts]
    added(*parts)
    assert all(np.array_equal(part[0][0], kept) for part, kept in zip(parts, before, strict=True))


def test_sums_travel_as_arrays():
    channel = Channel(4, NoNoise(), None, "server")
    sums = [Gathered.nothing(channel)]
    sums[0].sums.shares[0][:] = 3
    (again,) = gathered_of([channel], parts_of(sums), 5)
    assert np.array_equal(again.sums.shares[0], sums[0].sums.shares[0]) and again.sums.reports == 5
    (nothing,) = gathered_of([channel], None, 0)
    assert not nothing.sums.shares[0].any() and nothing.sums.reports == 0


def test_sums_of_integers_may_be_dealt_in_more_pieces():
    """Of many parameters too, where sums of floats would be few."""
    cohorts = [[Job(client) for client in range(500)]]
    assert len(dealt(cohorts, 2**24, False)[0]) == 2
    (parts,) = dealt(cohorts, 2**24, False, 128)
    assert len(parts) == 128 and [job for chunk in parts for job in chunk.jobs] == cohorts[0]
