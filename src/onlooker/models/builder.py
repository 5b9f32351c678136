"""From `model.name` to a `Model`."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, cast

from torch import nn

from onlooker._entry import called, resolved
from onlooker.errors import ModelError
from onlooker.models.architectures import network_of
from onlooker.models.layers import Layer, Network
from onlooker.models.model import Model, built, layout_of
from onlooker.models.scrutiny import (
    require_plain_tensors,
    require_pure_forward,
    require_repeatable_weights,
    takes_channels_last,
)
from onlooker.types import Task

_Shape = tuple[int, ...]


def build(name: str, shape: _Shape, outputs: int, task: Task, symbols: int = 0) -> Model:
    """The model that a configuration names, checked.

    Args:
        name: one of `NAMES`, or "package.module:factory". A factory is called with the keywords `shape` and
            `outputs` if it has parameters of both names, else with nothing, and returns an `nn.Module` with
            fresh weights.
        shape: the shape of one row's features.
        outputs: the number of classes, or 1 for regression.
        task: "classification" or "regression".
        symbols: how many distinct symbols the features are drawn from; 0 where they are numbers.

    Raises:
        TermsError: if the name is not known.
        ModelError: if the model does not fit the features, or cannot be trained under privacy; with the
            remedy.
    """
    factory = _factory(name, shape, outputs, symbols)
    module = built(factory, seed=0).train()
    require_plain_tensors(module, name)
    layout = layout_of(module)
    model = Model(module, layout, sum(parameter.size for parameter in layout), task, factory)
    require_repeatable_weights(model, name)
    require_pure_forward(model, name, shape, outputs, symbols)
    return replace(model, channels_last=takes_channels_last(model, shape))


def _factory(name: str, shape: _Shape, outputs: int, symbols: int) -> Callable[[], nn.Module]:
    # Partials of functions at the top of a module, because they travel to other processes.
    if ":" in name:
        return partial(_custom, name, shape, outputs)
    return partial(_sequential, network_of(name, shape, outputs, symbols))


def _sequential(network: Network) -> nn.Module:
    return nn.Sequential(OrderedDict((layer.name, _made(layer)) for layer in network))


def _made(layer: Layer) -> nn.Module:
    return cast(nn.Module, getattr(nn, layer.kind)(*layer.arguments))


def _custom(name: str, shape: _Shape, outputs: int) -> nn.Module:
    factory = resolved(name, "model.name", ModelError)
    expected = {"shape": shape, "outputs": outputs}
    arguments = expected if expected.keys() <= _parameters(factory) else {}
    module = called(lambda: factory(**arguments), f'model.name = "{name}"', ModelError)
    if not isinstance(module, nn.Module):
        raise ModelError(f'model.name = "{name}" returned {type(module).__name__}; return a torch.nn.Module.')
    return module


def _parameters(factory: Any) -> set[str]:
    try:
        return set(inspect.signature(factory).parameters)
    except ValueError:  # some classes written in C have no signature
        return set()
