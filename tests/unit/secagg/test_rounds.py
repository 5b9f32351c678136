"""Whole rounds through two servers and more: the sum is right, noisy once, and the same however often it is asked."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from onlooker.errors import MessageError, ProtocolError
from onlooker.privacy.shares import combine
from onlooker.secagg import coordinator
from onlooker.secagg.envelope import Address
from onlooker.secagg.hashing import Use, digest
from onlooker.secagg.messages import Commitment, Freeze, Opening, Reveal
from onlooker.secagg.protocol import Phase
from onlooker.secagg.reports import deliveries
from onlooker.secagg.wire import Signed, packed, unpacked
from secure_rounds import closed, delivered, gathered, key_of, opened, parties, played, row_of, told

THREE = {"servers.count": 3, "servers.corrupt": 2}


def mean_of(context, sealed, clients):
    """The released sum of the only channel, and what the rows add up to."""
    (channel,) = context.channels
    return channel.release(sealed[channel.name], 1.0), sum(row_of(client, channel.size) for client in clients)


@pytest.mark.parametrize("settings", [{}, THREE, {"servers.ring-bits": 64}, {"servers.corrupt": 0}])
def test_the_sum_of_all_reports_comes_out_with_noise_of_each_server(settings):
    everybody = parties(settings)
    context = everybody.context()
    released, expected = mean_of(context, played(everybody, context, range(6)), range(6))
    (channel,) = context.channels
    error = (released - expected) / channel.deviation(6)
    assert 0.85 < error.std() < 1.15 and abs(error.mean()) < 0.2


def test_the_noise_is_that_of_the_channel():
    """What a server adds is what a study adds: the same call, with a source that only the server can know."""
    everybody = parties()
    context = everybody.context()
    sealed = played(everybody, context, range(4))
    (channel,) = context.channels
    rounds = [server._rounds[context.digest] for server in everybody.servers]
    noiseless = channel.empty().shares[0]
    total = combine(sealed[channel.name].shares)
    for number, round in enumerate(rounds):
        source = everybody.secrets[number].noise(context, round.batch_digest, round.coins)
        noise, _ = channel.noised(noiseless, f"aux:{number}", 1, source)
        total = total - noise
    expected = sum(channel.encode(row_of(client, channel.size), client) for client in range(4))
    assert np.array_equal(channel.grid.from_ring(total), expected)


def test_a_share_is_the_same_bytes_however_often_it_is_asked():
    everybody = parties()
    context = everybody.context()
    played(everybody, context, range(3))
    for server in everybody.servers:
        assert server.share(context.digest) == server.share(context.digest)
        assert server.phase(context.digest) == (Phase.SEALED, "")


def test_what_only_one_server_holds_is_left_out_by_both():
    everybody = parties()
    context = everybody.context()
    gathered(everybody, context, (0, 1, 2))
    delivered(everybody, everybody.report(context, 3), to=[0])
    delivered(everybody, everybody.report(context, 4), to=[1])
    delivered(everybody, everybody.report(context, 5), to=[0])
    delivered(everybody, everybody.report(context, 5), to=[1])  # another report of the same client
    closed(everybody, context)
    shares = [server.share(context.digest) for server in everybody.servers]
    released, expected = mean_of(context, coordinator.sealed(context, shares, 3), (0, 1, 2))
    (channel,) = context.channels
    assert 0.85 < ((released - expected) / channel.deviation(3)).std() < 1.15


@pytest.mark.parametrize("clients", [(), (3,)])
def test_too_few_reports_end_the_round_for_good(clients):
    everybody = parties()
    context = everybody.context()
    gathered(everybody, context, clients)
    closed(everybody, context)
    for server in everybody.servers:
        with pytest.raises(
            ProtocolError, match=rf"{len(clients)} reports are held by all, below servers.min-batch = 2"
        ):
            server.share(context.digest)
        with pytest.raises(ProtocolError, match="takes no more reports"):
            server.report(packed(deliveries(everybody.report(context, 0))[server._server]))
    opened(everybody, context)  # again, which changes nothing
    assert all(server.phase(context.digest)[0] is Phase.ABORTED for server in everybody.servers)
    played(everybody, everybody.context(round=2), range(3))


def test_a_round_is_opened_once_with_one_model():
    everybody = parties()
    context, other = everybody.context(), everybody.context(model=bytes(32))
    played(everybody, context, range(3))
    message = coordinator.opening(other, everybody.coordinator)
    for server in everybody.servers:
        with pytest.raises(ProtocolError, match="round 1 was opened before with another model"):
            server.open(message)


def test_a_client_reports_once_in_a_round():
    everybody = parties()
    context = everybody.context()
    opened(everybody, context)
    first, second = everybody.report(context, 2), everybody.report(context, 2)
    delivered(everybody, first)
    delivered(everybody, first)
    with pytest.raises(ProtocolError, match="client:2 has another report in round 1"):
        delivered(everybody, second)
    assert [one._rounds[context.digest].reports for one in everybody.servers] == [{2: first.identity}] * 2


def test_reports_for_another_round_server_client_or_task_are_refused():
    everybody, others = parties(), parties(identity=bytes(31) + b"x")
    first, second = everybody.context(1), everybody.context(2)
    opened(everybody, first)
    opened(everybody, second)
    report = everybody.report(first, 2)
    one, two = deliveries(report)
    moved = {
        "round": type(one)(second.digest, one.client, one.identity, one.envelope),
        "server": two,
        "client": type(one)(one.context, 3, one.identity, one.envelope),
        "identity": type(one)(one.context, one.client, bytes(16), one.envelope),
        "bit": type(one)(one.context, one.client, one.identity, one.envelope[:-1] + bytes([one.envelope[-1] ^ 1])),
        "truncated": type(one)(one.context, one.client, one.identity, one.envelope[:-1]),
        "empty": type(one)(one.context, one.client, one.identity, b""),
    }
    for name, delivery in moved.items():
        with pytest.raises(MessageError, match="did not sign"):
            everybody.servers[0].report(packed(delivery))
        assert not everybody.servers[0]._rounds[first.digest].reports, name
    foreign = deliveries(others.report(others.context(), 2))[0]
    with pytest.raises(ProtocolError, match="not opened here"):
        everybody.servers[0].report(packed(foreign))


def test_a_report_that_another_client_sealed_is_refused():
    everybody = parties()
    context = everybody.context()
    opened(everybody, context)
    everybody.clients[2] = everybody.clients[3]
    with pytest.raises(MessageError, match="client:2 did not sign"):
        delivered(everybody, everybody.report(context, 2))


def test_what_another_client_sealed_is_not_passed_off_as_ones_own():
    """Whoever relays reports sees what is sealed, and could sign it in its own name."""
    everybody = parties()
    context = everybody.context()
    opened(everybody, context)
    (stolen, _) = deliveries(everybody.report(context, 2))
    sealed = stolen.envelope[64:]
    address = Address(context, 0, 3, stolen.identity)
    signature = everybody.clients[3].sign(digest(Use.REPORT, address.digest, hashlib.sha256(sealed).digest()))
    with pytest.raises(MessageError, match="client:3 that does not open here"):
        everybody.servers[0].report(packed(type(stolen)(context.digest, 3, stolen.identity, signature + sealed)))


def test_sums_are_right_whatever_came_before_a_restart_or_between_two_rounds():
    everybody = parties()
    first, second = everybody.context(1), everybody.context(2)
    opened(everybody, first)
    for client in (0, 1):
        delivered(everybody, everybody.report(first, client))
    opened(everybody, second)
    delivered(everybody, everybody.report(second, 5))
    delivered(everybody, everybody.report(first, 2))
    delivered(everybody, everybody.report(first, 3), to=[0])
    for number in range(2):
        everybody.servers[number] = everybody.start(number)
        everybody.remind(number)
    delivered(everybody, everybody.report(first, 4))
    closed(everybody, first)
    shares = [everybody.fetch(number, first) for number in range(2)]
    released, expected = mean_of(first, coordinator.sealed(first, shares, 4), (0, 1, 2, 4))
    error = (released - expected) / first.channels[0].deviation(4)
    assert 0.85 < error.std() < 1.15


def test_nobody_speaks_for_another():
    everybody = parties()
    context = everybody.context()
    stranger = key_of(77)
    server = everybody.servers[0]
    with pytest.raises(MessageError, match="did not sign"):
        server.open(coordinator.opening(context, stranger))
    opened(everybody, context)
    with pytest.raises(MessageError, match="did not sign"):
        server.freeze(coordinator.freeze(context, stranger))
    lie = Signed.by(stranger, Commitment(context.digest, 1, bytes(32)))
    with pytest.raises(MessageError, match="did not sign"):
        server.hear(lie)
    own = Signed.by(everybody.signing[0], Commitment(context.digest, 0, bytes(32)))
    with pytest.raises(MessageError, match="aux:0, which is no other server"):
        server.hear(own)
    with pytest.raises(MessageError, match="aux:7, which is no other server"):
        server.hear(Signed.by(everybody.signing[1], Commitment(context.digest, 7, bytes(32))))
    with pytest.raises(MessageError, match="a Freeze where a word between servers belongs"):
        server.hear(Signed.by(everybody.signing[1], Freeze(context.digest)))
    with pytest.raises(MessageError, match="a Opening"):
        server.freeze(Signed.by(everybody.coordinator, Opening(everybody.task.digest, 1, 0, bytes(32))))


def test_a_coin_that_was_not_committed_to_ends_the_round():
    """Whoever could choose its coin after it has seen the others' could aim at a noise."""
    everybody = parties()
    context = everybody.context()
    gathered(everybody, context, range(3))
    message = coordinator.freeze(context, everybody.coordinator)
    first, second = everybody.servers
    for one, other in ((first, second), (second, first)):
        for word in one.freeze(message):
            for answer in other.hear(word):
                if isinstance(unpacked(answer.body), Reveal):
                    break
                one.hear(answer)
    told_lie = Signed.by(everybody.signing[1], Reveal(context.digest, 1, bytes(32), bytes(32)))
    first.hear(told_lie)
    assert first.phase(context.digest)[0] is Phase.ABORTED
    with pytest.raises(ProtocolError, match="aux:1 showed a coin that was not committed to"):
        first.share(context.digest)


def test_a_server_that_says_two_things_ends_the_round():
    everybody = parties()
    context = everybody.context()
    opened(everybody, context)
    everybody.servers[0].hear(Signed.by(everybody.signing[1], Commitment(context.digest, 1, bytes(32))))
    assert everybody.servers[0].phase(context.digest) == (
        Phase.ABORTED,
        "aux:1 said two different things (Commitment)",
    )


def test_words_that_were_lost_are_said_again():
    everybody = parties()
    context = everybody.context()
    gathered(everybody, context, range(3))
    message = coordinator.freeze(context, everybody.coordinator)
    for server in everybody.servers:
        server.freeze(message)  # and nobody hears what they say
    assert {server.phase(context.digest)[0] for server in everybody.servers} == {Phase.HOLDING}
    for number, server in enumerate(everybody.servers):
        told(everybody, number, server.memory.said(context.digest))
    assert {server.phase(context.digest)[0] for server in everybody.servers} == {Phase.NOISING}


def test_a_round_that_took_too_long_is_given_up_unless_its_share_was_sealed():
    everybody = parties()
    context, later = everybody.context(), everybody.context(2)
    played(everybody, context, range(3))
    opened(everybody, later)
    for server in everybody.servers:
        server.give_up(context.digest, "too late")
        server.give_up(later.digest, "nobody came")
        assert server.phase(context.digest)[0] is Phase.SEALED
        assert server.phase(later.digest) == (Phase.ABORTED, "nobody came")


def test_no_secret_is_printed():
    everybody = parties()
    context = everybody.context()
    played(everybody, context, range(3))
    secrets = [one.to_bytes() for one in (*everybody.secrets, *everybody.envelope)]
    shown = " ".join(repr(one) for one in (everybody.secrets, everybody.envelope, everybody.servers))
    assert not any(secret.hex() in shown or repr(secret)[2:-1] in shown for secret in secrets)


def test_dropped_envelopes_are_overwritten(tmp_path):
    everybody = parties(folder=tmp_path)
    context = everybody.context()
    gathered(everybody, context, (0, 1, 2))
    envelopes = [everybody.stores[1].envelope(context.digest, client)[-400:] for client in (0, 1, 2)]
    closed(everybody, context)
    everybody.fetch(1, context)
    for store in everybody.stores:
        assert store._base.execute("pragma secure_delete").fetchone() == (1,)
        store._base.execute("pragma wal_checkpoint(truncate)")
    left = b"".join(path.read_bytes() for path in tmp_path.glob("aux1.db*"))
    assert left and not any(one in left for one in envelopes)
