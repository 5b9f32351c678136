"""The networks of the jobs, as facts: every framework builds them from here, and their arithmetic is counted here."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Convolution:
    """A square convolution of stride 1 over a square picture, then ReLU and 2 x 2 maximum.

    Attributes:
        inputs: channels that come in.
        outputs: channels that go out.
        kernel: the side of the kernel.
        padding: rows of zeros on each side.
        side: the side of the picture that comes in.
    """

    inputs: int
    outputs: int
    kernel: int
    padding: int
    side: int

    @property
    def convolved(self) -> int:
        """The side of the picture before the maximum is taken."""
        return self.side + 2 * self.padding - self.kernel + 1

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return self.outputs * (self.inputs * self.kernel**2 + 1)

    @property
    def operations(self) -> int:
        """Multiplications and additions of one record's forward pass, a bias aside."""
        return 2 * self.outputs * self.convolved**2 * self.inputs * self.kernel**2


@dataclass(frozen=True)
class Dense:
    """A linear layer with a bias; ReLU follows all but the last."""

    inputs: int
    outputs: int

    @property
    def parameters(self) -> int:
        """Weights and biases."""
        return self.outputs * (self.inputs + 1)

    @property
    def operations(self) -> int:
        """Multiplications and additions of one record's forward pass, a bias aside."""
        return 2 * self.inputs * self.outputs


Layer = Convolution | Dense


@dataclass(frozen=True)
class Network:
    """A chain of layers that ends in the scores of ten classes.

    Attributes:
        name: how the command line calls it.
        title: how the tables call it.
        shape: of one record's features.
        layers: convolutions first.
        main: the place of the layer where most of the time goes.
    """

    name: str
    title: str
    shape: tuple[int, ...]
    layers: tuple[Layer, ...]
    main: int = 0

    @property
    def features(self) -> int:
        """Numbers in one record."""
        return math.prod(self.shape)

    @property
    def parameters(self) -> int:
        """Numbers that a client sends."""
        return sum(layer.parameters for layer in self.layers)

    def operations(self, batch: int) -> int:
        """Multiplications and additions of one step of descent.

        A layer's backward pass costs its forward pass twice, for the gradient of its weights and that of its input; the
        first layer needs no gradient of its input.
        """
        return batch * (3 * sum(layer.operations for layer in self.layers) - self.layers[0].operations)


CLASSES = 10
MLP = Network("mlp", "MLP 784-64-10", (1, 28, 28), (Dense(784, 64), Dense(64, CLASSES)))
CNN = Network(
    "cnn",
    "small CNN",
    (1, 28, 28),
    (Convolution(1, 8, 5, 0, 28), Convolution(8, 16, 5, 0, 12), Dense(256, 64), Dense(64, CLASSES)),
    main=1,
)
CIFAR = Network(
    "cifar",
    "CIFAR CNN",
    (3, 32, 32),
    (
        Convolution(3, 32, 3, 1, 32),
        Convolution(32, 64, 3, 1, 16),
        Convolution(64, 64, 3, 1, 8),
        Dense(1024, 512),
        Dense(512, CLASSES),
    ),
    main=1,
)
LOGISTIC = Network("logistic", "logistic regression", (1, 28, 28), (Dense(784, CLASSES),))
NETWORKS = {network.name: network for network in (MLP, CNN, CIFAR, LOGISTIC)}
