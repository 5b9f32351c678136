"""The networks that come with Onlooker, in plain layers, and without statistics that a batch shares.

Every last layer is called "head", so that it can be named when a model is split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onlooker._check import one_of
from onlooker.errors import ModelError
from onlooker.models.layers import Layer, Network

Shape = tuple[int, ...]
Architecture = Callable[[Shape, int], Network]
"""From the shape of one row's features and the number of outputs to a network."""

_HIDDEN = 64
_NORMALISED_GROUPS = 32
_EMBEDDING = 8
_CHARACTER_HIDDEN = 128


def _features(shape: Shape) -> int:
    product = 1
    for size in shape:
        product *= size
    return product


def logistic(shape: Shape, outputs: int) -> Network:
    """Logistic regression over the flattened features; linear regression, where the loss is squared."""
    return (Layer("flatten", "Flatten"), Layer("head", "Linear", (_features(shape), outputs)))


def mlp(shape: Shape, outputs: int) -> Network:
    """One hidden layer of 64 units with ReLU over the flattened features."""
    return (
        Layer("flatten", "Flatten"),
        Layer("hidden", "Linear", (_features(shape), _HIDDEN)),
        Layer("relu", "ReLU"),
        Layer("head", "Linear", (_HIDDEN, outputs)),
    )


def cnn_ms_pafl(shape: Shape, outputs: int) -> Network:
    """MS-PAFL's small network (section V-E): 5 x 5 convolutions with 8 and 16 filters, 64 hidden units.

    The paper says neither the padding nor the pooling: here none (VALID) and 2 x 2.

    Raises:
        ModelError: on pictures of fewer than 16 x 16 pixels, of which nothing would be left.
    """
    channels, height, width = _picture(shape, "cnn-ms-pafl", smallest=16)
    rows, columns = (((size - 4) // 2 - 4) // 2 for size in (height, width))
    return (
        Layer("conv1", "Conv2d", (channels, 8, 5)),
        Layer("relu1", "ReLU"),
        Layer("pool1", "MaxPool2d", (2,)),
        Layer("conv2", "Conv2d", (8, 16, 5)),
        Layer("relu2", "ReLU"),
        Layer("pool2", "MaxPool2d", (2,)),
        Layer("flatten", "Flatten"),
        Layer("hidden", "Linear", (16 * rows * columns, _HIDDEN)),
        Layer("relu", "ReLU"),
        Layer("head", "Linear", (_HIDDEN, outputs)),
    )


def cnn_feddecouple(shape: Shape, outputs: int) -> Network:
    """FedDecouple's network (section 5.2): 3 x 3 blocks of 64, 128, 256 channels, GroupNorm, 512 units.

    On CIFAR-10 that makes 2.47 million parameters, not the 6.5 million that the paper prints. It does not say
    how many groups: here 32, the default of Wu and He (2018), "Group normalization".

    Raises:
        ModelError: on pictures of fewer than 8 x 8 pixels.
    """
    picture = _picture(shape, "cnn-feddecouple", smallest=8)
    return _three_blocks(picture, (64, 128, 256), (512,), outputs, normalised=True)


def cnn_dp_sgd(shape: Shape, outputs: int) -> Network:
    """FedDecouple's network for DP-SGD and FedAvg (section 5.2): 3 x 3, 32, 64, 64 filters, 512 units.

    Raises:
        ModelError: on pictures of fewer than 8 x 8 pixels.
    """
    return _three_blocks(_picture(shape, "cnn-dp-sgd", smallest=8), (32, 64, 64), (512,), outputs)


def cnn_opacus(shape: Shape, outputs: int) -> Network:
    """FedDecouple's network for Opacus (section 5.2): three blocks of two 3 x 3 convolutions, dropout, 512, 256 units.

    Blocks have 64, 128 and 256 channels. The paper says neither where in a block ReLU stands nor how much is dropped:
    here after each convolution, and a quarter after each block. Each row draws what it drops by itself, so dropout
    mixes no records.

    Raises:
        ModelError: on pictures of fewer than 8 x 8 pixels.
    """
    picture = _picture(shape, "cnn-opacus", smallest=8)
    return _three_blocks(picture, (64, 128, 256), (512, 256), outputs, convolutions=2, dropped=0.25)


def cnn_dp_ftrl(shape: Shape, outputs: int) -> Network:
    """FedDecouple's network for DP-FTRL (section 5.2): 3 x 3, 32, 64, 128 filters, 256 units.

    Raises:
        ModelError: on pictures of fewer than 8 x 8 pixels.
    """
    return _three_blocks(_picture(shape, "cnn-dp-ftrl", smallest=8), (32, 64, 128), (256,), outputs)


def cnn_common(shape: Shape, outputs: int) -> Network:
    """One network for all methods, for the controlled comparison that FedDecouple leaves open (section 7.2).

    3 x 3, 16, 32, 64 filters, and the classes straight from them: the shape of `cnn-dp-sgd` and `cnn-dp-ftrl`, without
    the layer of hidden units that holds most of theirs. Small, because noise grows with the square root of the
    number of parameters, and a round must fit a CPU. Without GroupNorm, which the paper gives to its own method alone,
    and without dropout, because how many groups and how much is dropped would be choices that favour some method.

    Raises:
        ModelError: on pictures of fewer than 8 x 8 pixels.
    """
    return _three_blocks(_picture(shape, "cnn-common", smallest=8), (16, 32, 64), (), outputs)


def _three_blocks(
    shape: tuple[int, int, int],
    widths: tuple[int, int, int],
    hidden: tuple[int, ...],
    outputs: int,
    *,
    convolutions: int = 1,
    normalised: bool = False,
    dropped: float = 0.0,
) -> Network:
    """Three blocks of convolutions that halve the picture, layers of hidden units, and the classes."""
    channels, height, width = shape
    layers: list[Layer] = []
    for block, filters in enumerate(widths, start=1):
        for letter in "ab"[:convolutions]:
            name = f"{block}{letter}" if convolutions > 1 else f"{block}"
            layers.append(Layer(f"conv{name}", "Conv2d", (channels, filters, 3, 1, 1)))
            if normalised:
                layers.append(Layer(f"norm{name}", "GroupNorm", (_NORMALISED_GROUPS, filters)))
            layers.append(Layer(f"relu{name}", "ReLU"))
            channels = filters
        layers.append(Layer(f"pool{block}", "MaxPool2d", (2,)))
        if dropped:
            layers.append(Layer(f"dropout{block}", "Dropout", (dropped,)))
    layers.append(Layer("flatten", "Flatten"))
    size = channels * (height // 8) * (width // 8)
    for number, units in enumerate(hidden, start=1):
        name = f"{number}" if len(hidden) > 1 else ""
        layers += [Layer(f"hidden{name}", "Linear", (size, units)), Layer(f"hidden{name}-relu", "ReLU")]
        size = units
    return (*layers, Layer("head", "Linear", (size, outputs)))


def _picture(shape: Shape, name: str, smallest: int) -> tuple[int, int, int]:
    if len(shape) != 3 or min(shape[1:]) < smallest:
        raise ModelError(
            f'model.name = "{name}" needs pictures of (channels, height, width) of at least '
            f"{smallest} x {smallest} pixels, not features of shape {shape}; choose mlp or logistic."
        )
    channels, height, width = shape
    return channels, height, width


def character_mlp(shape: Shape, outputs: int, symbols: int) -> Network:
    """The next symbol from the last ones: embeddings of 8, joined, and 128 hidden units with ReLU.

    Reference: Bengio et al. (2003), "A neural probabilistic language model".
    """
    return (
        Layer("embedding", "Embedding", (symbols, _EMBEDDING)),
        Layer("flatten", "Flatten"),
        Layer("hidden", "Linear", (_features(shape) * _EMBEDDING, _CHARACTER_HIDDEN)),
        Layer("relu", "ReLU"),
        Layer("head", "Linear", (_CHARACTER_HIDDEN, outputs)),
    )


ARCHITECTURES: Mapping[str, Architecture] = {
    "logistic": logistic,
    "linear": logistic,
    "mlp": mlp,
    "cnn-ms-pafl": cnn_ms_pafl,
    "cnn-feddecouple": cnn_feddecouple,
    "cnn-dp-sgd": cnn_dp_sgd,
    "cnn-opacus": cnn_opacus,
    "cnn-dp-ftrl": cnn_dp_ftrl,
    "cnn-common": cnn_common,
}
"""Networks whose features are numbers, by the name that a configuration gives them."""

_CHARACTER_MLP = "character-mlp"
NAMES = (*ARCHITECTURES, _CHARACTER_MLP)
"""The networks that come with Onlooker."""


def network_of(name: str, shape: Shape, outputs: int, symbols: int) -> Network:
    """The network called `name`, for features that are numbers (`symbols` = 0) or one of so many symbols.

    Raises:
        TermsError: if the name is not known.
        ModelError: if the network cannot read such features.
    """
    one_of(NAMES, **{"model.name": name})
    if name == _CHARACTER_MLP:
        if not symbols:
            raise _unreadable(name, "numbers", f"choose one of {', '.join(ARCHITECTURES)}")
        return character_mlp(shape, outputs, symbols)
    if symbols:
        raise _unreadable(name, "symbols", f"choose {_CHARACTER_MLP}")
    return ARCHITECTURES[name](shape, outputs)


def _unreadable(name: str, kind: str, remedy: str) -> ModelError:
    return ModelError(f'model.name = "{name}" cannot read features that are {kind}; {remedy}.')
