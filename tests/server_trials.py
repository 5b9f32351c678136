"""Two auxiliary servers as processes, and a coordinator that brings them reports of no client."""

from __future__ import annotations

import asyncio
import signal
from dataclasses import dataclass, field

from onlooker.deployment.conductor import Conductor
from onlooker.deployment.ends import Ends
from onlooker.deployment.files import Credentials, shared, signing_key
from onlooker.deployment.http import Link
from onlooker.privacy.random import System
from onlooker.secagg import coordinator
from onlooker.secagg.agreement import Context
from onlooker.secagg.reports import report
from secure_rounds import row_of
from trials import Processes, job_of, processes_in

JOB = job_of(clients=5, rounds=40, noise=0.01)
MODEL = bytes(range(32))


@dataclass
class Trial(Processes):
    """Everybody's keys on one machine, and servers by their numbers."""

    ends: Ends = field(default_factory=lambda: Ends(None, 2))

    def start(self, server, **environment):
        super().start(f"aux{server}", **environment)

    def kill(self, server, how=signal.SIGKILL):
        super().kill(f"aux{server}", how)

    def credentials(self, party="coordinator"):
        place = self.folder / party
        return Credentials(place / "tls.pem", place / "tls-key.pem", self.folder / "authority.pem")

    def links(self):
        addresses = shared(self.folder / "task.toml").addresses
        return [Link(f"aux:{number}", one, self.credentials()) for number, one in enumerate(addresses)]

    def conductor(self, links, patience=20.0):
        key = signing_key(self.folder / "coordinator" / "signing.pem")
        return Conductor(self.task, key, links, patience, self.ends)

    def report(self, context, client, announcements, key=None):
        rows = {one.name: row_of(client, one.size) for one in context.channels}
        key = key or signing_key(self.folder / f"client{client}" / "signing.pem")
        return report(context, client, rows, announcements, key, System())

    def run(self, act, patience=20.0):
        """What a coordinator does, from connections to their end."""

        async def whole():
            links = self.links()
            try:
                return await act(self.conductor(links, patience))
            finally:
                for link in links:
                    await link.close()

        return asyncio.run(whole())

    async def gather(self, conductor, context, clients):
        announcements = coordinator.announced(self.task, await conductor.announcements())
        await conductor.open(context)
        for client in clients:
            await conductor.deliver(self.report(context, client, announcements))

    def play(self, round, clients=(0, 1, 2, 4), between=None):
        """A round, with something between its reports and their end."""
        context = Context(self.task, round, 0, MODEL)

        async def act(conductor):
            await self.gather(conductor, context, clients)
            if between is not None:
                between()
            return await conductor.finish(context, len(clients))

        return context, self.run(act)


def is_right(context, sealed, clients=(0, 1, 2, 4)):
    """True if a sum is that of the clients' rows with the noise of both servers."""
    (channel,) = context.channels
    released = channel.release(sealed[channel.name], 1.0)
    error = (released - sum(row_of(client, channel.size) for client in clients)) / channel.deviation(len(clients))
    return 0.85 < error.std() < 1.15 and abs(error.mean()) < 0.2


def trial_in(folder, job=JOB):
    """The files of a trial, and whatever is started with them until the end."""
    return processes_in(folder, job, kind=Trial)
