"""A coordinator whose servers are in the same process, killed and started again at any point."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import numpy as np
import pytest

from onlooker.deployment.coordination import _Task, begun
from onlooker.errors import ProtocolError
from onlooker.secagg import coordinator
from onlooker.secagg.coordinator import sealed
from onlooker.secagg.messages import Report
from participants import federation
from secure_rounds import closed, delivered, opened


class Conductor:
    """As `deployment.conductor.Conductor`, without a network."""

    def __init__(self, everybody):
        self.everybody, self.late = everybody, set()

    async def open(self, context):
        for server in self.everybody.servers:
            server.open(coordinator.opening(context, self.everybody.coordinator))
        opened(self.everybody, context)

    async def announcements(self):
        return [server.announcement() for server in self.everybody.servers]

    async def deliver(self, report: Report):
        delivered(self.everybody, report)

    async def finish(self, context, reports):
        closed(self.everybody, context)
        if context.round in self.late:
            raise ProtocolError(f"round {context.round} is not over in time: aux:0 is slow.")
        shares = [self.everybody.fetch(number, context) for number in range(len(self.everybody.servers))]
        return sealed(context, shares, reports)


class Courier:
    """Brings invitations to clients of this process."""

    def __init__(self, clients, dies=()):
        self.clients, self.dies = clients, dies

    def present(self):
        return frozenset(self.clients)

    def ask(self, round, invitations, patience):
        if round in self.dies:
            raise KeyboardInterrupt
        found = []
        for client, body in invitations.items():
            try:
                found += self.clients[client].answer(body)
            except ProtocolError:
                continue
        return found


class Lead:
    def __init__(self, conductor):
        self.conductor = conductor

    def __call__(self, act):
        return asyncio.run(act)


def started(many, place, conductor, courier, told):
    """A coordinator as it is when its process starts."""
    own = SimpleNamespace(
        shared=SimpleNamespace(task=many.task),
        prepared=many.prepared,
        signing_key=many.everybody.coordinator,
        run=place / "run",
        test_root=None,
        client_patience=0.0,
        report_patience=0.0,
    )
    return _Task(own, begun(own, 0), courier, told.append, Lead(conductor), None)


def test_a_round_given_up_too_early_does_not_stop_a_coordinator_that_is_started_again(tmp_path):
    many, told = federation(tmp_path, **{"privacy.noise-multiplier": 0.05}), []
    conductor, clients = Conductor(many.everybody), {number: many.client(number) for number in range(6)}
    conductor.late = {1}
    with pytest.raises(KeyboardInterrupt):
        list(started(many, tmp_path, conductor, Courier(clients, dies={2}), told).rounds())
    conductor.late = set()
    again = started(many, tmp_path, conductor, Courier(clients), told)
    steps = [step.metrics["round"] if step.metrics else None for step in again.rounds()]
    assert steps == [1, None, 3, 4, 5]
    assert [release.round for release in again._folder.ledger().releases] == [1, 2, 3, 4, 5]
    assert any("opened before with another model" in sentence for sentence in told)
    assert list(started(many, tmp_path, conductor, Courier(clients), told).rounds()) == []


def test_a_round_that_was_charged_with_another_model_is_given_up(tmp_path):
    many, told = federation(tmp_path, **{"privacy.noise-multiplier": 0.05}), []
    conductor, clients = Conductor(many.everybody), {number: many.client(number) for number in range(6)}

    class Dying(Conductor):
        async def finish(self, context, reports):
            if context.round == 2:
                raise KeyboardInterrupt
            return await super().finish(context, reports)

    dying = Dying(many.everybody)
    dying.late = {1}
    with pytest.raises(KeyboardInterrupt):
        list(started(many, tmp_path, dying, Courier(clients), told).rounds())
    again = started(many, tmp_path, conductor, Courier(clients), told)
    assert [step.metrics["round"] if step.metrics else None for step in again.rounds()] == [1, None, 3, 4, 5]
    assert any("was sealed before with other bytes" in sentence for sentence in told)


def test_where_clients_add_the_noise_a_sum_is_used_also_by_whoever_was_started_after_its_charge(tmp_path):
    settings = {"task.method": '"dp-fedavg"', "privacy.noised-by": '"clients"', "task.rounds": 1}
    many, told = federation(tmp_path, **settings), []
    conductor, clients = Conductor(many.everybody), {number: many.client(number) for number in range(6)}

    class Dying(Conductor):
        async def finish(self, context, reports):
            raise KeyboardInterrupt

    task = started(many, tmp_path, Dying(many.everybody), Courier(clients), told)
    before = task._folder.commit().tensors
    with pytest.raises(KeyboardInterrupt):
        list(task.rounds())
    (step,) = started(many, tmp_path, conductor, Courier(clients), told).rounds()
    assert step.metrics["round"] == 1
    after = task._folder.commit().tensors
    assert any(not np.array_equal(before[name], after[name]) for name in before)
