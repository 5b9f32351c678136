"""A server's own auditor finds nothing wrong in an honest log, and finds each thing that is wrong in another."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import numpy as np
import pytest

from onlooker.errors import MessageError
from onlooker.secagg import coordinator
from onlooker.secagg.messages import Ended, NoisyShare, Received, Witness
from onlooker.secagg.protocol import Phase
from onlooker.secagg.secret import Secret
from onlooker.secagg.transcript import verified
from onlooker.secagg.wire import Signed, packed, unpacked
from secure_rounds import closed, gathered, parties, played, witnessed

TREE = {"task.method": '"dp-ftrl"', "servers.count": 2, "sampling.clients.name": '"cyclic"',
        "sampling.clients.period": 2, "task.rounds": 4}  # fmt: skip


def audited(everybody, server=0):
    return list(verified(everybody.task, server, everybody.secrets[server], everybody.stores[server]))


def faults(everybody, server=0):
    return [fault for verdict in audited(everybody, server) for fault in verdict.faults]


def changed(everybody, statement, *values):
    with everybody.stores[0]._base as base:
        base.execute(statement, values)


def one_round(settings=None):
    everybody = parties(settings)
    context = everybody.context()
    played(everybody, context, (0, 1, 3))
    witnessed(everybody, context)
    return everybody, context


@pytest.mark.parametrize("settings", [{}, {"servers.count": 3, "servers.corrupt": 2}, {"servers.ring-bits": 64}])
def test_an_honest_log_has_no_fault(settings):
    everybody, _ = one_round(settings)
    for server in range(len(everybody.servers)):
        (verdict,) = audited(everybody, server)
        assert (verdict.round, verdict.group, verdict.phase, verdict.reports) == (1, 0, Phase.SEALED, 3)
        assert verdict.faults == verdict.unchecked == ()


def test_rounds_that_ended_otherwise_have_none_either():
    everybody = parties()
    too_few, open_still, after = (everybody.context(round=one) for one in (1, 2, 3))
    gathered(everybody, too_few, (4,))
    closed(everybody, too_few)
    gathered(everybody, open_still, (0, 1))
    played(everybody, after, (2, 3, 4, 5))
    found = audited(everybody)
    assert [(one.phase, one.reports) for one in found] == [
        (Phase.ABORTED, 1), (Phase.COLLECTING, 2), (Phase.SEALED, 4),
    ]  # fmt: skip
    assert [one.faults for one in found] == [()] * 3
    assert found[2].unchecked == ("aux:1 has not countersigned the log",)


def test_noise_that_is_correlated_is_followed_from_round_to_round():
    everybody = parties(TREE)
    for number in (1, 2, 3):
        clients = sorted(everybody.context(number).members)
        played(everybody, everybody.context(number), clients)
    assert [one.faults for one in audited(everybody)] == [()] * 3
    changed(everybody, "delete from sums where number = 1")
    first, second, _ = audited(everybody)
    assert first.unchecked[0] == 'the noise of "model": the share before it was not kept' and second.faults == ()


def resealed(everybody, context, change):
    """What a server that tampers with its share would have to write, log and all."""
    store = everybody.stores[0]
    share = unpacked(Signed.from_bytes(store.share(context.digest)).body)
    whole = Signed.by(everybody.signing[0], change(share)).to_bytes()
    note = Signed(packed(Ended(context.digest, hashlib.sha256(whole).digest(), "")), b"").to_bytes()
    changed(everybody, "update shares set body = ?", whole)
    (count,) = store._base.execute("select max(number) from entries").fetchone()
    changed(everybody, "delete from entries where number = ?", count)
    store._append(context.digest, note)


def test_another_noise_is_found():
    """Half of it, none, or somebody else's: whatever is not the secret's."""
    everybody, context = one_round()

    def other(share):
        noisy = np.frombuffer(share.shares[0], dtype="<u4").copy()
        noisy[-1] += 1
        return NoisyShare(share.context, share.server, share.batch, (noisy.tobytes(),))

    resealed(everybody, context, other)
    assert faults(everybody) == ['the noise of "model" is not that of the secret', "aux:1 countersigned another log"]


def test_a_share_of_another_batch_is_found():
    everybody, context = one_round()
    resealed(everybody, context, lambda share: NoisyShare(share.context, share.server, bytes(32), share.shares))
    assert faults(everybody)[0] == "the share is of another batch than the one agreed on"


def test_a_share_that_is_not_the_one_of_the_log_is_found():
    everybody, context = one_round()
    changed(everybody, "update shares set body = ?", everybody.servers[1].share(context.digest).to_bytes())
    assert faults(everybody) == ["the noisy share is not the one that the log ends with"]


@pytest.mark.parametrize("number", range(1, 10))
def test_a_log_that_was_changed_is_found(number):
    everybody, context = one_round()
    changed(everybody, "update entries set body = (select body from entries where number = 10 - ?) where number = ?",
            number, number) if number != 5 else changed(
                everybody, "delete from entries where number = 5")  # fmt: skip
    assert any("the log was changed at its entry" in fault for fault in faults(everybody))


def test_words_that_others_did_not_sign_are_found():
    everybody, context = one_round()
    store = everybody.stores[0]
    for number, entry in enumerate(store.entries(context.digest), 1):
        changed(everybody, "update entries set body = ? where number = ?",
                Signed(Signed.from_bytes(entry).body, bytes(64)).to_bytes(), number)  # fmt: skip
    found = faults(everybody)
    signers = [fault.split(" did not sign")[0] for fault in found if "did not sign" in fault]
    assert sorted(signers) == ["aux:1", "aux:1", "aux:1", "aux:1", "the coordinator"]


def test_a_report_that_its_client_did_not_sign_is_found():
    """A server that makes clients up, to fill a batch with what it knows."""
    everybody, context = one_round()
    bodies = everybody.stores[0].entries(context.digest)
    notes = [unpacked(Signed.from_bytes(body).body) for body in bodies]
    number, note = next((number, one) for number, one in enumerate(notes, 1) if isinstance(one, Received))
    forged = Signed(packed(replace(note, signature=bytes(64))), b"").to_bytes()
    changed(everybody, "update entries set body = ? where number = ?", forged, number)
    assert f"client:{note.client} did not sign the report of entry {number}" in faults(everybody)


def test_an_opening_that_the_coordinator_did_not_sign_is_found():
    everybody, context = one_round()
    forged = coordinator.opening(context, everybody.clients[0])
    changed(everybody, "update contexts set opening = ?", forged.to_bytes())
    assert faults(everybody) == ["the coordinator did not sign the opening"]


def test_a_countersignature_of_another_log_is_found():
    everybody, context = one_round()
    witness = Signed.by(everybody.signing[1], Witness(context.digest, 1, 0, bytes(32))).to_bytes()
    changed(everybody, "update witnesses set body = ? where owner = 0", witness)
    assert faults(everybody) == ["aux:1 countersigned another log"]


def test_a_store_of_another_server_or_secret_is_none_to_audit():
    everybody, _ = one_round()
    store = everybody.stores[0]
    for server, secret in ((0, Secret(0, bytes(32))), (1, everybody.secrets[1])):
        with pytest.raises(MessageError, match=f"the store is none of aux:{server} in this task"):
            list(verified(everybody.task, server, secret, store))


def test_only_the_last_sums_are_kept_where_so_asked():
    everybody = parties()
    everybody.servers[0]._audited = 2
    for number in (1, 2, 3):
        played(everybody, everybody.context(number), (0, 1))
    kept = [everybody.stores[0].sums(everybody.context(number).digest) is not None for number in (1, 2, 3)]
    assert kept == [False, True, True]
    assert all(everybody.stores[1].sums(everybody.context(number).digest) for number in (1, 2, 3))
