"""DP-SGD by Opacus: it learns, it agrees with us on gradients and on epsilon, and it can be repeated."""

from __future__ import annotations

import builtins
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from onlooker import models
from onlooker.baselines import opacus as baseline
from onlooker.baselines.opacus import OpacusSettings, central, one_per_silo, same_event
from onlooker.data import DataSettings, Federation, load
from onlooker.errors import ModelError, TermsError
from onlooker.methods.records import clipped_sum
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.random import Seeded
from onlooker.types import Examples

pytest.importorskip("opacus")
DIGITS = (1, 8, 8)
QUICK = OpacusSettings(rate=0.05, steps=100, learning_rate=1.0, noise_multiplier=1.0)


@pytest.fixture(scope="module")
def digits() -> Federation:
    return load(DataSettings("digits", None, 4), Seeded(1))


def small(digits: Federation, rows: int = 12, clients: int = 2) -> Federation:
    """The first rows of the first clients."""
    return replace(digits, clients=tuple(client.take(np.arange(rows)) for client in digits.clients[:clients]))


def network(name: str = "mlp") -> models.Model:
    return models.build(name, DIGITS, 10, "classification")


def test_it_learns_where_records_are_pooled_and_less_in_each_silo(digits):
    pooled = central(network(), digits, replace(QUICK, steps=200, evaluate_every=80))
    assert [one.step for one in pooled.measured] == [80, 160, 200]
    assert pooled.measured[-1].metrics["accuracy"] > 0.9
    alone = one_per_silo(network(), digits, QUICK)
    reached = [run.measured[-1].metrics["accuracy"] for run in alone]
    assert len(alone) == 4 and 0.3 < min(reached) and max(reached) < pooled.measured[-1].metrics["accuracy"]
    assert len({run.parameters.tobytes() for run in alone}) == 4
    assert len({run.epsilon for run in alone}) == 1  # its price rests on the rate, not on the silo


@pytest.mark.parametrize(
    ("rate", "steps", "noise"), [(0.05, 60, 1.0), (1 / 94, 300, 0.8), (0.25, 20, 2.5), (1.0, 3, 3.0)]
)
def test_two_accountants_agree_on_one_event(digits, rate, steps, noise):
    """Opacus prints an upper bound that is up to 0.01 too high; without amplification the two would be far apart."""
    settings = OpacusSettings(rate=rate, steps=steps, noise_multiplier=noise, evaluate_every=steps)
    found = central(models.build("logistic", DIGITS, 10, "classification"), small(digits, 100), settings)
    assert found.price.epsilon == pytest.approx(found.epsilon, rel=0.01)
    assert found.price.epsilon <= found.epsilon * (1 + 1e-3)
    other = replace(settings, noise_multiplier=1.1 * noise)
    assert Ledger.plan(same_event(other, 1.1 * noise, 200, 650)).price(0, "public").epsilon < 0.97 * found.epsilon


def test_opacus_counts_one_rate_in_floats_as_a_larger_one(digits):
    """It draws at 1/93 and charges for 1/92, which is what our ledger makes of 1/92: its version of the day."""
    settings = OpacusSettings(rate=1 / 93, steps=300, noise_multiplier=0.8, evaluate_every=300)
    found = central(network("logistic"), small(digits, 100), settings)
    larger = Ledger.plan(same_event(replace(settings, rate=1 / 92), 0.8, 200, 650)).price(0, "public").epsilon
    assert found.price.epsilon < 0.99 * found.epsilon
    assert larger == pytest.approx(found.epsilon, rel=0.01) and larger <= found.epsilon


def test_a_target_is_kept_by_both(digits):
    found = central(network("logistic"), small(digits), replace(QUICK, noise_multiplier=None, epsilon=2.0, rate=0.25))
    assert 1.97 < found.epsilon <= 2.0 and found.price.epsilon <= 2.0
    assert found.noise_multiplier > 0


def test_without_noise_there_is_no_epsilon(digits):
    found = central(network("logistic"), small(digits), replace(QUICK, noise_multiplier=0.0, rate=0.25))
    assert math.isinf(found.epsilon) and math.isinf(found.price.epsilon)


@pytest.mark.parametrize("name", ["mlp", "cnn-dp-sgd", "cnn-feddecouple"])
def test_a_step_on_all_records_without_noise_is_our_clipped_sum(digits, name):
    """Rate 1 and no noise: the model moves by minus eta times the mean of clipped gradients, theirs and ours alike."""
    few, model = small(digits), network(name)
    settings = OpacusSettings(rate=1.0, steps=1, clip=0.5, learning_rate=0.25, noise_multiplier=0.0, seed=7)
    moved = central(model, few, settings).parameters.astype(float) - start(model, 7).astype(float)
    rows = Examples(*(np.concatenate([getattr(one, part) for one in few.clients]) for part in ("features", "labels")))
    stream, cpu = Seeded(1).stream("x"), torch.device("cpu")
    ours = clipped_sum(model, start(model, 7), rows, 0.5, stream, cpu)
    assert np.linalg.norm(ours) > 1  # of at most 24 times 0.5
    assert np.allclose(-moved / 0.25 * len(rows), ours, atol=2e-5 * np.linalg.norm(ours))
    unclipped = clipped_sum(model, start(model, 7), rows, 1e6, stream, cpu)
    assert np.linalg.norm(unclipped - ours) > 0.1 * np.linalg.norm(ours)  # a missing clip would be seen


def start(model: models.Model, seed: int) -> np.ndarray:
    return model.initial(Seeded(seed).stream("initial weights").seed())


def test_noise_is_what_it_says(digits):
    """Rate 1, one step, a clip so small that the noise is all: its deviation is z C over the number of records."""
    few, model = small(digits), network()
    settings = OpacusSettings(rate=1.0, steps=1, clip=1e-3, learning_rate=1.0, noise_multiplier=50.0)
    found = central(model, few, settings)
    moved = found.parameters.astype(float) - start(model, 42).astype(float)
    deviation = 50.0 * 1e-3 / 24
    assert moved.std() == pytest.approx(deviation, rel=0.05)
    assert not 0.95 < moved.std() / (0.7 * deviation) < 1.05


def test_the_seed_decides_everything_and_nothing_else_is_touched(digits):
    model, few = network("logistic"), small(digits)
    settings = replace(QUICK, rate=0.25, steps=12)
    torch.manual_seed(1)
    first = central(model, few, settings)
    follows = torch.rand(3)
    torch.manual_seed(1)
    assert torch.equal(torch.rand(3), follows)
    torch.manual_seed(2)
    assert central(model, few, settings).parameters.tobytes() == first.parameters.tobytes()
    assert central(model, few, replace(settings, seed=43)).parameters.tobytes() != first.parameters.tobytes()


def test_batches_may_be_empty(digits):
    found = central(network("cnn-dp-sgd"), small(digits), replace(QUICK, rate=1 / 24, steps=40))
    assert np.isfinite(found.parameters).all()
    assert (1 - 1 / 24) ** 24 > 0.3  # a third of the batches are


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"rate": 0.07}, ["rate = 0.07", "1/14"]),
        ({"rate": 0.0}, ["rate = 0.0"]),
        ({"steps": 0}, ["steps = 0"]),
        ({"clip": math.inf}, ["clip = inf"]),
        ({"noise_multiplier": None}, ["noise_multiplier", "epsilon", "one of the two"]),
        ({"epsilon": 1.0}, ["noise_multiplier = 1.0", "epsilon = 1.0"]),
        ({"noise_multiplier": -1.0}, ["noise_multiplier", "-1.0"]),
        ({"delta": 1.0}, ["delta = 1.0"]),
    ],
)
def test_impossible_settings_are_refused(changes, words):
    with pytest.raises(TermsError) as refusal:
        replace(QUICK, **changes)
    assert all(word.replace("_", "-") in str(refusal.value).replace("_", "-") for word in words), refusal.value


def test_less_than_one_record_a_batch_is_refused(digits):
    with pytest.raises(TermsError, match="rate = 0.01 draws less than one of the 12 records of silo:0"):
        one_per_silo(network(), small(digits), replace(QUICK, rate=0.01))


def test_without_opacus_one_sentence_says_what_to_install(digits, monkeypatch):
    def missing(name, *rest):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(baseline.importlib, "import_module", missing)
    with pytest.raises(ModelError, match=r"needs the package opacus, .* install onlooker\[opacus\]"):
        central(network(), small(digits), QUICK)


class Recurrent(torch.nn.Module):
    """A network that Onlooker takes and Opacus does not: a row of pixels is read after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.read = torch.nn.LSTM(8, 4, batch_first=True)
        self.head = torch.nn.Linear(4, 10)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.head(self.read(pictures.squeeze(1))[0][:, -1])


def recurrent() -> torch.nn.Module:
    return Recurrent()


def test_a_layer_that_opacus_cannot_clip_is_refused_in_a_sentence(digits, monkeypatch):
    monkeypatch.setattr(builtins, "own_network", recurrent, raising=False)
    model = models.build("builtins:own_network", DIGITS, 10, "classification")
    with pytest.raises(ModelError, match="Opacus cannot train this model: .*LSTM"):
        central(model, small(digits), QUICK)
