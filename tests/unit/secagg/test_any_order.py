"""A round over a network that loses, delays, repeats and turns round what is said, between servers that die.

Rows are one-hot, so that a report that counts twice, or not at all where it should, is a number that anybody sees.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from onlooker.errors import ProtocolError
from onlooker.privacy.shares import combine
from onlooker.secagg import coordinator
from onlooker.secagg.protocol import Phase
from onlooker.secagg.reports import deliveries
from onlooker.secagg.wire import packed
from secure_rounds import parties

SILENT = {"privacy.noise-multiplier": 1e-7, "servers.min-batch": 2}
OVER = (Phase.NOISING, Phase.SEALED, Phase.ABORTED)


def one_hot(client, size):
    row = np.zeros(size)
    row[client] = 0.5
    return row


class Network:
    """What is on its way to whom; `random` decides all."""

    def __init__(self, seed, settings):
        self.random = random.Random(seed)
        self.everybody = parties({**SILENT, **settings})
        self.context = self.everybody.context()
        self.servers = range(len(self.everybody.servers))
        self.waiting = []
        self.taken = {server: set() for server in self.servers}
        self.say_all()

    def say_all(self):
        """The coordinator's opening, reports, and in the end its freeze, to every server."""
        context, everybody = self.context, self.everybody
        opening = coordinator.opening(context, everybody.coordinator)
        freeze = coordinator.freeze(context, everybody.coordinator)
        self.again = [("open", server, opening) for server in self.servers]
        self.again += [("freeze", server, freeze) for server in self.servers]
        self.waiting += self.again
        for client in range(6):
            rows = {one.name: one_hot(client, one.size) for one in context.channels}
            sent = [packed(one) for one in deliveries(everybody.report(context, client, rows))]
            self.waiting += [("report", server, (client, body)) for server, body in enumerate(sent)]

    def step(self):
        """One thing that may happen."""
        happens = self.random.random()
        if happens < 0.05:
            server = self.random.choice(self.servers)
            self.everybody.servers[server] = self.everybody.start(server)
            if self.random.random() < 0.5:
                self.everybody.remind(server)
        elif happens < 0.1:
            for server in self.servers:
                self.everybody.remind(server)
        elif self.waiting:
            place = self.random.randrange(len(self.waiting))
            kind, server, what = self.waiting[place]
            if kind == "freeze" and self.random.random() < 0.97:
                return  # or there would be few reports
            if self.random.random() < 0.75:
                self.waiting.pop(place)
            if self.random.random() < 0.9:
                self.bring(kind, server, what)

    def bring(self, kind, server, what):
        """One message to one server; who does not take it now may hear it again."""
        one = self.everybody.servers[server]
        try:
            match kind:
                case "open":
                    self.tell(server, [one.open(what)])
                case "report":
                    one.report(what[1])
                    self.taken[server].add(what[0])
                case "freeze":
                    self.tell(server, one.freeze(what))
                case "word":
                    self.tell(server, one.hear(what))
        except ProtocolError:
            return

    def tell(self, speaker, words):
        self.waiting += [("word", server, word) for word in words for server in self.servers if server != speaker]

    def heal(self):
        """From now on everything is heard: the coordinator says its own again, and servers all that they have said."""
        for _ in range(6):
            for server in self.servers:
                self.everybody.remind(server)
            self.waiting = [*self.again, *self.waiting]
            for server in self.servers:
                try:
                    self.tell(server, self.everybody.servers[server].memory.said(self.context.digest))
                except ProtocolError:
                    continue  # which knows of no such round yet
            while self.waiting:
                self.bring(*self.waiting.pop(0))

    def phases(self):
        return {one.phase(self.context.digest)[0] for one in self.everybody.servers}


@pytest.mark.parametrize("settings", [{}, {"servers.count": 3, "servers.corrupt": 1}], ids=["two", "three"])
@pytest.mark.parametrize("seed", range(40))
def test_each_report_counts_once_or_not_at_all(seed, settings):
    network = Network(seed, settings)
    for _ in range(network.random.randrange(20, 300)):
        network.step()
    network.heal()
    (phase,) = network.phases()
    assert phase in OVER
    everybody, context = network.everybody, network.context
    agreed = set.intersection(*network.taken.values())
    if phase is Phase.ABORTED:
        assert len(agreed) < 2
        return
    shares = [everybody.fetch(server, context) for server in network.servers]
    for server in network.servers:  # the same bytes, also after another death
        everybody.servers[server] = everybody.start(server)
        everybody.remind(server)
        assert everybody.fetch(server, context) == shares[server]
    (channel,) = context.channels
    sums = coordinator.sealed(context, shares, len(agreed))[channel.name]
    found = channel.grid.from_ring(combine(sums.shares)) / 2.0**channel.grid.fraction_bits
    expected = sum((one_hot(client, channel.size) for client in agreed), np.zeros(channel.size))
    assert np.abs(found - expected).max() < 1e-3


def test_the_network_above_does_all_that_it_says():
    """Some rounds end without a sum, some with part of the clients, some with all."""
    sizes = set()
    for seed in range(40):
        network = Network(seed, {})
        for _ in range(network.random.randrange(20, 300)):
            network.step()
        network.heal()
        sizes.add(len(set.intersection(*network.taken.values())))
    assert min(sizes) < 2 and max(sizes) == 6 and len(sizes) >= 4, sizes
