"""A network as one flat vector: what methods add, clip and share.

Nothing here reads or writes torch's global generator, and no function trains the template: two models, or two
runs, in one process cannot touch each other.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from onlooker.errors import ModelError
from onlooker.models.layers import Parameter
from onlooker.types import Array, Examples, Task

_CPU = torch.device("cpu")


@dataclass(frozen=True, eq=False)
class Model:
    """An adapter between an `nn.Module` and a vector of its d trainable weights.

    Attributes:
        module: a template in training mode; it is copied, never trained.
        layout: the trainable parameters in order, tied ones once; frozen parameters and buffers are
            constants.
        size: d, the length of the vector.
        task: "classification" or "regression".
        factory: makes a module like the template with fresh weights, drawn from torch's generator.
        channels_last: True if pictures may lie in memory with their channels last, at which convolutions are fastest:
            it was tried.
    """

    module: nn.Module
    layout: tuple[Parameter, ...]
    size: int
    task: Task
    factory: Callable[[], nn.Module]
    channels_last: bool = False

    def initial(self, seed: int) -> NDArray[np.float32]:
        """Fresh initial weights, `float32[d]`: the same for the same seed, on any worker and in any order."""
        return self.flatten(built(self.factory, seed))

    def fresh(self, vector: Array) -> nn.Module:
        """A copy of the module, in training mode, that holds `vector` (`float32[d]`) and shares nothing.

        Raises:
            ModelError: unless the vector has d places.
        """
        module = deepcopy(self.module)
        parts = self.split(vector)
        with torch.no_grad():
            for name, parameter in module.named_parameters():
                if name in parts:
                    parameter.copy_(parts[name])
        return module

    def flatten(self, module: nn.Module) -> NDArray[np.float32]:
        """The trainable weights of a module of this layout, as a new `float32[d]`."""
        tensors = dict(module.named_parameters())
        parts = [tensors[parameter.name].detach().reshape(-1) for parameter in self.layout]
        return torch.cat(parts).numpy(force=True)

    def split(self, vector: Tensor | Array) -> dict[str, Tensor]:
        """The parameters by name, for `torch.func.functional_call`.

        Args:
            vector: `float32[d]`. Of a tensor the parameters are views, and gradients pass through; an array
                is copied.

        Raises:
            ModelError: unless the vector has d places.
        """
        flat = vector if isinstance(vector, Tensor) else torch.tensor(vector, dtype=torch.float32)
        if flat.shape != (self.size,):
            raise ModelError(
                f"The weights have the shape {tuple(flat.shape)}, but the model has {self.size}; "
                "they belong to another model.name or another data set."
            )
        return {
            parameter.name: flat[parameter.offset : parameter.offset + parameter.size].view(parameter.shape)
            for parameter in self.layout
        }

    def losses(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The loss of each record, `float32[n]`: cross-entropy in nats, or the squared error.

        Args:
            outputs: `float32[n, classes]`, or `float32[n, 1]` for regression.
            labels: `int64[n]`, or `float32[n]` for regression.
        """
        if self.task == "classification":
            return functional.cross_entropy(outputs, labels, reduction="none")
        return (outputs.squeeze(-1) - labels).square()


def built(factory: Callable[[], nn.Module], seed: int) -> nn.Module:
    """A module with fresh weights of this seed; torch's global generator is left as it was."""
    with seeded(seed):
        return factory()


@contextmanager
def seeded(seed: int) -> Generator[None]:
    """Within it, torch's global generator runs from `seed`; after it, from where it was before."""
    state = torch.default_generator.get_state()
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        torch.default_generator.set_state(state)


def layout_of(module: nn.Module) -> tuple[Parameter, ...]:
    """The trainable parameters of a module in the order of their registration, tied ones once."""
    layout: list[Parameter] = []
    offset = 0
    for name, tensor in module.named_parameters():
        if tensor.requires_grad:
            layout.append(Parameter(name, tuple(tensor.shape), offset))
            offset += tensor.numel()
    return tuple(layout)


def evaluate(
    model: Model, vector: Array, examples: Examples, batch_size: int = 1024, device: torch.device = _CPU
) -> dict[str, float]:
    """How well the weights do on labelled rows, with the module in evaluation mode.

    Args:
        model: the model.
        vector: `float32[d]`.
        examples: at least one row.
        batch_size: rows at a time; it does not change the result beyond rounding.
        device: where it is computed.

    Returns:
        "loss", the mean over rows; and "accuracy" (0 to 1), or "mean-absolute-error" for regression.
    """
    losses, scores = score(model, vector, examples, batch_size, device)
    return {"loss": float(losses.mean()), score_name(model): float(scores.mean())}


def score_name(model: Model) -> str:
    """What `score` gives beside the loss."""
    return "accuracy" if model.task == "classification" else "mean-absolute-error"


def score(
    model: Model, vector: Array, examples: Examples, batch_size: int = 1024, device: torch.device = _CPU
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The loss of each row and whether it is right (or its absolute error), `float64[n]` each."""
    (found,) = score_each(model, vector, [examples], batch_size, device)
    return found


def score_each(
    model: Model, vector: Array, groups: Sequence[Examples], batch_size: int = 1024, device: torch.device = _CPU
) -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """The same of each group of rows, at least one each: no group's numbers depend on another's rows, to the bit."""
    module = model.fresh(vector).to(device).eval()
    if model.channels_last:
        lay_out(module)
    with torch.inference_mode():
        return [_scored(model, module, examples, batch_size, device) for examples in groups]


def _scored(
    model: Model, module: nn.Module, examples: Examples, batch_size: int, device: torch.device
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    losses: list[Tensor] = []
    scores: list[Tensor] = []
    for start in range(0, len(examples), batch_size):
        rows = slice(start, start + batch_size)
        features = torch.as_tensor(examples.features[rows]).to(device)
        outputs = module(laid_out(features) if model.channels_last else features)
        labels = torch.as_tensor(examples.labels[rows]).to(device)
        losses.append(model.losses(outputs, labels).double())
        scores.append(_scores(model.task, outputs, labels).double())
    return torch.cat(losses).numpy(force=True), torch.cat(scores).numpy(force=True)


def lay_out(module: nn.Module) -> None:
    """Let the convolutions' weights lie with their channels last."""
    for parameter in module.parameters():
        if parameter.dim() == 4:
            # Not by `contiguous`, to which a single channel lies last already, so that it changes no strides.
            last = parameter.data.permute(0, 2, 3, 1)
            parameter.data = last.new_empty(last.shape).copy_(last).permute(0, 3, 1, 2)


def laid_out(features: Tensor) -> Tensor:
    """The same pictures, `float32[n, c, h, w]`, with their channels last in memory; anything else as it is."""
    return features.contiguous(memory_format=torch.channels_last) if features.dim() == 4 else features


def _scores(task: Task, outputs: Tensor, labels: Tensor) -> Tensor:
    if task == "classification":
        return outputs.argmax(dim=1) == labels
    return (outputs.squeeze(-1) - labels).abs()
