"""A coordinator whose servers and clients are in the same process, killed and started again at any point."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from onlooker.deployment.coordination import _Task, begun
from onlooker.errors import ProtocolError
from onlooker.secagg import coordinator
from onlooker.secagg.coordinator import sealed
from onlooker.secagg.messages import Report
from onlooker.secagg.protocol import Phase
from secure_rounds import closed, delivered, opened


class Death(Exception):
    """Instead of a kill; asyncio of Python 3.11 loses count of its stack by a KeyboardInterrupt."""


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
        for server in self.everybody.servers:
            phase, why = server.phase(context.digest)
            if phase is Phase.ABORTED:
                raise ProtocolError(f"round {context.round} ended without a sum: {why}.")
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
            raise Death
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
