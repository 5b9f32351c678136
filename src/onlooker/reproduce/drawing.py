"""A figure or table before it is drawn: numbers, and for each of them what kind of number it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["published", "sound", "measured"]
RowKind: TypeAlias = Kind | Literal["constructed"]
Cell: TypeAlias = str | float | None


@dataclass(frozen=True)
class Series:
    """One line of a plot.

    Attributes:
        name: what the legend calls it.
        kind: "published" for what a paper prints, "sound" for what the accountant proves, "measured" for what was
            run or counted.
        label: what kind of number it is, in words; for one that is published, that it is no guarantee.
        colour: lines of one colour belong together.
        x: numbers, or words.
        y: as many numbers; None leaves a gap.
        half_widths: of the 95 % confidence interval of each y, or empty.
        dotted: tells two lines of one colour and kind apart.
        reason: why a published number is no guarantee.
    """

    name: str
    kind: Kind
    label: str
    colour: int
    x: Sequence[float] | Sequence[str]
    y: Sequence[float | None]
    half_widths: Sequence[float | None] = ()
    dotted: bool = False
    reason: str = ""


@dataclass(frozen=True)
class Panel:
    """One plot of a figure.

    Attributes:
        title: its heading.
        across: the title of the horizontal axis.
        up: the title of the vertical axis.
        series: what is drawn.
        scale: "log" where values differ by orders of magnitude, "share" for accuracies.
    """

    title: str
    across: str
    up: str
    series: tuple[Series, ...]
    scale: Literal["linear", "log", "share"] = "linear"


@dataclass(frozen=True)
class Row:
    """One row of a table, with what kind of numbers it has: "constructed" follows from how something is built."""

    cells: tuple[Cell, ...]
    kind: RowKind
    label: str
    reason: str = ""


@dataclass(frozen=True)
class Table:
    """A table; every row says what kind of numbers it has."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Drawing:
    """A figure or a table of a paper, as it came out here.

    Attributes:
        paper: its short name.
        name: "figure-3" or "table-5".
        title: what it shows.
        caption: what was chosen where the paper says nothing, and what to see.
        panels: its plots.
        tables: its tables.
        options: what the command that draws it says beside the paper and the name.
    """

    paper: str
    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...] = ()
    tables: tuple[Table, ...] = ()
    options: str = ""
