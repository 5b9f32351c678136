"""No two noises, coins or masks have one seed, whatever is the same between them; and a restart changes none."""

import itertools

from onlooker.privacy.random import System
from onlooker.secagg.agreement import Context
from onlooker.secagg.reports import report
from onlooker.secagg.secret import Secret
from secure_rounds import parties, row_of

GROUPS = {"task.method": '"dp-ogl"', "groups.members": [[0, 1, 2, 3], [2, 3, 4, 5]], "servers.count": 2}


def test_a_seed_is_of_one_task_round_group_server_batch_and_coins():
    tasks = [parties(GROUPS, identity=bytes([number]) * 32).task for number in range(2)]
    keys = [bytes([number]) * 32 for number in range(2)]
    noises, coins, count = set(), set(), 0
    for task, key, server, round, group in itertools.product(tasks, keys, range(2), range(1, 5), range(2)):
        secret, context = Secret(server, key), Context(task, round, group, bytes(32))
        shown = secret.reveal(context)
        coins |= {shown.coin, shown.nonce}
        for batch, drawn in itertools.product((bytes(32), bytes([7]) * 32), ((shown.coin,), (shown.coin, key))):
            for party in ("aux:0", "aux:1"):
                noises.add(secret.noise(context, batch, drawn).stream("noise/model", round, party).bytes(32))
                count += 1
    # Of one key, whichever server holds it: that has its own, and its streams are named by the party.
    assert len(noises) == count // 2
    assert len(coins) == 2 * len(tasks) * len(keys) * 4 * 2


def test_a_restart_draws_nothing_anew():
    everybody = parties()
    context = everybody.context()
    before = everybody.secrets[0]
    again = Secret(0, before.to_bytes())
    assert before.reveal(context) == again.reveal(context)
    streams = [one.noise(context, bytes(32), (bytes(32),)).stream("noise/model", 1, "aux:0") for one in (before, again)]
    assert streams[0].bytes(64) == streams[1].bytes(64)


def test_masks_are_new_in_every_report():
    everybody = parties()
    context, announcements = everybody.context(), everybody.announcements()
    rows = {one.name: row_of(0, one.size) for one in context.channels}
    made = [report(context, 0, rows, announcements, everybody.clients[0], System()) for _ in range(3)]
    assert len({one.identity for one in made}) == 3
    assert len({one.envelopes[1] for one in made}) == len({one.envelopes[0] for one in made}) == 3
