"""The adapter between a module and a vector, and the networks that come with it."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.func import functional_call, grad

from onlooker.data import DataSettings, load
from onlooker.errors import ModelError, TermsError
from onlooker.models import NAMES, Model, build, evaluate
from onlooker.privacy.random import Seeded
from onlooker.types import Examples

MNIST, CIFAR10, DIGITS = (1, 28, 28), (3, 32, 32), (1, 8, 8)


@pytest.fixture
def mlp() -> Model:
    return build("mlp", DIGITS, 10, "classification")


@pytest.mark.parametrize(
    ("name", "shape", "outputs", "size"),
    [
        ("logistic", MNIST, 10, 7_850),
        ("linear", (19,), 1, 20),
        ("mlp", MNIST, 10, 50_890),
        ("cnn-ms-pafl", MNIST, 10, 20_522),
        ("cnn-dp-sgd", CIFAR10, 10, 586_250),
        ("cnn-feddecouple", CIFAR10, 10, 2_474_506),
    ],
)
def test_sizes_are_those_of_the_papers_layers(name: str, shape: tuple[int, ...], outputs: int, size: int) -> None:
    model = build(name, shape, outputs, "regression" if outputs == 1 else "classification")
    assert model.size == size
    assert model.layout[-1].offset + model.layout[-1].size == size
    assert model.layout[-2].name == "head.weight"


@pytest.mark.parametrize("name", ["logistic", "mlp", "cnn-dp-sgd", "cnn-feddecouple"])
def test_networks_take_the_smallest_pictures(name: str) -> None:
    model = build(name, DIGITS, 10, "classification")
    assert model.module(torch.zeros(3, *DIGITS)).shape == (3, 10)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("cnn-ms-pafl", DIGITS),
        ("cnn-ms-pafl", (1, 15, 28)),
        ("cnn-dp-sgd", (3, 7, 9)),
        ("cnn-feddecouple", (14,)),
    ],
)
def test_pictures_that_a_network_cannot_take_are_refused_by_name_and_shape(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError) as refusal:
        build(name, shape, 10, "classification")
    assert f'model.name = "{name}"' in str(refusal.value) and str(shape) in str(refusal.value)
    assert "choose mlp" in str(refusal.value)


def test_the_smallest_picture_of_ms_pafl_is_really_taken() -> None:
    assert build("cnn-ms-pafl", (1, 16, 16), 10, "classification").module(torch.zeros(1, 1, 16, 16)).shape == (1, 10)


def test_symbols_and_numbers_are_not_mixed_up() -> None:
    assert build("character-mlp", (80,), 65, "classification", symbols=65).size == 65 * 8 + 641 * 128 + 129 * 65
    with pytest.raises(ModelError, match="choose character-mlp"):
        build("mlp", (80,), 65, "classification", symbols=65)
    with pytest.raises(ModelError, match="choose one of logistic"):
        build("character-mlp", (80,), 65, "classification")


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TermsError, match='model.name = "mpl" is not known.*mlp'):
        build("mpl", DIGITS, 10, "classification")


@pytest.mark.parametrize("name", NAMES)
def test_a_vector_survives_the_module(name: str) -> None:
    symbols = 65 * (name == "character-mlp")
    model = build(name, (80,) if symbols else MNIST, 65 if symbols else 10, "classification", symbols)
    vector = np.random.default_rng(1).normal(size=model.size).astype(np.float32)
    module = model.fresh(vector)
    assert model.flatten(module).tobytes() == vector.tobytes()
    for parameter in model.layout:
        piece = vector[parameter.offset : parameter.offset + parameter.size].reshape(parameter.shape)
        assert np.array_equal(dict(module.named_parameters())[parameter.name].detach().numpy(), piece)


def test_a_functional_call_agrees_with_the_module_and_passes_gradients(mlp: Model) -> None:
    vector = torch.tensor(mlp.initial(3))
    features, labels = torch.rand(5, *DIGITS), torch.arange(5)

    def loss(flat: torch.Tensor) -> torch.Tensor:
        return mlp.losses(functional_call(mlp.module, mlp.split(flat), (features,)), labels).sum()

    module = mlp.fresh(vector.numpy())
    mlp.losses(module(features), labels).sum().backward()
    expected = torch.cat([parameter.grad.reshape(-1) for parameter in module.parameters()])  # type: ignore[union-attr]
    assert torch.allclose(grad(loss)(vector), expected, atol=1e-6)


def test_initial_weights_depend_on_the_seed_alone(mlp: Model) -> None:
    torch.manual_seed(1)
    first = mlp.initial(5)
    torch.manual_seed(2)
    torch.rand(10)
    assert mlp.initial(5).tobytes() == first.tobytes()
    assert build("mlp", DIGITS, 10, "classification").initial(5).tobytes() == first.tobytes()
    assert mlp.initial(6).tobytes() != first.tobytes()
    assert mlp.initial(2**63 - 1).tobytes() != first.tobytes()


def test_nothing_here_touches_the_global_generator() -> None:
    torch.manual_seed(11)
    expected = torch.rand(4)
    torch.manual_seed(11)
    model = build("cnn-feddecouple", MNIST, 10, "classification")
    vector = model.initial(3)
    model.fresh(vector)
    evaluate(model, vector, Examples(np.zeros((2, *MNIST), dtype=np.float32), np.zeros(2, dtype=np.int64)))
    assert torch.equal(torch.rand(4), expected)


def test_copies_share_nothing_with_the_template_or_with_each_other(mlp: Model) -> None:
    vector = mlp.initial(0)
    one, other = mlp.fresh(vector), mlp.fresh(vector)
    with torch.no_grad():
        for parameter in one.parameters():
            parameter.zero_()
    assert mlp.flatten(other).tobytes() == vector.tobytes()
    assert mlp.flatten(mlp.fresh(vector)).tobytes() == vector.tobytes()
    template = mlp.flatten(mlp.module)
    vector[:] = 7
    assert mlp.flatten(other).tobytes() != vector.tobytes()
    assert mlp.flatten(mlp.module).tobytes() == template.tobytes()


def test_a_read_only_vector_is_as_good(mlp: Model) -> None:
    vector = mlp.initial(0)
    vector.flags.writeable = False
    assert mlp.flatten(mlp.fresh(vector)).tobytes() == vector.tobytes()
    assert set(mlp.split(vector)) == {parameter.name for parameter in mlp.layout}


def test_a_vector_of_another_model_is_refused(mlp: Model) -> None:
    with pytest.raises(ModelError, match=f"has {mlp.size}"):
        mlp.fresh(np.zeros(3, dtype=np.float32))


def test_a_model_travels_to_another_process(mlp: Model) -> None:
    arrived = pickle.loads(pickle.dumps(mlp))
    assert arrived.layout == mlp.layout
    assert arrived.initial(4).tobytes() == mlp.initial(4).tobytes()


def test_losses_are_cross_entropy_in_nats_or_squared_error() -> None:
    classifier = build("logistic", (2,), 3, "classification")
    outputs = torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    expected = [np.log(3), np.log(np.e + 2) - 1]
    assert classifier.losses(outputs, torch.tensor([2, 0])).tolist() == pytest.approx(expected)
    line = build("linear", (2,), 1, "regression")
    assert line.losses(torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 2.5])).tolist() == [4.0, 0.25]


def test_evaluation_of_a_known_line() -> None:
    model = build("linear", (1,), 1, "regression")
    vector = np.array([2.0, 1.0], dtype=np.float32)  # y = 2 x + 1
    examples = Examples(np.array([[0.0], [1.0], [2.0]], dtype=np.float32), np.array([1, 2, 7], dtype=np.float32))
    for batch_size in (1, 2, 3):
        found = evaluate(model, vector, examples, batch_size)
        assert found == pytest.approx({"loss": (0 + 1 + 4) / 3, "mean-absolute-error": (0 + 1 + 2) / 3})


def test_evaluation_of_a_known_classifier() -> None:
    model = build("logistic", (2,), 2, "classification")
    vector = np.array([1, 0, 0, 1, 0, 0], dtype=np.float32)  # the scores are the features
    examples = Examples(np.array([[3, 0], [0, 3], [3, 0]], dtype=np.float32), np.array([0, 1, 1]))
    right, wrong = np.log1p(np.exp(-3)), np.log1p(np.exp(3))
    for batch_size in (1, 2, 3):
        found = evaluate(model, vector, examples, batch_size)
        assert found == pytest.approx({"loss": (2 * right + wrong) / 3, "accuracy": 2 / 3})


def trained(model: Model, examples: Examples, steps: int, rate: float = 0.003) -> np.ndarray:
    """The weights after some steps of Adam on batches of 64."""
    module = model.fresh(model.initial(0))
    optimizer = torch.optim.Adam(module.parameters(), lr=rate)
    generator = np.random.default_rng(0)
    for _ in range(steps):
        batch = examples.take(generator.integers(len(examples), size=64))
        optimizer.zero_grad()
        outputs = module(torch.from_numpy(batch.features))
        model.losses(outputs, torch.from_numpy(batch.labels)).mean().backward()
        optimizer.step()
    return model.flatten(module)


def joined(*parts: Examples) -> Examples:
    return Examples(np.concatenate([p.features for p in parts]), np.concatenate([p.labels for p in parts]))


@pytest.mark.parametrize(("name", "least"), [("logistic", 0.93), ("mlp", 0.94), ("cnn-dp-sgd", 0.96)])
def test_networks_learn_digits(name: str, least: float) -> None:
    federation = load(DataSettings("digits", None, 4), Seeded(1))
    model = build(name, DIGITS, 10, "classification")
    start = evaluate(model, model.initial(0), federation.test)
    assert start["accuracy"] < 0.4
    steps = 300 if name.startswith("cnn") else 500
    found = evaluate(model, trained(model, joined(*federation.clients), steps), federation.test)
    assert found["accuracy"] > least
    assert found["loss"] < start["loss"] / 5


@pytest.mark.parametrize(
    ("data", "clients", "share"),
    [("adult", 10, 0.7), ("heart-disease", 4, 0.7), ("tcga-brca", 6, 0.85), ("parkinsons", 42, 0.95)],
)
def test_a_linear_model_learns_from_tables(data: str, clients: int, share: float, shared: Path) -> None:
    """Its loss is a fraction of that of the constant which is best on the very test rows."""
    federation = load(DataSettings(data, shared / "data", clients), Seeded(1))
    description, test = federation.description, federation.test
    model = build("logistic", description.shape, description.outputs, description.task)
    found = evaluate(model, trained(model, joined(*federation.clients), 1000), test)
    if description.task == "regression":
        best_constant = float(test.labels.var())
    else:
        frequencies = np.bincount(test.labels) / len(test)
        best_constant = float(-(frequencies * np.log(frequencies)).sum())
    assert found["loss"] < share * best_constant


def test_the_character_model_learns_shakespeare(shared: Path) -> None:
    federation = load(DataSettings("shakespeare", shared / "data", 100), Seeded(1))
    description = federation.description
    model = build("character-mlp", description.shape, 65, "classification", description.symbols)
    rows = joined(*federation.clients[:20])
    found = evaluate(model, trained(model, rows, 400), federation.test)
    space = float(np.mean(federation.test.labels == 1))  # what always saying " " would give
    assert found["accuracy"] > space + 0.02
    assert found["loss"] < np.log(65) - 1
