"""A drawing as files: numbers for a spreadsheet, a page to look at, and a few lines of text for a summary."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

from onlooker.errors import FolderError
from onlooker.report import charts, page
from onlooker.reproduce.drawing import Cell, Drawing, Panel, Series

_MARK = {"published": "dash", "sound": "solid", "measured": "solid"}


def write(drawing: Drawing, out: Path) -> None:
    """Write NAME.csv, NAME.html and NAME.md into the folder, and its README.md anew.

    Raises:
        FolderError: if the folder cannot be written.
    """
    files = {"csv": as_csv(drawing), "html": as_html(drawing), "md": as_markdown(drawing)}
    try:
        out.mkdir(parents=True, exist_ok=True)
        for ending, text in files.items():
            (out / f"{drawing.name}.{ending}").write_text(text, encoding="utf-8")
        parts = sorted(out.glob("*-*.md"), key=_place)
        texts = [part.read_text(encoding="utf-8") for part in parts]
        (out / "README.md").write_text(_summary(drawing.paper, texts), encoding="utf-8")
    except OSError as error:
        raise FolderError(
            f"the folder {out} cannot be written: {error.strerror or error}; name another by --out."
        ) from error


def _place(path: Path) -> tuple[str, int]:
    kind, _, number = path.stem.partition("-")
    return kind, int(number) if number.isdigit() else 0


def _summary(paper: str, parts: Iterable[str]) -> str:
    head = (
        f"# {paper}: its figures and tables drawn anew\n\n"
        "Each row says what kind of number it has: published ones are no guarantee, sound ones name who is guarded "
        "against whom. The CSV of the same name has every point."
    )
    return "\n\n".join([head, *(part.strip() for part in parts)]) + "\n"


def as_csv(drawing: Drawing) -> str:
    """Every point of every plot, one a line; or the rows of the tables."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    if drawing.panels:
        lines.writerow(["panel", "series", "kind", "label", drawing.panels[0].across, "y", "half-width-95"])
    for panel in drawing.panels:
        for series in panel.series:
            for place, (x, y) in enumerate(zip(series.x, series.y, strict=True)):
                half = series.half_widths[place] if series.half_widths else None
                values = [_exact(value) for value in (x, y, half)]
                lines.writerow([panel.title, series.name, series.kind, series.label, *values])
    for table in drawing.tables:
        lines.writerow([*table.columns, "kind", "label"])
        lines.writerows([*map(_exact, row.cells), row.kind, row.label] for row in table.rows)
    return text.getvalue()


def _exact(value: Cell) -> str:
    return "" if value is None else f"{value:.6g}" if isinstance(value, float) else str(value)


def as_markdown(drawing: Drawing) -> str:
    """The last point of every curve, or all where each was trained, and every row of every table."""
    kind, number = drawing.name.split("-")
    command = f"`onlooker reproduce {drawing.paper} --{kind} {number}{drawing.options}`"
    text = [f"## {kind.capitalize()} {number}: {drawing.title}", f"{drawing.caption} {command}"]
    for panel in drawing.panels:
        head = [panel.title or "series", f"at {panel.across}", panel.up, "what it is"]
        text.append(_markdown(head, [row for series in panel.series for row in _points(panel, series)]))
    for table in drawing.tables:
        rows = [[*map(_short, row.cells), row.label] for row in table.rows]
        text.append(_markdown([*table.columns, "what it is"], rows))
    text += [f"- *{names}*: {meaning}" for names, meaning in _meanings(drawing)]
    return "\n\n".join(text) + "\n"


def _points(panel: Panel, series: Series) -> list[list[str]]:
    """The last point of a curve, or every point of what was trained for each of them."""
    chosen = range(len(series.x)) if series.kind == "measured" and panel.across != "round" else [-1]
    return [_point(series, place) for place in chosen]


def _point(series: Series, place: int) -> list[str]:
    half = series.half_widths[place] if series.half_widths else None
    value = _short(series.y[place]) + (f" ± {half:.2g}" if half is not None else "")
    return [series.name, _short(series.x[place]), value, series.label]


def _short(value: Cell) -> str:
    return "none" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)


def _markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "/") for cell in line) + " |" for line in lines)


def as_html(drawing: Drawing) -> str:
    """One self-contained page, in the house of the report's."""
    figures = {f"plot-{place}": _plot(panel) for place, panel in enumerate(drawing.panels)}
    template = resources.files("onlooker.reproduce").joinpath("page.html").read_text(encoding="utf-8")
    return page.bundled(template, figures, drawing=drawing, short=_short, meanings=_meanings(drawing))


def _meanings(drawing: Drawing) -> list[tuple[str, str]]:
    """Each label, and each reason why a published number is no guarantee, with the lines or rows that have it."""
    parts = [*(one for panel in drawing.panels for one in panel.series)]
    labelled = [(one.name, one.label, one.reason) for one in parts]
    labelled += [(_short(row.cells[0]), row.label, row.reason) for table in drawing.tables for row in table.rows]
    found: dict[str, list[str]] = {}
    for name, label, reason in labelled:
        if drawing.panels or reason:
            found.setdefault(f"{label} ({reason})" if reason else label, []).append(name)
    return [(", ".join(dict.fromkeys(names)), meaning) for meaning, names in found.items()]


def _plot(panel: Panel) -> dict[str, Any]:
    traces = [_trace(series, place, panel.scale == "log") for place, series in enumerate(panel.series)]
    up: dict[str, Any] = {"title": {"text": panel.up}}
    if panel.scale == "log":
        up |= {"type": "log", "tickformat": "~g", "dtick": 1}
    elif panel.scale == "share":
        up |= {"tickformat": ".0%", "range": [0, 1.02]}
    else:
        up |= {"rangemode": "tozero"}
    across: dict[str, Any] = {"title": {"text": panel.across}, "zeroline": False}
    if panel.across == "round" and all(float(x) <= 10 for series in panel.series for x in series.x):
        across["dtick"] = 1
    layout = charts.layout(across, up)
    lines = -(-len(traces) // 2)
    layout["height"] = 360 + 22 * lines
    layout["margin"] = {**layout["margin"], "l": 64, "t": 16, "b": 76 + 22 * lines}
    layout["legend"] = {"orientation": "h", "x": 0, "y": -0.2, "xanchor": "left", "yanchor": "top", "entrywidth": 340}
    return charts.figure(traces, layout)


def _trace(series: Series, place: int, logarithmic: bool) -> dict[str, Any]:
    values = [charts.finite(value) for value in series.y]
    if logarithmic:
        values = [value or None for value in values]
    trace = charts.line(series.name, place, series.x, values, "%{x}: %{y:.4g}")
    trace["line"] = {**trace["line"], "dash": "dot" if series.dotted else _MARK[series.kind]}
    trace["meta"] = {"series": series.colour}
    if any(half is not None for half in series.half_widths):
        trace["error_y"] = {"type": "data", "array": list(series.half_widths), "thickness": 1, "width": 3}
    return trace
