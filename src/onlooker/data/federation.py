"""What the room hands over: settings in, a federation of checked rows out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from onlooker.errors import DataError
from onlooker.types import Array, Examples, Task


def _no_categories() -> Mapping[str, tuple[str, ...]]:
    return {}


def _no_ranges() -> Mapping[str, tuple[float, float]]:
    return {}


@dataclass(frozen=True)
class DataSettings:
    """What the `[data]` table says.

    Attributes:
        name: a set that comes with a reader, "csv", or "package.module:function".
        root: the folder (or, for csv, the file) that holds the set.
        clients: how many clients share the training rows.
        partition: iid, dirichlet, pathological or natural.
        alpha: concentration of the dirichlet partition; smaller is more skewed.
        classes_per_client: classes that one client holds in the pathological partition.
        id_column: csv: the column that names the client, for the natural partition; never a feature.
        columns: csv: the names of all columns, in the order in which they become features, for whoever has no file;
            empty for those of the first file.
        label_column: csv: the column to predict.
        task: csv and functions: "classification" or "regression".
        classes: csv and functions: every label value, in the order of their indices. A public constant.
        categories: csv: the levels of each text column, as public constants; each becomes one 0/1 feature.
        ranges: csv: a public (low, high) for a numeric column, which is mapped to [-1, 1] and held there; for
            the label of a regression it is mapped but not held.
        ignore_columns: csv: columns that are neither feature nor label.
        missing_columns: csv: columns that may be empty, and get an indicator feature.
        person_column: csv: the column that names the person of each row; never a feature.
        whole_persons: hold out for the test, and deal to clients, all rows of a person together, as the unit "person"
            needs.
        test_file: csv: the file in `root` that holds the test rows.
        test_fraction: csv: without `test_file`, the share of each client's rows that is drawn for the test.
    """

    name: str
    root: Path | None
    clients: int
    partition: str = "iid"
    alpha: float = 0.5
    classes_per_client: int = 2
    id_column: str | None = None
    label_column: str | None = None
    task: Task = "classification"
    classes: tuple[str, ...] = ()
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=_no_categories)
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=_no_ranges)
    ignore_columns: tuple[str, ...] = ()
    missing_columns: tuple[str, ...] = ()
    test_file: str | None = None
    test_fraction: float = 0.2
    person_column: str | None = None
    columns: tuple[str, ...] = ()
    whole_persons: bool = False


@dataclass(frozen=True)
class Description:
    """Public facts about a set; those of a named set are known before any row is read.

    Attributes:
        name: the name of the set.
        shape: the shape of one row's features.
        outputs: the number of classes, or 1 for regression.
        task: "classification" or "regression".
        preprocessing: one sentence for each thing done to the rows, and why it reveals nothing (rule 16).
        uncharged: one sentence for each shared step that was derived from private rows without a charge (rule
            16).
        symbols: how many distinct symbols the features are drawn from; 0 where the features are numbers.
        unseen: one sentence about what only reading the rows will tell; empty where nothing is left to tell.
    """

    name: str
    shape: tuple[int, ...]
    outputs: int
    task: Task
    preprocessing: tuple[str, ...]
    uncharged: tuple[str, ...] = ()
    symbols: int = 0
    unseen: str = ""


@dataclass(frozen=True)
class Federation:
    """The training rows of each client, and test rows that no client trains on."""

    clients: tuple[Examples, ...]
    test: Examples
    description: Description


def _unchanged(features: Array) -> Array:
    return features


@dataclass(frozen=True)
class Pool:
    """A set as it was read, before its training rows are dealt to clients.

    Attributes:
        train: training rows, their features in the small type of the file.
        test: test rows, likewise.
        owners: `int64[n]`, the natural client of each training row; None where the set has none.
        prepare: a function of each row alone that gives the features of `Description`. It runs after the
            partition, client by client, so that a large set is never held twice as floats.
    """

    train: Examples
    test: Examples
    owners: NDArray[np.int64] | None = None
    prepare: Callable[[Array], Array] = _unchanged


# Torch shares the memory of an array only if it is contiguous and may be written to.
_OWN: tuple[Literal["C_CONTIGUOUS"], Literal["WRITEABLE"]] = ("C_CONTIGUOUS", "WRITEABLE")


def checked(examples: object, description: Description, place: str) -> Examples:
    """The same rows as contiguous arrays of the agreed types, once every promise of `description` holds.

    Args:
        examples: an `Examples` with rows of `description.shape`.
        description: what they must be.
        place: where the rows come from, for the message, such as "the test set of mnist".

    Raises:
        DataError: on no rows, a wrong shape or length, a value that is not finite or a label out of range. It
            names the first row at fault, counted from 0.
    """
    arrays = as_arrays(examples, place)
    features, labels, persons = arrays.features, arrays.labels, arrays.persons
    if features.ndim == 0 or labels.ndim != 1 or len(features) != len(labels):
        raise DataError(
            f"{place} has features of shape {features.shape} and labels of shape {labels.shape}; "
            "give one label for each row of features."
        )
    if not len(labels):
        raise DataError(f"{place} has no rows; give it at least one.")
    if features.shape[1:] != description.shape:
        raise DataError(f"{place} has rows of shape {features.shape[1:]}, not {description.shape}.")
    read_features = _whole if description.symbols else _numbers
    read_labels = _whole if description.task == "classification" else _numbers
    return Examples(
        read_features(features, description.symbols, f"{place}, features"),
        read_labels(labels, description.outputs, f"{place}, labels"),
        None if persons is None else _renumbered(persons, len(labels), f"{place}, persons"),
    )


def as_arrays(examples: object, place: str) -> Examples:
    """The same rows as numpy arrays, whatever kind of array or list they came as.

    Raises:
        DataError: if they are no `Examples`, or rows differ in length.
    """
    if not isinstance(examples, Examples):
        raise DataError(f"{place} is {type(examples).__name__}; give onlooker.types.Examples.")
    try:
        persons = None if examples.persons is None else np.asarray(examples.persons)
        return Examples(np.asarray(examples.features), np.asarray(examples.labels), persons)
    except ValueError as error:
        raise DataError(f"{place} has rows of different shapes; give all rows the same shape.") from error


def _renumbered(persons: Array, rows: int, place: str) -> NDArray[np.int64]:
    if persons.shape != (rows,) or persons.dtype.kind not in "iu":
        raise DataError(
            f"{place}: the shape is {persons.shape} and the type {persons.dtype}; give one whole number for each of "
            f"the {rows} rows."
        )
    return np.unique(persons, return_inverse=True)[1].astype(np.int64)


def require_persons(examples: Examples, place: str) -> None:
    """Refuse rows that do not say whose they are.

    Raises:
        DataError: naming the place, with the remedy.
    """
    if examples.persons is None:
        raise DataError(
            f'{place} does not say which rows are of one person, as privacy.unit = "person" needs; give '
            'onlooker.types.Examples its persons, or choose the unit "record".'
        )


def _numbers(values: Array, _: int, place: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # what is too large for 32 bits becomes infinite, and is refused below
        numbers = np.require(_plain(values, place), np.float32, _OWN)
    row = _first_false(np.isfinite(numbers))
    if row is not None:
        raise DataError(f"{place}, row {row}: not a finite 32-bit number; correct or drop the row.")
    return numbers


def _whole(values: Array, count: int, place: str) -> NDArray[np.int64]:
    plain = _plain(values, place)
    row = _first_false((plain >= 0) & (plain < count) & (plain == np.floor(plain)))
    if row is not None:
        raise DataError(f"{place}, row {row}: {plain[row]} is not a whole number from 0 to {count - 1}.")
    return np.require(plain, np.int64, _OWN)


def _plain(values: Array, place: str) -> Array:
    if values.dtype.kind not in "biuf":
        raise DataError(f"{place}: the type is {values.dtype}; give numbers.")
    return values


def _first_false(sound: NDArray[np.bool_]) -> int | None:
    if sound.all():
        return None
    return int(np.argmin(sound.reshape(len(sound), -1).all(axis=1)))
