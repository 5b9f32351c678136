"""Correlated noise where rounds end without a sum: what is released stays a function of what was priced."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlooker.errors import ProtocolError
from onlooker.privacy.matrix import Banded, Tree, no_noise_yet
from onlooker.secagg.protocol import Phase
from onlooker.secagg.transcript import verified
from secure_rounds import closed, gathered, parties, played

BANDED = {
    "task.method": '"dp-ftrl"',
    "servers.count": 2,
    "task.rounds": 8,
    "sampling.clients.name": '"cyclic"',
    "sampling.clients.period": 2,
    "privacy.mechanism": '"banded"',
    "privacy.bands": 2,
}
TREE = {**{key: value for key, value in BANDED.items() if key != "privacy.bands"}, "privacy.mechanism": '"tree"'}


def strategy_matrix(mechanism, rounds):
    """C in units of 2^-g, from how a round's noise undoes earlier ones."""
    if isinstance(mechanism, Tree):
        rows = [[int(t - (t & -t) < s <= t) for s in range(1, rounds + 1)] for t in range(1, rounds + 1)]
        return np.array(rows)
    whole = np.rint(mechanism.coefficients * 2.0**mechanism.finer_bits).astype(np.int64)
    return np.array([[whole[t - s] if 0 <= t - s < len(whole) else 0 for s in range(rounds)] for t in range(rounds)])


def releases(mechanism, rows, fresh, missed):
    """What rounds release of one coordinate, those that end without a sum left out."""
    state, told_of = no_noise_yet(1), []
    for round, (row, drawn) in enumerate(zip(rows, fresh, strict=True), 1):
        if round in missed:
            state = mechanism.passed(state, round)
        else:
            noise, state = mechanism.step(state, np.array([drawn]), round)
            told_of.append(int(row + noise[0]))
    return told_of


@pytest.mark.parametrize("mechanism", [Tree(1.0), Banded(1.0, 2), Banded(1.0, 5)])
@given(st.data(), st.integers(1, 12))
@settings(max_examples=40, deadline=None)
def test_other_rows_are_made_up_for_by_the_noise_that_is_priced(mechanism, data, rounds):
    """Two runs with one C x + Z release the same, whatever rounds are missed: so C x is all that a client can move."""
    missed = data.draw(st.sets(st.integers(1, rounds)))
    whole = st.lists(st.integers(-1000, 1000), min_size=rounds, max_size=rounds)
    drawn, *both = (np.array(data.draw(whole)) for _ in range(3))
    rows = [np.where([round in missed for round in range(1, rounds + 1)], 0, one) for one in both]
    made_up = strategy_matrix(mechanism, rounds) @ (rows[0] - rows[1])
    found = releases(mechanism, rows[0], drawn, missed)
    assert found == releases(mechanism, rows[1], drawn + made_up, missed)


def audited(everybody):
    return [one for number in (0, 1) for one in verified(
        everybody.task, number, everybody.secrets[number], everybody.stores[number])]  # fmt: skip


@pytest.mark.parametrize("table", [BANDED, TREE])
@pytest.mark.parametrize("missed", [{1}, {2}, {3}, {4, 5}, {1, 2, 3}])
def test_a_server_goes_on_after_a_round_that_had_too_few(table, missed):
    everybody = parties(table)
    mechanism = everybody.task.terms.channels[0].mechanism
    states = {server: no_noise_yet(everybody.task.terms.channels[0].size) for server in (0, 1)}
    for number in range(1, 8):
        context = everybody.context(number)
        if number in missed:
            gathered(everybody, context, (0,))
            closed(everybody, context)
            states = {server: mechanism.passed(state, number) for server, state in states.items()}
            continue
        played(everybody, context, (0, 1, 2))
        for server, state in states.items():
            _, states[server] = mechanism.step(state, drawn(everybody, server, context), number)
            kept = everybody.stores[server].states(["model"])["model"]
            assert kept == states[server].astype("<i8").tobytes()
        if number == 5:
            everybody.servers = [everybody.start(server) for server in (0, 1)]
            for server in (0, 1):
                everybody.remind(server)
    assert not any(one.faults for one in audited(everybody))


def drawn(everybody, server, context):
    """A server's fresh noise of a round."""
    (channel,) = context.channels
    round = everybody.servers[server]._rounds[context.digest]
    source = everybody.secrets[server].noise(context, round.batch_digest, round.coins)
    stream = source.stream("noise/model", context.round, f"aux:{server}")
    deviation = channel.mechanism.noise_multiplier * 2.0**channel.grid.fraction_bits
    return channel.mechanism.noise(deviation, channel.size, stream)


@pytest.mark.parametrize(("table", "phase"), [(BANDED, Phase.ABORTED), ({}, Phase.SEALED)])
def test_a_share_that_comes_after_a_later_rounds_is_given_up_where_noise_is_correlated(table, phase):
    everybody = parties(table)
    first, second = everybody.context(1), everybody.context(2)
    gathered(everybody, first, (0, 1))
    closed(everybody, first)
    played(everybody, second, (2, 3))
    server = everybody.servers[0]
    if phase is Phase.ABORTED:
        for _ in range(2):
            with pytest.raises(ProtocolError, match="the noise of round 2 was made without it"):
                server.share(first.digest)
    else:
        server.share(first.digest)
    assert server.phase(first.digest)[0] is phase
