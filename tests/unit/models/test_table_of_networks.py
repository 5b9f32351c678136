"""The table of networks in docs/models.md against the networks, and what dropout does to gradients by record."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from onlooker.methods.records import clipped_sum
from onlooker.models import NAMES, build, outline
from onlooker.privacy.random import Seeded
from onlooker.types import Examples

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "models.md"
CIFAR10, MNIST, DIGITS = (3, 32, 32), (1, 28, 28), (1, 8, 8)
CPU = torch.device("cpu")


def rows_of_the_table() -> dict[str, list[str]]:
    lines = [line for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].strip("`"): row[1:] for row in rows}


def test_the_table_says_what_is_built() -> None:
    table = rows_of_the_table()
    assert set(table) == set(NAMES) - {"linear", "character-mlp"}  # another name of logistic; no pictures
    for name, (_, _, cifar10, mnist) in table.items():
        assert build(name, CIFAR10, 10, "classification").size == int(cifar10.replace(",", ""))
        assert build(name, MNIST, 10, "classification").size == int(mnist.replace(",", ""))


@pytest.mark.parametrize("name", NAMES)
def test_an_outline_says_what_torch_registers(name: str) -> None:
    symbols, shapes = (65, [(80,)]) if name == "character-mlp" else (0, [CIFAR10, MNIST, (1, 16, 17)])
    for shape in shapes:
        module = build(name, shape, 7, "classification", symbols).module
        said = outline(name, shape, 7, "classification", symbols)
        assert [(one.name, one.shape) for one in said] == [
            (name, tuple(tensor.shape)) for name, tensor in module.named_parameters()
        ]
        assert [one.offset for one in said] == np.cumsum([0, *(one.size for one in said)])[:-1].tolist()


def test_what_is_printed_is_not_what_the_layers_come_to() -> None:
    """Of Table 8 not one count is within a tenth of the network that section 5.2 describes."""
    printed = {"cnn-dp-sgd": 1.2e6, "cnn-opacus": 7.2e6, "cnn-dp-ftrl": 0.55e6, "cnn-feddecouple": 6.5e6}
    table = rows_of_the_table()
    for name, count in printed.items():
        said = float(table[name][1].split()[0]) * 1e6
        assert said == pytest.approx(count)
        assert abs(build(name, CIFAR10, 10, "classification").size / count - 1) > 0.1


@pytest.mark.parametrize(
    ("name", "widths", "units"),
    [
        ("cnn-opacus", [64, 64, 128, 128, 256, 256], [512, 256, 10]),
        ("cnn-dp-ftrl", [32, 64, 128], [256, 10]),
        ("cnn-common", [16, 32, 64], [10]),
    ],
)
def test_layers_are_those_of_the_paper(name: str, widths: list[int], units: list[int]) -> None:
    layers = list(build(name, CIFAR10, 10, "classification").module.children())
    assert [layer.out_channels for layer in layers if isinstance(layer, nn.Conv2d)] == widths
    assert [layer.out_features for layer in layers if isinstance(layer, nn.Linear)] == units
    assert sum(isinstance(layer, nn.MaxPool2d) for layer in layers) == 3
    assert sum(isinstance(layer, nn.ReLU) for layer in layers) == len(widths) + len(units) - 1
    assert sum(isinstance(layer, nn.Dropout) for layer in layers) == 3 * (name == "cnn-opacus")
    assert not any("Norm" in type(layer).__name__ for layer in layers)


def test_each_record_draws_its_own_dropout_and_stays_within_the_clip() -> None:
    model = build("cnn-opacus", DIGITS, 10, "classification")
    start = model.initial(1)
    row = np.random.default_rng(1).random((1, *DIGITS), dtype=np.float32)
    twice = Examples(np.concatenate([row, row]), np.array([3, 3]))
    one = twice.take(np.array([0]))

    def found(examples: Examples, seed: int) -> np.ndarray:
        return clipped_sum(model, start, examples, 1e-3, Seeded(seed).stream("x"), CPU)

    assert np.linalg.norm(found(one, 1)) <= 1e-3
    assert np.array_equal(found(twice, 1), found(twice, 1))
    assert not np.allclose(found(one, 1), found(one, 2), atol=1e-6)  # dropout is on
    # Were one mask drawn for both, the two gradients would be equal and their sum as long as can be.
    assert np.linalg.norm(found(twice, 1)) < 0.999 * 2e-3


@pytest.mark.parametrize("name", ["cnn-opacus", "cnn-dp-ftrl", "cnn-common"])
def test_networks_take_the_smallest_pictures(name: str) -> None:
    assert build(name, DIGITS, 10, "classification").module(torch.zeros(3, *DIGITS)).shape == (3, 10)
