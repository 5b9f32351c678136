"""What can be told of the clients of comma-separated files before a row is read, and what cannot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from onlooker.data.columns import Category, Number
from onlooker.data.federation import DataSettings
from onlooker.data.files import size
from onlooker.data.partition import require_count
from onlooker.errors import DataError


def unseen(settings: DataSettings) -> str:
    """What only the rows can tell."""
    if settings.columns and settings.root is None:
        return (
            "No row was read: whether each client's file has these columns with values that they may hold, "
            "`onlooker client` will tell that client when it starts."
        )
    found = f"they are enough for {settings.clients} clients, and "
    if settings.partition == "natural":
        found = f'"{settings.id_column}" names {settings.clients} clients, and ' if settings.id_column else ""
    return (
        f"No row was read: whether {found}every file has these columns with values that they may hold, only "
        "`onlooker run` will tell."
    )


def refuse_clients(settings: DataSettings, files: Sequence[Path], columns: Sequence[Number | Category]) -> None:
    """Refuse a number of clients that no rows of these files could have.

    Raises:
        DataError: with the number that they could have.
    """
    if settings.partition == "natural" and settings.id_column is None:
        if len(files) == 1:
            raise DataError(
                'data.partition = "natural": name the column that tells clients apart in data.id-column, or give one '
                "file for each client."
            )
        require_count(len(files), settings.clients)
    most = _most_rows(settings, files, columns)
    if most == 0:
        raise DataError(f'data.root = "{settings.root}" holds no rows by its size; give it one for each client.')
    if most is not None and settings.clients > most:
        raise DataError(
            f'data.clients = {settings.clients} is more than the rows that "{settings.root}" can hold, of which there '
            f"are at most {most} by its size; use fewer clients."
        )


def _most_rows(settings: DataSettings, files: Sequence[Path], columns: Sequence[Number | Category]) -> int | None:
    """No file holds more rows, each of which takes a comma or the end of its line after each value.

    None where a file is packed, whose size says little.
    """
    if any(path.suffix == ".gz" for path in files):
        return None
    names = [settings.label_column or "", *(column.name for column in columns)]
    header = sum(len(name.encode()) + 1 for name in names)
    labels = settings.classes if settings.task == "classification" else ("0",)
    row = len(names) + _shortest(labels) + sum(_least(column) for column in columns)
    return sum(max(0, size(path) + 1 - header) // row for path in files)  # the last line may have no end


def _least(column: Number | Category) -> int:
    """The bytes of the shortest value that the column may hold."""
    if column.may_miss:
        return 0
    return _shortest(column.levels) if isinstance(column, Category) else 1


def _shortest(values: Sequence[str]) -> int:
    return min((len(value.encode()) for value in values), default=0)
