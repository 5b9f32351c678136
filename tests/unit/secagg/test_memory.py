"""A server that was put back from an old copy of its store says nothing again; the ends of logs are countersigned."""

from __future__ import annotations

import sqlite3

import pytest

from onlooker.errors import MessageError, ProtocolError, RestoredError
from onlooker.secagg import coordinator
from onlooker.secagg.memory import heard
from onlooker.secagg.messages import Closing, Commitment, Witness
from onlooker.secagg.protocol import Phase
from onlooker.secagg.reports import deliveries
from onlooker.secagg.store import Store
from onlooker.secagg.wire import Signed, packed, unpacked
from secure_rounds import closed, gathered, opened, parties, played, witnessed

WRITES = ("begin", "append", "seal", "countersign")


class Copying:
    """A store of which a copy is made before each of its writes."""

    def __init__(self, store, folder):
        self._store, self._folder, self.copies = store, folder, []

    def __getattr__(self, name):
        method = getattr(self._store, name)
        if name not in WRITES:
            return method

        def write(*arguments):
            self.copies.append(copied(self._store, self._folder / f"{len(self.copies)}.db"))
            return method(*arguments)

        return write


def copied(store, path):
    with sqlite3.connect(path) as copy:
        store._base.backup(copy)
    return path


def test_every_older_copy_is_found_out(tmp_path):
    everybody = parties(folder=tmp_path)
    store = Copying(everybody.stores[0], tmp_path)
    everybody.servers[0] = everybody.start(0, store)
    everybody.remind(0)
    context = everybody.context()
    played(everybody, context, (0, 1, 3))
    witnessed(everybody, context)
    assert len(store.copies) == 12
    for copy in store.copies:
        everybody.servers[0] = everybody.start(0, Store(copy))
        with pytest.raises(RestoredError, match="aux:0 has forgotten what (coordinator|aux:1) heard from it"):
            everybody.remind(0)
        assert everybody.servers[0].memory.waits_for


def test_words_between_servers_are_enough_to_find_it_out(tmp_path):
    """No share has left yet: what another server heard in the round is all that tells."""
    everybody = parties(folder=tmp_path)
    store = Copying(everybody.stores[0], tmp_path)
    everybody.servers[0] = everybody.start(0, store)
    everybody.remind(0)
    context = everybody.context()
    gathered(everybody, context, (0, 1, 3))
    closed(everybody, context)
    assert everybody.servers[0].phase(context.digest)[0] is Phase.NOISING and not everybody.closings
    *older, last = store.copies
    for copy in older:
        everybody.servers[0] = everybody.start(0, Store(copy))
        with pytest.raises(RestoredError, match="aux:0 has forgotten what aux:1 heard from it"):
            everybody.remind(0)
    everybody.servers[0] = everybody.start(0, Store(last))  # what came last was another's word, and is said again
    everybody.remind(0)


def test_a_copy_that_lacks_only_what_others_said_of_it_is_good_enough(tmp_path):
    everybody = parties(folder=tmp_path)
    context = everybody.context()
    played(everybody, context, (0, 1, 3))
    share = everybody.servers[0].share(context.digest)
    copy = copied(everybody.stores[0], tmp_path / "copy.db")
    first, second = (server.memory for server in everybody.servers)
    first.keep(second.countersign(first.closing(context.digest)))
    everybody.servers[0] = everybody.start(0, Store(copy))
    everybody.remind(0)
    assert everybody.servers[0].share(context.digest) == share


def test_a_copy_of_a_round_that_nobody_has_heard_of_is_as_good_as_the_store(tmp_path):
    everybody = parties(folder=tmp_path)
    path = copied(everybody.stores[0], tmp_path / "copy.db")
    everybody.servers[0] = everybody.start(0, Store(path))
    everybody.remind(0)
    played(everybody, everybody.context(), (0, 1))


def test_a_share_that_only_the_coordinator_has_is_enough(tmp_path):
    everybody = parties(folder=tmp_path)
    store = Copying(everybody.stores[0], tmp_path)
    everybody.servers[0] = everybody.start(0, store)
    everybody.remind(0)
    played(everybody, everybody.context(), (0, 1))
    restored = everybody.start(0, Store(store.copies[-1]))
    nonce = restored.memory.nonce
    restored.memory.recall(everybody.servers[1].memory.heard_from(0, nonce))
    with pytest.raises(RestoredError, match="what coordinator heard"):
        restored.memory.recall(everybody.heard(0, nonce))


def acts(everybody, context):
    report = deliveries(everybody.report(context, 0))[0]
    other = everybody.servers[1]
    return {
        "open": lambda server: server.open(coordinator.opening(context, everybody.coordinator)),
        "report": lambda server: server.report(packed(report)),
        "freeze": lambda server: server.freeze(coordinator.freeze(context, everybody.coordinator)),
        "hear": lambda server: server.hear(other.memory.said(context.digest)[0]),
        "share": lambda server: server.share(context.digest),
        "countersign": lambda server: server.memory.countersign(other.memory.closing(context.digest)),
    }


@pytest.mark.parametrize("silent", ["coordinator", "aux:1"])
def test_a_server_that_was_started_waits_for_everybody(tmp_path, silent):
    everybody = parties(folder=tmp_path)
    context = everybody.context()
    played(everybody, context, (0, 1))
    server = everybody.start(0)
    nonce = server.memory.nonce
    told_by = {"coordinator": everybody.heard(0, nonce), "aux:1": everybody.servers[1].memory.heard_from(0, nonce)}
    for party, told in told_by.items():
        if party != silent:
            server.memory.recall(told)
    for act in acts(everybody, context).values():
        with pytest.raises(ProtocolError, match=f"aux:0 was started, and waits until {silent} told it"):
            act(server)
    server.memory.recall(told_by[silent])
    acts(everybody, context)["share"](server)
    acts(everybody, context)["countersign"](server)


def test_nobody_can_stop_a_server_with_what_it_never_said():
    everybody = parties()
    context = everybody.context()
    server, other = everybody.start(0), everybody.signing[1]
    never = Commitment(context.digest, 0, bytes(32))
    for words in (
        [Signed.by(other, never)],
        [Signed.by(other, Witness(context.digest, 0, 1, bytes(32)))],
        [Signed.by(everybody.clients[0], Witness(context.digest, 1, 0, bytes(32)))],
        [everybody.servers[1].announcement()],
    ):
        with pytest.raises(MessageError):
            server.memory.recall(heard(everybody.task, "aux:1", 0, server.memory.nonce, words, other))
    words = [Signed.by(other, Witness(context.digest, 1, 0, bytes(32)))]
    with pytest.raises(MessageError, match="a countersignature of another than coordinator"):
        server.memory.recall(heard(everybody.task, "coordinator", 0, server.memory.nonce, words, everybody.coordinator))
    assert server.memory.waits_for == {"coordinator", "aux:1"}


def test_nobody_speaks_for_another_or_of_another_start():
    everybody, others = parties(), parties(identity=bytes(31) + b"x")
    server, key = everybody.start(0), everybody.signing[1]
    nonce = server.memory.nonce
    for told, reason in (
        (heard(everybody.task, "coordinator", 0, nonce, [], key), "did not sign"),
        (heard(everybody.task, "aux:1", 0, nonce, [], everybody.coordinator), "did not sign"),
        (heard(everybody.task, "aux:0", 0, nonce, [], everybody.signing[0]), "no other server"),
        (heard(everybody.task, "aux:2", 0, nonce, [], key), "no other server"),
        (heard(everybody.task, "client:1", 0, nonce, [], everybody.clients[1]), "heard by nobody"),
        (heard(everybody.task, "aux:-1", 0, nonce, [], key), "heard by nobody"),
        (heard(everybody.task, "aux:1", 1, nonce, [], key), "nothing that was heard from aux:0"),
        (heard(others.task, "aux:1", 0, nonce, [], key), "nothing that was heard from aux:0"),
        (heard(everybody.task, "aux:1", 0, everybody.servers[0].memory.nonce, [], key), "started another time"),
        (everybody.servers[1].announcement(), "nothing that was heard"),
    ):
        with pytest.raises(MessageError, match=reason):
            server.memory.recall(told)
    assert server.memory.waits_for == {"coordinator", "aux:1"}


def test_the_end_of_a_log_is_countersigned_once():
    everybody = parties({"servers.count": 3, "servers.corrupt": 2})
    context = everybody.context()
    played(everybody, context, (0, 1))
    witnessed(everybody, context)
    first, second, third = (server.memory for server in everybody.servers)
    closing = first.closing(context.digest)
    assert second.countersign(closing) == second.countersign(closing) != third.countersign(closing)
    another = Signed.by(everybody.signing[0], Closing(context.digest, 0, bytes(32)))
    with pytest.raises(ProtocolError, match="aux:0 ends its log of a round in a second way"):
        second.countersign(another)
    with pytest.raises(MessageError, match="did not sign"):
        second.countersign(Signed.by(everybody.signing[2], unpacked(closing.body)))
    with pytest.raises(MessageError, match="no countersignature of a log of this server"):
        third.keep(second.countersign(closing))
    with pytest.raises(MessageError, match="aux:1 countersigned another log"):
        first.keep(Signed.by(everybody.signing[1], Witness(context.digest, 1, 0, bytes(32))))
    assert len(everybody.stores[0].witnesses(0, context.digest)) == 2


def test_a_round_without_a_share_has_no_end_to_countersign():
    everybody = parties()
    context = everybody.context()
    for server in everybody.servers:
        with pytest.raises(ProtocolError, match="a log of a round that was not opened here"):
            server.memory.closing(context.digest)
    opened(everybody, context)
    for server in everybody.servers:
        with pytest.raises(ProtocolError, match="round 1 has no share here: this server takes reports"):
            server.memory.closing(context.digest)
