"""What a server at work must take from others, however long a task is."""

from __future__ import annotations

import asyncio
import time

import pytest

from onlooker.deployment.http import Pauses
from onlooker.deployment.service import largest
from onlooker.secagg.memory import heard
from onlooker.secagg.messages import Closing, Holding
from onlooker.secagg.wire import Signed
from secure_rounds import parties


@pytest.mark.parametrize("rounds", [5, 2000])
def test_a_server_that_was_started_late_in_a_task_can_be_told_all_that_was_heard_from_it(rounds):
    everybody = parties({"task.rounds": rounds})
    ends = [Signed.by(everybody.signing[0], Closing(bytes(32), 0, bytes(32)))] * rounds
    told = heard(everybody.task, "coordinator", 0, bytes(32), ends, everybody.coordinator)
    assert len(told.to_bytes()) <= largest(everybody.task)


def test_a_report_and_whom_a_server_holds_are_not_too_long_either():
    everybody = parties({"model.name": '"mlp"'})
    report = everybody.report(everybody.context(), 0)
    assert sum(map(len, report.envelopes)) < largest(everybody.task)
    holding = Holding(bytes(32), 0, tuple((client, bytes(16)) for client in range(6)))
    assert len(Signed.by(everybody.signing[0], holding).to_bytes()) < largest(everybody.task)


def test_pauses_double_up_to_the_latest_and_end_with_the_patience():
    async def waited():
        pauses, lengths = Pauses(0.01, 0.04, 0.2), []
        while True:
            started = time.monotonic()
            if not await pauses.next():
                return lengths
            lengths.append(time.monotonic() - started)

    lengths = asyncio.run(waited())
    for length, least in zip(lengths, (0.01, 0.02, 0.04, 0.04), strict=False):
        assert length >= least
    assert 1 < len(lengths) <= 6
