"""Several clients in one tensor: each step of all of them is one call, which is what an accelerator wants.

Records stay on the device from the first time that they are asked for; a step sends nothing there but the places of its
batches, all at once before the first, and waits for nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from onlooker.methods.descent import LocalDescent
from onlooker.methods.trainer import Ask, Descend, Trainer
from onlooker.models import Model
from onlooker.models.model import seeded
from onlooker.types import Examples, Row

_NUMBERS_AT_ONCE = 2**28  # of parameters, their gradients and what an optimizer remembers: 1 GiB each


class Stacked:
    """Local training of clients whose batches have the same sizes, under `vmap`; the rest by `other`.

    What layers that draw, such as dropout, draw is not what they draw for a client alone.

    Args:
        model: what is trained.
        other: who computes what is not done here.
        device: where tensors live.
        most: how many clients at once, if they fit.
    """

    def __init__(self, model: Model, other: Trainer, device: torch.device, most: int = 64) -> None:
        self._model = model
        self._other = other
        self._device = device
        self._most = most
        self._resident: dict[int, tuple[Examples, Tensor, Tensor]] = {}

    @property
    def at_once(self) -> int:
        """As many as fit."""
        return max(1, min(self._most, _NUMBERS_AT_ONCE // self._model.size))

    def answer(self, asks: Sequence[Ask]) -> list[Row]:
        """Those whose steps are alike together."""
        found: dict[int, Row] = {}
        alike: dict[tuple[LocalDescent, tuple[int, ...]], list[tuple[int, Descend, list[NDArray[np.int64]]]]] = {}
        for place, ask in enumerate(asks):
            if not isinstance(ask, Descend):
                found[place] = self._other.answer([ask])[0]
                continue
            ask.stream.seed()  # as `LocalDescent`, for layers that draw
            batches = list(ask.descent.batches(len(ask.examples), ask.stream))
            alike.setdefault((ask.descent, tuple(map(len, batches))), []).append((place, ask, batches))
        for (descent, _), group in alike.items():
            rows = self._descend(descent, [ask for _, ask, _ in group], [batches for _, _, batches in group])
            found |= {place: row for (place, _, _), row in zip(group, rows, strict=True)}
        return [found[place] for place in range(len(asks))]

    def _descend(
        self, descent: LocalDescent, asks: Sequence[Descend], batches: Sequence[Sequence[NDArray[np.int64]]]
    ) -> list[Row]:
        """Clients whose batches have the same sizes, step by step."""
        received = np.stack([ask.received for ask in asks])
        weights = nn.Parameter(torch.tensor(received, device=self._device))
        optimizer = descent.fresh_optimizer([weights])
        features, labels, places = self._records(asks, batches)
        with seeded(0):
            for chosen in places:
                weights.grad = self._gradients(weights.detach(), features[chosen], labels[chosen])
                optimizer.step()
        return list(weights.detach().cpu().numpy().astype(np.float64) - received)

    def _records(
        self, asks: Sequence[Descend], batches: Sequence[Sequence[NDArray[np.int64]]]
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """All clients' records below each other, and the places of each step's batches in them, `int64[k, b]`."""
        found = [self._on_device(ask) for ask in asks]
        firsts = np.cumsum([0, *(len(labels) for _, labels in found)])[:-1]
        steps = [np.stack(few) for few in zip(*batches, strict=True)]
        sent = np.concatenate([(step + firsts[:, None]).ravel() for step in steps]) if steps else np.empty(0, np.int64)
        places = torch.from_numpy(sent).to(self._device, non_blocking=True)
        cuts = torch.split(places, [step.size for step in steps])
        features, labels = (torch.cat(parts) for parts in zip(*found, strict=True))
        return features, labels, [part.view(len(asks), -1) for part in cuts]

    def _on_device(self, ask: Descend) -> tuple[Tensor, Tensor]:
        """A client's records, which are its own object from the first round to the last."""
        key = id(ask.examples)
        if key not in self._resident:
            features = torch.from_numpy(ask.examples.features).to(self._device)
            self._resident[key] = (ask.examples, features, torch.from_numpy(ask.examples.labels).to(self._device))
        return self._resident[key][1:]

    @cached_property
    def _gradients(self) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """The gradient of each client's mean loss, `float32[k, d]`, by its weights, its rows and their labels."""
        model, module = self._model, deepcopy(self._model.module).to(self._device)

        def loss(flat: Tensor, rows: Tensor, labels: Tensor) -> Tensor:
            return model.losses(functional_call(module, model.split(flat), (rows,)), labels).mean()

        return vmap(grad(loss), randomness="different")
