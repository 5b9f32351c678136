"""The module that a worker trains all clients on, rearranged where that changes no bit."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from onlooker.engines.flat import Buffers, Flat
from onlooker.engines.process import playing_alone
from onlooker.methods.descent import LocalDescent
from onlooker.methods.plain import Plain
from onlooker.methods.trainer import Descend
from onlooker.models import build
from onlooker.privacy.random import Seeded
from onlooker.types import Examples

CPU = torch.device("cpu")
SHAPE = (1, 12, 12)


def rectified(shape, outputs):
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2),
        nn.Sequential(nn.Conv2d(3, 4, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, stride=2, padding=1)),
        nn.Flatten(), nn.Linear(16, outputs),
    )  # fmt: skip


def listened(shape, outputs):
    module = rectified(shape, outputs)
    module[1].register_forward_hook(lambda layer, given, out: None)
    module[3][2].register_full_backward_hook(lambda layer, back, forth: None)
    return module


class Placed(nn.Module):
    def __init__(self, outputs):
        super().__init__()
        self.seen = nn.Sequential(nn.Conv2d(1, 1, 3), nn.ReLU(), nn.MaxPool2d(2, return_indices=True))
        self.last = nn.Linear(25, outputs)

    def forward(self, features):
        return self.last(self.seen(features)[0].flatten(1))


def with_places(shape, outputs):
    return Placed(outputs)


def pictures(kind):
    draw = np.random.default_rng(3)
    features = draw.standard_normal((20, *SHAPE)).astype(np.float32)
    if kind == "flat":  # every window is a tie
        features[:] = features[:, :, :1, :1]
    if kind == "coarse":  # many are
        features = np.rint(features)
    return Examples(features, draw.integers(0, 4, 20))


def model_of(factory):
    return build(f"{__name__}:{factory.__name__}", SHAPE, 4, "classification")


def kinds(module):
    return [type(one) for one in module.modules()]


@pytest.mark.parametrize("kind", ["random", "flat", "coarse"])
def test_pooling_before_rectifying_changes_no_bit(kind):
    model, descent = model_of(rectified), LocalDescent(steps=4, batch_size=8)
    asks = [Descend(descent, model.initial(1), pictures(kind), Seeded(1).stream("x")) for _ in range(2)]
    with playing_alone():
        (plain,), (flat,) = Plain(model, CPU).answer(asks[:1]), Flat(model, CPU).answer(asks[1:])
    assert np.abs(plain).max() > 0
    assert plain.tobytes() == flat.tobytes()


def test_a_pooling_comes_before_what_rectifies():
    found = kinds(Buffers(model_of(rectified), CPU, False).module)
    pools = [place for place, kind in enumerate(found) if kind is nn.MaxPool2d]
    assert [found[place + 1] for place in pools] == [nn.ReLU, nn.ReLU]
    assert kinds(model_of(rectified).module) != found


@pytest.mark.parametrize("factory", [listened, with_places])
def test_layers_that_somebody_listens_to_stay_where_they_are(factory):
    model = model_of(factory)
    assert kinds(Buffers(model, CPU, False).module) == kinds(model.module)


@pytest.mark.parametrize("last", [False, True])
def test_a_vector_comes_back_as_it_was_put_in(last):
    model = model_of(rectified)
    vector = np.random.default_rng(0).standard_normal(model.size).astype(np.float32)
    buffers = Buffers(model, CPU, last)
    buffers.load(vector)
    assert buffers.read().tolist() == vector.tolist()
    expected = dict(model.fresh(vector).named_parameters())
    assert all(torch.equal(one, expected[name]) for name, one in buffers.module.named_parameters())
    assert all((one.stride(1) == 1) == last for one in buffers.parameters if one.dim() == 4)
