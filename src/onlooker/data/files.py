"""Reading files: found where the user said, whole, and otherwise refused in one sentence."""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from onlooker.errors import DataError


@dataclass(frozen=True)
class Folder:
    """Where a named set may lie, and how a user fills it.

    Attributes:
        name: the set, which is also the name of the folder below `data.root` where it may lie.
        files: the files that must be there, each plain or with the suffix .gz.
        origin: who publishes them, in words.
        default: where an operating system's package puts them, if any does.
        alias: another folder name below `data.root` that is tried.
    """

    name: str
    files: tuple[str, ...]
    origin: str
    default: Path | None = None
    alias: str = ""

    def find(self, root: Path | None) -> tuple[Path, ...]:
        """The path of each of `files` in `root`, root/name or root/alias, with .gz where it is packed.

        Raises:
            DataError: if no folder holds them all; it names `data.root`, the path, and what belongs there.
        """
        if root is None and self.default is None:
            raise DataError(f'data.root is missing: "{self.name}" needs a folder with {self.wanted()}.')
        base = root or self.default or Path()
        for folder in (base, base / self.name, base / self.alias):
            found = tuple(path for file in self.files if (path := _plain_or_gz(folder / file)))
            if len(found) == len(self.files):
                return found
        raise DataError(f'data.root = "{base}" does not hold "{self.name}": put there {self.wanted()}.')

    def wanted(self) -> str:
        """The files and their origin, in words."""
        return f"{', '.join(self.files)} (plain or .gz), {self.origin}"


def _plain_or_gz(path: Path) -> Path | None:
    options = (path, path.with_name(path.name + ".gz"))
    return next((option for option in options if is_there(option)), None)


def is_there(path: Path) -> bool:
    """Whether `path` is a file.

    Raises:
        DataError: if one may not even look.
    """
    try:
        return path.is_file()
    except OSError as error:
        raise DataError(f'data.root: "{path}" cannot be read ({error.strerror}); allow it.') from error


def read(path: Path) -> bytes:
    """The bytes of a file, unpacked if its name ends in .gz.

    Raises:
        DataError: if it cannot be read, is cut short or is no gzip file.
    """
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, error) from error


def read_text(path: Path) -> str:
    """The text of a UTF-8 file (with or without a byte-order mark), unpacked if its name ends in .gz.

    Raises:
        DataError: as `read`, and if it is not UTF-8.
    """
    try:
        return read(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _no_text(path, error) from error


def _no_text(path: Path, error: UnicodeDecodeError) -> DataError:
    return DataError(f'data.root: "{path}" is not UTF-8 text ({error.reason}); save it as UTF-8.')


def size(path: Path) -> int:
    """How many bytes a file takes, which is asked of the folder that it lies in.

    Raises:
        DataError: if that may not be looked at.
    """
    try:
        return path.stat().st_size
    except OSError as error:
        raise damaged(path, error) from error


def damaged(path: Path, why: object) -> DataError:
    """The sentence for a file that is there but cannot be what it should be."""
    reason = str(why).rstrip(".").replace("\n", " ")
    return DataError(f'data.root: "{path}" is unreadable, cut short or damaged ({reason}); fetch it again.')


@dataclass(frozen=True)
class Table:
    """A comma-separated file, by column.

    Attributes:
        path: the file, for messages.
        columns: each column's text values.
        lines: the line of each row in the file, counted from 1, for messages.
    """

    path: Path
    columns: Mapping[str, tuple[str, ...]]
    lines: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.lines)

    def require(self, *names: str) -> Table:
        """This table, if it has all the columns named.

        Raises:
            DataError: if it lacks one.
        """
        for name in names:
            if name not in self.columns:
                raise damaged(self.path, f'it has no column "{name}"')
        return self

    def fault(self, row: int, column: str, sentence: str) -> DataError:
        """The error that points at one cell."""
        value = self.columns[column][row]
        return DataError(f'"{self.path}", line {self.lines[row]}, column "{column}" holds "{value}": {sentence}')

    def numbers(self, column: str, missing: frozenset[str] = frozenset()) -> NDArray[np.float64]:
        """A column as `float64[n]`, not a number (nan) where its text is one of `missing`.

        Raises:
            DataError: at the first cell that holds no number, or one that no float32 can hold.
        """
        values = [_number(text) if text not in missing else np.nan for text in self.columns[column]]
        if None in values:
            raise self.fault(values.index(None), column, "not a finite 32-bit number.")
        return np.array(values, dtype=np.float64)

    def places(self, column: str, levels: tuple[str, ...]) -> NDArray[np.int64]:
        """The place of each value of a column among `levels`, `int64[n]`.

        Raises:
            DataError: at the first cell that holds something else.
        """
        order = {level: place for place, level in enumerate(levels)}
        found = [order.get(text, -1) for text in self.columns[column]]
        if -1 in found:
            raise self.fault(found.index(-1), column, f"not one of {', '.join(levels)}.")
        return np.array(found, dtype=np.int64)


_LARGEST = float(np.finfo(np.float32).max)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if abs(value) <= _LARGEST else None


def read_header(path: Path) -> tuple[str, ...]:
    """The column names in the first line of a comma-separated file, of which little more is read.

    Raises:
        DataError: if there are none, or one is empty or occurs twice.
    """
    return _names(path, next(_rows(path, _lines(path)), None))


def read_table(path: Path, names: tuple[str, ...] | None = None) -> Table:
    """A comma-separated file as a `Table`; values lose surrounding blanks, empty lines are skipped.

    Args:
        path: the file, plain or .gz.
        names: the columns, where the file has no header line; then lines that begin with "|" are remarks.

    Raises:
        DataError: if the file cannot be read, holds no rows, or a line has too few or too many values.
    """
    rows = list(_rows(path, read_text(path).splitlines(keepends=True)))
    header = names or _names(path, rows[0] if rows else None)
    kept = [row for row in rows if not row[1][0].startswith("|")] if names else rows[1:]
    for line, values in kept:
        if len(values) != len(header):
            raise DataError(f'"{path}", line {line} has {len(values)} values where {len(header)} are named.')
    if not kept:
        raise DataError(f'"{path}" holds no rows of data; give it at least one.')
    columns = tuple(zip(*(values for _, values in kept), strict=True))
    return Table(path, dict(zip(header, columns, strict=True)), tuple(line for line, _ in kept))


def _names(path: Path, first: tuple[int, tuple[str, ...]] | None) -> tuple[str, ...]:
    if first is None:
        raise DataError(f'"{path}" is empty; its first line must name the columns.')
    names = first[1]
    for place, name in enumerate(names, start=1):
        if not name:
            raise DataError(f'"{path}" has no name for column {place}; name each column in its first line.')
        if names.count(name) > 1:
            raise DataError(f'"{path}" names the column "{name}" {names.count(name)} times; name each once.')
    return names


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file one by one, read no further than they are asked for."""
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig", newline="") as file:
            for line in file:
                yield from line.splitlines(keepends=True)
    except UnicodeDecodeError as error:
        raise _no_text(path, error) from error
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, error) from error


def _rows(path: Path, lines: Iterable[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    reader = csv.reader(lines, skipinitialspace=True, strict=True)
    try:
        for row in reader:
            if row:
                yield reader.line_num, tuple(value.strip() for value in row)
    except csv.Error as error:
        raise DataError(f'"{path}", line {reader.line_num} is no comma-separated row ({error}).') from error
