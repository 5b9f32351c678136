"""A deployment's clients, servers and coordinator come to what a simulation of the same configuration comes to."""

import numpy as np
import pytest
import torch

from coordinating import Conductor, Courier, started
from onlooker import config
from onlooker.config.kinds import KINDS
from onlooker.deployment.job import initial
from onlooker.folder import RunFolder
from onlooker.privacy.random import Seeded
from onlooker.round import beginning, play
from onlooker.stored import state_of
from participants import federation

NEARLY_SILENT = {"privacy.noise-multiplier": 1e-5, "servers.ring-bits": 64, "task.rounds": 3}
"""So little noise that it rounds to a few units of the grid: what is left are the methods."""
TABLE = {
    "feddecouple": {},
    "dp-fedavg": {"training.server-momentum": 0.5, "data.weights": [1.0, 0.5, 0.25, 1.0, 1.0, 0.5]},
    "ms-pafl": {"model.name": '"mlp"', "split.ratio": 0.9},
    "dp-ogl": {"groups.members": [[0, 1, 2, 3], [2, 3, 4, 5]], "groups.mixing-period": 2},
    "dp-ogl-plus-isolated": {
        "task.rounds": 6,
        "groups.members": [[0, 1, 2, 3], [2, 3, 4, 5]],
        "groups.mixing-period": 2,
    },
    "dp-sgd": {"data.expected-records": 240, "data.max-records": 300, "sampling.records.rate": 1.0},
    "dp-ftrl": {
        "privacy.mechanism": '"banded"',
        "privacy.bands": 2,
        "sampling.clients.name": '"cyclic"',
        "sampling.clients.period": 2,
    },
    "cyclic": {"task.method": '"feddecouple"', "sampling.clients.name": '"cyclic"', "sampling.clients.period": 2},
}


def test_the_table_has_every_method_that_servers_sum():
    beside = {"fedavg", "dp-ogl-plus"}  # there is no noise in the one, and in the other none within a group
    assert set(KINDS) - beside == set(TABLE) - {"cyclic"}


def simulated(many, state, rounds):
    """The coordinator's state after some rounds of a simulation that starts from the same weights."""
    study = config.study(many.prepared, torch.device("cpu"))
    study = type(study)(**{**study.__dict__, "source": Seeded(3)})
    kept = beginning(study.method, initial(many.prepared, many.task))[1]
    with study.opened() as engine:
        for round in range(1, rounds + 1):
            played = play(study, engine, state, kept, round, lambda digest, noise: None)
            state, kept = played.state, played.kept
    return state


@pytest.mark.parametrize("name", TABLE)
def test_both_come_to_the_same_model(tmp_path, name):
    many = federation(tmp_path, 1e99, **{"task.method": f'"{name}"', **NEARLY_SILENT, **TABLE[name]})
    assert many.prepared.agreement.terms.hash == many.task.terms.hash  # so every price is the same
    start, rounds = many.state(), many.terms.rounds
    clients = {number: many.client(number) for number in range(many.terms.clients)}
    task = started(many, tmp_path, Conductor(many.everybody), Courier(clients), [])
    assert [step.metrics["round"] for step in task.rounds()] == list(range(1, rounds + 1))
    state = state_of(many.prepared.method, many.prepared.model, RunFolder.open(tmp_path / "run").commit())
    expected = simulated(many, start, rounds)
    moved = np.abs(expected.models - start.models).max()
    assert moved > 1e-3
    assert np.abs(state.models - expected.models).max() < 2e-3 * moved
