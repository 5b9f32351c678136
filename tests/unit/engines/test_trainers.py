"""Every trainer gives what the plain one gives, and clips to the very bound."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from onlooker.engines.dense import Dense, is_dense
from onlooker.engines.flat import Flat
from onlooker.engines.trial import agrees, candidates, fastest
from onlooker.methods.averaging import Averaging
from onlooker.methods.descent import LocalDescent
from onlooker.methods.method import ServerStep
from onlooker.methods.trainer import Plain
from onlooker.models import build
from onlooker.models.parts import whole
from onlooker.privacy.random import Seeded
from onlooker.types import Examples

CPU = torch.device("cpu")
DESCENTS = {
    "sgd": LocalDescent(steps=5, batch_size=16),
    "last batch smaller": LocalDescent(steps=None, epochs=2, batch_size=24),
    "momentum and decay": LocalDescent(steps=6, batch_size=16, momentum=0.9, weight_decay=0.01),
    "decay alone": LocalDescent(steps=4, batch_size=16, weight_decay=0.1),
    "adam": LocalDescent(steps=4, batch_size=16, optimizer="adam", learning_rate=0.01),
}


def three_layers(shape, outputs):
    return nn.Sequential(
        nn.Flatten(), nn.Linear(int(np.prod(shape)), 9), nn.Tanh(), nn.Linear(9, 7, bias=False), nn.ReLU(),
        nn.Linear(7, outputs),
    )  # fmt: skip


def with_dropout(shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 9), nn.Dropout(0.5), nn.Linear(9, outputs))


class Views(nn.Module):
    """Reads its pictures as they lie in memory, which channels that come last change."""

    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(1, 4, 3), nn.Linear(4 * 26 * 26, 10)

    def forward(self, rows):
        return self.head(self.conv(rows).view(len(rows), -1))


NETWORKS = [
    "logistic",
    "mlp",
    "cnn-ms-pafl",
    f"{__name__}:three_layers",
    f"{__name__}:with_dropout",
    f"{__name__}:Views",
]
SHAPE = (1, 28, 28)


def rows(count=60, shape=SHAPE, task="classification", seed=0):
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(count, *shape)).astype(np.float32)
    if task == "regression":
        return Examples(features, draw.normal(size=count).astype(np.float32))
    return Examples(features, draw.integers(0, 10, count))


def stream():
    return Seeded(5).stream("local training")


@pytest.mark.parametrize("descent", DESCENTS)
@pytest.mark.parametrize("network", NETWORKS)
def test_every_trainer_moves_as_the_plain_one(network, descent):
    model = build(network, SHAPE, 10, "classification")
    tried = candidates(model, CPU)
    if network.endswith("Views"):
        tried.pop("flat-channels-last")
    expected = tried["plain"].descend(DESCENTS[descent], model.initial(1), rows(), stream())
    assert np.linalg.norm(expected) > 0.01
    for name, one in tried.items():
        for _ in range(2):  # nothing is left of the first client
            found = one.descend(DESCENTS[descent], model.initial(1), rows(), stream())
            assert np.allclose(found, expected, rtol=1e-3, atol=2e-5), name
            one.descend(DESCENTS[descent], model.initial(2), rows(seed=1), stream())


def test_a_regression_moves_as_plain():
    model = build("mlp", (5,), 1, "regression")
    examples = rows(shape=(5,), task="regression")
    found, expected = (
        candidates(model, CPU)[name].descend(DESCENTS["sgd"], model.initial(1), examples, stream())
        for name in ("dense", "plain")
    )
    assert np.allclose(found, expected, rtol=1e-3, atol=1e-6)
    found, expected = (
        candidates(model, CPU)[name].clipped_sum(model.initial(1), examples, 0.1, stream())
        for name in ("dense", "plain")
    )
    assert np.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("network", ["logistic", "mlp", f"{__name__}:three_layers"])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_records_are_clipped_as_plainly(network, count):
    model = build(network, SHAPE, 10, "classification")
    start, examples = model.initial(3), rows(count)
    for clip in (0.5, 1e6):
        found = Dense(model, Plain(model)).clipped_sum(start, examples, clip, stream())
        expected = Plain(model).clipped_sum(start, examples, clip, stream())
        assert np.allclose(found, expected, atol=1e-5 * max(1, np.abs(expected).max(initial=0)))


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e4, 1e15, 1e30, np.inf, np.nan])
def test_no_record_adds_more_than_the_clip_by_hand(scale):
    """Whatever the features; and one that is not finite adds nothing to what the others add."""
    model = build("mlp", SHAPE, 10, "classification")
    start, one = model.initial(3), rows(1)
    wild = Examples(one.features * np.float32(scale), one.labels)
    dense = Dense(model, Plain(model))
    norm = float(np.linalg.norm(dense.clipped_sum(start, wild, 0.5, stream())))
    assert norm <= 0.5
    assert (norm == 0) == (not np.isfinite(scale))
    rest = rows(9, seed=2)
    both = Examples(np.concatenate([wild.features, rest.features]), np.concatenate([wild.labels, rest.labels]))
    added = dense.clipped_sum(start, both, 0.5, stream()) - dense.clipped_sum(start, rest, 0.5, stream())
    assert np.linalg.norm(added) <= 0.5 + 1e-5
    if not np.isfinite(scale):
        assert np.allclose(added, 0, atol=1e-5)


def tied(shape, outputs):
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    second.weight = first.weight
    return nn.Sequential(nn.Flatten(), first, nn.ReLU(), second)


def frozen(shape, outputs):
    module = nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    module[1].weight.requires_grad_(False)
    return module


def frozen_bias(shape, outputs):
    module = nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    module[3].bias.requires_grad_(False)
    return module


def ends_in_an_activation(shape, outputs):
    return nn.Sequential(nn.Flatten(), nn.Linear(4, 4), nn.ReLU())


def nothing_between(shape, outputs):
    return nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))


@pytest.mark.parametrize(
    "factory", [tied, frozen, frozen_bias, ends_in_an_activation, nothing_between, with_dropout, Views]
)
def test_what_dense_cannot_train_it_does_not_take(factory):
    shape = (1, 28, 28) if factory is Views else (4,)
    outputs = 10 if factory is Views else 4
    model = build(f"{__name__}:{factory.__name__}", shape, outputs, "classification")
    assert not is_dense(model)
    assert "dense" not in candidates(model, CPU)


def method_of(model, descent=DESCENTS["sgd"]):
    return Averaging(None, descent, ServerStep(), whole(model.size))


def test_the_fastest_agrees_and_is_remembered(tmp_path):
    model = build(f"{__name__}:Views", SHAPE, 10, "classification")
    with pytest.raises(RuntimeError):
        Flat(model, CPU, images_last=True).descend(DESCENTS["sgd"], model.initial(1), rows(), stream())
    cache = tmp_path / "deep" / "trainers.json"
    found = fastest(method_of(model), model, rows(), CPU, cache)
    assert found in ("plain", "flat")
    (key,) = json.loads(cache.read_text())
    other = {"plain": "flat", "flat": "plain"}[found]
    cache.write_text(json.dumps({key: other}))
    assert fastest(method_of(model), model, rows(), CPU, cache) == other
    cache.write_text(json.dumps({key: "no such trainer"}))
    assert fastest(method_of(model), model, rows(), CPU, cache) in ("plain", "flat")


@pytest.mark.parametrize("content", ["", "[1]", "{", '{"a": 1}'])
def test_a_broken_memory_is_passed_over(tmp_path, content):
    model = build("logistic", (4,), 3, "classification")
    cache = tmp_path / "trainers.json"
    cache.write_text(content)
    examples = Examples(np.ones((8, 4), dtype=np.float32), np.zeros(8, dtype=np.int64))
    assert fastest(method_of(model), model, examples, CPU, cache) in candidates(model, CPU)


def test_agreement_is_of_rounding_alone():
    row = np.random.default_rng(0).normal(size=1000)
    assert agrees(row + 1e-6, row) and not agrees(row * 1.01, row) and not agrees(-row, row)
    assert not agrees(row[:-1], row) and not agrees(np.full(1000, np.nan), row)
