"""Autograd on one module for all clients of a worker, whose parameters are views of one flat buffer."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from onlooker.methods.plain import Plain
from onlooker.methods.trainer import Ask, Descend
from onlooker.models import Model
from onlooker.models.model import laid_out, seeded
from onlooker.types import Row, Vector


class Flat:
    """What `Plain` does, without a module and an optimizer of many tensors for each client.

    Args:
        model: what is trained.
        device: where tensors live.
        channels_last: lay out convolutions with their channels last, at which their kernels are fastest; only where
            the model takes it.
    """

    def __init__(self, model: Model, device: torch.device, channels_last: bool = False) -> None:
        self._model = model
        self._device = device
        self._channels_last = channels_last
        self._plain = Plain(model, device)

    @property
    def at_once(self) -> int:
        """One client at a time."""
        return 1

    def answer(self, asks: Sequence[Ask]) -> list[Row]:
        """Local training here, the rest plainly."""
        return [self._descend(ask) if isinstance(ask, Descend) else self._plain.answer([ask])[0] for ask in asks]

    def _descend(self, ask: Descend) -> Row:
        """As `LocalDescent` does it."""
        descent, received, examples, stream = ask.descent, ask.received, ask.examples, ask.stream
        module, model, buffers = self._buffers.module, self._model, self._buffers
        buffers.load(received)
        optimizer = descent.fresh_optimizer([buffers.weights])
        features, labels = torch.from_numpy(examples.features), torch.from_numpy(examples.labels)
        batches = descent.batches(len(examples), stream)
        with seeded(stream.seed()):  # as in `LocalDescent`
            for batch in batches:
                chosen = torch.from_numpy(batch)
                rows = features.index_select(0, chosen).to(self._device)
                losses = model.losses(
                    module(laid_out(rows) if self._channels_last else rows),
                    labels.index_select(0, chosen).to(self._device),
                )
                buffers.gradients.zero_()
                losses.mean().backward()
                optimizer.step()
        return buffers.read() - received.astype(np.float64)

    @cached_property
    def _buffers(self) -> Buffers:
        return Buffers(self._model, self._device, self._channels_last)


class Buffers:
    """A module in training mode whose parameters and gradients are views of two vectors.

    Attributes:
        module: the module.
        weights: its trainable parameters, `float32[d]`.
        gradients: their gradients, `float32[d]`.
    """

    def __init__(self, model: Model, device: torch.device, channels_last: bool) -> None:
        self.module: nn.Module = deepcopy(model.module).to(device).train()
        self.weights = nn.Parameter(torch.zeros(model.size, device=device))
        self.gradients = torch.zeros(model.size, device=device)
        self.weights.grad = self.gradients
        self._order = torch.arange(model.size)  # where each place of the buffer lies in the flat vector of the model
        named = dict(self.module.named_parameters())
        for one in model.layout:
            last = channels_last and len(one.shape) == 4
            where = slice(one.offset, one.offset + one.size)
            named[one.name].data = _view(self.weights.data[where], one.shape, last)
            named[one.name].grad = _view(self.gradients[where], one.shape, last)
            if last:
                places = torch.arange(one.size).view(one.shape).permute(0, 2, 3, 1)
                self._order[where] = one.offset + places.reshape(-1)

    def load(self, vector: Vector) -> None:
        """Start from these weights, `float32[d]`."""
        self.weights.data.copy_(torch.from_numpy(vector)[self._order])

    def read(self) -> Row:
        """The weights as they are now, `float64[d]`."""
        found = np.empty(len(self._order))
        found[self._order.numpy()] = self.weights.data.cpu().numpy()
        return found


def _view(flat: Tensor, shape: tuple[int, ...], last: bool) -> Tensor:
    """A stretch of a buffer as a tensor of this shape; its channels come last in memory if so asked."""
    if not last:
        return flat.view(shape)
    out, channels, height, width = shape
    return flat.view(out, height, width, channels).permute(0, 3, 1, 2)
