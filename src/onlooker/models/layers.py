"""Networks as lists of layers: what they hold can be said, and priced, without torch, which takes long to import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np


@dataclass(frozen=True)
class Parameter:
    """Where one trainable tensor lies in the flat vector: from `offset`, in row-major order.

    Attributes:
        name: its name in the module, such as "head.weight".
        shape: its shape.
        offset: its first place in the vector.
    """

    name: str
    shape: tuple[int, ...]
    offset: int

    @property
    def size(self) -> int:
        """How many places it takes."""
        return int(np.prod(self.shape, dtype=np.int64))


@dataclass(frozen=True)
class Layer:
    """One layer of a network.

    Attributes:
        name: its name in the network.
        kind: its class in `torch.nn`.
        arguments: what the class is called with, in order.
    """

    name: str
    kind: str
    arguments: tuple[float, ...] = ()

    def tensors(self) -> Mapping[str, tuple[float, ...]]:
        """The shapes of its trainable tensors by name, in the order in which torch registers them.

        >>> dict(Layer("conv", "Conv2d", (3, 8, 5)).tensors())
        {'weight': (8, 3, 5, 5), 'bias': (8,)}
        """
        match self.kind, self.arguments:
            case "Linear", (inputs, outputs):
                return {"weight": (outputs, inputs), "bias": (outputs,)}
            case "Conv2d", (channels, filters, side, *_):
                return {"weight": (filters, channels, side, side), "bias": (filters,)}
            case "GroupNorm", (_, channels):
                return {"weight": (channels,), "bias": (channels,)}
            case "Embedding", (symbols, width):
                return {"weight": (symbols, width)}
            case _:
                return {}


Network: TypeAlias = tuple[Layer, ...]
"""Layers one after another, no two of one name."""


def layout_of_network(network: Network) -> tuple[Parameter, ...]:
    """The trainable parameters in the order of the layers.

    >>> [(one.name, one.offset) for one in layout_of_network((Layer("head", "Linear", (64, 10)),))]
    [('head.weight', 0), ('head.bias', 640)]
    """
    found: list[Parameter] = []
    offset = 0
    for layer in network:
        for name, shape in layer.tensors().items():
            found.append(Parameter(f"{layer.name}.{name}", tuple(int(side) for side in shape), offset))
            offset += found[-1].size
    return tuple(found)
