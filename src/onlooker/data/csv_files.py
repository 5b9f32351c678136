"""Your own rows, from comma-separated files.

`data.root` is one file, or a folder of files with the same columns. The first line names the columns, unless
`data.columns` does: whoever has no file then knows the features too, and all parties have them in one order.
Everything that the rows could reveal - class order, ranges, levels - is written in the configuration instead,
because a constant that was computed from the rows of all clients would be a release of its own (rule 16 of
`docs/privacy.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onlooker.data.columns import (
    LEVELS,
    MISSING,
    MISSING_VALUES,
    RANGES,
    Category,
    Number,
    encode,
    rescaled,
    width,
)
from onlooker.data.csv_clients import refuse_clients, unseen
from onlooker.data.federation import DataSettings, Description, Pool
from onlooker.data.files import Table, is_there, read_header, read_table
from onlooker.data.partition import held_out, held_out_persons
from onlooker.errors import DataError
from onlooker.types import Array, Examples

_Feature = Number | Category


def describe_csv(settings: DataSettings) -> Description:
    """What the configuration, the first line of the first file and the sizes of all files say; no row is read.

    Raises:
        DataError: if they do not agree, or no rows could be what the configuration says.
    """
    if settings.columns and settings.root is None:
        columns = _columns(settings, settings.columns, "data.columns")
    else:
        files = _files(settings)
        columns = _columns(settings, settings.columns or read_header(files[0]), files[0])
        refuse_clients(settings, files, columns)
        if settings.test_file is not None:
            _test_path(settings, settings.test_file)
    if settings.test_file is None and not 0 < settings.test_fraction < 1:
        raise DataError(f"data.test-fraction = {settings.test_fraction} must be above 0 and below 1.")
    unscaled = sorted(c.name for c in columns if isinstance(c, Number) and c.high is None)
    sentences = (
        (RANGES, settings.ranges),
        (f"taken as they are: {', '.join(unscaled)}", unscaled),
        (LEVELS, settings.categories),
        (MISSING_VALUES, settings.missing_columns),
        (
            "the test set is all rows of a fixed share of the persons, drawn at random"
            if settings.whole_persons
            else "the test set is a fixed share of each client's rows, drawn at random",
            not settings.test_file,
        ),
    )
    return Description(
        name="csv",
        shape=(width(columns),),
        outputs=len(settings.classes) if settings.task == "classification" else 1,
        task=settings.task,
        preprocessing=tuple(sentence for sentence, applies in sentences if applies),
        unseen=unseen(settings),
    )


def read_csv(settings: DataSettings, generator: np.random.Generator) -> Pool:
    """The rows of every file; the natural clients are the values of `id_column`, or else the files.

    Raises:
        DataError: naming file, line and column of the first value that cannot be used.
    """
    tables = [read_table(path) for path in _files(settings)]
    columns = _columns(settings, settings.columns or tuple(tables[0].columns), tables[0].path)
    names = _person_names(settings, tables)
    examples = _with_persons(_examples(settings, columns, tables), names)
    owners = _owners(settings, tables)
    if settings.test_file is not None:
        table = read_table(_test_path(settings, settings.test_file))
        _refuse_shared_persons(settings, names, table)
        return Pool(examples, _examples(settings, columns, [table]), owners)
    train, test = _held_out(settings, examples, owners, generator)
    return Pool(examples.take(train), examples.take(test), None if owners is None else owners[train])


def read_rows(settings: DataSettings) -> Examples:
    """The rows of every file, of which none is held out.

    Raises:
        DataError: as `read_csv`.
    """
    tables = [read_table(path) for path in _files(settings)]
    columns = _columns(settings, settings.columns or tuple(tables[0].columns), tables[0].path)
    return _with_persons(_examples(settings, columns, tables), _person_names(settings, tables))


def _with_persons(examples: Examples, names: Sequence[str] | None) -> Examples:
    persons = None if names is None else np.unique(names, return_inverse=True)[1].astype(np.int64)
    return replace(examples, persons=persons)


def _held_out(
    settings: DataSettings, examples: Examples, owners: NDArray[np.int64] | None, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    if settings.whole_persons and examples.persons is not None:
        what, one = "the persons", "person"
        train, test = held_out_persons(examples.persons, settings.test_fraction, generator)
    else:
        what, one = "each client's rows", "row"
        rows = np.zeros(len(examples), dtype=np.int64) if owners is None else owners
        train, test = held_out(rows, settings.test_fraction, generator)
    if not len(test):
        raise DataError(
            f"data.test-fraction = {settings.test_fraction} of {what} is less than one {one}; raise it, or name a "
            "test-file."
        )
    return train, test


def _files(settings: DataSettings) -> tuple[Path, ...]:
    root = settings.root
    if root is None:
        raise DataError('data.root is missing: "csv" needs a file, or a folder of .csv files with the same columns.')
    if is_there(root):
        return (root,)
    paths = sorted(path for pattern in ("*.csv", "*.csv.gz") for path in root.glob(pattern))
    training = tuple(path for path in paths if path.name != settings.test_file)
    if not training:
        raise DataError(f'data.root = "{root}" holds no .csv file for training; put at least one there.')
    return training


def _test_path(settings: DataSettings, name: str) -> Path:
    root = settings.root or Path()
    path = (root.parent if is_there(root) else root) / name
    if not is_there(path):
        raise DataError(f'data.test-file = "{name}" is not in "{path.parent}"; put it there, or leave the key out.')
    return path


def _columns(settings: DataSettings, header: Sequence[str], path: Path | str) -> list[_Feature]:
    """The features, in the order of the file."""
    twice = next((name for place, name in enumerate(settings.columns) if name in settings.columns[:place]), None)
    if twice is not None:
        raise DataError(f'data.columns names "{twice}" twice; name each column once, in one order for all parties.')
    label = _required_label(settings, header, path)
    if settings.whole_persons and settings.person_column is None:
        raise DataError(
            'data.person-column is missing: privacy.unit = "person" needs the column that names the person of each '
            f"row; choose one of {', '.join(header)}."
        )
    named = {
        "id-column": [settings.id_column] if settings.id_column is not None else [],
        "person-column": [settings.person_column] if settings.person_column is not None else [],
        "ignore-columns": settings.ignore_columns,
        "missing-columns": settings.missing_columns,
        "categories": settings.categories,
        "ranges": settings.ranges,
    }
    for key, names in named.items():
        for name in names:
            if name not in header:
                raise DataError(f'data.{key} names "{name}", but "{path}" has the columns {", ".join(header)}.')
    for name, (low, high) in settings.ranges.items():
        if not (np.isfinite([low, high]).all() and low < high):
            raise DataError(f'data.ranges."{name}" = [{low}, {high}] must be two finite numbers, the lower one first.')
    left_out = {label, settings.id_column, settings.person_column, *settings.ignore_columns}
    columns = [_column(settings, name) for name in header if name not in left_out]
    if not columns:
        raise DataError(f'"{path}" has no column left for the features; it has {", ".join(header)}.')
    return columns


def _required_label(settings: DataSettings, header: Sequence[str], path: Path | str) -> str:
    label = settings.label_column
    if label is None or label not in header:
        said = "is missing" if label is None else f'= "{label}" is not a column of "{path}"'
        hint = "; values must be separated by commas" if len(header) == 1 else ""
        raise DataError(f"data.label-column {said}: choose one of {', '.join(header)}{hint}.")
    classes = settings.classes
    if settings.task == "classification" and not 2 <= len(classes) == len(set(classes)):
        raise DataError(
            f'data.classes = {list(classes)} must list every value of "{label}" once, in a fixed order, such '
            'as ["no", "yes"] (or write data.task = "regression").'
        )
    return label


def _column(settings: DataSettings, name: str) -> _Feature:
    may_miss = name in settings.missing_columns
    if name in settings.categories:
        return Category(name, settings.categories[name], may_miss)
    low, high = settings.ranges.get(name, (0.0, None))
    return Number(name, low, high, may_miss=may_miss)


def _examples(settings: DataSettings, columns: Sequence[_Feature], tables: Sequence[Table]) -> Examples:
    return Examples(
        np.concatenate([_features(columns, table) for table in tables]),
        np.concatenate([_labels(settings, table) for table in tables]),
    )


def _features(columns: Sequence[_Feature], table: Table) -> NDArray[np.float32]:
    for column in columns:
        _require_column(table, column.name)
    try:
        return encode(columns, table)
    except DataError as error:
        raise DataError(
            f"{str(error).rstrip('.')}; correct it, or name its column in data.ignore-columns, "
            "missing-columns (if it may be empty) or categories (with every level it can take)."
        ) from error


def _labels(settings: DataSettings, table: Table) -> Array:
    label = settings.label_column or ""
    _require_column(table, label)
    if settings.task == "classification":
        return table.places(label, settings.classes)
    values = table.numbers(label)
    return rescaled(values, *settings.ranges[label]) if label in settings.ranges else values


def _require_column(table: Table, name: str) -> None:
    if name not in table.columns:
        raise DataError(
            f'"{table.path}" has no column "{name}", but {", ".join(table.columns)}; give all files the same.'
        )


def _person_names(settings: DataSettings, tables: Sequence[Table]) -> list[str] | None:
    """Who each row is about, by the name in the file; None where no column says it."""
    column = settings.person_column
    if column is None:
        return None
    for table in tables:
        _require_column(table, column)
        for row, name in enumerate(table.columns[column]):
            if name in MISSING:
                raise table.fault(row, column, "no person; name the person of every row, or leave the row out.")
    return [name for table in tables for name in table.columns[column]]


def _refuse_shared_persons(settings: DataSettings, names: Sequence[str] | None, test: Table) -> None:
    if not settings.whole_persons or names is None:
        return
    trained = set(names)
    for row, name in enumerate(_person_names(settings, [test]) or ()):
        if name in trained:
            raise test.fault(
                row,
                settings.person_column or "",
                "a person of the training rows, whom no test row may be of where the unit is a person; leave it out.",
            )


def _owners(settings: DataSettings, tables: Sequence[Table]) -> NDArray[np.int64] | None:
    """The natural client of each row, or None where neither a column nor several files tell clients apart."""
    if settings.id_column is not None:
        for table in tables:
            _require_column(table, settings.id_column)
        identities = [identity for table in tables for identity in table.columns[settings.id_column]]
        return np.unique(identities, return_inverse=True)[1].astype(np.int64)
    if len(tables) > 1:
        return np.repeat(np.arange(len(tables)), [len(table) for table in tables])
    return None
