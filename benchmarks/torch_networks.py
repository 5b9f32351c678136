"""The networks of the jobs in torch, for every contender that trains with it."""

from __future__ import annotations

from torch import nn

from benchmarks.networks import NETWORKS, Convolution, Network


def build(network: Network) -> nn.Sequential:
    """Fresh weights, features as pictures."""
    parts: list[nn.Module] = []
    flat = False
    for layer in network.layers:
        if isinstance(layer, Convolution):
            convolution = nn.Conv2d(layer.inputs, layer.outputs, layer.kernel, padding=layer.padding)
            parts += [convolution, nn.ReLU(), nn.MaxPool2d(2)]
        else:
            parts += [nn.ReLU() if flat else nn.Flatten(), nn.Linear(layer.inputs, layer.outputs)]
            flat = True
    return nn.Sequential(*parts)


def mlp() -> nn.Module:
    """As a configuration of Onlooker names it, `model.name = "benchmarks.torch_networks:mlp"`."""
    return build(NETWORKS["mlp"])


def cnn() -> nn.Module:
    """The small CNN."""
    return build(NETWORKS["cnn"])


def cifar() -> nn.Module:
    """The CIFAR CNN."""
    return build(NETWORKS["cifar"])


def logistic() -> nn.Module:
    """Logistic regression."""
    return build(NETWORKS["logistic"])
