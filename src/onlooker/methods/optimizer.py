"""The optimizers of `torch.optim`, by the functions that compute their steps.

Its classes import torch's compiler when they are made, which takes as long as torch itself, in every worker process.
The steps are the same, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd


class Optimizer(Protocol):
    """What moves parameters along their gradients."""

    def step(self) -> None:
        """Move every parameter that has a gradient, in place."""
        ...


class Descent:
    """`torch.optim.SGD`: gradient descent with momentum.

    Args:
        parameters: what is moved.
        learning_rate: eta.
        momentum: how much of the last step is kept.
        weight_decay: of the L2 penalty.
    """

    def __init__(
        self, parameters: Sequence[nn.Parameter], learning_rate: float, momentum: float, weight_decay: float
    ) -> None:
        self._parameters = parameters
        self._learning_rate = learning_rate
        self._momentum = momentum
        self._weight_decay = weight_decay
        self._velocities: dict[int, Tensor | None] = {}

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient, in place."""
        places, parameters, gradients = _moved(self._parameters)
        velocities = [self._velocities.get(place) for place in places]
        sgd(
            parameters,
            gradients,
            velocities,
            lr=self._learning_rate,
            momentum=self._momentum,
            weight_decay=self._weight_decay,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )
        self._velocities.update(zip(places, velocities, strict=True))


class Adam:
    """`torch.optim.Adam` with its own rates of decay, 0.9 and 0.999 (Kingma and Ba 2015).

    Args:
        parameters: what is moved.
        learning_rate: eta.
        weight_decay: of the L2 penalty.
    """

    def __init__(self, parameters: Sequence[nn.Parameter], learning_rate: float, weight_decay: float) -> None:
        self._parameters = parameters
        self._learning_rate = learning_rate
        self._weight_decay = weight_decay
        self._moments = [(torch.zeros_like(one), torch.zeros_like(one), torch.tensor(0.0)) for one in parameters]

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient, in place."""
        places, parameters, gradients = _moved(self._parameters)
        first, second, steps = ([self._moments[place][kind] for place in places] for kind in range(3))
        adam(
            parameters,
            gradients,
            first,
            second,
            [],
            steps,
            lr=self._learning_rate,
            weight_decay=self._weight_decay,
            beta1=0.9,
            beta2=0.999,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


def _moved(parameters: Sequence[nn.Parameter]) -> tuple[list[int], list[Tensor], list[Tensor]]:
    """The places, values and gradients of the parameters that have a gradient."""
    places, values, gradients = list[int](), list[Tensor](), list[Tensor]()
    for place, parameter in enumerate(parameters):
        if parameter.grad is not None:
            places.append(place)
            values.append(parameter)
            gradients.append(parameter.grad)
    return places, values, gradients
