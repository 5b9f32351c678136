"""Federated DP-SGD: each silo sums clipped per-record gradients, the auxiliary servers add one noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from onlooker.errors import UnpricedError
from onlooker.methods.method import Local, Released, ServerStep, State, Vector
from onlooker.models import Parts
from onlooker.privacy.random import Stream
from onlooker.privacy.sampling import PoissonRecords
from onlooker.privacy.terms import Terms
from onlooker.types import Examples, Row

if TYPE_CHECKING:
    import torch

    from onlooker.models import Model

_GRADIENT_NUMBERS_AT_ONCE = 2**23  # 32 MiB of float32 gradients, whatever the model
_ROWS_AT_ONCE = 128  # of one person, whose gradients are added up by the layers themselves


@dataclass(frozen=True)
class DPSGD:
    """DP-SGD (Abadi et al. 2016, Algorithm 1) over silos: one step of descent a round.

    Every record of a silo is used in a round by its own secret coin of rate q; its gradient is clipped to C', a little
    below C so that rounding the sum cannot exceed C (rule 8b); the silo's row is the sum. The divisor is the expected
    lot q n K (paper: L), with the public n = `expected_records`.

    Where the unit is a person, one coin decides on all rows of a person, and what is clipped is the gradient of the
    mean loss over them; n is then a number of persons. However many rows a person has, they move the sum by at most C.

    Guarantee: record level, or person level within one silo, against everybody outside the silo; each observer's
    epsilon is the ledger's.
    """

    terms: Terms
    step: ServerStep
    parts: Parts
    weight_decay: float = 0.0
    epochs: int = 1

    def __post_init__(self) -> None:
        if self.terms.unit not in ("record", "person") or self.terms.training.records is None:
            raise UnpricedError(
                f'task.method = "dp-sgd" guards records or persons, so privacy.unit = "{self.terms.unit}" must be '
                '"record" or "person".'
            )

    def local(
        self, model: Model, received: Vector, kept: Vector, examples: Examples, stream: Stream, device: torch.device
    ) -> Local:
        """Minus the sum of the clipped gradients of the units drawn, `float64[d]`; zero where none was."""
        training, (channel,) = self.terms.training, self.terms.channels
        assert isinstance(training.records, PoissonRecords)
        if self.terms.unit == "person":
            persons = examples.rows_by_person()
            drawn = training.records.draw(min(len(persons), training.max_records or len(persons)), stream)
            taken = [examples.take(persons[int(one)]) for one in drawn]
            row = -clipped_sum_of_persons(model, received, taken, channel.record_clip, stream, device)
            return Local({"model": row}, kept)
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
    import torch  # when something is trained, and not when it is planned
    from torch.func import functional_call, grad, vmap

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
            total += _sum_of_clipped(rows, clip)
    return total.cpu().numpy()


def clipped_sum_of_persons(
    model: Model, parameters: Vector, persons: Sequence[Examples], clip: float, stream: Stream, device: torch.device
) -> Row:
    """The sum over persons of the gradients of their mean losses, each clipped to L2 norm `clip`, `float64[d]`.

    A person is computed alone, in parts of as many rows as fit, so nobody's gradient depends on who else was drawn. One
    whose gradient is not finite adds nothing (rule 1).

    Args:
        model: the model.
        parameters: `float32[d]`, where the gradients are taken.
        persons: the rows of each person, at least one each.
        clip: the L2 bound.
        stream: what layers that draw, such as dropout, draw from.
        device: where tensors live.
    """
    import torch
    from torch.func import functional_call, grad

    total = torch.zeros(model.size, dtype=torch.float64, device=device)
    weights = {name: value.to(device) for name, value in model.split(parameters).items()}

    def loss(weights: dict[str, torch.Tensor], features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return model.losses(functional_call(model.module, weights, (features,)), labels).sum()

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(stream.seed())
        for person in persons:
            gradient = torch.zeros_like(total)
            for start in range(0, len(person), _ROWS_AT_ONCE):
                features = torch.from_numpy(person.features[start : start + _ROWS_AT_ONCE]).to(device)
                labels = torch.from_numpy(person.labels[start : start + _ROWS_AT_ONCE]).to(device)
                found = grad(loss)(weights, features, labels)
                gradient += torch.cat([found[name].reshape(-1) for name in weights]).double()
            total += _sum_of_clipped((gradient / len(person)).unsqueeze(0), clip)
    return total.cpu().numpy()


def _sum_of_clipped(rows: torch.Tensor, clip: float) -> torch.Tensor:
    """The sum of the rows, `float64[k, d]`, each within L2 norm `clip`; a row that is not finite adds nothing."""
    import torch

    norms = torch.sqrt(torch.sum(rows * rows, dim=1))
    finite = torch.isfinite(norms)
    factors = torch.where(finite, clip / torch.clamp(norms, min=clip) * (1 - 2**-40), 0.0)
    return factors @ torch.where(finite.unsqueeze(1), rows, 0.0)
