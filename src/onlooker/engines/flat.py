"""Autograd on one module for all clients of a worker, whose parameters are views of one flat buffer."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from onlooker.methods.descent import LocalDescent
from onlooker.methods.trainer import Plain
from onlooker.models import Model
from onlooker.privacy.random import Stream
from onlooker.types import Examples, Row, Vector


class Flat:
    """What `Plain` does, without a module and an optimizer of many tensors for each client.

    Args:
        model: what is trained.
        device: where tensors live.
        images_last: lay out convolutions with their channels last, at which their kernels are fastest; not every module
            can be laid out so, which is why it is tried beforehand.
    """

    def __init__(self, model: Model, device: torch.device, images_last: bool = False) -> None:
        self._model = model
        self._device = device
        self._images_last = images_last

    def descend(self, descent: LocalDescent, received: Vector, examples: Examples, stream: Stream) -> Row:
        """As `LocalDescent` does it."""
        module, model, buffers = self._buffers.module, self._model, self._buffers
        buffers.load(received)
        optimizer = descent.fresh_optimizer([buffers.weights])
        features, labels = torch.from_numpy(examples.features), torch.from_numpy(examples.labels)
        batches = descent.batches(len(examples), stream)
        with torch.random.fork_rng(devices=[]):  # as in `LocalDescent`
            torch.manual_seed(stream.seed())
            for batch in batches:
                chosen = torch.from_numpy(batch)
                rows = self._laid_out(features.index_select(0, chosen).to(self._device))
                losses = model.losses(module(rows), labels.index_select(0, chosen).to(self._device))
                buffers.gradients.zero_()
                losses.mean().backward()
                optimizer.step()
        return buffers.read() - received.astype(np.float64)

    def clipped_sum(self, parameters: Vector, examples: Examples, clip: float, stream: Stream) -> Row:
        """As `Plain`."""
        return Plain(self._model, self._device).clipped_sum(parameters, examples, clip, stream)

    def clipped_sum_of_persons(
        self, parameters: Vector, persons: Sequence[Examples], clip: float, stream: Stream
    ) -> Row:
        """As `Plain`."""
        return Plain(self._model, self._device).clipped_sum_of_persons(parameters, persons, clip, stream)

    def _laid_out(self, rows: Tensor) -> Tensor:
        if self._images_last and rows.dim() == 4:
            return rows.contiguous(memory_format=torch.channels_last)
        return rows

    @cached_property
    def _buffers(self) -> _Buffers:
        return _Buffers(self._model, self._device, self._images_last)


class _Buffers:
    """A module in training mode whose parameters and gradients are views of two vectors.

    Attributes:
        module: the module.
        weights: its trainable parameters, `float32[d]`.
        gradients: their gradients, `float32[d]`.
    """

    def __init__(self, model: Model, device: torch.device, images_last: bool) -> None:
        self.module: nn.Module = deepcopy(model.module).to(device).train()
        self.weights = nn.Parameter(torch.zeros(model.size, device=device))
        self.gradients = torch.zeros(model.size, device=device)
        self.weights.grad = self.gradients
        self._order = torch.arange(model.size)  # where each place of the buffer lies in the flat vector of the model
        named = dict(self.module.named_parameters())
        for one in model.layout:
            last = images_last and len(one.shape) == 4
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
