"""Models that are refused, each with its reason and its remedy, and models that are not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from onlooker.errors import ModelError
from onlooker.models import Model, build
from onlooker.models.model import score
from onlooker.types import Examples

SHAPE = (6,)
Factory = Callable[..., object]


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Callable[[Factory], Model]:
    """Builds the model of a factory reached as "own_model:factory"."""

    def model_of(factory: Factory) -> Model:
        module = type(sys)("own_model")
        module.factory = factory  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "own_model", module)
        return build("own_model:factory", SHAPE, 3, "classification")

    return model_of


def around(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), *layers, nn.Linear(8, 3))


class Wrapped(nn.Module):
    """A linear layer with something registered beside it."""

    def __init__(self, **tensors: Tensor) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)
        for name, tensor in tensors.items():
            if isinstance(tensor, nn.Parameter):
                self.register_parameter(name, tensor)
            else:
                self.register_buffer(name, tensor)

    def forward(self, rows: Tensor) -> Tensor:
        return self.inner(rows)


class MovingMean(Wrapped):
    def __init__(self) -> None:
        super().__init__(mean=torch.zeros(3))

    def forward(self, rows: Tensor) -> Tensor:
        answer = self.inner(rows)
        if self.training:
            self.mean = 0.9999 * self.mean + 0.0001 * answer.mean(dim=0).detach()
        return answer


class Counting(Wrapped):
    """Keeps its state where no buffer shows it."""

    calls = 0

    def forward(self, rows: Tensor) -> Tensor:
        self.calls += 1
        return self.inner(rows) * self.calls


class Centred(Wrapped):
    def forward(self, rows: Tensor) -> Tensor:
        answer = self.inner(rows)
        return answer - answer.mean(dim=0)


class AttendsAcrossRows(Wrapped):
    """The classic slip: without batch_first=True the first dimension is taken for the sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.TransformerEncoderLayer(6, 2, dim_feedforward=4, dropout=0.0)

    def forward(self, rows: Tensor) -> Tensor:
        return self.inner(self.attention(rows.unsqueeze(1)).squeeze(1))


class Two(Wrapped):
    def forward(self, rows: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        return self.inner(rows), rows


def broken() -> nn.Module:
    raise RuntimeError("no weights\nto be had")


def seeded_by_the_clock() -> nn.Module:
    module = nn.Linear(6, 3)
    with torch.no_grad():
        module.weight.copy_(torch.from_numpy(np.random.default_rng().normal(size=(3, 6))))
    return module


def integer_parameter() -> nn.Module:
    return Wrapped(steps=nn.Parameter(torch.zeros(2, dtype=torch.int64), requires_grad=False))


def frozen() -> nn.Module:
    return nn.Linear(6, 3).requires_grad_(False)


@pytest.mark.parametrize(
    ("factory", "reason", "remedy"),
    [
        (lambda: around(nn.BatchNorm1d(8)), '"1" is BatchNorm1d', "torch.nn.GroupNorm"),
        (
            lambda: around(nn.BatchNorm1d(8, track_running_stats=False)),
            '"1" is BatchNorm1d',
            "torch.nn.GroupNorm",
        ),
        (lambda: around(nn.SyncBatchNorm(8)), '"1" is SyncBatchNorm', "torch.nn.GroupNorm"),
        (lambda: around(nn.LazyBatchNorm1d()), '"1" is LazyBatchNorm1d', "torch.nn.GroupNorm"),
        (lambda: nn.LazyLinear(3), '"weight" has no shape yet', "given their sizes"),
        (lambda: Wrapped(count=torch.tensor(0.0)), '"count" is a tensor without dimensions', "(1,)"),
        (
            lambda: Wrapped(scale=nn.Parameter(torch.tensor(1.0))),
            '"scale" is a tensor without dimensions',
            "(1,)",
        ),
        (lambda: Wrapped(order=torch.arange(3)), '"order" is of torch.int64', "torch.float32"),
        (lambda: Wrapped(mask=torch.ones(3, dtype=torch.bool)), '"mask" is of torch.bool', "torch.float32"),
        (integer_parameter, '"steps" is of torch.int64', "torch.float32"),
        (
            lambda: Wrapped(phase=nn.Parameter(torch.zeros(2, dtype=torch.cfloat))),
            "torch.complex64",
            "torch.float32",
        ),
        (lambda: nn.Linear(6, 3).double(), "torch.float64", "torch.float32"),
        (lambda: nn.Linear(6, 3).half(), "torch.float16", "torch.float32"),
        (frozen, "no trainable parameters", "at least one"),
        (nn.Identity, "no trainable parameters", "at least one"),
        (MovingMean, '"mean" changes in a forward pass', "running statistics"),
        (lambda: around(nn.InstanceNorm1d(8, track_running_stats=True)), "without dimensions", "(1,)"),
        (
            lambda: nn.Sequential(nn.utils.parametrizations.spectral_norm(nn.Linear(6, 3))),
            "changes in a forward pass",
            "running statistics",
        ),
        (Counting, "keeps state", "a function of its weights and input"),
        (Centred, "depends on the other rows", "within a row"),
        (AttendsAcrossRows, "depends on the other rows", "batch_first=True"),
        (lambda: nn.Linear(6, 4), "(2, 4) and not a tensor of shape (2, 3)", "last layer"),
        (Two, "tuple and not a tensor of shape (2, 3)", "last layer"),
        (lambda: nn.Linear(5, 3), "cannot take features of shape (6,): it raised RuntimeError", "correct it"),
        (seeded_by_the_clock, "the same seed gives other weights", "torch's global generator"),
        (broken, "raised RuntimeError: no weights to be had", "correct it"),
        (lambda: 3, "returned int", "torch.nn.Module"),
    ],
)
def test_a_model_is_refused_with_reason_and_remedy(
    made: Callable[[Factory], Model], factory: Factory, reason: str, remedy: str
) -> None:
    with pytest.raises(ModelError) as refusal:
        made(factory)
    message = str(refusal.value)
    assert reason in message and remedy in message, message
    assert 'model.name = "own_model:factory"' in message
    assert message.endswith(".") and "\n" not in message


def tied() -> nn.Module:
    first, last = nn.Linear(6, 6, bias=False), nn.Linear(6, 6, bias=False)
    last.weight = first.weight
    return nn.Sequential(first, nn.ReLU(), last, nn.Linear(6, 3))


def half_frozen() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8).requires_grad_(False), nn.ReLU(), nn.Linear(8, 3))


@pytest.mark.parametrize(
    ("factory", "size"),
    [
        (lambda: around(nn.GroupNorm(2, 8), nn.Dropout(0.5)), 56 + 16 + 27),
        (lambda: Wrapped(table=torch.ones(4)), 21),
        (tied, 36 + 21),
        (half_frozen, 27),
        (lambda: around(nn.LayerNorm(8)), 56 + 16 + 27),
    ],
)
def test_a_model_that_keeps_no_state_is_taken(made: Callable[[Factory], Model], factory: Factory, size: int) -> None:
    model = made(factory)
    assert model.size == size
    vector = np.arange(size, dtype=np.float32)
    assert model.flatten(model.fresh(vector)).tobytes() == vector.tobytes()


def test_tied_weights_stay_tied(made: Callable[[Factory], Model]) -> None:
    model = made(tied)
    module = model.fresh(np.arange(model.size, dtype=np.float32))
    assert module[0].weight is module[2].weight  # type: ignore[index]
    rows = torch.rand(2, 6)
    called = torch.func.functional_call(model.module, model.split(model.flatten(module)), (rows,))
    assert torch.allclose(called, module(rows))


def test_frozen_weights_are_the_same_at_every_worker(made: Callable[[Factory], Model]) -> None:
    torch.manual_seed(1)
    one = made(half_frozen)
    torch.manual_seed(2)
    other = made(half_frozen)
    rows, vector = torch.rand(3, 6), one.initial(9)
    assert torch.equal(one.fresh(vector)(rows), other.fresh(vector)(rows))


def test_a_factory_is_told_shape_and_outputs_if_it_asks_for_both(made: Callable[[Factory], Model]) -> None:
    def sized(outputs: int, shape: tuple[int, ...], hidden: int = 5) -> nn.Module:
        return nn.Sequential(nn.Linear(shape[0], hidden), nn.Linear(hidden, outputs))

    assert made(sized).size == 35 + 18
    assert made(lambda hidden=4: nn.Sequential(nn.Linear(6, hidden), nn.Linear(hidden, 3))).size == 28 + 15


@pytest.mark.parametrize("name", ["no_such_module:net", "onlooker.models:no_such_net", "torch:nn"])
def test_a_factory_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(ModelError) as refusal:
        build(name, SHAPE, 3, "classification")
    assert f'model.name = "{name}"' in str(refusal.value)


def test_dropout_is_off_in_evaluation_and_its_template_stays_in_training_mode(
    made: Callable[[Factory], Model],
) -> None:
    from onlooker.models import evaluate
    from onlooker.types import Examples

    model = made(lambda: around(nn.Dropout(0.9)))
    examples = Examples(np.ones((50, 6), dtype=np.float32), np.zeros(50, dtype=np.int64))
    vector = model.initial(1)
    assert evaluate(model, vector, examples) == evaluate(model, vector, examples)
    assert model.module.training and model.fresh(vector).training


def test_channels_come_last_only_where_nothing_else_comes_out():
    shape = (3, 8, 8)
    assert not build("views:Views", shape, 10, "classification").channels_last
    assert not build("mlp", shape, 10, "classification").channels_last
    model = build("cnn-ms-pafl", (3, 32, 32), 10, "classification")
    assert model.channels_last
    rows = Examples(np.random.default_rng(0).normal(size=(40, 3, 32, 32)).astype(np.float32), np.arange(40) % 10)
    vector = model.initial(0)
    found, expected = (score(one, vector, rows)[0] for one in (model, replace(model, channels_last=False)))
    assert np.allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert np.array_equal(vector, model.initial(0))
