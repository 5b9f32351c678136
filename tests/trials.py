"""Auxiliary servers and clients as processes of their own, on loopback, and a courier that may be told to misbehave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from federation import free_ports
from onlooker.deployment.coordination import coordinated
from onlooker.deployment.coordinator_file import own_coordinator
from onlooker.deployment.desk import ANSWER, GREET, ask_at
from onlooker.deployment.files import shared
from onlooker.deployment.http import each
from onlooker.errors import OnlookerError
from onlooker.secagg.wire import unpacked


def job_of(clients, rounds, noise, seed="", more=""):
    """A job through two servers that starts quickly, as a file."""
    return f"""
[task]
method = "feddecouple"
rounds = {rounds}
{seed}
[data]
name = "digits"
clients = {clients}
[model]
name = "logistic"
{more}
[sampling.clients]
name = "all"
[servers]
count = 2
min-batch = 2
[privacy]
noise-multiplier = {noise}
delta = 1e-5
"""


def onlooker(*words):
    return [sys.executable, "-m", "onlooker", *map(str, words)]


def said(*words):
    return subprocess.run(onlooker(*words), capture_output=True, text=True, timeout=60)


def free_port():
    """The first of two ports next to each other that nobody uses."""
    return free_ports(2)


@dataclass
class Processes:
    """Everybody on one machine, by the names of their files."""

    folder: Path
    running: dict = field(default_factory=dict)

    @property
    def task(self):
        return shared(self.folder / "task.toml").task

    def start(self, *parties, inside=(), **environment):
        """Start some parties, at once, and return when each says that it is there."""
        for party in parties:
            word = "serve" if party.startswith("aux") else "client"
            self.running[party] = subprocess.Popen(
                [*inside, *onlooker(word, self.folder / f"{party}.toml")],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
            )
        for party in parties:
            line = self.running[party].stdout.readline()
            there = f"aux:{party[3:]} serves task" if party.startswith("aux") else f"client:{party[6:]} of task"
            assert there in line, (party, line, self.running[party].stderr.read())

    def kill(self, party, how=signal.SIGKILL):
        """End a party; what it printed after its first line."""
        process = self.running.pop(party)
        process.send_signal(how)
        return process.communicate(timeout=20)

    def end(self):
        for party in list(self.running):
            Processes.kill(self, party, signal.SIGTERM)

    def coordinate(self, rounds, courier=None, say=lambda sentence: None):
        """Play some more rounds; what each left."""
        own = own_coordinator(self.folder / "coordinator.toml")
        steps = coordinated(own, courier or Courier(self), say)
        try:
            return [next(steps) for _ in range(rounds)]
        finally:
            steps.close()


class Courier:
    """Brings invitations to the clients' sockets, all at once, and their reports back."""

    def __init__(self, processes):
        self.processes = processes
        self.refused = {}

    @property
    def folder(self):
        return self.processes.folder

    def present(self):
        return frozenset(client for client in range(len(self.processes.task.roster)) if self.greeted(client))

    def greeted(self, client):
        try:
            body = ask_at(self.folder / f"client{client}" / "socket", f"client:{client}", GREET, b"", 5)
        except OnlookerError:
            return False
        return unpacked(body).client == client

    def one(self, client, body, patience):
        """A client's reports; none where it refuses or is not there."""
        try:
            return each(ask_at(self.folder / f"client{client}" / "socket", f"client:{client}", ANSWER, body, patience))
        except OnlookerError as error:
            self.refused[client] = str(error)
            return []

    def ask(self, round, invitations, patience):
        with ThreadPoolExecutor(len(invitations) or 1) as pool:
            asked = [pool.submit(self.one, client, body, patience) for client, body in invitations.items()]
        return [report for one in asked for report in one.result()]


@contextmanager
def processes_in(folder, job, *options, kind=Processes):
    """The files of a trial, and whatever is started with them until the end."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "job.toml").write_text(job)
    done = said("keys", folder / "t", "--job", folder / "job.toml", "--port", free_port(), *options)
    assert done.returncode == 0, done.stderr
    found = kind(folder / "t")
    try:
        yield found
    finally:
        found.end()
