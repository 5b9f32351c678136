"""Laws of whole runs: what was planned is what was charged, and nothing leaks from one run to another."""

import math
from itertools import zip_longest
from pathlib import Path

import numpy as np
import pytest
import torch

from onlooker import config, run
from onlooker.errors import DataError
from onlooker.folder import RunFolder
from onlooker.methods.records import clipped_sum
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.random import Seeded
from onlooker.privacy.statement import find
from playing import begin, one_round, rows_of

METHODS = {
    "fedavg": {},
    "dp-fedavg": {"privacy.noise-multiplier": 2.0},
    "dp-fedavg noised by clients": {"privacy.noise-multiplier": 2.0, "privacy.noised-by": '"clients"'},
    "feddecouple": {"privacy.noise-multiplier": 2.0},
    "feddecouple with three servers": {"privacy.noise-multiplier": 2.0, "servers.count": 3},
    "dp-sgd": {"privacy.noise-multiplier": 1.0, "data.expected-records": 240, "sampling.records.rate": 0.1},
}


def prepared(method, rounds=3, **settings):
    base = {
        "task.method": f'"{method.split()[0]}"',
        "task.rounds": rounds,
        "data.name": '"digits"',
        "data.clients": 6,
    }
    base |= {"model.name": '"logistic"', "training.learning-rate": 0.1}
    named = (
        base
        | METHODS.get(method, {})
        | {key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
    )
    return config.prepare(config.parse("", [f"{key}={value}" for key, value in named.items()]), Path())


def begun(tmp_path, method, name="run", **settings):
    ready = prepared(method, **settings)
    study = config.study(ready, torch.device("cpu"))
    folder = RunFolder.create(
        tmp_path / name,
        config.as_toml(ready.configuration),
        study.method.terms,
        {},
        run.starting_tensors(study),
        run.starting_draws(study),
    )
    return study, folder


@pytest.mark.parametrize("method", METHODS)
def test_the_ledger_of_a_run_is_its_plan(tmp_path, method):
    study, folder = begun(tmp_path, method)
    steps = list(run.simulate(study, folder))
    plan = Ledger.plan(study.method.terms)
    assert steps[-1].ledger == folder.ledger() == plan
    for observer in ("public", "coordinator", "client:1"):
        assert folder.ledger().epsilon(0, observer) == plan.epsilon(0, observer)
    lines = folder.metrics()
    assert [line["round"] for line in lines] == [1, 2, 3]
    assert all(0 <= line["accuracy"] <= 1 and line["seconds"] > 0 and line["expected-clients"] > 0 for line in lines)


@pytest.mark.parametrize("method", METHODS)
def test_a_run_is_repeatable_and_alone_in_its_process(tmp_path, method):
    """Two runs taken in turns end as each ends alone, whatever the global generators were doing."""
    alone = [finished(*begun(tmp_path, method, f"alone-{seed}", task__seed=seed)) for seed in (1, 2)]
    one, two = (begun(tmp_path, method, f"turn-{seed}", task__seed=seed) for seed in (1, 2))
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002  (on purpose: what must not matter)
    for _ in zip_longest(run.simulate(*one), run.simulate(*two)):
        torch.rand(3)
    assert [model(one[1]), model(two[1])] == alone
    assert alone[0] != alone[1]


def finished(study, folder):
    for _ in run.simulate(study, folder):
        pass
    return model(folder)


def model(folder):
    return (folder.path / "model.safetensors").read_bytes()


def test_two_servers_without_noise_are_plain_averaging(tmp_path):
    """FedDecouple without noise is DP-FedAvg without noise, to the last bit, on a grid of the same width."""
    shared = finished(*begun(tmp_path, "feddecouple", "a", privacy__noise_multiplier=0.0, servers__ring_bits=64))
    plain = finished(*begun(tmp_path, "dp-fedavg", "b", privacy__noise_multiplier=0.0))
    assert shared == plain


def test_a_loose_clip_without_noise_is_fedavg_on_equal_silos(tmp_path):
    """With everybody there, equal sizes and a clip that never bites, DP-FedAvg without noise is FedAvg."""
    settings = {"data__clients": 2, "sampling__clients__name": '"all"'}
    one, folder_one = begun(tmp_path, "fedavg", "a", **settings)
    two, folder_two = begun(tmp_path, "dp-fedavg", "b", privacy__noise_multiplier=0.0, privacy__clip=100.0, **settings)
    sizes = {len(client) for client in one.federation.clients}
    assert len(sizes) == 1
    finished(one, folder_one), finished(two, folder_two)
    ours, theirs = folder_one.commit().tensors, folder_two.commit().tensors
    assert all(np.allclose(ours[name], theirs[name], atol=1e-5) for name in ours)


def test_asking_for_epsilon_changes_nothing(tmp_path):
    quiet = finished(*begun(tmp_path, "feddecouple", "quiet"))
    study, folder = begun(tmp_path, "feddecouple", "curious")
    for step in run.simulate(study, folder):
        find(step.ledger, ["public", "coordinator", "aux:0", "aux:0+aux:1"])
        folder.ledger().epsilon(0, "public")
    assert model(folder) == quiet


@pytest.mark.parametrize("method", ["dp-fedavg", "feddecouple", "dp-fedavg noised by clients"])
def test_a_round_without_anybody(method):
    """Noise alone where servers add it, and the model as it was where clients do; charged in either case."""
    study = config.study(prepared(method, sampling__clients__rate=1e-9), torch.device("cpu"))
    state, charges = begin(study)[0], []
    played = one_round(study, state, 1, lambda digest, noise: charges.append(digest))
    moved = played.state.models.astype(float) - state.models
    assert len(charges) == 1 and played.simulation["clients"] == 0
    if method.endswith("clients"):
        assert not moved.any()
    else:
        (channel,) = study.method.terms.channels
        deviation = channel.deviation(0) / study.method.terms.divisor
        assert moved.std() == pytest.approx(deviation, rel=0.15)


def test_the_charge_comes_before_the_release():
    study = config.study(prepared("feddecouple"), torch.device("cpu"))
    state = begin(study)[0]

    class Refused(Exception):
        pass

    def refuse(digest, noise):
        raise Refused

    with pytest.raises(Refused):
        one_round(study, state, 1, refuse)


def test_chunking_changes_nothing_beyond_float_error(monkeypatch):
    study = config.study(prepared("dp-sgd"), torch.device("cpu"))
    state = begin(study)[0]
    examples = study.federation.clients[0].take(np.arange(50))
    sums = []
    for numbers in (2**23, 7 * study.model.size, 1):
        monkeypatch.setattr("onlooker.methods.records._GRADIENT_NUMBERS_AT_ONCE", numbers)
        stream = Seeded(1).stream("x")
        sums.append(clipped_sum(study.model, state.models[0], examples, 0.3, stream, torch.device("cpu")))
    assert np.allclose(sums[0], sums[1], atol=1e-5) and np.allclose(sums[0], sums[2], atol=1e-5)


def test_each_record_is_clipped_on_its_own():
    """The sum of clipped gradients is what autograd gives record by record, and one record never adds more than C'."""
    study = config.study(prepared("dp-sgd"), torch.device("cpu"))
    state = begin(study)[0]
    examples = study.federation.clients[0].take(np.arange(12))
    clip, stream = 0.3, Seeded(1).stream("x")
    found = clipped_sum(study.model, state.models[0], examples, clip, stream, torch.device("cpu"))
    expected = np.zeros(study.model.size)
    for place in range(12):
        module = study.model.fresh(state.models[0])
        outputs = module(torch.from_numpy(examples.features[place : place + 1]))
        study.model.losses(outputs, torch.from_numpy(examples.labels[place : place + 1])).sum().backward()
        row = np.concatenate([p.grad.numpy().reshape(-1) for p in module.parameters()]).astype(float)
        assert np.linalg.norm(row) > clip  # the test would not see a missing clip otherwise
        expected += row * min(1, clip / np.linalg.norm(row))
    assert np.allclose(found, expected, atol=1e-5)
    for place in range(12):
        alone = clipped_sum(
            study.model, state.models[0], examples.take(np.array([place])), clip, stream, torch.device("cpu")
        )
        assert math.sqrt(sum(x * x for x in alone.tolist())) <= clip


def test_a_record_whose_gradient_is_not_finite_adds_nothing():
    study = config.study(prepared("dp-sgd"), torch.device("cpu"))
    state = begin(study)[0]
    examples = study.federation.clients[0].take(np.arange(5))
    spoiled = examples.features.copy()
    spoiled[2] = np.inf
    rest = examples.take(np.array([0, 1, 3, 4]))
    args = (0.3, Seeded(1).stream("x"), torch.device("cpu"))
    with_it = clipped_sum(study.model, state.models[0], type(examples)(spoiled, examples.labels), *args)
    assert np.allclose(with_it, clipped_sum(study.model, state.models[0], rest, *args), atol=1e-6)


def test_the_order_of_clients_changes_no_row():
    study = config.study(prepared("feddecouple"), torch.device("cpu"))
    forward, backward = rows_of(study, range(4)), rows_of(study, reversed(range(4)))
    assert all(np.array_equal(forward[client], backward[client]) for client in range(4))


def test_an_optimizer_never_survives_a_round():
    """Momentum within a round changes the row; the next round of the same data starts as if there had been none."""
    study = config.study(prepared("feddecouple", training__momentum=0.9, training__steps=4), torch.device("cpu"))
    first = rows_of(study, [0])[0]
    rows_of(study, [0], round=2)
    again = rows_of(study, [0])[0]
    assert np.array_equal(first, again)


def test_public_weights_weigh_rows_and_divisor_alike():
    """Two clients, weights 3 and 1, no noise: the released mean is (3 a + b) / 4, a and b within the clip."""
    settings = {
        "data__clients": 2,
        "sampling__clients__name": '"all"',
        "privacy__noise_multiplier": 0.0,
        "privacy__clip": 50.0,
    }
    study = config.study(prepared("dp-fedavg", data__weights=[3.0, 1.0], **settings), torch.device("cpu"))
    state = begin(study)[0]
    rows = rows_of(study, range(2))
    moved = one_round(study, state).state.models[0].astype(float) - state.models[0]
    assert np.allclose(moved, (3 * rows[0] + rows[1]) / 4, atol=1e-5)
    assert not np.allclose(moved, (rows[0] + rows[1]) / 2, atol=1e-3)


def test_a_silo_beyond_the_public_cap_is_refused():
    ready = prepared("dp-sgd", data__expected_records=100, data__max_records=200)
    with pytest.raises(DataError, match="data.max-records = 200"):
        config.study(ready, torch.device("cpu"))
