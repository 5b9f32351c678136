from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from onlooker.data import partition
from onlooker.errors import DataError, TermsError

SEEDS = st.integers(0, 2**32)
LABELS = st.lists(st.integers(0, 6), min_size=1, max_size=200).map(lambda found: np.array(found, dtype=np.int64))
CLIENTS = st.integers(1, 40)


def generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


def assert_every_row_once(shares: partition.Shares, rows: int, clients: int) -> None:
    assert len(shares) == clients
    assert all(len(share) for share in shares)
    assert sorted(np.concatenate(shares).tolist()) == list(range(rows))


@given(st.integers(1, 300), CLIENTS, SEEDS)
def test_iid_deals_every_row_once_in_sizes_that_differ_by_at_most_one(rows: int, clients: int, seed: int) -> None:
    assume(clients <= rows)
    shares = partition.iid(rows, clients, generator(seed))
    assert_every_row_once(shares, rows, clients)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


def test_iid_shuffles() -> None:
    first, second = partition.iid(1000, 2, generator(0))
    assert abs(first.mean() - second.mean()) < 100  # in file order they would differ by 500


@given(LABELS, CLIENTS, st.floats(1e-300, 1e300), SEEDS)
@settings(max_examples=200)
def test_dirichlet_deals_every_row_once_in_equal_sizes_at_any_alpha(
    labels: NDArray[np.int64], clients: int, alpha: float, seed: int
) -> None:
    assume(clients <= len(labels))
    shares = partition.dirichlet(labels, clients, alpha, generator(seed))
    assert_every_row_once(shares, len(labels), clients)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("alpha", [5e-324, 1e-320, 1.7e308])
def test_dirichlet_stands_the_ends_of_floating_point(alpha: float) -> None:
    labels = np.arange(100) % 10
    assert_every_row_once(partition.dirichlet(labels, 7, alpha, generator(1)), 100, 7)


def first_client_proportions(alpha: float, classes: int = 10) -> NDArray[np.float64]:
    """For 300 seeds, the class proportions of the client whose choice no other has narrowed."""
    labels = np.repeat(np.arange(classes), 2000)
    found = []
    for seed in range(300):
        order = generator(seed).permutation(len(labels))
        share = partition.dirichlet(labels[order], 100, alpha, generator(seed))[first_served(labels[order], 100, seed)]
        found.append(np.bincount(labels[order][share], minlength=classes) / len(share))
    return np.array(found)


def first_served(labels: NDArray[np.int64], clients: int, seed: int) -> int:
    """The client that is served first: the one draw after the shuffle of the rows."""
    drawn = generator(seed)
    drawn.permutation(len(labels))
    return int(drawn.permutation(clients)[0])


@pytest.mark.parametrize("alpha", [0.5, 5.0])
def test_dirichlet_proportions_have_the_variance_of_the_distribution(alpha: float) -> None:
    proportions = first_client_proportions(alpha)
    rows, mean = 200, 0.1
    # A multinomial of n rows over q ~ Dirichlet(alpha p) has mean p_k and variance
    # s^2 + (p_k (1 - p_k) - s^2) / n, where s^2 = p_k (1 - p_k) / (alpha + 1) is that of q_k.
    spread = mean * (1 - mean) / (alpha + 1)
    expected = spread + (mean * (1 - mean) - spread) / rows
    assert proportions.mean(axis=0) == pytest.approx(np.full(10, mean), abs=5 * (expected / 300) ** 0.5)
    ratio = float(proportions.var(axis=0).mean() / expected)
    assert is_right(ratio)
    assert not is_right(0.7 * ratio)
    assert not is_right(1.3 * ratio)


def is_right(variance_ratio: float) -> bool:
    return 0.85 < variance_ratio < 1.15


@given(LABELS, CLIENTS, st.integers(1, 7), SEEDS)
@settings(max_examples=200)
def test_pathological_deals_every_row_once_and_exactly_that_many_classes(
    labels: NDArray[np.int64], clients: int, classes: int, seed: int
) -> None:
    found = len(np.unique(labels))
    try:
        shares = partition.pathological(labels, clients, classes, generator(seed))
    except DataError:
        holders = -(-clients * classes // found)
        rarest = np.unique(labels, return_counts=True)[1].min()
        assert classes > found or clients * classes < found or rarest < holders
    else:
        assert_every_row_once(shares, len(labels), clients)
        assert {len(np.unique(labels[share])) for share in shares} == {classes}


def test_pathological_shares_classes_evenly_and_at_random() -> None:
    labels = np.arange(1000) % 10
    shares = partition.pathological(labels, 30, 2, generator(3))
    pairs = [tuple(np.unique(labels[share]).tolist()) for share in shares]
    held = np.bincount(np.array(pairs).reshape(-1), minlength=10)
    assert held.tolist() == [6] * 10
    assert len(set(pairs)) > 10


@given(LABELS)
def test_natural_keeps_owners_together(owners: NDArray[np.int64]) -> None:
    owners = np.unique(owners, return_inverse=True)[1]
    found = int(owners.max()) + 1
    shares = partition.natural(owners, found)
    assert_every_row_once(shares, len(owners), found)
    assert [set(owners[share].tolist()) for share in shares] == [{owner} for owner in range(found)]


@given(LABELS, st.floats(0.01, 0.99), SEEDS)
def test_held_out_takes_its_share_of_each_owner_and_leaves_everyone_a_row(
    owners: NDArray[np.int64], fraction: float, seed: int
) -> None:
    train, test = partition.held_out(owners, fraction, generator(seed))
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(len(owners)))
    for owner in np.unique(owners):
        count = int((owners == owner).sum())
        assert int((owners[test] == owner).sum()) == int(np.floor(fraction * count))
        assert (owners[train] == owner).any()


def test_held_out_is_drawn_at_random() -> None:
    _, test = partition.held_out(np.zeros(1000, dtype=np.int64), 0.2, generator(0))
    assert 400 < test.mean() < 600  # the first or the last fifth would be at 100 or 900


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: partition.iid(3, 4, generator(0)), DataError, ["data.clients = 4", "3 training rows"]),
        (lambda: partition.iid(3, 0, generator(0)), TermsError, ["data.clients = 0"]),
        (lambda: partition.dirichlet(np.arange(3), 4, 1.0, generator(0)), DataError, ["data.clients = 4"]),
        (lambda: partition.dirichlet(np.arange(3), 2, 0.0, generator(0)), TermsError, ["data.alpha = 0.0"]),
        (lambda: partition.dirichlet(np.arange(3), 2, -1.0, generator(0)), TermsError, ["data.alpha = -1.0"]),
        (
            lambda: partition.dirichlet(np.arange(3), 2, np.nan, generator(0)),
            TermsError,
            ["data.alpha = nan"],
        ),
        (
            lambda: partition.dirichlet(np.arange(3), 2, np.inf, generator(0)),
            TermsError,
            ["data.alpha = inf"],
        ),
        (lambda: partition.natural(np.array([0, 1, 2, 1]), 2), DataError, ["data.clients = 2", "3"]),
        (lambda: partition.natural(np.array([0, 1, 2, 1]), 4), DataError, ["data.clients = 4", "3"]),
        (
            lambda: partition.pathological(np.arange(3), 2, 4, generator(0)),
            DataError,
            ["data.classes-per-client = 4", "3"],
        ),
        (
            lambda: partition.pathological(np.arange(9), 2, 2, generator(0)),
            DataError,
            ["data.clients = 2", "9"],
        ),
        (lambda: partition.pathological(np.arange(3), 4, 2, generator(0)), DataError, ["data.clients = 4"]),
        (
            lambda: partition.pathological(np.arange(3), 4, 0, generator(0)),
            TermsError,
            ["classes-per-client = 0"],
        ),
    ],
)
def test_impossible_partitions_are_refused_by_key_and_value(call, error, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error) as refusal:
        call()
    assert all(word in str(refusal.value) for word in words)
    assert str(refusal.value).count("\n") == 0
