"""Streams: repeatable for a study wherever it runs, never for a deployment, and never the same for two purposes."""

import multiprocessing

import numpy as np
import pytest

from onlooker.privacy.random import Seeded, Stream, System


def drawn(names):
    return Seeded(7).stream(*names).bytes(16)


NAMES = [
    (purpose, round, party)
    for purpose in ("noise/model", "mask/model", "participation", "local training")
    for round in (1, 2, 12)
    for party in ("client:1", "client:12", "aux:0", "client:1/aux:1")
]


@pytest.mark.parametrize("method", ["spawn", "fork", "forkserver"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_any_number_of_workers_started_in_any_way_draws_the_same(method):
    here = [drawn(names) for names in NAMES]
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(drawn, NAMES, chunksize=5) == here
        assert pool.map(drawn, NAMES[::-1]) == here[::-1]


def test_no_two_names_share_a_stream():
    assert len({drawn(names) for names in NAMES}) == len(NAMES)
    assert Seeded(7).stream("noise", 1, "aux:0").bytes(16) != Seeded(8).stream("noise", 1, "aux:0").bytes(16)


def test_names_cannot_be_shifted_into_one_another():
    assert Seeded(1).stream("noise", 1, "2").bytes(16) != Seeded(1).stream("noise", 12, "").bytes(16)


def test_the_system_never_repeats_and_says_so():
    assert System().stream("noise", 1, "aux:0").bytes(16) != System().stream("noise", 1, "aux:0").bytes(16)
    assert Seeded(1).repeatable and not System().repeatable


def test_a_stream_is_the_same_however_it_is_cut():
    whole, parts = Stream(bytes(32)), Stream(bytes(32))
    assert whole.bytes(70) == b"".join(parts.bytes(count) for count in (1, 15, 17, 0, 37))
    assert Stream(bytes(32)).bytes(8) == bytes.fromhex("dc95c078a2408989")  # AES-256 of zeros (FIPS 197)


def test_a_key_is_not_printed_and_has_256_bits():
    assert repr(Stream(b"k" * 32)) == "Stream(secret)"
    with pytest.raises(ValueError, match="32 bytes"):
        Stream(b"k" * 16)


def test_a_coin_never_falls_more_often_than_it_is_priced():
    """The words just below and at rate times 2^64 decide as they must."""

    class Fixed(Stream):
        def __init__(self, word):
            self.word = word

        def integers(self, count):
            import numpy as np

            return np.full(count, self.word, dtype=np.uint64)

    for rate in (0.5, 0.1, 1e-9, 2.0**-64):
        edge = int(rate * 2**64)
        assert Fixed(edge - 1).coins(rate, 1)[0] and not Fixed(edge).coins(rate, 1)[0]
        assert edge <= rate * 2**64
    assert Stream(bytes(32)).coins(1.0, 5).all()


@pytest.mark.parametrize("bound", [1, 3, 8, 10])
def test_places_are_uniform(bound):
    """Each as often as the others within five standard deviations; a generator that leaves one out is seen."""
    drawn = Seeded(5).stream("places").places(bound, 20_000)
    counts = np.bincount(drawn, minlength=bound)
    spread = 5 * (20_000 / bound) ** 0.5 + 1e-9
    assert len(counts) == bound and np.all(np.abs(counts - 20_000 / bound) <= spread)


def test_a_place_beyond_the_last_whole_multiple_is_drawn_again():
    """2^64 - 1 is no whole number of times 3 away from 0: taken as it is, it would make one place likelier."""
    assert Scripted(2**64 - 1, 7, 4).places(3, 2).tolist() == [1, 1]


class Scripted(Stream):
    """A stream that says what it is told."""

    def __init__(self, *words):
        self.left = list(words)

    def integers(self, count):
        taken, self.left = self.left[:count], self.left[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


@pytest.mark.parametrize(("size", "of"), [(0, 5), (1, 1), (3, 3), (5, 300), (60, 61), (200, 1000)])
def test_a_subset_is_that_of_a_shuffle_that_keeps_the_whole_pool(size, of):
    words = Seeded(size).stream("subset").integers(size).tolist()
    pool = list(range(of))
    for place, word in enumerate(words):
        other = place + word % (of - place)
        pool[place], pool[other] = pool[other], pool[place]
    assert Seeded(size).stream("subset").subset(size, of) == tuple(sorted(pool[:size]))


def test_a_subset_needs_no_more_words_than_it_has_places_and_rejections():
    """2^64 - 1 is above the last whole multiple of 3: it gives way to the words after it, and no other is drawn."""
    assert Scripted(2**64 - 1, 1, 2**64 - 1, 1, 7).subset(2, 3) == (1, 2)
    stream = Scripted(5, 6, 7)
    assert stream.subset(2, 2**40) == (5, 7) and stream.left == [7]


def test_coins_of_several_rates_are_those_of_each_rate():
    rates = np.array([0.5, 1.0, 0.1, 1e-9, 2.0**-64, 0.999])
    drawn = Seeded(3).stream("coins").integers(6)
    for one in (drawn, np.zeros(6, dtype=np.uint64), np.full(6, 2**64 - 1, dtype=np.uint64)):
        expected = [rate >= 1 or int(word) < int(rate * 2**64) for rate, word in zip(rates, one, strict=True)]
        assert Scripted(*one.tolist()).coins(rates, 6).tolist() == expected
    assert Scripted().coins(np.ones(4), 4).all()


@pytest.mark.parametrize("kind", [np.uint32, np.uint64])
def test_words_are_the_bytes_of_the_stream_however_many_are_filled_at_once(kind):
    count = 100_003
    whole, parts = np.empty(count, dtype=kind), np.empty(count, dtype=kind)
    Stream(bytes(32)).fill(whole)
    stream = Stream(bytes(32))
    for start in range(0, count, 40_000):
        stream.fill(parts[start : start + 40_000])
    raw = Stream(bytes(32)).bytes(whole.nbytes)
    assert np.array_equal(whole, parts)
    assert np.array_equal(whole, np.frombuffer(raw, dtype=whole.dtype.newbyteorder("<")))
