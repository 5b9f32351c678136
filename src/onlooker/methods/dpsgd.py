"""Federated DP-SGD: each silo sums clipped per-record gradients, the auxiliary servers add one noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.func import functional_call, grad, vmap

from onlooker.errors import UnpricedError
from onlooker.methods.method import Local, Released, ServerStep, State, Vector
from onlooker.models import Model, Parts
from onlooker.privacy.random import Stream
from onlooker.privacy.sampling import PoissonRecords
from onlooker.privacy.terms import Terms
from onlooker.types import Examples, Row

_GRADIENT_NUMBERS_AT_ONCE = 2**23  # 32 MiB of float32 gradients, whatever the model


@dataclass(frozen=True)
class DPSGD:
    """DP-SGD (Abadi et al. 2016, Algorithm 1) over silos: one step of descent a round.

    Every record of a silo is used in a round by its own secret coin of rate q; its gradient is clipped to C', a little
    below C so that rounding the sum cannot exceed C (rule 8b); the silo's row is the sum. The divisor is the expected
    lot q n K (paper: L), with the public n = `expected_records`.

    Guarantee: record level, against everybody outside the record's silo; each observer's epsilon is the ledger's.
    """

    terms: Terms
    step: ServerStep
    parts: Parts
    weight_decay: float = 0.0
    epochs: int = 1

    def __post_init__(self) -> None:
        if self.terms.unit != "record" or self.terms.training.records is None:
            raise UnpricedError(
                f'task.method = "dp-sgd" guards records, so privacy.unit = "{self.terms.unit}" must be "record".'
            )

    def local(
        self, model: Model, received: Vector, kept: Vector, examples: Examples, stream: Stream, device: torch.device
    ) -> Local:
        """Minus the sum of the clipped gradients of the records drawn, `float64[d]`; zero where none was."""
        training, (channel,) = self.terms.training, self.terms.channels
        assert isinstance(training.records, PoissonRecords)
        drawn = training.records.draw(min(len(examples), training.max_records or len(examples)), stream)
        row = -clipped_sum(model, received, examples.take(drawn), channel.record_clip, stream, device)
        return Local({"model": row}, kept)

    def update(self, state: State, released: Sequence[Released]) -> State:
        """theta - eta times the released mean gradient, less the decay of the weights."""
        (one,) = released
        mean = one["model"]
        if mean is None:
            return state
        return self.step(state, [mean - self.weight_decay * state.models[0].astype(np.float64)])


def clipped_sum(
    model: Model, parameters: Vector, examples: Examples, clip: float, stream: Stream, device: torch.device
) -> Row:
    """The sum over records of their loss gradients, each clipped to L2 norm `clip`, `float64[d]`.

    A record whose gradient is not finite adds nothing (rule 1). Norms, factors and sums are float64, whatever the
    gradients are.
    """
    total = torch.zeros(model.size, dtype=torch.float64, device=device)
    weights = {name: value.to(device) for name, value in model.split(parameters).items()}

    def loss(weights: dict[str, torch.Tensor], features: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        outputs = functional_call(model.module, weights, (features.unsqueeze(0),))
        return model.losses(outputs, label.unsqueeze(0)).squeeze(0)

    gradients = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")
    at_once = max(1, min(128, _GRADIENT_NUMBERS_AT_ONCE // model.size))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream.seed())
        for start in range(0, len(examples), at_once):
            features = torch.from_numpy(examples.features[start : start + at_once]).to(device)
            labels = torch.from_numpy(examples.labels[start : start + at_once]).to(device)
            found = gradients(weights, features, labels)
            rows = torch.cat([found[name].reshape(len(labels), -1) for name in weights], dim=1).double()
            norms = torch.sqrt(torch.sum(rows * rows, dim=1))
            finite = torch.isfinite(norms)
            factors = torch.where(finite, clip / torch.clamp(norms, min=clip) * (1 - 2**-40), 0.0)
            total += factors @ torch.where(finite.unsqueeze(1), rows, 0.0)
    return total.cpu().numpy()
