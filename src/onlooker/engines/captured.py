"""Gradients of single records from what goes into each layer and what comes back to it.

One pass forward and one back over the whole batch, without gradients of weights. A linear layer's gradient of one
record is the outer product of the two, whose norm factors; a convolution's is their product over places, which is small
enough to be formed (Goodfellow 2015, "Efficient per-example gradient computations"; Rochette et al. 2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from onlooker.engines.flat import Buffers
from onlooker.methods.clipping import Factored, Formed, Gradients, add_clipped
from onlooker.methods.trainer import Ask, ClippedSum, Trainer
from onlooker.models import Model
from onlooker.models.model import laid_out, seeded
from onlooker.privacy.random import Stream
from onlooker.types import Examples, Row, Vector

_NUMBERS_AT_ONCE = 2**23  # of gradients of convolutions, and of what they are formed from


@dataclass
class _Captured:
    """A layer in one pass.

    Attributes:
        layer: the layer.
        weight: the first place of its weights in the flat vector.
        bias: that of its bias; None where there is none.
        came_in: what went in.
        came_out: what came out, by which the loss is differentiated.
    """

    layer: nn.Module
    weight: int
    bias: int | None
    came_in: Tensor | None = None
    came_out: Tensor | None = None

    def __call__(self, module: nn.Module, given: tuple[Any, ...], out: Tensor) -> None:
        """A forward hook.

        Raises:
            RuntimeError: if a layer is used twice, or on something that its gradient is not formed of here.
        """
        if self.came_out is not None or given[0].dim() != (4 if isinstance(module, nn.Conv2d) else 2):
            raise RuntimeError("a layer is used in a way that its gradients of single records are not known for")
        if not out.requires_grad:  # the first layer's, for weights ask for no gradients here
            out.requires_grad_()
        self.came_in, self.came_out = given[0].detach(), out


def is_captured(model: Model) -> bool:
    """True if every trainable parameter is a linear layer's or a plain convolution's own."""
    known = [(name, layer) for name, layer in _modules(model.module) if _is_known(layer)]
    covered = {
        f"{name}.{kind}" if name else kind for name, layer in known for kind, _ in layer.named_parameters(recurse=False)
    }
    return covered == {one.name for one in model.layout}


class Captured:
    """Clipped sums of gradients of single records; the rest as `other`.

    Guarantee: a clipped sum is that of `clipping.add_clipped`, over 32-bit gradients of convolutions and outer products
    of 32-bit numbers.

    Args:
        model: what is trained; `is_captured` of it.
        other: who computes what is not done here.
        device: where tensors live.
    """

    def __init__(self, model: Model, other: Trainer, device: torch.device) -> None:
        self._model = model
        self._other = other
        self._device = device

    @property
    def at_once(self) -> int:
        """One client at a time."""
        return 1

    def answer(self, asks: Sequence[Ask]) -> list[Row]:
        """Sums over records here, the rest by `other`.

        Raises:
            RuntimeError: if a layer is used more than once, or on more than one vector of a record.
        """
        return [
            self._clipped_sum(ask.parameters, ask.examples, ask.clip, ask.stream)
            if isinstance(ask, ClippedSum)
            else self._other.answer([ask])[0]
            for ask in asks
        ]

    def _clipped_sum(self, parameters: Vector, examples: Examples, clip: float, stream: Stream) -> Row:
        """The sum over records of their clipped gradients, `float64[d]`."""
        self._buffers.load(parameters)
        total = torch.zeros(self._model.size, dtype=torch.float64, device=self._device)
        formed = sum(one.size for one in self._model.layout if len(one.shape) == 4)
        at_once = max(1, min(128, _NUMBERS_AT_ONCE // max(1, formed)))
        with seeded(stream.seed()):  # layers that draw, such as dropout, draw the same in any order of clients
            for start in range(0, len(examples), at_once):
                features = torch.from_numpy(examples.features[start : start + at_once]).to(self._device)
                labels = torch.from_numpy(examples.labels[start : start + at_once]).to(self._device)
                add_clipped(total, self._parts(features, labels), clip)
        return total.cpu().numpy()

    def _parts(self, features: Tensor, labels: Tensor) -> list[Gradients]:
        """The gradients of a batch, layer by layer."""
        layers = self._layers
        for one in layers:
            one.came_in = one.came_out = None
        outputs = self._buffers.module(laid_out(features) if self._model.channels_last else features)
        came_out = [one.came_out for one in layers if one.came_out is not None]
        if len(came_out) < len(layers):
            raise RuntimeError("a layer's weights are used without the layer")
        backs = torch.autograd.grad(self._model.losses(outputs, labels).sum(), came_out)
        return [part for one, back in zip(layers, backs, strict=True) for part in _gradients(one, back)]

    @cached_property
    def _buffers(self) -> Buffers:
        buffers = Buffers(self._model, self._device, self._model.channels_last)
        for parameter in buffers.module.parameters():
            parameter.requires_grad_(False)
        return buffers

    @cached_property
    def _layers(self) -> list[_Captured]:
        offsets = {one.name: one.offset for one in self._model.layout}
        found: list[_Captured] = []
        for name, layer in _modules(self._buffers.module):
            if _is_known(layer):
                before = f"{name}." if name else ""
                found.append(_Captured(layer, offsets[f"{before}weight"], offsets.get(f"{before}bias")))
                layer.register_forward_hook(found[-1])
        return found


def _gradients(one: _Captured, back: Tensor) -> list[Gradients]:
    """A layer's part of the gradients, by its weights and its bias."""
    layer, came_in = one.layer, one.came_in
    assert came_in is not None
    if isinstance(layer, nn.Linear):
        return [Factored(one.weight, one.bias, back.double(), came_in.double())]
    assert isinstance(layer, nn.Conv2d)
    weight = Formed(one.weight, _convolved(layer, came_in, back).double())
    return [weight] if one.bias is None else [weight, Formed(one.bias, back.sum((2, 3)).double())]


def _convolved(layer: nn.Conv2d, came_in: Tensor, back: Tensor) -> Tensor:
    """The gradient of each record by the weights, `float32[n, k]`, of what came back, `float32[n, out, h, w]`."""
    places = back[0, 0].numel()
    at_once = max(1, _NUMBERS_AT_ONCE // (layer.weight[0].numel() * places))
    # The faster of two orders to copy what the kernel sees in: along the places, or along a row of the kernel.
    along_places = layer.kernel_size[1] * layer.in_channels < back.shape[3]
    rows: list[Tensor] = []
    for start in range(0, len(back), at_once):
        part = slice(start, start + at_once)
        seen = _seen(layer, came_in[part], back.shape[2:])
        if along_places:
            patches = seen.contiguous().view(len(seen), -1, places)
            rows.append(torch.bmm(back[part].flatten(2), patches.transpose(1, 2)))
        else:
            patches = seen.permute(0, 4, 5, 2, 3, 1).reshape(len(seen), places, -1)
            found = torch.bmm(back[part].permute(0, 2, 3, 1).reshape(len(seen), places, -1).transpose(1, 2), patches)
            rows.append(found.view(len(seen), -1, *layer.kernel_size, layer.in_channels).permute(0, 1, 4, 2, 3))
    return (rows[0] if len(rows) == 1 else torch.cat(rows)).flatten(1)


def _seen(layer: nn.Conv2d, came_in: Tensor, places: Sequence[int]) -> Tensor:
    """What a convolution's kernel sees at each place, a view `float32[n, channels, *kernel, *places]`."""
    (top, left), (down, across), (below, beside) = _pair(layer.padding), _pair(layer.stride), _pair(layer.dilation)
    padded = functional.pad(came_in, (left, left, top, top)) if top or left else came_in
    of_record, of_channel, of_row, of_column = padded.stride()
    strides = (of_record, of_channel, below * of_row, beside * of_column, down * of_row, across * of_column)
    return padded.as_strided((len(padded), layer.in_channels, *_pair(layer.kernel_size), *places), strides)


def _pair(setting: object) -> tuple[int, int]:
    """One setting of a convolution by row and by column."""
    by_row, by_column = cast(tuple[int, int], setting)
    return by_row, by_column


def _modules(module: nn.Module) -> list[tuple[str, nn.Module]]:
    return list(cast(Iterator[tuple[str, nn.Module]], module.named_modules()))


def _is_known(layer: nn.Module) -> bool:
    """True of layers whose gradients of single records are known here."""
    if type(layer) is nn.Linear:
        return True
    return (
        type(layer) is nn.Conv2d
        and layer.groups == 1
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
    )
