"""Every trainer gives what the plain one gives, and clips to the very bound."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from torch import nn

from onlooker.engines.dense import Dense, is_dense
from onlooker.engines.flat import Flat
from onlooker.engines.stacked import Stacked
from onlooker.engines.trial import agrees, candidates, fastest
from onlooker.methods.averaging import Averaging
from onlooker.methods.descent import LocalDescent
from onlooker.methods.method import ServerStep
from onlooker.methods.plain import Plain
from onlooker.methods.trainer import ClippedSum, Descend
from onlooker.models import build
from onlooker.models.parts import whole
from onlooker.privacy.random import Seeded
from onlooker.types import Examples
from views import Views

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


NETWORKS = [
    "logistic",
    "mlp",
    "cnn-ms-pafl",
    f"{__name__}:three_layers",
    f"{__name__}:with_dropout",
    "views:Views",
]
SHAPE = (1, 28, 28)


def rows(count=60, shape=SHAPE, task="classification", seed=0):
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(count, *shape)).astype(np.float32)
    if task == "regression":
        return Examples(features, draw.normal(size=count).astype(np.float32))
    return Examples(features, draw.integers(0, 10, count))


def descend(trainer, *what):
    """Delta of local training, asked of one trainer."""
    return trainer.answer([Descend(*what)])[0]


def clipped_sum(trainer, *what):
    """A clipped sum over records, asked of one trainer."""
    return trainer.answer([ClippedSum(*what)])[0]


def same(found, expected, descent):
    """The same but for rounding. Adam divides a gradient by its own size, so that one of nothing but rounding moves its
    weight as far as any other, anywhere: it is the whole that agrees."""
    if descent.optimizer == "adam":
        return agrees(found, expected)
    return np.allclose(found, expected, rtol=1e-3, atol=2e-5)


def stream():
    return Seeded(5).stream("local training")


@pytest.mark.parametrize("descent", DESCENTS)
@pytest.mark.parametrize("network", NETWORKS)
def test_every_trainer_moves_as_the_plain_one(network, descent):
    model = build(network, SHAPE, 10, "classification")
    tried = candidates(model, CPU)
    assert ("flat-channels-last" in tried) == (network == "cnn-ms-pafl")
    expected = descend(tried["plain"], DESCENTS[descent], model.initial(1), rows(), stream())
    assert np.linalg.norm(expected) > 0.01
    for name, one in tried.items():
        for _ in range(2):  # nothing is left of the first client
            found = descend(one, DESCENTS[descent], model.initial(1), rows(), stream())
            assert same(found, expected, DESCENTS[descent]), name
            descend(one, DESCENTS[descent], model.initial(2), rows(seed=1), stream())


@pytest.mark.parametrize("descent", DESCENTS)
@pytest.mark.parametrize("network", ["mlp", "cnn-ms-pafl", "views:Views"])
def test_clients_in_one_tensor_move_as_each_alone(network, descent):
    """Also with fewer rows than others, and the same client twice."""
    model = build(network, SHAPE, 10, "classification")
    clients = [rows(60), rows(60, seed=1), rows(11, seed=2), rows(60, seed=3)]
    clients.append(clients[1])

    def asks():
        return [
            Descend(DESCENTS[descent], model.initial(place), one, Seeded(place).stream("local training"))
            for place, one in enumerate(clients)
        ]

    plain = Plain(model)
    stacked = Stacked(model, plain, CPU)
    for _ in range(2):
        found = stacked.answer([*asks(), ClippedSum(model.initial(0), clients[0], 0.5, stream())])
        expected = [*plain.answer(asks()), clipped_sum(plain, model.initial(0), clients[0], 0.5, stream())]
        assert len(found) == len(expected) == 6
        for one, other in zip(found, expected, strict=True):
            assert same(one, other, DESCENTS[descent]) and np.linalg.norm(other) > 0.01
    assert stacked.at_once > 1 and stacked.answer([]) == []


def test_a_regression_moves_as_plain():
    model = build("mlp", (5,), 1, "regression")
    examples = rows(shape=(5,), task="regression")
    found, expected = (
        descend(candidates(model, CPU)[name], DESCENTS["sgd"], model.initial(1), examples, stream())
        for name in ("dense", "plain")
    )
    assert np.allclose(found, expected, rtol=1e-3, atol=1e-6)
    found, expected = (
        clipped_sum(candidates(model, CPU)[name], model.initial(1), examples, 0.1, stream())
        for name in ("dense", "plain")
    )
    assert np.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("network", ["logistic", "mlp", f"{__name__}:three_layers"])
@pytest.mark.parametrize("count", [0, 1, 300])
def test_records_are_clipped_as_plainly(network, count):
    model = build(network, SHAPE, 10, "classification")
    start, examples = model.initial(3), rows(count)
    for clip in (0.5, 1e6):
        found = clipped_sum(Dense(model, Plain(model)), start, examples, clip, stream())
        expected = clipped_sum(Plain(model), start, examples, clip, stream())
        assert np.allclose(found, expected, atol=1e-5 * max(1, np.abs(expected).max(initial=0)))


def crooked(shape, outputs):
    return nn.Sequential(
        nn.Conv2d(1, 4, (3, 5), stride=(2, 1), padding=(1, 2), bias=False), nn.Tanh(),
        nn.Conv2d(4, 6, 3, dilation=2, stride=3), nn.ReLU(), nn.Flatten(), nn.Linear(6 * 4 * 8, 12, bias=False),
        nn.ReLU(), nn.Linear(12, outputs),
    )  # fmt: skip


def biases_first(shape, outputs):
    """Layers whose biases come before their weights, and so lie before them in a flat vector."""
    module = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(4 * 26 * 26, outputs))
    for layer in (module[0], module[3]):
        weight = layer.weight
        del layer.weight
        layer.weight = weight
    assert [name for name, _ in module.named_parameters()] == ["0.bias", "0.weight", "3.bias", "3.weight"]
    return module


@pytest.mark.parametrize(
    "network",
    ["logistic", "mlp", "cnn-ms-pafl", "cnn-common", f"{__name__}:crooked", f"{__name__}:biases_first"],
)
@pytest.mark.parametrize("count", [0, 1, 150])
def test_records_are_clipped_by_what_was_captured(network, count):
    model = build(network, SHAPE, 10, "classification")
    start, examples = model.initial(3), rows(count)
    captured = candidates(model, CPU)["captured"]
    for clip in (0.5, 1e6):
        clipped_sum(captured, model.initial(4), rows(3, seed=9), clip, stream())  # of which nothing is left
        found = clipped_sum(captured, start, examples, clip, stream())
        expected = clipped_sum(Plain(model), start, examples, clip, stream())
        assert np.allclose(found, expected, rtol=1e-4, atol=1e-5 * max(1, np.abs(expected).max(initial=0)))


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.head = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, rows):
        return self.head(self.layer(self.layer(rows)))


class Beside(Twice):
    def forward(self, rows):
        return self.head(nn.functional.linear(rows, self.layer.weight, self.layer.bias))


class InPlace(Twice):
    def forward(self, rows):
        return self.head(torch.relu_(self.layer(rows)))


@pytest.mark.parametrize("factory", [Twice, Beside, InPlace])
def test_what_cannot_be_captured_is_tried_and_left(factory, tmp_path):
    model = build(f"{__name__}:{factory.__name__}", (4,), 3, "classification")
    examples = Examples(np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32), np.arange(8) % 3)
    with pytest.raises(RuntimeError):
        clipped_sum(candidates(model, CPU)["captured"], model.initial(0), examples, 1.0, stream())
    assert fastest(object(), model, examples, CPU, tmp_path / "trainers.json") != "captured"


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e4, 1e15, 1e30, np.inf, np.nan])
@pytest.mark.parametrize("trainer, network", [("dense", "mlp"), ("captured", "mlp"), ("captured", "cnn-ms-pafl")])
def test_no_record_adds_more_than_the_clip_by_hand(scale, trainer, network):
    """Whatever the features; and one that is not finite adds nothing to what the others add."""
    model = build(network, SHAPE, 10, "classification")
    start, one = model.initial(3), rows(1)
    wild = Examples(one.features * np.float32(scale), one.labels)
    dense = candidates(model, CPU)[trainer]
    norm = float(np.linalg.norm(clipped_sum(dense, start, wild, 0.5, stream())))
    assert norm <= 0.5
    assert (norm == 0) == (not np.isfinite(scale))
    rest = rows(9, seed=2)
    both = Examples(np.concatenate([wild.features, rest.features]), np.concatenate([wild.labels, rest.labels]))
    added = clipped_sum(dense, start, both, 0.5, stream()) - clipped_sum(dense, start, rest, 0.5, stream())
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
    model = build(f"{factory.__module__}:{factory.__name__}", shape, outputs, "classification")
    assert not is_dense(model)
    assert "dense" not in candidates(model, CPU)
    kept_out = factory in (tied, frozen, frozen_bias)
    assert ("captured" in candidates(model, CPU)) != kept_out


def method_of(model, descent=DESCENTS["sgd"]):
    return Averaging(None, descent, ServerStep(), whole(model.size))


def test_the_fastest_agrees_and_is_remembered(tmp_path):
    model = build("views:Views", SHAPE, 10, "classification")
    with pytest.raises(RuntimeError):
        descend(Flat(model, CPU, channels_last=True), DESCENTS["sgd"], model.initial(1), rows(), stream())
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
