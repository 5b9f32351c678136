"""A server that is ended at any moment, and started again: one noisy share, no report lost, none counted twice."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from onlooker.errors import ProtocolError
from onlooker.secagg import coordinator
from onlooker.secagg.protocol import Phase
from onlooker.secagg.reports import deliveries
from onlooker.secagg.store import Store
from onlooker.secagg.wire import packed
from secure_rounds import parties, row_of

WRITES = ("begin", "append", "seal", "end", "countersign")
CLIENTS = (0, 1, 3)


class Killed(BaseException):
    """The process is gone."""


class Dying:
    """A store that ends its process at one of its writes, before or after it has reached the disk."""

    def __init__(self, store, place, after):
        self._store, self._left, self._after = store, place, after

    def __getattr__(self, name):
        method = getattr(self._store, name)
        return self._watched(method) if name in WRITES else method

    def _watched(self, method):
        def write(*arguments):
            self._left -= 1
            if self._left == 0 and not self._after:
                raise Killed
            found = method(*arguments)
            if self._left == 0:
                raise Killed
            return found

        return write


class Persistent:
    """Whoever speaks to servers that may end: says everything again until it was heard."""

    def __init__(self, everybody, doomed):
        self.everybody, self.doomed, self.ends = everybody, doomed, 0

    def tell(self, number, act):
        while True:
            try:
                return act(self.everybody.servers[number])
            except Killed:
                assert number == self.doomed
                self.ends += 1
                store = self.everybody.stores[number]
                self.everybody.servers[number] = self.everybody.start(number, getattr(store, "_store", store))
                self.everybody.remind(number)

    def all(self, act):
        return [self.tell(number, act) for number in range(len(self.everybody.servers))]

    def exchange(self, context):
        """Everybody hears all that everybody has said, until nothing changes."""
        for _ in range(5):
            for number, words in enumerate(self.all(lambda server: server.memory.said(context.digest))):
                for other in range(len(self.everybody.servers)):
                    for word in words if other != number else ():
                        self.tell(other, lambda server, word=word: server.hear(word))

    def play(self, context):
        """A round; every share that ever left the doomed server."""
        opening = coordinator.opening(context, self.everybody.coordinator)
        self.all(lambda server: server.open(opening))
        self.exchange(context)
        for client in CLIENTS:
            report = deliveries(self.everybody.report(context, client))
            for number in range(len(self.everybody.servers)):
                self.tell(number, lambda server, one=report[number]: server.report(packed(one)))
        message = coordinator.freeze(context, self.everybody.coordinator)
        self.all(lambda server: server.freeze(message))
        self.exchange(context)
        shares = [self.all(lambda server: server.share(context.digest)) for _ in range(2)]
        closings = self.all(lambda server: server.memory.closing(context.digest))
        for number, closing in enumerate(closings):
            self.everybody.closings.setdefault(number, []).append(closing)
        self.witness(context)
        return shares

    def witness(self, context):
        """The end of every log countersigned."""
        for number, other in ((0, 1), (1, 0)):
            closing = self.tell(number, lambda server: server.memory.closing(context.digest))
            witness = self.tell(other, lambda server, closing=closing: server.memory.countersign(closing))
            self.tell(number, lambda server, witness=witness: server.memory.keep(witness))


def writes_of(everybody):
    """How many writes a round takes."""
    counting = Dying(everybody.stores[0], 10**9, False)
    everybody.servers[0] = everybody.start(0, counting)
    everybody.remind(0)
    Persistent(everybody, 0).play(everybody.context())
    return 10**9 - counting._left


@pytest.fixture(scope="module")
def writes():
    count = writes_of(parties())
    # The opening, a commitment, three reports, the freeze, three words of the other, the share, two countersignatures.
    assert count == 12
    return count


@pytest.mark.parametrize("after", [False, True], ids=["before the disk", "after the disk"])
@pytest.mark.parametrize("place", range(1, 13))
@pytest.mark.parametrize("doomed", [0, 1])
def test_ended_at_any_write_and_started_again(tmp_path, writes, place, after, doomed):
    assert place <= writes
    everybody = parties(folder=tmp_path)
    everybody.servers[doomed] = everybody.start(doomed, Dying(everybody.stores[doomed], place, after))
    everybody.remind(doomed)
    speaker, context = Persistent(everybody, doomed), everybody.context()
    first, second = speaker.play(context)
    assert speaker.ends == 1 and first == second
    (channel,) = context.channels
    sealed = coordinator.sealed(context, first, len(CLIENTS))[channel.name]
    released = channel.release(sealed, 1.0)
    error = (released - sum(row_of(client, channel.size) for client in CLIENTS)) / channel.deviation(3)
    assert 0.85 < error.std() < 1.15  # a report that was lost, or counted twice, would be two or three deviations away


def test_a_lost_and_a_double_report_would_be_seen():
    """What the test above rests on: rows that are as long as all noise together."""
    everybody = parties({"privacy.noise-multiplier": 0.01})
    context = everybody.context()
    (channel,) = context.channels
    row = row_of(1, channel.size)
    assert np.linalg.norm(row) > 10 * channel.deviation(3)


def test_restarted_between_any_two_steps_it_is_where_it_was(tmp_path):
    everybody = parties(folder=tmp_path)
    context = everybody.context()
    before = Persistent(everybody, 0).play(context)
    for number in range(2):
        again = everybody.servers[number] = everybody.start(number)
        everybody.remind(number)
        assert again.phase(context.digest) == (Phase.SEALED, "")
        assert again.share(context.digest) == before[0][number]


@pytest.mark.parametrize("lost", ["secrets", "envelope"])
def test_a_store_is_of_one_secret_for_ever(tmp_path, lost):
    everybody = parties(folder=tmp_path)
    other = parties(folder=tmp_path / "other") if (tmp_path / "other").mkdir() is None else None
    getattr(everybody, lost)[0] = getattr(other, lost)[0]
    with pytest.raises(ProtocolError, match="the store of aux:0 is of another task, or was made with other secrets"):
        everybody.start(0)


def test_envelopes_are_gone_once_a_round_is_over(tmp_path):
    everybody = parties(folder=tmp_path)
    context, later = everybody.context(), everybody.context(2)
    Persistent(everybody, 0).play(context)
    everybody.servers[0].open(coordinator.opening(later, everybody.coordinator))
    everybody.servers[0].report(packed(deliveries(everybody.report(later, 0))[0]))
    store = everybody.stores[0]
    count = "select count(*) from envelopes"
    assert store._base.execute(count).fetchone() == (1,)
    everybody.servers[0].give_up(later.digest, "enough")
    assert store._base.execute(count).fetchone() == (0,)


def test_the_log_of_a_round_has_a_head_that_every_entry_changes(tmp_path):
    everybody = parties(folder=tmp_path)
    context = everybody.context()
    Persistent(everybody, 0).play(context)
    store = everybody.stores[0]
    head = store.head(context.digest)
    shutil.copy(tmp_path / "aux0.db", tmp_path / "copy.db")
    assert len(store.entries(context.digest)) == 9
    store.append(context.digest, b"one more")
    assert store.head(context.digest) != head


def test_files_are_for_their_owner_alone(tmp_path):
    Store(tmp_path / "aux.db").close()
    assert (tmp_path / "aux.db").stat().st_mode & 0o777 == 0o600
