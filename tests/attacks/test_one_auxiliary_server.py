"""The attack of one auxiliary server on FedDecouple's phase 2: it succeeds against the protocol as printed, not ours.

As printed (FedDecouple, algorithm 2), both noises follow from the exclusive or of two 32-bit seeds, both of which each
server learns: one server takes off all noise, and so does anybody who tries 2^32 seeds on the released sum. Here a
server's noise follows from a secret of 256 bits of its own, and seeds that are shown add nothing but freshness.
"""

from __future__ import annotations

import hashlib
import secrets
import struct

import numpy as np
import pytest

from onlooker.privacy.shares import combine
from onlooker.secagg import coordinator
from onlooker.secagg.hashing import Use, derived, digest
from onlooker.secagg.messages import Commitment, Reveal
from onlooker.secagg.secret import Secret
from onlooker.secagg.wire import Signed, unpacked
from secure_rounds import closed, gathered, parties, row_of

SIGMA = 2.0
CLIENTS = (0, 1, 2, 4)


# -- As printed ------------------------------------------------------------------------------------------------------


def printed_noise(seed, server, size):
    key = hashlib.sha256(struct.pack(">I", seed) + f"server{server}".encode()).digest()
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(key[:16], "big")))
    return generator.normal(0, SIGMA / 2**0.5, size)


def printed_round(size=650):
    """Both servers' seeds, the sum without noise, and what is released."""
    first, second = secrets.randbits(32), secrets.randbits(32)
    clean = sum(row_of(client, size) for client in CLIENTS)
    both = first ^ second
    return first, second, clean, clean + printed_noise(both, 1, size) + printed_noise(both, 2, size)


def test_as_printed_one_server_takes_off_all_noise():
    first, second, clean, released = printed_round()
    both = first ^ second  # which server 1 has when seeds are revealed
    found = released - printed_noise(both, 1, len(clean)) - printed_noise(both, 2, len(clean))
    assert np.abs(found - clean).max() < 1e-9


def test_as_printed_the_public_finds_the_seed_by_trying():
    first, second, clean, released = printed_round()
    tried = [*secrets.SystemRandom().sample(range(2**32), 3000), first ^ second]  # of 2^32, hours on one core
    left = [np.std(released - printed_noise(one, 1, len(clean)) - printed_noise(one, 2, len(clean))) for one in tried]
    assert np.argmin(left) == len(tried) - 1 and left[-1] < min(left[:-1]) / 5


def test_as_printed_a_commitment_shows_its_seed_to_whoever_tries():
    seed = secrets.randbits(16)  # of 2^32, an hour on one core
    commitment = hashlib.sha256(struct.pack(">I", seed)).digest()
    assert [one for one in range(2**16) if hashlib.sha256(struct.pack(">I", one)).digest() == commitment] == [seed]


# -- As it is here ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def attacked():
    """A round, and what aux:0 has left of its sum without its own noise, less what clients sent, `float64[d]`."""
    everybody = parties({"privacy.noise-multiplier": SIGMA})
    context = everybody.context()
    gathered(everybody, context, CLIENTS)
    closed(everybody, context)
    shares = [everybody.fetch(number, context) for number in range(2)]
    (channel,) = context.channels
    released = channel.release(coordinator.sealed(context, shares, len(CLIENTS))[channel.name], 1.0)
    own = noise_by(everybody.secrets[0], everybody, context, "aux:0")
    return everybody, context, released - own - sum(row_of(client, channel.size) for client in CLIENTS)


def noise_by(secret, everybody, context, party):
    """What a server with this secret would add in this round, in units of a row."""
    (channel,) = context.channels
    round = everybody.servers[0]._rounds[context.digest]
    source = secret.noise(context, round.batch_digest, round.coins)
    noisy, _ = channel.noised(channel.empty().shares[0], party, context.round, source, None)
    return channel.grid.from_ring(combine([noisy])).astype(np.float64) / 2.0**channel.grid.fraction_bits


def known(everybody, context):
    """Whatever of 32 bytes aux:0 knows, and what follows from each by the derivations that the protocol has."""
    own, round = everybody.secrets[0].to_bytes(), everybody.servers[0]._rounds[context.digest]
    heard = [unpacked(Signed.from_bytes(body).body) for body in everybody.stores[0].entries(context.digest)]
    coins = [one for one in heard if isinstance(one, Reveal)]
    assert {one.server for one in coins} | {0} == {0, 1}  # the other's coin was shown to it
    whole = [own, context.digest, context.task.digest, round.batch_digest, *round.coins]
    whole += [part for one in coins for part in (one.coin, one.nonce)]
    whole += [one.coin for one in heard if isinstance(one, Commitment)]
    salt = digest(Use.SALT, context.digest, round.batch_digest, *round.coins)
    whole += [bytes(a ^ b for a, b in zip(one, other, strict=True)) for one in whole for other in round.coins]
    whole += [derived(one, Use.NOISE, context.digest, round.batch_digest, salt=salt) for one in list(whole)]
    return [salt, *whole]


def test_one_server_takes_off_its_own_noise_and_no_more(attacked):
    everybody, context, left = attacked
    assert left.std() == pytest.approx(SIGMA, rel=0.12)
    other = noise_by(everybody.secrets[1], everybody, context, "aux:1")
    assert np.abs(left - other).max() < 1e-3  # both together have no guarantee, as the table of observers says


def test_nothing_that_one_server_knows_gives_the_noise_of_the_other(attacked):
    everybody, context, left = attacked
    keys = known(everybody, context)
    assert len(keys) > 20
    for key in keys:
        for number in range(2):
            guessed = noise_by(Secret(number, key), everybody, context, "aux:1")
            assert (left - guessed).std() > 1.2 * SIGMA  # sqrt(2) where both are independent; 0 were it right
    right = noise_by(Secret(1, everybody.secrets[1].to_bytes()), everybody, context, "aux:1")
    assert (left - right).std() < 1e-3  # so that the guess would have been seen


def test_small_seeds_are_no_secrets_here(attacked):
    everybody, context, left = attacked
    for seed in (0, 1, *(secrets.randbits(32) for _ in range(50))):
        for key in (
            seed.to_bytes(32, "big"),
            seed.to_bytes(32, "little"),
            hashlib.sha256(struct.pack(">I", seed)).digest(),
        ):
            assert (left - noise_by(Secret(1, key), everybody, context, "aux:1")).std() > 1.2 * SIGMA
    assert all(len(one.to_bytes()) == 32 for one in everybody.secrets)


def test_a_commitment_hides_its_coin_also_from_whoever_guesses_it(attacked):
    everybody, context, _ = attacked
    secret = everybody.secrets[1]
    commitment, reveal = secret.committed(context), secret.reveal(context)
    tried = [digest(Use.COMMITMENT, context.digest, reveal.coin), hashlib.sha256(reveal.coin).digest()]
    assert commitment.coin not in tried and len(reveal.nonce) == 32
    assert reveal.nonce != everybody.secrets[0].reveal(context).nonce
