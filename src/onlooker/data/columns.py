"""From the text of a table to features, by public constants alone (rule 16 of `docs/privacy.md`)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from onlooker.data.files import Table

MISSING = frozenset({"", "?", "NA", "N/A", "nan", "NaN", "null", "NULL"})
"""What stands for a value that was not recorded."""

RANGES = "numbers are mapped from fixed public ranges to [-1, 1] and held there"
LEVELS = "each level of a fixed public list becomes one 0/1 feature"
MISSING_VALUES = "a missing value becomes a constant, with a feature that says so"


class Column(Protocol):
    """How one column of a table becomes features; a function of each row alone."""

    @property
    def width(self) -> int:
        """How many features it gives."""
        ...

    def encode(self, table: Table) -> NDArray[np.float32]:
        """The features of all rows, `float32[n, width]`."""
        ...


@dataclass(frozen=True)
class Number:
    """A numeric column.

    Attributes:
        name: the column.
        low: the public value that becomes -1.
        high: the public value that becomes 1; values beyond either are held there. None: taken as it is.
        logarithmic: scale log(1 + value) instead, for amounts that range over powers of ten.
        may_miss: an empty value becomes 0, the middle of the range, and a second feature says 1 where that
            happened.
        absent: another text that stands for an empty value, such as a blood pressure of "0".
    """

    name: str
    low: float = 0.0
    high: float | None = None
    logarithmic: bool = False
    may_miss: bool = False
    absent: str = ""

    @property
    def width(self) -> int:
        """1, or 2 with the indicator."""
        return 1 + self.may_miss

    def encode(self, table: Table) -> NDArray[np.float32]:
        """`float32[n, width]`.

        Raises:
            DataError: at the first cell that holds no number.
        """
        missing = MISSING | {self.absent} if self.may_miss else frozenset[str]()
        values = table.numbers(self.name, missing)
        absent = np.isnan(values)
        scaled = np.where(absent, 0.0, self._scaled(values))
        features = np.stack([scaled, absent], axis=1) if self.may_miss else scaled[:, None]
        return features.astype(np.float32)

    def _scaled(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.high is None:
            return values
        held = np.clip(values, self.low, self.high)
        if self.logarithmic:
            return rescaled(np.log1p(held), math.log1p(self.low), math.log1p(self.high))
        return rescaled(held, self.low, self.high)


def rescaled(values: NDArray[np.float64], low: float, high: float) -> NDArray[np.float64]:
    """`values` on the scale where `low` is -1 and `high` is 1.

    >>> rescaled(np.array([0.0, 5.0, 10.0]), 0.0, 10.0).tolist()
    [-1.0, 0.0, 1.0]
    """
    return (values - low) * (2 / (high - low)) - 1


@dataclass(frozen=True)
class Category:
    """A text column: one 0/1 feature for each level of a public list, and all zeros for a missing value.

    Attributes:
        name: the column.
        levels: every value it can take.
        may_miss: whether it may be empty; one more feature then says so.
    """

    name: str
    levels: tuple[str, ...]
    may_miss: bool = False

    @property
    def width(self) -> int:
        """The number of levels, and one for the indicator."""
        return len(self.levels) + self.may_miss

    def encode(self, table: Table) -> NDArray[np.float32]:
        """`float32[n, width]`.

        Raises:
            DataError: at the first cell that holds no level of the list.
        """
        if not self.may_miss:
            return np.eye(self.width, dtype=np.float32)[table.places(self.name, self.levels)]
        words = tuple(sorted(MISSING - set(self.levels)))
        places = table.places(self.name, (*self.levels, *words))
        return np.eye(self.width, dtype=np.float32)[np.minimum(places, len(self.levels))]


@dataclass(frozen=True)
class Code:
    """A column of numbers that stand for levels, however they are written: one 0/1 feature for each.

    Attributes:
        name: the column.
        codes: every number it can hold; a missing one gives 1 in one more feature.
    """

    name: str
    codes: tuple[int, ...]

    @property
    def width(self) -> int:
        """The number of codes, and one for the indicator."""
        return len(self.codes) + 1

    def encode(self, table: Table) -> NDArray[np.float32]:
        """`float32[n, width]`.

        Raises:
            DataError: at the first cell that holds no code of the list.
        """
        values = table.numbers(self.name, MISSING)
        features = np.stack([*(values == code for code in self.codes), np.isnan(values)], axis=1)
        known = features.any(axis=1)
        if not known.all():
            raise table.fault(int(np.argmin(known)), self.name, f"not one of {', '.join(map(str, self.codes))}.")
        return features.astype(np.float32)


def words(text: str) -> tuple[str, ...]:
    """The words of a line, for lists of names that hold no blank."""
    return tuple(text.split())


def width(columns: Sequence[Column]) -> int:
    """How many features the columns give together."""
    return sum(column.width for column in columns)


def encode(columns: Sequence[Column], table: Table) -> NDArray[np.float32]:
    """The features of a table, `float32[n, width(columns)]`.

    Raises:
        DataError: at the first cell that cannot be encoded, by file, line and column.
    """
    return np.concatenate([column.encode(table) for column in columns], axis=1)
