"""From what was measured to what is read: a page of tables, one plot and one table of numbers.

`python -m benchmarks.render` writes them anew from `docs/benchmarks/results.json`.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

from benchmarks.summary import Result, Row, from_json, limit_of, rows_of

_HEAD = """# How fast

Written by `make bench` from what it measured; `results.json` has every single round, `results.csv` each turn.

Contenders take turns, each turn in a fresh process that runs alone, and two rounds are dropped from each. Everything in
one table was measured in one run. Times are medians (quartiles in brackets); *ratio* is the median over turns of a
contender's time over the first row's, so that above 1 is slower than the first row. *Start* is from the start of the
process to the end of its first round, the making of the records included; *memory* the most that all its processes
held, shared pages counted once, sampled once a second. *Of the machine* is what the local training alone needs in
arithmetic, over what `torch.mm` of 1024 x 1024 matrices does on as many threads as there are cores. A round of Onlooker
includes its ledger and its run folder, which are written to the disk, and *without its folder* leaves the writing out;
no peer keeps either. Peers without clipping or
noise (fedjax, blazefl) were given both.

![Times as ratios to Onlooker](ratios.svg)
"""
_WIDTH, _LABEL, _BAR = 860, 340, 400
_LINE, _GAP = 20, 14
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9")


def write(folder: Path) -> None:
    """Write the page, the plot and the numbers beside `results.json`."""
    stored = json.loads((folder / "results.json").read_text())
    results = [from_json(one) for one in stored.values()]
    (folder / "README.md").write_text(page(results))
    (folder / "results.csv").write_text(numbers(results))
    (folder / "ratios.svg").write_text(plot(results))


def page(results: Sequence[Result]) -> str:
    """The whole page as Markdown."""
    return "\n".join([_HEAD, *(section(result) for result in results)])


def section(result: Result) -> str:
    """One cell: its table, and what it was measured with."""
    rows = rows_of(result)
    shown = _columns(result, rows)
    lines = [f"## {result.title}", ""]
    lines += [f"Aim: {result.aim}.", ""] if result.aim else []
    lines += [f"| {' | '.join(name for name, _ in shown)} |", f"|{'|'.join(['---', *['---:'] * (len(shown) - 1)])}|"]
    lines += [f"| {' | '.join(values[place] for _, values in shown)} |" for place in range(len(rows))]
    lines += ["", *_limits(result), _versions(rows)]
    lines += [f"{result.date}, {result.processor}, commit {result.commit}: `{result.command}`", ""]
    return "\n".join(lines)


def _columns(result: Result, rows: Sequence[Row]) -> list[tuple[str, list[str]]]:
    """Headings, each with a text for every row; those that nobody has a value for are left out."""
    limit = _fastest(result)
    columns = [
        (
            result.unit,
            [f"{_number(row.median)} ({_number(row.low)}-{_number(row.high)})" if row.median else "-" for row in rows],
        ),
        ("without its folder", [_number(row.unwritten) for row in rows]),
        ("ratio", [_text(row.ratio, "{:.2f}") for row in rows]),
        ("of the machine", [_text(row.rate and limit and row.rate / limit, "{:.0%}") for row in rows]),
        ("start, s", [_text(None if result.unit == "ms" else row.start, "{:.1f}") for row in rows]),
        ("memory, MiB", [_text(row.memory, "{:,.0f}") for row in rows]),
        ("", [row.note.replace("|", "/") for row in rows]),
    ]
    kept = [one for one in columns if any(text not in ("-", "") for text in one[1])]
    return [("contender", [row.contender for row in rows]), *kept]


def _fastest(result: Result) -> float | None:
    """The best rate of a large matrix product on any number of threads."""
    return max((rate for name, rate in limit_of(result).items() if name.startswith("product")), default=None)


def _limits(result: Result) -> list[str]:
    found = limit_of(result)
    if not found:
        return []
    product, layer = (
        " and ".join(f"{found[f'{what}-{threads}']:.0f}" for threads in (1, 2)) for what in ("product", "layer")
    )
    return [
        f"On 1 and 2 threads the machine did {product} GFLOP/s in `torch.mm`, and {layer} in the main layer there and "
        f"back; a sample's local training is {result.operations / 1e9:.2f} GFLOP.",
        "",
    ]


def _versions(rows: Sequence[Row]) -> str:
    versions = {name: version for row in rows for name, version in row.versions.items()}
    return f"{', '.join(f'{name} {version}' for name, version in sorted(versions.items()))}.\n"


def _number(value: float | None) -> str:
    """Three figures, or all before the point.

    >>> _number(3.14159), _number(1234.5)
    ('3.14', '1,234')
    """
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else form.format(value)


def numbers(results: Sequence[Result]) -> str:
    """A line for each turn."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(
        [
            "cell",
            "contender",
            "turn",
            "median",
            "unit",
            "start s",
            "memory MiB",
            "foreign cores",
            "disturbed",
            "failure",
        ]
    )
    for result in results:
        for one in result.segments:
            median = sorted(one.samples)[len(one.samples) // 2] if one.samples else ""
            spent = [one.start, one.memory, one.foreign]
            rounded = ["" if value is None else round(value, 3) for value in spent]
            writer.writerow(
                [result.name, one.contender, one.number, median, result.unit, *rounded, one.disturbed, one.failure]
            )
    return text.getvalue()


def plot(results: Sequence[Result]) -> str:
    """Bars of every contender's ratio to the first of its cell, as a drawing that needs nothing else."""
    drawn = [(result.title, [row for row in rows_of(result) if row.ratio is not None]) for result in results]
    drawn = [(title, rows) for title, rows in drawn if len(rows) > 1]
    largest = max((row.ratio or 0.0 for _, rows in drawn for row in rows), default=1.0)
    names = list(dict.fromkeys(row.contender.partition(" (")[0] for _, rows in drawn for row in rows))
    parts: list[str] = []
    top = _GAP
    for title, rows in drawn:
        parts.append(f'<text x="10" y="{top + 14}" font-weight="bold">{escape(title)}</text>')
        top += _LINE
        for row in rows:
            parts += _bar(row, top, largest, names)
            top += _LINE
        top += _GAP
    style = "<style>text{font:13px sans-serif;fill:#222}</style>"
    page = '<rect width="100%" height="100%" fill="#fff"/>'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {top}" width="{_WIDTH}" height="{top}">'
    return "\n".join(
        [head, "<title>Times as ratios to the first of each job</title>", style, page, *parts, "</svg>", ""]
    )


def _bar(row: Row, top: int, largest: float, names: Sequence[str]) -> list[str]:
    ratio = row.ratio or 0.0
    width = max(1.0, _BAR * ratio / largest)
    colour = _COLOURS[names.index(row.contender.partition(" (")[0]) % len(_COLOURS)]
    told = f"{ratio:.2f} ({_number(row.median)} ms)"
    return [
        f'<text x="{_LABEL - 8}" y="{top + 13}" text-anchor="end">{escape(row.contender)}</text>',
        f'<rect x="{_LABEL}" y="{top + 2}" width="{width:.1f}" height="{_LINE - 5}" fill="{colour}"/>',
        f'<text x="{_LABEL + width + 6:.1f}" y="{top + 13}">{told}</text>',
    ]


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path("docs") / "benchmarks")
