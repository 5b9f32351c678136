"""Record-level DP-SGD by Opacus itself: a baseline that shares no gradient, noise, coin or accountant with Onlooker.

Opacus' own engine wraps the network, draws the batches, clips, adds the noise and counts epsilon (Yousefpour et al.
2021, "Opacus: User-friendly differential privacy library in PyTorch"); only the weights that it starts from, the data
and the evaluation are ours. It needs the extra `opacus`.

What differs from `dp-sgd` here, besides the code:

- Its secure mode is off. Noise and coins come from torch's seeded generators and float arithmetic: a study that can be
  repeated, and therefore no protection.
- It draws at rates of one over a whole number alone, and divides by the size of the data times that rate, rounded down:
  a divisor made of a private count (rule 3 of `docs/privacy.md`).
- Of some rates 1/m, of which 1/93 is the largest, it draws at 1/m but counts epsilon, and divides, as if at 1/(m - 1):
  it cuts 1/(1/m) off to a whole number, which floats put just below m. Its epsilon is then a little above ours.
- It knows one trusted party, which sees every record, and one observer, who sees every model.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, cast

import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler, TensorDataset

from onlooker import _check
from onlooker.data import Federation
from onlooker.errors import ModelError, TermsError
from onlooker.models import Model, evaluate
from onlooker.privacy.accounting import Price
from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.random import Seeded
from onlooker.privacy.sampling import Everyone, PoissonRecords
from onlooker.privacy.terms import Terms
from onlooker.privacy.training import Training
from onlooker.types import Examples, Vector


@dataclass(frozen=True)
class OpacusSettings:
    """How Opacus trains.

    Attributes:
        rate: q, the probability that a record is in a batch: one over a whole number.
        steps: T, the number of batches.
        clip: C, the L2 bound of one record's gradient.
        learning_rate: of plain SGD along the noisy mean.
        noise_multiplier: z, the standard deviation of the noise over C; or None where `epsilon` is given.
        epsilon: the target that Opacus itself finds z for; or None where `noise_multiplier` is given.
        delta: of every epsilon.
        momentum: of SGD.
        evaluate_every: evaluate after every so many steps, and after the last.
        seed: of initial weights, batches and noise.
    """

    rate: float
    steps: int
    clip: float = 1.0
    learning_rate: float = 0.1
    noise_multiplier: float | None = None
    epsilon: float | None = None
    delta: float = 1e-5
    momentum: float = 0.0
    evaluate_every: int = 50
    seed: int = 42

    def __post_init__(self) -> None:
        _check.rate(rate=self.rate)
        _check.at_least(1, steps=self.steps, evaluate_every=self.evaluate_every)
        _check.positive(clip=self.clip, learning_rate=self.learning_rate)
        _check.probability(delta=self.delta)
        if (self.noise_multiplier is None) == (self.epsilon is None):
            raise TermsError(
                f"noise_multiplier = {self.noise_multiplier} and epsilon = {self.epsilon}: name one of the two."
            )
        if self.noise_multiplier is not None:
            _check.non_negative(noise_multiplier=self.noise_multiplier)
        if self.epsilon is not None:
            _check.positive(epsilon=self.epsilon)
        if abs(1 / self.rate - self.batches) > 1e-6 * self.batches:
            raise TermsError(
                f"rate = {self.rate} is not one over a whole number, and Opacus draws at no other rate; the nearest is "
                f"1/{self.batches} = {1 / self.batches:.6g}."
            )

    @property
    def batches(self) -> int:
        """1/q, which is what Opacus calls an epoch."""
        return round(1 / self.rate)


@dataclass(frozen=True)
class Measured:
    """How well the model does on the test set after `step` batches: "loss", and "accuracy" or an error."""

    step: int
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class OpacusRun:
    """What one training by Opacus left behind.

    Attributes:
        parameters: `float32[d]`, the trained model.
        noise_multiplier: z, as given or as Opacus found it.
        measured: the evaluations in order.
        epsilon: what Opacus' accountant (PRV, its default) says for one record; infinity without noise.
        price: what the ledger here says for the same steps, rate, noise and delta, under the adjacency
            "add-or-remove" that Opacus assumes.
    """

    parameters: Vector
    noise_multiplier: float
    measured: tuple[Measured, ...]
    epsilon: float
    price: Price


def central(model: Model, federation: Federation, settings: OpacusSettings) -> OpacusRun:
    """Train on the records of all clients, pooled at one trusted curator.

    Guarantee: record level, to whoever sees the models; none to the curator, who holds every record.

    Raises:
        ModelError: if Opacus is not installed, or cannot train the model.
        TermsError: if the rate draws less than one record on average.
    """
    pooled = Examples(
        np.concatenate([client.features for client in federation.clients]),
        np.concatenate([client.labels for client in federation.clients]),
    )
    return _train(model, pooled, federation.test, _calibrated(settings), "curator")


def one_per_silo(model: Model, federation: Federation, settings: OpacusSettings) -> tuple[OpacusRun, ...]:
    """Train one model in each silo, on its own records alone; all start from the same weights.

    Guarantee: record level, of each silo's model about that silo's records; it says nothing about any other's.

    Raises:
        ModelError: if Opacus is not installed, or cannot train the model.
        TermsError: if the rate draws less than one record of a silo on average.
    """
    calibrated = _calibrated(settings)
    return tuple(
        _train(model, client, federation.test, calibrated, f"silo:{number}")
        for number, client in enumerate(federation.clients)
    )


def same_event(settings: OpacusSettings, noise_multiplier: float, records: int, size: int) -> Terms:
    """The terms here that cost what Opacus' training costs: one curator, who sums records and adds the noise."""
    channel = Channel(
        size,
        RoundedGaussian(noise_multiplier),
        Grid(settings.clip, 30, 64),
        "server",
        bounds=settings.clip,
        sums_records=True,
        max_records=records,
    )
    training = Training("nothing", PoissonRecords(1 / settings.batches), records, records)
    return Terms("record", "add-or-remove", settings.delta, settings.steps, 1, Everyone(), training, (channel,))


def _train(model: Model, train: Examples, test: Examples, settings: OpacusSettings, party: str) -> OpacusRun:
    opacus, noise_multiplier = _opacus(), settings.noise_multiplier
    assert noise_multiplier is not None
    if len(train) < settings.batches:
        raise TermsError(
            f"rate = {settings.rate} draws less than one of the {len(train)} records of {party} on average, and Opacus "
            f"would divide by 0; use at least {1 / len(train):.3g}."
        )
    source = Seeded(settings.seed)
    module = model.fresh(model.initial(source.stream("initial weights").seed()))
    measured: list[Measured] = []
    with _quiet(), torch.random.fork_rng(devices=[]):  # layers that draw, such as dropout, use the global generator
        torch.manual_seed(source.stream("opacus/layers", 0, party).seed())
        engine = opacus.PrivacyEngine(secure_mode=False)
        try:
            wrapped, optimizer, loader = engine.make_private(
                module=module,
                optimizer=torch.optim.SGD(module.parameters(), lr=settings.learning_rate, momentum=settings.momentum),
                data_loader=_loader(train, settings.batches, source.stream("opacus/batches", 0, party).seed()),
                noise_multiplier=noise_multiplier,
                max_grad_norm=settings.clip,
                noise_generator=torch.Generator().manual_seed(source.stream("opacus/noise", 0, party).seed()),
            )
        except opacus.validators.errors.UnsupportedModuleError as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ModelError(f"Opacus cannot train this model: {reason}; choose another model.name.") from error
        for step, (features, labels) in enumerate(islice(_endless(loader), settings.steps), start=1):
            optimizer.zero_grad()
            model.losses(wrapped(features), labels).mean().backward()
            optimizer.step()
            if step % settings.evaluate_every == 0 or step == settings.steps:
                measured.append(Measured(step, evaluate(model, model.flatten(module), test)))
        epsilon = float(engine.get_epsilon(settings.delta)) if noise_multiplier else math.inf
    price = Ledger.plan(same_event(settings, noise_multiplier, len(train), model.size)).price(0, "public")
    return OpacusRun(model.flatten(module), noise_multiplier, tuple(measured), epsilon, price)


def _opacus() -> Any:
    try:
        with _quiet():
            importlib.import_module("opacus.accountants.utils")
            importlib.import_module("opacus.validators.errors")
            return importlib.import_module("opacus")
    except ImportError as error:
        raise ModelError(
            "the Opacus baseline needs the package opacus, which is not installed; install onlooker[opacus]."
        ) from error


def _calibrated(settings: OpacusSettings) -> OpacusSettings:
    """The same settings with a noise multiplier, found by Opacus where they name an epsilon."""
    if settings.epsilon is None:
        return settings
    with _quiet():
        found = _opacus().accountants.utils.get_noise_multiplier(
            target_epsilon=settings.epsilon,
            target_delta=settings.delta,
            sample_rate=1 / settings.batches,
            steps=settings.steps,
            accountant="prv",
        )
    return replace(settings, noise_multiplier=float(found), epsilon=None)


class _Count(Sampler[list[int]]):
    """As many batches as an epoch has, for Opacus to read its rate from; it draws the batches itself."""

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return self.batches

    def __iter__(self) -> Iterator[list[int]]:
        return iter(())


def _loader(train: Examples, batches: int, seed: int) -> DataLoader[tuple[torch.Tensor, ...]]:
    rows = TensorDataset(torch.from_numpy(train.features), torch.from_numpy(train.labels))
    # With a batch size in place of a sampler, the rate would be one over the batches that this size happens to make.
    return DataLoader(rows, batch_sampler=_Count(batches), generator=torch.Generator().manual_seed(seed))


def _endless(loader: Any) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    while True:
        yield from cast(Iterator[tuple[torch.Tensor, torch.Tensor]], loader)


@contextmanager
def _quiet() -> Generator[None]:
    """Without Opacus' warnings, of which the one that matters stands in the docstring of this module."""
    with warnings.catch_warnings(), np.errstate(divide="ignore"):  # its accountant takes log(1 - q), also of q = 1
        warnings.filterwarnings("ignore", message="Secure RNG turned off")
        warnings.filterwarnings("ignore", message="Full backward hook is firing")
        warnings.filterwarnings("ignore", message="Optimal order is the largest alpha")
        yield
