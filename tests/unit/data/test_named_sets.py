"""The sets that have a reader, on their real files; sizes and counts are those that their authors publish."""

from __future__ import annotations

import gzip
import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from onlooker.data import DataSettings, Federation, describe, images, load
from onlooker.errors import DataError, OnlookerError
from onlooker.privacy.random import Seeded, System
from onlooker.types import Examples

FASHION = Path("/usr/share/datasets/fashion-mnist")
SOURCE = Seeded(7)


def read(shared: Path, name: str, clients: int, partition: str = "iid", **more: object) -> Federation:
    settings = DataSettings(name, shared / "data", clients, partition)
    return load(replace(settings, **more), SOURCE)  # type: ignore[arg-type]


def counts(federation: Federation) -> list[int]:
    """How many training rows each class has, over all clients."""
    labels = np.concatenate([client.labels for client in federation.clients])
    return np.bincount(labels, minlength=federation.description.outputs).tolist()


def assert_sound(federation: Federation, rows: int, tests: int) -> None:
    description = federation.description
    assert sum(len(client) for client in federation.clients) == rows
    assert len(federation.test) == tests
    for examples in (*federation.clients, federation.test):
        assert examples.features.shape[1:] == description.shape
        assert examples.features.dtype == (np.int64 if description.symbols else np.float32)
        assert examples.labels.dtype == (np.float32 if description.task == "regression" else np.int64)
        assert examples.features.flags.c_contiguous and examples.features.flags.writeable
        if not description.symbols:
            assert np.abs(examples.features).max() <= 1
    assert description.uncharged == ()
    assert description.preprocessing


def fingerprint(federation: Federation) -> str:
    digest = hashlib.sha256()
    for examples in (*federation.clients, federation.test):
        digest.update(examples.features.tobytes())
        digest.update(examples.labels.tobytes())
    return digest.hexdigest()


def test_digits_are_split_and_dealt_by_the_source_alone() -> None:
    settings = DataSettings("digits", None, 10)
    federation = load(settings, SOURCE)
    assert_sound(federation, 1438, 359)
    assert federation.description == describe(settings)
    assert fingerprint(load(settings, Seeded(7))) == fingerprint(federation)
    assert fingerprint(load(settings, Seeded(8))) != fingerprint(federation)
    assert fingerprint(load(settings, System())) != fingerprint(federation)
    pixels = np.concatenate([federation.test.features, *(client.features for client in federation.clients)])
    assert sorted(np.unique(pixels)) == [value / 8 - 1 for value in range(17)]


def test_digits_are_those_that_scikit_learn_loads() -> None:
    bunch = load_digits()
    federation = load(DataSettings("digits", None, 10), SOURCE)
    rows = [
        (one.features[i].ravel(), one.labels[i])
        for one in (*federation.clients, federation.test)
        for i in range(len(one))
    ]
    found = sorted((*((pixels + 1) * 8).tolist(), int(label)) for pixels, label in rows)
    assert found == sorted(
        (*pixels.tolist(), int(label)) for pixels, label in zip(bunch.data, bunch.target, strict=True)
    )


def test_digits_that_are_gone_are_missed_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_DIGITS", "sklearn/no such file")
    with pytest.raises(DataError, match='data.name = "digits".*no such file.*install scikit-learn anew'):
        load(DataSettings("digits", None, 10), SOURCE)


def test_a_partition_never_changes_which_rows_are_for_the_test() -> None:
    settings = DataSettings("digits", None, 10)
    skewed = replace(settings, clients=5, partition="dirichlet")
    assert load(settings, SOURCE).test.features.tobytes() == load(skewed, SOURCE).test.features.tobytes()


def test_mnist_has_the_published_rows(shared: Path) -> None:
    federation = read(shared, "mnist", 10)
    assert_sound(federation, 60_000, 10_000)
    assert counts(federation) == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert federation.test.labels[:5].tolist() == [7, 2, 1, 0, 4]
    pixels = np.concatenate([client.features for client in federation.clients])
    assert (pixels.mean(dtype=np.float64) + 1) / 2 == pytest.approx(0.13066, abs=1e-5)
    assert pixels.std(dtype=np.float64) / 2 == pytest.approx(0.30811, abs=1e-5)


def test_mnist_may_lie_in_the_folder_itself_and_be_unpacked(shared: Path, tmp_path: Path) -> None:
    for path in (shared / "data" / "mnist").glob("*.gz"):
        (tmp_path / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
    plain = load(DataSettings("mnist", tmp_path, 3), SOURCE)
    assert fingerprint(plain) == fingerprint(read(shared, "mnist", 3))


def test_mnist_labels_map_alike_on_every_client(shared: Path) -> None:
    """A client's mean picture of a digit is nearest to that of the same digit in the test set."""
    federation = read(shared, "mnist", 4, "dirichlet", alpha=1.0)
    expected = np.array([mean_picture(federation.test, digit) for digit in range(10)])
    for client in federation.clients:
        for digit, count in enumerate(np.bincount(client.labels)):
            if count > 50:
                distances = np.linalg.norm(mean_picture(client, digit) - expected, axis=1)
                assert distances.argmin() == digit


def mean_picture(examples: Examples, digit: int) -> NDArray[np.float64]:
    """`float64[784]`."""
    return examples.features[examples.labels == digit].mean(axis=0, dtype=np.float64).ravel()


@pytest.mark.skipif(not FASHION.is_dir(), reason=f"the package dataset-fashion-mnist has not put {FASHION} there")
def test_fashion_mnist_is_found_where_its_package_puts_it() -> None:
    federation = load(DataSettings("fashion-mnist", None, 100, "pathological"), SOURCE)
    assert_sound(federation, 60_000, 10_000)
    assert counts(federation) == [6000] * 10
    assert {len(np.unique(client.labels)) for client in federation.clients} == {2}


def test_cifar10_is_read_from_its_archive(shared: Path) -> None:
    federation = read(shared, "cifar10", 10)
    assert_sound(federation, 50_000, 10_000)
    assert counts(federation) == [5000] * 10
    channels = np.stack([client.features.mean(axis=(0, 2, 3), dtype=np.float64) for client in federation.clients])
    assert (channels.mean(axis=0) + 1) / 2 == pytest.approx([0.4914, 0.4822, 0.4465], abs=1e-4)


def test_cifar10_is_read_from_its_folder_in_channel_row_column_order(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    record = np.arange(3073) % 256
    record[0] = 3
    batch = np.tile(record.astype(np.uint8), 10_000)
    (folder / "test_batch.bin").write_bytes(batch.tobytes())
    for number in range(1, 6):
        (folder / f"data_batch_{number}.bin").hardlink_to(folder / "test_batch.bin")
    first = load(DataSettings("cifar10", tmp_path, 50_000), SOURCE).clients[0]
    assert first.labels.tolist() == [3]
    for channel, row, column in ((0, 0, 0), (1, 2, 3), (2, 31, 31)):
        value = (1 + 1024 * channel + 32 * row + column) % 256
        assert first.features[0, channel, row, column] == pytest.approx(value / 127.5 - 1, abs=1e-6)


def test_adult_has_the_published_rows_and_one_feature_for_each_level(shared: Path) -> None:
    federation = read(shared, "adult", 100, "pathological", classes_per_client=1)
    assert_sound(federation, 32_561, 16_281)
    assert counts(federation) == [24_720, 7_841]
    assert np.bincount(federation.test.labels).tolist() == [12_435, 3_846]
    assert {len(np.unique(client.labels)) for client in federation.clients} == {1}
    categories = federation.test.features[:, 5:]
    assert set(np.unique(categories)) == {0.0, 1.0}
    assert set(categories.sum(axis=1)) == {7.0}  # one for each of the seven columns, "missing" included
    # Missing: workclass, occupation and native country; 1,221 rows of the test file have a "?".
    missing = categories[:, [8, 8 + 1 + 7 + 14, categories.shape[1] - 1]]
    assert int(missing.any(axis=1).sum()) == 1_221


def test_heart_disease_has_four_hospitals(shared: Path) -> None:
    federation = read(shared, "heart-disease", 4, "natural")
    assert_sound(federation, 738, 182)
    assert [len(client) for client in federation.clients] == [303 - 60, 294 - 58, 123 - 24, 200 - 40]
    positive = counts(federation)[1] + int(federation.test.labels.sum())
    assert positive == 920 - (164 + 188 + 8 + 51)
    swiss = federation.clients[2].features
    # Cholesterol is 0 in every Swiss row, which is no cholesterol but a missing value.
    assert swiss[:, 5].tolist() == [1.0] * len(swiss)
    assert swiss[:, 4].tolist() == [0.0] * len(swiss)


def test_parkinsons_has_42_patients_with_a_label_on_the_scale_of_the_questionnaire(shared: Path) -> None:
    federation = read(shared, "parkinsons", 42, "natural")
    assert_sound(federation, 4_717, 1_158)
    assert len(federation.clients) == 42
    labels = np.concatenate([federation.test.labels, *(client.labels for client in federation.clients)])
    points = (labels.astype(np.float64) + 1) * 88
    assert points.min() == pytest.approx(7, abs=1e-4)
    assert points.max() == pytest.approx(54.992, abs=1e-4)
    ages = [len(np.unique(client.features[:, 0])) for client in federation.clients]
    assert ages == [1] * 42  # one patient has one age


def test_tcga_brca_has_the_published_regions(shared: Path) -> None:
    federation = read(shared, "tcga-brca", 6, "natural")
    assert_sound(federation, 866, 222)
    assert [len(client) for client in federation.clients] == [248, 156, 164, 129, 129, 40]
    assert any("no sum over records" in sentence for sentence in federation.description.preprocessing)


def test_shakespeare_has_299_speakers_and_tests_on_what_they_say_last(shared: Path) -> None:
    federation = read(shared, "shakespeare", 299, "natural")
    assert_sound(federation, sum(len(client) for client in federation.clients), len(federation.test))
    assert len(federation.clients) == 299
    symbols = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    first = federation.clients[0]
    speech = "Before we proceed any further, hear me speak.\nYou are all resolved"
    assert symbols[first.labels[0]] == "B"
    assert "".join(symbols[place] for place in first.features[8]).lstrip("\n") == speech[:64]
    assert symbols[first.labels[8]] == speech[64]
    total = len(federation.test) + sum(len(client) for client in federation.clients)
    assert len(federation.test) / total == pytest.approx(0.2, abs=0.01)


@pytest.mark.parametrize(
    "name", ["mnist", "cifar10", "adult", "heart-disease", "parkinsons", "tcga-brca", "shakespeare"]
)
def test_a_folder_without_the_set_says_what_belongs_there(name: str, tmp_path: Path) -> None:
    for root, words in (
        (None, "data.root is missing"),
        (tmp_path / "no", f'data.root = "{tmp_path / "no"}"'),
    ):
        with pytest.raises(DataError) as refusal:
            load(DataSettings(name, root, 2), SOURCE)
        message = str(refusal.value)
        assert words in message and f'"{name}"' in message
        assert message.endswith(".") and "\n" not in message
        assert any(suffix in message for suffix in ("ubyte", ".bin", "tar", ".data", ".csv", ".txt"))


TRUNCATED = [
    ("mnist", "mnist/train-images-idx3-ubyte.gz"),
    ("mnist", "mnist/t10k-labels-idx1-ubyte.gz"),
    ("cifar10", "cifar10/cifar-10-binary.tar.xz"),
    ("adult", "adult/adult.data.gz"),
    ("heart-disease", "heart-disease/processed.va.data"),
    ("parkinsons", "parkinsons/parkinsons_updrs.data.gz"),
    ("tcga-brca", "tcga-brca/brca.csv"),
    ("shakespeare", "tinyshakespeare/input.txt.gz"),
]


@pytest.mark.parametrize(("name", "victim"), TRUNCATED)
@pytest.mark.parametrize("damage", ["cut", "garbage", "empty"])
def test_a_damaged_file_is_named_in_one_sentence(
    name: str, victim: str, damage: str, shared: Path, tmp_path: Path
) -> None:
    folder = Path(victim).parent
    shutil.copytree(shared / "data" / folder, tmp_path / folder, copy_function=lambda a, b: Path(b).symlink_to(a))
    path = tmp_path / victim
    content = path.read_bytes()
    path.unlink()
    # The cut leaves a number in the middle, so that a table has a row too short.
    path.write_bytes({"cut": content[: len(content) // 100 - 2], "garbage": b"\xff\x00" * 50, "empty": b""}[damage])
    with pytest.raises(DataError) as refusal:
        load(DataSettings(name, tmp_path, 2), SOURCE)
    assert str(path) in str(refusal.value) and "\n" not in str(refusal.value)


def test_labels_without_their_pictures_are_refused(shared: Path, tmp_path: Path) -> None:
    for path in (shared / "data" / "mnist").iterdir():
        (tmp_path / path.name).symlink_to(path)
    swapped = tmp_path / "train-labels-idx1-ubyte.gz"
    swapped.unlink()
    swapped.symlink_to(shared / "data" / "mnist" / "t10k-labels-idx1-ubyte.gz")
    with pytest.raises(DataError, match="60000 rows for training but 10000 labels"):
        load(DataSettings("mnist", tmp_path, 2), SOURCE)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "mnst"}, ['data.name = "mnst"', "mnist"]),
        ({"partition": "idd"}, ['data.partition = "idd"', "iid"]),
        ({"clients": 0}, ["data.clients = 0"]),
        ({"clients": 1439}, ["data.clients = 1439", "1438"]),
        ({"partition": "natural"}, ['data.partition = "natural"', '"digits"']),
        ({"partition": "dirichlet", "alpha": 0.0}, ["data.alpha = 0.0"]),
        ({"partition": "pathological", "classes_per_client": 11}, ["data.classes-per-client = 11"]),
    ],
)
def test_impossible_settings_are_refused_by_key_and_value(changes: dict[str, object], words: list[str]) -> None:
    settings = replace(DataSettings("digits", None, 10), **changes)  # type: ignore[arg-type]
    with pytest.raises(OnlookerError) as refusal:
        load(settings, SOURCE)
    assert all(word in str(refusal.value) for word in words)


def test_a_regression_has_no_classes_to_skew(shared: Path) -> None:
    with pytest.raises(DataError, match='data.partition = "dirichlet" needs classes'):
        read(shared, "parkinsons", 5, "dirichlet")


def test_natural_clients_are_counted_for_the_user(shared: Path) -> None:
    with pytest.raises(DataError, match="data.clients = 3 does not match the 4 clients found"):
        read(shared, "heart-disease", 3, "natural")
