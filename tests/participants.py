"""Clients of their own, and the servers and the coordinator that they deal with, in one process."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from onlooker import config
from onlooker.deployment.budget import Budget
from onlooker.deployment.job import Rows, initial, rows_of
from onlooker.deployment.memory import Memory
from onlooker.deployment.participant import Participant
from onlooker.engines import trainer_of
from onlooker.methods.method import State
from onlooker.privacy.participation import picked
from onlooker.privacy.random import System
from onlooker.round import beginning
from onlooker.secagg import coordinator
from onlooker.secagg.agreement import Context
from onlooker.secagg.messages import Invitation
from onlooker.secagg.wire import packed, unpacked
from secure_rounds import Parties, closed, delivered, opened, parties

SETTINGS = {
    "task.method": '"feddecouple"',
    "task.rounds": 5,
    "task.seed": '"system"',
    "data.name": '"digits"',
    "data.clients": 6,
    "model.name": '"logistic"',
    "training.steps": 1,
    "training.batch-size": 500,
    "training.learning-rate": 1.0,
    "sampling.clients.name": '"all"',
    "servers.min-batch": 2,
    "servers.count": 2,
    "privacy.noise-multiplier": 2.0,
    "privacy.delta": 1e-5,
}


@dataclass
class Federation:
    """A task whose clients keep their files in a folder."""

    folder: Path
    prepared: config.Prepared
    everybody: Parties
    epsilon: float = 1e9

    @property
    def task(self):
        return self.everybody.task

    @property
    def terms(self):
        return self.task.terms

    def client(self, number, **changes):
        """A client as it is when its process starts."""
        place, method = self.folder / f"client{number}", self.prepared.method
        one = Participant(
            self.task,
            number,
            method,
            trainer_of("plain", self.prepared.model, torch.device("cpu")),
            rows_of(self.prepared, Rows(None, False), number),
            initial(self.prepared, self.task),
            self.everybody.clients[number],
            Memory(place / "state", self.task.digest, number, picked(self.terms, number, System())),
            Budget(place / "budget.db", self.epsilon, 1e-5),
            System(),
        )
        return replace(one, **changes)

    def state(self):
        """The coordinator's before round 1."""
        return beginning(self.prepared.method, initial(self.prepared, self.task))[0]

    def contexts(self, round, state):
        digests = [hashlib.sha256(model.tobytes()).digest() for model in state.models]
        return [Context(self.task, round, group, digest) for group, digest in enumerate(digests)]

    def invitation(self, client, round, state, **changes):
        """What the coordinator sends a client."""
        own, contexts = self.terms.topology.groups_of(client), self.contexts(round, state)
        invited = Invitation(
            tuple(coordinator.opening(contexts[group], self.everybody.coordinator).to_bytes() for group in own),
            tuple(state.models[group].tobytes() for group in own),
            tuple(one.announcement().to_bytes() for one in self.everybody.servers),
        )
        return packed(replace(invited, **changes))

    def sums(self, round, state, reports):
        """Play a round through the servers: each group's noisy sums by channel, and how many reports it had."""
        contexts, found = self.contexts(round, state), []
        for context in contexts:
            opened(self.everybody, context)
        for body in reports:
            delivered(self.everybody, unpacked(body))
        for context in contexts:
            closed(self.everybody, context)
            shares = [self.everybody.fetch(number, context) for number in range(len(self.everybody.servers))]
            found.append(coordinator.sealed(context, shares, 0))
        return found

    def after(self, round, state, reports) -> State:
        """The coordinator's state after a round."""
        return self.prepared.method.update(state, self.released(round, state, reports))

    def released(self, round, state, reports):
        """What a round releases."""
        return [
            {
                channel.kind: channel.release(sums[channel.name], self.terms.divisor_of(group))
                for channel in self.terms.channels_of(group)
            }
            for group, sums in enumerate(self.sums(round, state, reports))
        ]


def federation(folder, epsilon=1e9, **settings):
    """A new task."""
    table = {**SETTINGS, **settings}
    prepared = config.prepare(config.parse("", [f"{key}={value}" for key, value in table.items()]), Path())
    everybody = parties(table, identity=hashlib.sha256(str(folder).encode()).digest())
    assert everybody.task.terms.hash == prepared.agreement.terms.hash
    return Federation(folder, prepared, everybody, epsilon)


def total(federation, sums):
    """A sum as numbers, in units of a row."""
    from onlooker.privacy.shares import combine

    (channel,) = federation.terms.channels
    return (
        channel.grid.from_ring(combine(sums[channel.name].shares)).astype(np.float64) / 2.0**channel.grid.fraction_bits
    )
