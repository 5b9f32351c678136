"""Every set that has a reader trains for two rounds, through the configuration, and can be evaluated."""

import math
from pathlib import Path

import pytest
import torch

from onlooker import config
from onlooker.models import evaluate
from playing import begin, one_round

SETS = {
    "mnist": {"folder": "mnist", "model": "cnn-ms-pafl"},
    "cifar10": {"folder": "cifar10", "model": "logistic"},
    "adult": {"folder": "adult", "model": "logistic", "partition": "dirichlet"},
    "heart-disease": {"folder": "heart-disease", "model": "logistic", "partition": "natural", "clients": 4},
    "parkinsons": {"folder": "parkinsons", "model": "mlp", "partition": "natural", "clients": 42},
    "tcga-brca": {"folder": "tcga-brca", "model": "logistic", "partition": "natural", "clients": 6},
    "shakespeare": {"folder": "tinyshakespeare", "model": "character-mlp", "partition": "natural", "clients": 299},
}


def trained(name, root, model, partition="iid", clients=10, rounds=2):
    """The metrics after two rounds of record-level DP-SGD over two servers."""
    settings = [
        'task.method="dp-sgd"',
        f"task.rounds={rounds}",
        f'data.name="{name}"',
        f"data.clients={clients}",
        f'data.partition="{partition}"',
        "data.expected-records=1000",
        "data.max-records=40000",
        f'model.name="{model}"',
        "servers.ring-bits=64",
        "sampling.records.rate=0.01",
        "privacy.noise-multiplier=1.0",
        *([f'data.root="{root}"'] if root else []),
    ]
    study = config.study(config.prepare(config.parse("", settings), Path()), torch.device("cpu"))
    state = begin(study)[0]
    for round in range(1, rounds + 1):
        state = one_round(study, state, round).state
    return evaluate(study.model, state.models[0], study.federation.test)


@pytest.mark.parametrize("name", SETS)
def test_a_set_from_a_folder(shared, name):
    place = SETS[name]
    found = trained(name, shared / "data" / place["folder"], **{key: place[key] for key in place if key != "folder"})
    assert all(math.isfinite(value) for value in found.values())
    assert "loss" in found and ("accuracy" in found) != (name == "parkinsons")


def test_digits():
    assert trained("digits", None, "mlp")["accuracy"] > 0


def test_fashion_mnist():
    if not Path("/usr/share/datasets/fashion-mnist").is_dir():
        pytest.skip("the package dataset-fashion-mnist is not installed")
    assert trained("fashion-mnist", None, "cnn-ms-pafl")["accuracy"] > 0


@pytest.mark.parametrize("partition", ["iid", "dirichlet", "pathological"])
def test_every_partition_of_classes(shared, partition):
    assert trained("mnist", shared / "data" / "mnist", "logistic", partition)["accuracy"] > 0
