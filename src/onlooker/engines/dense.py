"""Networks of linear layers by hand, without autograd: a step allocates nothing, and a gradient goes where it acts.

A layer's gradient is the product of what came back and what went in, so that a step adds it to the weights in one
product, and gradients of single records are clipped without being formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor, nn

from onlooker.methods.clipping import Factored, add_clipped
from onlooker.methods.descent import LocalDescent
from onlooker.methods.trainer import Ask, ClippedSum, Descend, Trainer
from onlooker.models import Model
from onlooker.privacy.random import Stream
from onlooker.types import Examples, Row, Vector

_ROWS_AT_ONCE = 256  # of records that are clipped one by one
_THRESHOLD = torch.ops.aten.threshold_backward.grad_input  # looked up once, for looking takes as long as the work
_TANH = torch.ops.aten.tanh_backward.grad_input


def _unrectify(back: Tensor, activated: Tensor) -> None:
    _THRESHOLD(back, activated, 0, grad_input=back)


def _unsquash(back: Tensor, activated: Tensor) -> None:
    _TANH(back, activated, grad_input=back)


@dataclass(frozen=True)
class _Activation:
    """A function of each number alone, in place; and, in place of what comes back, its product with the derivative."""

    forward: Callable[[Tensor], Tensor]
    backward: Callable[[Tensor, Tensor], None]


_ACTIVATIONS: dict[type[nn.Module], _Activation] = {
    nn.ReLU: _Activation(torch.relu_, _unrectify),
    nn.Tanh: _Activation(torch.tanh_, _unsquash),
}


@dataclass(frozen=True)
class _Layer:
    """Where a linear layer lies in the flat weights, and what follows it.

    Attributes:
        weight: the place of its weights, `float32[outputs, inputs]`.
        bias: the place of its bias, or None.
        activation: None after the last layer.
    """

    weight: int
    bias: int | None
    inputs: int
    outputs: int
    activation: _Activation | None

    def views(self, flat: Tensor) -> tuple[Tensor, Tensor | None]:
        """Weights and bias as views of a flat vector."""
        weight = flat[self.weight : self.weight + self.inputs * self.outputs].view(self.outputs, self.inputs)
        return weight, None if self.bias is None else flat[self.bias : self.bias + self.outputs]


def is_dense(model: Model) -> bool:
    """True if `Dense` can train a model: linear layers in a row, all of it trainable, with ReLU or tanh between."""
    return bool(_layers(model))


class Dense:
    """Local training on networks of linear layers.

    Guarantee: a clipped sum is that of `clipping.add_clipped`, over outer products of 32-bit numbers.

    Args:
        model: what is trained; `is_dense` of it.
        other: who computes what is not done here.
    """

    def __init__(self, model: Model, other: Trainer) -> None:
        self._model = model
        self._other = other
        self._layers = _layers(model)

    @property
    def at_once(self) -> int:
        """One client at a time."""
        return 1

    def answer(self, asks: Sequence[Ask]) -> list[Row]:
        """Local training and sums over records here, the rest by `other`."""
        return [self._one(ask) for ask in asks]

    def _one(self, ask: Ask) -> Row:
        match ask:
            case Descend():
                return self._descend(ask.descent, ask.received, ask.examples, ask.stream)
            case ClippedSum():
                return self._clipped_sum(ask.parameters, ask.examples, ask.clip)
            case _:
                return self._other.answer([ask])[0]

    def _descend(self, descent: LocalDescent, received: Vector, examples: Examples, stream: Stream) -> Row:
        """As `LocalDescent` does it."""
        bench = self._bench
        bench.weights.copy_(torch.from_numpy(received))
        plain = descent.optimizer == "sgd" and not descent.momentum and not descent.weight_decay
        optimizer = None if plain else descent.fresh_optimizer([bench.parameter])
        features, targets = torch.from_numpy(examples.features).flatten(1), self._targets(examples)
        stream.seed()  # `LocalDescent` seeds layers that draw; there are none here
        for batch in descent.batches(len(examples), stream):
            chosen, room = torch.from_numpy(batch), bench.room(len(batch))
            torch.index_select(features, 0, chosen, out=room.inputs[0])
            torch.index_select(targets, 1, chosen, out=room.targets)
            self._forward(room)
            self._last_back(room)
            into, kept, scale = (bench.gradients, 0.0, 1 / len(batch))
            if optimizer is None:  # the step itself: weights - eta times the mean gradient
                into, kept, scale = bench.weight_views, 1.0, -descent.learning_rate / len(batch)
            for layer in self._backward(room):
                _accumulate(into[layer], room, layer, kept, scale)
            if optimizer is not None:
                optimizer.step()
        return bench.weights.numpy().astype(np.float64) - received

    def _clipped_sum(self, parameters: Vector, examples: Examples, clip: float) -> Row:
        """The sum over records of their clipped gradients, `float64[d]`, of which none is formed."""
        bench = self._bench
        bench.weights.copy_(torch.from_numpy(parameters))
        total = torch.zeros(self._model.size, dtype=torch.float64)
        features, targets = torch.from_numpy(examples.features).flatten(1), self._targets(examples)
        for start in range(0, len(examples), _ROWS_AT_ONCE):
            rows = slice(start, min(start + _ROWS_AT_ONCE, len(examples)))
            room = bench.room(rows.stop - start)
            room.inputs[0].copy_(features[rows])
            room.targets.copy_(targets[:, rows])
            self._forward(room)
            self._last_back(room)
            parts = [
                Factored(layer.weight, layer.bias, room.backs[place].double(), room.inputs[place].double())
                for place, layer in ((place, self._layers[place]) for place in self._backward(room))
            ]
            add_clipped(total, parts, clip)
        return total.numpy()

    def _forward(self, room: _Room) -> None:
        """From the inputs of the first layer to the outputs of the last."""
        views = self._bench.weight_views
        for place, layer in enumerate(self._layers[:-1]):
            weight, bias = views[place]
            out = room.inputs[place + 1]
            if bias is None:
                torch.mm(room.inputs[place], weight.t(), out=out)
            else:
                torch.addmm(bias, room.inputs[place], weight.t(), out=out)
            assert layer.activation is not None
            layer.activation.forward(out)
        weight, bias = views[-1]
        if bias is None:
            torch.mm(weight, room.turned_inputs[-1], out=room.outputs)
        else:
            torch.addmm(bias[:, None], weight, room.turned_inputs[-1], out=room.outputs)

    def _last_back(self, room: _Room) -> None:
        """The derivative of each record's loss by the outputs, in their place."""
        if self._model.task == "classification":
            torch.softmax(room.outputs, 0, out=room.outputs).sub_(room.targets)
        else:
            room.outputs.sub_(room.targets).mul_(2)

    def _backward(self, room: _Room) -> Iterator[int]:
        """Each layer's number, the last first, once what came back to it is there; its weights may change then."""
        for place in range(len(self._layers) - 1, -1, -1):
            if place:
                back = torch.mm(room.backs[place], self._bench.weight_views[place][0], out=room.backs[place - 1])
                activation = self._layers[place - 1].activation
                assert activation is not None
                activation.backward(back, room.inputs[place])
            yield place

    def _targets(self, examples: Examples) -> Tensor:
        """`float32[outputs, n]`: what the outputs are compared with."""
        labels = torch.from_numpy(examples.labels)
        if self._model.task == "regression":
            return labels.unsqueeze(0)
        return self._bench.classes.index_select(1, labels)

    @cached_property
    def _bench(self) -> _Bench:
        return _Bench(self._model.size, self._layers)


class _Bench:
    """What a worker trains every client on, one after another.

    Attributes:
        parameter: the weights as an optimizer takes them, with `gradients` as their gradient.
        weights: the same memory, `float32[d]`.
        weight_views: each layer's weights and bias.
        gradients: the gradients of each layer's weights and bias.
        classes: `float32[outputs, outputs]`, each column what a record of that class should come to.
    """

    def __init__(self, size: int, layers: Sequence[_Layer]) -> None:
        self.parameter = nn.Parameter(torch.zeros(size))
        gradient = torch.zeros(size)
        self.parameter.grad = gradient
        self.weights = self.parameter.data
        self.weight_views = [layer.views(self.weights) for layer in layers]
        self.gradients = [layer.views(gradient) for layer in layers]
        self.classes = torch.eye(layers[-1].outputs)
        self._layers = layers
        self._rooms: dict[int, _Room] = {}

    def room(self, size: int) -> _Room:
        """Where a batch of this size is worked on."""
        if size not in self._rooms:
            self._rooms[size] = _Room(size, self._layers)
        return self._rooms[size]


class _Room:
    """All that lies between the records of a batch and the step, made once for each size.

    The outputs are few, and what is done to each record's is far faster with the records side by side.

    Attributes:
        inputs: what goes into each layer, `float32[size, inputs]`.
        turned_inputs: the same memory, `float32[inputs, size]`.
        outputs: of the last layer, and then what comes back to it, `float32[outputs, size]`.
        targets: what they are compared with, of the same shape.
        backs: what comes back to each layer, `float32[size, outputs]`.
        turned_backs: the same memory, `float32[outputs, size]`.
        ones: `float32[size]`.
    """

    def __init__(self, size: int, layers: Sequence[_Layer]) -> None:
        self.inputs = [torch.empty(size, layer.inputs) for layer in layers]
        self.turned_inputs = [one.t() for one in self.inputs]
        self.outputs = torch.empty(layers[-1].outputs, size)
        self.targets = torch.empty_like(self.outputs)
        self.backs = [*(torch.empty(size, layer.outputs) for layer in layers[:-1]), self.outputs.t()]
        self.turned_backs = [one.t() for one in self.backs]
        self.ones = torch.ones(size)


def _accumulate(into: tuple[Tensor, Tensor | None], room: _Room, layer: int, kept: float, scale: float) -> None:
    """kept times what is there plus scale times a layer's summed gradient."""
    weight, bias = into
    weight.addmm_(room.turned_backs[layer], room.inputs[layer], beta=kept, alpha=scale)
    if bias is not None:
        bias.addmv_(room.turned_backs[layer], room.ones, beta=kept, alpha=scale)


def _layers(model: Model) -> tuple[_Layer, ...]:
    """The layers of a network that `Dense` can train; empty of any other."""
    if type(model.module) is not nn.Sequential:
        return ()
    offsets = {one.name: one.offset for one in model.layout}
    found: list[_Layer] = []
    for name, module in model.module.named_children():
        if type(module) is nn.Linear:
            if found and found[-1].activation is None:
                return ()
            weight, bias = offsets.get(f"{name}.weight"), offsets.get(f"{name}.bias")
            if weight is None or (bias is None and "bias" in dict(module.named_parameters())):  # frozen, or tied
                return ()
            found.append(_Layer(weight, bias, module.in_features, module.out_features, None))
        elif type(module) in _ACTIVATIONS and found and found[-1].activation is None:
            last = found.pop()
            activation = _ACTIVATIONS[type(module)]
            found.append(_Layer(last.weight, last.bias, last.inputs, last.outputs, activation))
        elif type(module) is not nn.Flatten or found or module.start_dim != 1:
            return ()
    if not found or found[-1].activation is not None:
        return ()
    return tuple(found)
