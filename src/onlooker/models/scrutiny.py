"""The reasons to refuse a model.

A model is refused if it could not keep what a run promises: what is no float tensor cannot be clipped and
noised, and whatever a module remembers between rows or rounds, besides its weights, would be released without
noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from onlooker._entry import called
from onlooker.errors import ModelError
from onlooker.models.model import Model, laid_out, lay_out, seeded


def require_plain_tensors(module: nn.Module, name: str) -> None:
    """Refuse layers that mix records, tensors that cannot be noised, and a module with nothing to train.

    Raises:
        ModelError: naming the layer or tensor, the reason and the remedy.
    """
    for where, layer in cast(Iterable[tuple[str, nn.Module]], module.named_modules()):
        kind = type(layer).__name__
        if "BatchNorm" in kind:
            reason = f'the layer "{where}" is {kind}, whose statistics are state that mixes records'
            raise _refusal(name, reason, "use torch.nn.GroupNorm")
    for where, tensor in (*module.named_parameters(), *module.named_buffers()):
        if isinstance(tensor, UninitializedParameter | UninitializedBuffer):
            raise _refusal(name, f'"{where}" has no shape yet', "use layers that are given their sizes")
        if tensor.dim() == 0:
            raise _refusal(name, f'"{where}" is a tensor without dimensions', "give it the shape (1,)")
        if isinstance(tensor, nn.Parameter) and tensor.dtype != torch.float32:
            raise _refusal(name, f'the parameter "{where}" is of {tensor.dtype}', "make it torch.float32")
        if not tensor.is_floating_point():
            reason = f'the buffer "{where}" is of {tensor.dtype}, which can be neither clipped nor noised'
            raise _refusal(name, reason, "make it a constant of torch.float32, or no buffer")
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise _refusal(name, "it has no trainable parameters", "give it at least one")


def require_repeatable_weights(model: Model, name: str) -> None:
    """Refuse a factory that ignores torch's global generator, because its workers would not start alike.

    Raises:
        ModelError: with the remedy.
    """
    if model.initial(0).tobytes() != model.initial(0).tobytes():
        reason = "the same seed gives other weights each time"
        raise _refusal(name, reason, "draw all of them from torch's global generator")


def require_pure_forward(model: Model, name: str, shape: tuple[int, ...], outputs: int, symbols: int) -> None:
    """Refuse a module unless, in training mode, a row's output is a function of that row and the weights.

    The generator of dropout is set to the same state before each of a few runs on made-up rows.

    Raises:
        ModelError: if the output has the wrong shape, or depends on another row or on an earlier run.
    """
    zeros, rows, with_another_second = _probes(shape, symbols)
    module = deepcopy(model.module)
    before = {where: buffer.clone() for where, buffer in module.named_buffers()}
    _require_shape(module, name, zeros, outputs)
    first, again, changed = (_run(module, batch) for batch in (rows, rows, with_another_second))
    for where, buffer in module.named_buffers():
        if not torch.allclose(buffer, before[where], rtol=0, atol=0, equal_nan=True):
            reason = f'the buffer "{where}" changes in a forward pass and would carry records into later rounds'
            raise _refusal(name, reason, "use layers without running statistics, such as torch.nn.GroupNorm")
    if not _alike(first, again):
        reason = "the same rows give other outputs each time, so it keeps state or a generator of its own"
        raise _refusal(name, reason, "make its forward pass a function of its weights and input")
    if not _alike(first[0], changed[0]):
        reason = "the output for a row depends on the other rows of its batch"
        raise _refusal(name, reason, "normalise and attend within a row (for attention: batch_first=True)")


def takes_channels_last(model: Model, shape: tuple[int, ...]) -> bool:
    """True if a module with convolutions gives the same when pictures lie in memory with their channels last.

    One that reads its pictures as they lie in memory, by `view`, fails or gives something else.
    """
    if not any(len(one.shape) == 4 for one in model.layout) or len(shape) != 3:
        return False
    rows = _probes(shape, 0)[1]
    module = deepcopy(model.module).eval()
    expected = _run(module, rows)
    lay_out(module)
    try:
        return _alike(_run(module, laid_out(rows)), expected)
    except RuntimeError:
        return False


def _require_shape(module: nn.Module, name: str, zeros: Tensor, outputs: int) -> None:
    what = f'model.name = "{name}" cannot take features of shape {tuple(zeros.shape[1:])}: it'
    answer: object = called(lambda: _run(module, zeros), what, ModelError)
    found = tuple(answer.shape) if isinstance(answer, Tensor) else type(answer).__name__
    if found != (2, outputs):
        reason = f"two rows gave {found} and not a tensor of shape (2, {outputs})"
        raise _refusal(name, reason, "correct its last layer")


def _probes(shape: tuple[int, ...], symbols: int) -> tuple[Tensor, Tensor, Tensor]:
    """Three batches of two rows: of zeros, of anything, and the same with another second row."""
    generator = torch.Generator().manual_seed(0)
    rows = (3, *shape)
    if symbols:
        drawn = torch.randint(symbols, rows, generator=generator)
    else:
        drawn = torch.rand(rows, generator=generator) * 2 - 1
    return torch.zeros_like(drawn[:2]), drawn[:2], drawn[::2]


def _run(module: nn.Module, batch: Tensor) -> Any:
    with seeded(0), torch.no_grad():
        return module(batch)


def _alike(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-4, atol=1e-6, equal_nan=True)


def _refusal(name: str, reason: str, remedy: str) -> ModelError:
    return ModelError(f'model.name = "{name}" cannot be trained under privacy: {reason}; {remedy}.')
