"""Autograd on one module for all clients of a worker, laid out as its layers are fastest."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from onlooker.methods.plain import Plain
from onlooker.methods.trainer import Ask, Descend
from onlooker.models import Model
from onlooker.models.model import laid_out, seeded
from onlooker.types import Row, Vector


class Flat:
    """What `Plain` does, without a new module for each client.

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
        optimizer = descent.fresh_optimizer(buffers.parameters)
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
                for parameter in buffers.parameters:  # what comes next is kept as it is, not added to zeros
                    parameter.grad = None
                losses.mean().backward()
                optimizer.step()
        return buffers.read() - received.astype(np.float64)

    @cached_property
    def _buffers(self) -> Buffers:
        return Buffers(self._model, self._device, self._channels_last)


class Buffers:
    """A module in training mode that takes and gives its trainable parameters as one vector.

    Attributes:
        module: the module.
        parameters: those that are trained, in the order of the vector.
    """

    def __init__(self, model: Model, device: torch.device, channels_last: bool) -> None:
        self.module: nn.Module = deepcopy(model.module).to(device).train()
        _pool_first(self.module)
        named = dict(self.module.named_parameters())
        self.parameters = [named[one.name] for one in model.layout]
        if channels_last:
            for parameter in self.parameters:
                if parameter.dim() == 4:
                    parameter.data = _channels_last(parameter.data)

    def load(self, vector: Vector) -> None:
        """Start from these weights, `float32[d]`."""
        start = 0
        for parameter in self.parameters:
            part = vector[start : start + parameter.numel()]
            parameter.data.copy_(torch.from_numpy(part).view(parameter.shape))
            start += parameter.numel()

    def read(self) -> Row:
        """The weights as they are now, `float64[d]`."""
        return torch.cat([one.data.reshape(-1) for one in self.parameters]).cpu().numpy().astype(np.float64)


def _channels_last(weights: Tensor) -> Tensor:
    """A convolution's weights with their channels last in memory.

    Even a single channel has the strides of many: the layout of all that follows is read from them, and with the other
    one a pooling takes five times as long.
    """
    out, channels, height, width = weights.shape
    return weights.new_empty(out, height, width, channels).permute(0, 3, 1, 2).copy_(weights)


def _pool_first(module: nn.Module) -> None:
    """Let every ReLU that a maximum pooling follows come after it, where it has a quarter of the numbers to work on.

    Values and gradients stay what they are, to the bit: the largest of max(x, 0) is max(the largest x, 0), and where
    that is not positive neither order lets anything back.
    """
    for part in module.modules():
        if type(part) is nn.Sequential:
            layers = list(part)
            for place, pair in enumerate(pairwise(layers)):
                if _is_bare(pair[0], nn.ReLU) and _is_bare(pair[1], nn.MaxPool2d) and not pair[1].return_indices:
                    part[place], part[place + 1] = pair[1], pair[0]


def _is_bare(layer: nn.Module, kind: type[nn.Module]) -> bool:
    """True of a layer of just this kind that nobody listens to."""
    hooks = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
    return type(layer) is kind and not any(getattr(layer, name) for name in hooks)
