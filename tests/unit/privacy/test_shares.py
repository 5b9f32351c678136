"""Shares add up to the values, and all but one of them say nothing about these."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from onlooker.errors import TermsError
from onlooker.privacy.random import Seeded, Stream
from onlooker.privacy.shares import add, combine, mask, split

TYPES = {32: np.uint32, 64: np.uint64}


def streams(servers: int, seed: int = 0) -> list[Stream]:
    return [Seeded(seed).stream("share", party=f"aux:{index}") for index in range(1, servers)]


def on_the_edges(bits: int) -> st.SearchStrategy[np.ndarray]:
    edges = [0, 1, 2, 2 ** (bits - 1) - 1, 2 ** (bits - 1), 2 ** (bits - 1) + 1, 2**bits - 2, 2**bits - 1]
    elements = st.one_of(st.sampled_from(edges), st.integers(0, 2**bits - 1))
    return hnp.arrays(TYPES[bits], st.integers(0, 12), elements=elements)


CASES = st.sampled_from([32, 64]).flatmap(
    lambda bits: st.tuples(on_the_edges(bits), st.sampled_from([2, 3, 5]), st.integers(0, 100))
)


@given(CASES)
def test_shares_combine_to_the_values(case: tuple[np.ndarray, int, int]) -> None:
    values, servers, seed = case
    before = values.copy()
    shares = split(values, servers, streams(servers, seed))
    assert len(shares) == servers
    assert all(share.dtype == values.dtype and share.shape == values.shape for share in shares)
    assert np.array_equal(combine(shares), values) and np.array_equal(values, before)
    assert np.array_equal(combine(shares[::-1]), values)


@given(CASES, st.integers(0, 2**64 - 1))
def test_the_sum_of_shares_is_a_share_of_the_sum(case: tuple[np.ndarray, int, int], factor: int) -> None:
    values, servers, seed = case
    others = values * values.dtype.type(factor % 2 ** (8 * values.itemsize)) + values.dtype.type(7)
    one = split(values, servers, streams(servers, seed))
    two = split(others, servers, streams(servers, seed + 1))
    summed = [add(a, b) for a, b in zip(one, two, strict=True)]
    assert np.array_equal(combine(summed), combine([combine(one), combine(two)]))
    modulus = 2 ** (8 * values.itemsize)
    expected = [(int(a) + int(b)) % modulus for a, b in zip(values, others, strict=True)]
    assert combine(summed).tolist() == expected


def inputs(bits: int) -> dict[str, np.ndarray]:
    d = 100_000
    ring = TYPES[bits]
    ramp = np.arange(d, dtype=ring) * ring(2**bits // d)
    return {"zero": np.zeros(d, ring), "half": np.full(d, 2 ** (bits - 1), ring), "ramp": ramp}


def uniformity(share: np.ndarray) -> float:
    """The p-value of a chi-square over the 256 values of a byte, at the worst byte of an element."""
    bytes_ = share.view(np.uint8).reshape(len(share), -1)
    return min(stats.chisquare(np.bincount(column, minlength=256)).pvalue for column in bytes_.T)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("servers", [2, 3, 5])
def test_all_shares_but_one_are_uniform_whatever_the_values_are(bits: int, servers: int) -> None:
    for name, values in inputs(bits).items():
        shares = split(values, servers, streams(servers, 11))
        for missing in range(servers):
            coalition = shares[:missing] + shares[missing + 1 :]
            assert min(uniformity(share) for share in (*coalition, combine(coalition))) > 1e-7
        assert name == "ramp" or uniformity(combine(shares)) < 1e-100


@pytest.mark.parametrize("bits", [32, 64])
def test_a_share_does_not_follow_the_values(bits: int) -> None:
    """Against a ramp, the ranks and the low bit of either share show nothing."""
    values = inputs(bits)["ramp"]
    shares = split(values, 2, streams(2, 12))
    for share in shares:
        assert stats.spearmanr(values.astype(np.float64), share.astype(np.float64)).pvalue > 1e-7
        agreement = int(np.count_nonzero((share ^ values) & values.dtype.type(1) == 0))
        assert stats.binomtest(agreement, len(values)).pvalue > 1e-7
    leaking = shares[1] // values.dtype.type(2) + values // values.dtype.type(20)
    assert stats.spearmanr(values.astype(np.float64), leaking.astype(np.float64)).pvalue < 1e-7
    biased = shares[1] >> values.dtype.type(1)
    assert uniformity(biased) < 1e-100


def test_masks_are_the_bytes_of_the_stream_and_need_no_values() -> None:
    key = bytes(range(32))
    values = np.arange(5, dtype=np.uint32)
    shares = split(values, 2, [Stream(key)])
    raw = Stream(key).bytes(20)
    assert shares[1].tolist() == [int.from_bytes(raw[4 * i : 4 * i + 4], "little") for i in range(5)]
    assert np.array_equal(mask(Stream(key), 5, 32), shares[1])
    assert mask(Stream(key), 2, 64).tolist() == [int.from_bytes(raw[8 * i : 8 * i + 8], "little") for i in (0, 1)]


def test_what_cannot_be_shared_is_refused() -> None:
    values = np.arange(3, dtype=np.uint32)
    with pytest.raises(TermsError, match="servers = 1 must be at least 2"):
        split(values, 1, [])
    with pytest.raises(ValueError, match="3 servers need 2 streams"):
        split(values, 3, streams(2))
    with pytest.raises(ValueError, match="int64"):
        split(values.astype(np.int64), 2, streams(2))
    with pytest.raises(ValueError, match="of one type and length"):
        add(values, values.astype(np.uint64))
    with pytest.raises(ValueError, match="of one type and length"):
        combine([values, values[:1]])
    with pytest.raises(ValueError, match="no shares"):
        combine([])
