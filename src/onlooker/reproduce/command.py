"""`onlooker reproduce`: a paper's figures and tables, drawn anew into a folder."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from onlooker import _check
from onlooker.errors import ConfigError
from onlooker.reproduce.scale import PAPERS, Scale, Size

_PAPER = typer.Argument(help=f"One of {', '.join(PAPERS)}.", show_default=False)
_RUNS = typer.Option("--runs", help="A folder to keep finished runs in, for figures that share them.")


def reproduce(
    paper: Annotated[str, _PAPER],
    figure: Annotated[int | None, typer.Option("--figure", help="One figure; all by default.")] = None,
    table: Annotated[int | None, typer.Option("--table", help="One table; all by default.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small enough for a minute, in what is trained.")] = False,
    paper_size: Annotated[bool, typer.Option("--paper-size", help="The papers' own local training: days.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="The folder; reproduced/PAPER by default.")] = None,
    root: Annotated[Path | None, typer.Option("--root", help="The folder that has mnist, adult, cifar10.")] = None,
    runs: Annotated[Path | None, _RUNS] = None,
    processes: Annotated[int, typer.Option("--processes", help="How many runs at a time.")] = 1,
) -> None:
    """Draw a paper's figures and tables anew, what holds beside what is printed; the folder is the last line."""
    _check.one_of(PAPERS, paper=paper)
    from onlooker.reproduce.catalogue import available  # with all that trains and draws
    from onlooker.reproduce.runs import Runs
    from onlooker.reproduce.write import write

    _check.at_least(1, processes=processes)
    folder = out or Path("reproduced") / paper
    scale = Scale(_size(quick, paper_size), root)
    with tempfile.TemporaryDirectory() as temporary:
        drawings = available(paper, scale, Runs(runs or Path(temporary), processes))
        for name in _chosen(paper, figure, table, scale, list(drawings)):
            drawing = drawings[name]()
            write(drawing, folder)
            print(f"{name.replace('-', ' ')}: {drawing.title}", flush=True)
    print(folder)


def _size(quick: bool, paper_size: bool) -> Size:
    if quick and paper_size:
        raise ConfigError("--quick and --paper-size exclude each other; keep one.")
    return "quick" if quick else "paper" if paper_size else "study"


def _chosen(paper: str, figure: int | None, table: int | None, scale: Scale, there: Sequence[str]) -> list[str]:
    """The names that are asked for, all of which there are."""
    from onlooker.reproduce.catalogue import needs_data

    asked = [f"{kind}-{number}" for kind, number in (("figure", figure), ("table", table)) if number is not None]
    for name in asked:
        if name not in there:
            listed = ", ".join(one.replace("-", " ") for one in there)
            raise ConfigError(f"--{name.replace('-', ' ')} of {paper} is not here; there are {listed}.")
    unfed = [name for name in asked or there if needs_data(paper, name) and not scale.quick and scale.root is None]
    if unfed and (asked or len(unfed) == len(there)):
        raise ConfigError(
            f"--root is missing: {unfed[0].replace('-', ' ')} of {paper} is trained on real data; name the folder that "
            "has a folder for each set, or say --quick."
        )
    if unfed:
        left = ", ".join(name.replace("-", " ") for name in unfed)
        print(f"onlooker: warning: left out, for want of --root or --quick: {left}.", file=sys.stderr)
    return [name for name in asked or there if name not in unfed]
