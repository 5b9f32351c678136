"""Two auxiliary servers as processes, and a coordinator that brings them reports of no client."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from onlooker.deployment.conductor import Conductor
from onlooker.deployment.ends import Ends
from onlooker.deployment.files import Credentials, shared, signing_key
from onlooker.deployment.http import Link
from onlooker.privacy.random import System
from onlooker.secagg import coordinator
from onlooker.secagg.agreement import Context
from onlooker.secagg.reports import report
from secure_rounds import row_of
from trials import free_port, onlooker, said

JOB = """
[task]
method = "feddecouple"
rounds = 40
[data]
name = "digits"
clients = 5
[model]
name = "logistic"
[sampling.clients]
name = "all"
[servers]
count = 2
min-batch = 2
[privacy]
noise-multiplier = 0.01
delta = 1e-5
"""
MODEL = bytes(range(32))


@dataclass
class Trial:
    """Everybody on one machine."""

    folder: Path
    processes: dict = field(default_factory=dict)
    ends: Ends = field(default_factory=lambda: Ends(None, 2))

    @property
    def task(self):
        return shared(self.folder / "task.toml").task

    def start(self, server, **environment):
        process = subprocess.Popen(
            onlooker("serve", self.folder / f"aux{server}.toml"),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **environment},
        )
        self.processes[server] = process
        line = process.stdout.readline()
        assert f"aux:{server} serves task" in line, (line, process.poll(), process.stderr.read())

    def kill(self, server, how=signal.SIGKILL):
        process = self.processes.pop(server)
        process.send_signal(how)
        process.communicate(timeout=20)

    def end(self):
        for server in list(self.processes):
            self.kill(server, signal.SIGTERM)

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


@contextmanager
def trial_in(folder, job=JOB):
    (folder / "job.toml").write_text(job)
    done = said("keys", folder / "trial", "--job", folder / "job.toml", "--port", free_port())
    assert done.returncode == 0, done.stderr
    found = Trial(folder / "trial")
    try:
        yield found
    finally:
        found.end()
