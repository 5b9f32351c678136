"""Sums of gradients that are clipped one by one, for each record or each person: what DP-SGD rests on.

By `torch.autograd`, of weights that every record has a view of its own of: `torch.func.grad` would import torch's
compiler, which takes as long as torch itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch.func import functional_call, vmap

from onlooker.methods.clipping import Formed, add_clipped
from onlooker.models import Model
from onlooker.models.model import seeded
from onlooker.privacy.random import Stream
from onlooker.types import Examples, Row, Vector

_GRADIENT_NUMBERS_AT_ONCE = 2**23  # 32 MiB of float32 gradients, whatever the model
_ROWS_AT_ONCE = 128  # of one person, whose gradients are added up by the layers themselves


def clipped_sum(
    model: Model, parameters: Vector, examples: Examples, clip: float, stream: Stream, device: torch.device
) -> Row:
    """The sum over records of their loss gradients, each clipped to L2 norm `clip`, `float64[d]`.

    A record whose gradient is not finite adds nothing (rule 1). Norms, factors and sums are float64, whatever the
    gradients are.
    """
    total = torch.zeros(model.size, dtype=torch.float64, device=device)
    weights = {name: value.to(device) for name, value in model.split(parameters).items()}

    def output(weights: dict[str, torch.Tensor], features: torch.Tensor) -> torch.Tensor:
        return functional_call(model.module, weights, (features.unsqueeze(0),)).squeeze(0)

    outputs = vmap(output, randomness="different")
    at_once = max(1, min(128, _GRADIENT_NUMBERS_AT_ONCE // model.size))
    with seeded(stream.seed()):
        for start in range(0, len(examples), at_once):
            features = torch.from_numpy(examples.features[start : start + at_once]).to(device)
            labels = torch.from_numpy(examples.labels[start : start + at_once]).to(device)
            own = {name: _leaf(value.expand(len(labels), *value.shape)) for name, value in weights.items()}
            found = _gradients(model.losses(outputs(own, features), labels), own)
            rows = torch.cat([one.reshape(len(labels), -1) for one in found], dim=1).double()
            add_clipped(total, [Formed(0, rows)], clip)
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
    total = torch.zeros(model.size, dtype=torch.float64, device=device)
    weights = {name: _leaf(value.to(device)) for name, value in model.split(parameters).items()}
    with seeded(stream.seed()):
        for person in persons:
            gradient = torch.zeros_like(total)
            for start in range(0, len(person), _ROWS_AT_ONCE):
                features = torch.from_numpy(person.features[start : start + _ROWS_AT_ONCE]).to(device)
                labels = torch.from_numpy(person.labels[start : start + _ROWS_AT_ONCE]).to(device)
                losses = model.losses(functional_call(model.module, weights, (features,)), labels)
                gradient += torch.cat([one.reshape(-1) for one in _gradients(losses, weights)]).double()
            add_clipped(total, [Formed(0, (gradient / len(person)).unsqueeze(0))], clip)
    return total.cpu().numpy()


def _leaf(weights: torch.Tensor) -> torch.Tensor:
    """The same memory, as what derivatives are taken by."""
    return weights.detach().requires_grad_()


def _gradients(losses: torch.Tensor, weights: Mapping[str, torch.Tensor]) -> Sequence[torch.Tensor]:
    """Of the sum of the losses by each of the weights; zeros by those that no loss depends on."""
    return torch.autograd.grad(losses.sum(), list(weights.values()), materialize_grads=True)
