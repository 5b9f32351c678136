"""Rounds through real servers in one process: what tests of secure aggregation play with."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from onlooker import config
from onlooker.privacy.random import System
from onlooker.secagg import coordinator
from onlooker.secagg.aggregator import Aggregator
from onlooker.secagg.agreement import Context, Task
from onlooker.secagg.envelope import EnvelopeKey
from onlooker.secagg.memory import heard
from onlooker.secagg.reports import deliveries, report
from onlooker.secagg.secret import Secret
from onlooker.secagg.store import Store
from onlooker.secagg.wire import packed

MODEL = bytes(range(32))


def terms_of(**settings):
    table = {
        "task.method": '"feddecouple"',
        "task.rounds": 5,
        "data.name": '"digits"',
        "data.clients": 6,
        "model.name": '"logistic"',
        "sampling.clients.name": '"all"',
        "servers.min-batch": 2,
        "privacy.noise-multiplier": 2.0,
        "privacy.delta": 1e-5,
        **settings,
    }
    ready = config.prepare(config.parse("", [f"{key}={value}" for key, value in table.items()]), Path())
    return ready.agreement.terms


def key_of(number):
    return Ed25519PrivateKey.from_private_bytes(number.to_bytes(32, "big"))


def public(key):
    return key.public_key().public_bytes_raw()


@dataclass
class Parties:
    """Everybody of one task, with the keys of each."""

    task: Task
    coordinator: Ed25519PrivateKey
    signing: list
    envelope: list
    secrets: list
    clients: list
    stores: list
    servers: list = field(default_factory=list)
    closings: dict = field(default_factory=dict)

    def start(self, server, store=None):
        """Start a server on its store, or on another; it has heard from nobody yet."""
        self.stores[server] = store or self.stores[server]
        keys = self.signing[server], self.envelope[server], self.secrets[server]
        return Aggregator(self.task, server, *keys, self.stores[server])

    def remind(self, number):
        """Every other party tells a server what it has heard from it."""
        memory = self.servers[number].memory
        memory.recall(self.heard(number))
        for other, server in enumerate(self.servers):
            if other != number:
                memory.recall(server.memory.heard_from(number, memory.nonce))

    def heard(self, number, nonce=None):
        """What the coordinator has heard from a server."""
        nonce = nonce or self.servers[number].memory.nonce
        return heard(self.task, "coordinator", number, nonce, self.closings.get(number, []), self.coordinator)

    def fetch(self, number, context):
        """A server's share, with the end of its log, which the coordinator keeps."""
        share = self.servers[number].share(context.digest)
        self.closings.setdefault(number, []).append(self.servers[number].memory.closing(context.digest))
        return share

    def context(self, round=1, group=0, model=MODEL):
        return Context(self.task, round, group, model)

    def announcements(self):
        return coordinator.announced(self.task, [one.announcement() for one in self.servers])

    def report(self, context, client, rows=None):
        rows = rows if rows is not None else {one.name: row_of(client, one.size) for one in context.channels}
        return report(context, client, rows, self.announcements(), self.clients[client], System())


def parties(settings=None, identity=bytes(32), folder=None):
    terms = terms_of(**(settings or {}))
    count = terms.channels[0].summation.count
    signing, clients = [key_of(100 + j) for j in range(count)], [key_of(1000 + i) for i in range(terms.clients)]
    task = Task(identity, terms, public(key_of(1)), tuple(map(public, signing)), tuple(map(public, clients)))
    stores = [Store(folder / f"aux{server}.db" if folder else None) for server in range(count)]
    envelope = [EnvelopeKey.generate() for _ in range(count)]
    found = Parties(task, key_of(1), signing, envelope, [Secret.generate(j) for j in range(count)], clients, stores)
    found.servers = [found.start(server) for server in range(count)]
    for server in range(count):
        found.remind(server)
    return found


def row_of(client, size):
    """A row well within a clip of 1."""
    row = np.random.default_rng(client).normal(size=size)
    return 0.5 * row / np.linalg.norm(row)


def told(everybody, sender, messages):
    """Every other server hears these, and so on, until nobody has anything to say."""
    waiting = [(sender, message) for message in messages]
    while waiting:
        speaker, message = waiting.pop(0)
        for number, server in enumerate(everybody.servers):
            if number != speaker:
                waiting += [(number, word) for word in server.hear(message)]


def opened(everybody, context):
    """The round begun everywhere, with all commitments heard."""
    message = coordinator.opening(context, everybody.coordinator)
    commitments = [server.open(message) for server in everybody.servers]
    for number, commitment in enumerate(commitments):
        told(everybody, number, [commitment])


def delivered(everybody, report, to=None):
    """A report brought to all servers, or to some."""
    for number, delivery in enumerate(deliveries(report)):
        if to is None or number in to:
            everybody.servers[number].report(packed(delivery))


def gathered(everybody, context, clients):
    """The round begun, and these clients' reports brought to all servers."""
    opened(everybody, context)
    for client in clients:
        delivered(everybody, everybody.report(context, client))


def closed(everybody, context):
    """The round's reports are enough."""
    message = coordinator.freeze(context, everybody.coordinator)
    for number, server in enumerate(everybody.servers):
        told(everybody, number, server.freeze(message))


def played(everybody, context, clients):
    """A whole round: what the coordinator has in the end."""
    gathered(everybody, context, clients)
    closed(everybody, context)
    shares = [everybody.fetch(number, context) for number in range(len(everybody.servers))]
    return coordinator.sealed(context, shares, len(clients))


def witnessed(everybody, context):
    """The end of every server's log countersigned by all others."""
    for number, server in enumerate(everybody.servers):
        for other in everybody.servers[:number] + everybody.servers[number + 1 :]:
            server.memory.keep(other.memory.countersign(server.memory.closing(context.digest)))
