"""What one auxiliary server can measure of a client's row is less than what was promised; and more, where noise fails.

The server takes its own noise off what is released, and looks at coordinates that clients fill, each one, and at others
that nobody fills. From the distance of the two in standard deviations it claims, with confidence, how much privacy was
lost at the least (many canaries in few runs, as in Andrew et al. 2024). The claim must stay below the price of a sound
round, and must pass it where a server draws half its noise, or none, or the same twice, or where a client's row is not
bounded.
"""

from __future__ import annotations

import numpy as np
import pytest

from onlooker.privacy.channel import Channel
from onlooker.privacy.shares import combine
from onlooker.secagg import coordinator
from onlooker.secagg.secret import Secret
from secure_rounds import closed, delivered, opened, parties

Z, ROUNDS, CLIENTS = 2.0, 100, 6
PROMISED = 1 / Z
"""Of one round, to one server: the distance of two Gaussians of deviation 1 (Dong, Roth and Su 2022)."""


def seen_by_one_server(length=1.0, every=1):
    """What aux:0 has left of each round's sum, in units of the clip, `float64[rounds, d]`.

    Client i fills place i of its row, in every so many rounds, and sends zeros in the others.
    """
    everybody = parties({"privacy.noise-multiplier": Z, "task.rounds": ROUNDS})
    rows = []
    for round in range(1, ROUNDS + 1):
        context = everybody.context(round)
        (channel,) = context.channels
        opened(everybody, context)
        for client in range(CLIENTS):
            row = np.zeros(channel.size)
            row[client] = length * (round % every == 0)
            delivered(everybody, everybody.report(context, client, {channel.name: row}))
        closed(everybody, context)
        mine = everybody.servers[0]._rounds[context.digest]
        source = everybody.secrets[0].noise(context, mine.batch_digest, mine.coins)
        own, _ = channel.noised(channel.empty().shares[0], "aux:0", round, source, None)
        shares = [everybody.fetch(number, context) for number in range(2)]
        whole = combine(coordinator.sealed(context, shares, CLIENTS)[channel.name].shares)
        rows.append(channel.grid.from_ring(whole - own) / 2.0**channel.grid.fraction_bits)
    return np.array(rows)


def claimed(seen):
    """How far apart two Gaussians of deviation 1 are at the least, at a confidence of 0.9999; 0 where they may be one.

    Epsilon grows with it: promised are 1 / z in one round.
    """
    filled, empty = seen[:, :CLIENTS].ravel(), seen[:, CLIENTS:].ravel()
    distance = (filled.mean() - empty.mean()) / (empty.std() + 1e-12)
    return max(0.0, distance - 3.8 * np.sqrt(1 / filled.size + 1 / empty.size))


def tampered(monkeypatch, share):
    """Server 1 adds so much of its noise."""
    noised = Channel.noised

    def less(channel, total, party, *rest):
        noisy, state = noised(channel, total, party, *rest)
        if party == "aux:1":
            drawn = (noisy - total).view(np.int32)
            noisy = total + np.round(share * drawn).astype(np.int32).view(np.uint32)
        return noisy, state

    monkeypatch.setattr(Channel, "noised", less)


def test_a_sound_round_tells_no_more_than_was_promised_and_almost_all_of_it():
    found = claimed(seen_by_one_server())  # 0.345 on average, with a deviation of 0.041
    assert 0.3 * PROMISED < found <= PROMISED


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_noise_that_is_too_small_is_found_out(monkeypatch, share):
    tampered(monkeypatch, share)
    assert claimed(seen_by_one_server()) > PROMISED


def test_rows_that_are_not_bounded_are_found_out(monkeypatch):
    assert claimed(seen_by_one_server(length=3.0)) <= PROMISED  # for what a client makes of it is bounded

    def unbounded(channel, row, client):
        return np.rint(row * 2.0**channel.grid.fraction_bits).astype(np.int64)

    monkeypatch.setattr(Channel, "encode", unbounded)
    assert claimed(seen_by_one_server(length=3.0)) > PROMISED


class Again:
    """Noise that is the first round's in every round."""

    repeatable = False

    def __init__(self, source):
        self.source = source

    def stream(self, purpose, round=0, party=""):
        return self.source.stream(purpose, 1, party)


def test_noise_that_is_drawn_again_is_found_out(monkeypatch):
    """Two rounds with one noise: their difference has none, and shows the rows of the one that had any."""
    promised = PROMISED * np.sqrt(2)  # of two rounds
    sound = seen_by_one_server(every=2)
    assert claimed(sound[1::2] - sound[::2]) <= promised
    noise, first = Secret.noise, parties({"privacy.noise-multiplier": Z}).context()
    monkeypatch.setattr(
        Secret, "noise", lambda secret, context, batch, coins: Again(noise(secret, first, bytes(32), ()))
    )
    again = seen_by_one_server(every=2)
    assert claimed(again[1::2] - again[::2]) > promised
