"""Measure Onlooker beside its peers, cell by cell: `python -m benchmarks.compare --only mlp-50 --peers pfl,fedjax`.

Within a cell all contenders take turns, each turn in a fresh process that runs alone, and everything that is compared
was measured in the same run. A turn during which other processes used more than a tenth of a core is tried again, and
marked where that does not help. What was measured is kept in the output folder, cell by cell, and its tables are
written anew after each.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks import environments, machine, protocol, render, summary
from benchmarks.cells import CELLS, Cell, Contender
from benchmarks.job import Job
from benchmarks.summary import Result, Segment

ROOT = Path(__file__).resolve().parents[1]
_MOST_FOREIGN = 0.12
_LIMIT = Contender("machine", "", "limit", threads=0)


def measured(cell: Cell, asked: argparse.Namespace) -> Result:
    """Run a whole cell."""
    segments: list[Segment] = []
    limits: list[dict[str, float]] = []
    for number in range(asked.segments or cell.segments):
        for contender in _chosen(cell.contenders, asked):
            segment = _turn(cell, contender, number, asked)
            print(_line(cell, segment), flush=True)
            segments.append(segment)
        if cell.limited:
            found, _ = _process(cell.job, _LIMIT, asked)
            limits += [found["limit"]] if found else []
    return Result(
        cell.name,
        cell.title,
        cell.aim,
        cell.unit,
        cell.job.operations // cell.parts if cell.limited else 0,
        datetime.datetime.now(datetime.UTC).date().isoformat(),
        machine.processor(),
        _commit(),
        shlex.join(["python", "-m", "benchmarks.compare", "--only", cell.name, *_same(asked)]),
        tuple(limits),
        tuple(segments),
    )


def _turn(cell: Cell, contender: Contender, number: int, asked: argparse.Namespace) -> Segment:
    """One segment, tried again while it is disturbed."""
    reason = contender.environment and environments.missing(contender.environment, asked.environments)
    if reason:
        return Segment(contender.title, number, failure=reason)
    segment = Segment(contender.title, number, failure="not tried")
    for _ in range(asked.tries):
        _wait_for_quiet(asked.patience)
        segment = _segment(cell, contender, number, asked)
        if not segment.disturbed:
            break
    return segment


def _segment(cell: Cell, contender: Contender, number: int, asked: argparse.Namespace) -> Segment:
    found, ran = _process(contender.job or cell.job, contender, asked)
    disturbed = ran.foreign is not None and ran.foreign > _MOST_FOREIGN
    if found is None:
        return Segment(contender.title, number, foreign=ran.foreign, failure=_reason(ran), disturbed=disturbed)
    start = found["start"]
    samples = (round(1000 * start, 1),) if cell.measures == "start" else _samples(found["seconds"], cell)
    return Segment(
        contender.title,
        number,
        samples,
        start,
        ran.memory,
        ran.foreign,
        disturbed,
        "" if samples else "too few rounds",
        found["versions"],
        _samples(found.get("unwritten", ()), cell),
    )


def _samples(seconds: Sequence[float], cell: Cell) -> tuple[float, ...]:
    return summary.samples_of(seconds, cell.parts)


def _process(job: Job, contender: Contender, asked: argparse.Namespace) -> tuple[dict[str, Any] | None, machine.Ran]:
    """One process of a contender, and the result that it printed."""
    name = contender.environment
    python = str(environments.python_of(name, asked.environments)) if name else sys.executable
    # Where what counts is the start, a job of one round stays one.
    job = replace(job, rounds=asked.rounds) if asked.rounds and 1 < job.rounds <= 1000 else job
    variables = {key: value for key, value in os.environ.items() if key not in ("OMP_NUM_THREADS", "PYTHONPATH")}
    variables["PYTHONPATH"] = f"{ROOT}:{ROOT / 'src'}" if name is None else str(ROOT)
    variables |= {"OMP_NUM_THREADS": str(contender.threads)} if contender.threads else {}
    own = contender.module in ("onlooker", "command")
    settings = [text for one in asked.set for text in ("--set", one)] if own else []
    variables[protocol.STARTED] = str(protocol.now())
    command = [python, *contender.arguments(job), *settings]
    ran = machine.run_alone(command, variables, ROOT, asked.longest)
    return (protocol.heard(ran.output) if ran.status == 0 else None), ran


def _reason(ran: machine.Ran) -> str:
    lines = [line.strip() for line in ran.output.splitlines() if line.strip()]
    return f"failed with status {ran.status}: {lines[-1][:200] if lines else 'it said nothing'}"


def _wait_for_quiet(patience: float) -> None:
    end = time.monotonic() + patience
    while (machine.foreign_cores(0.5) or 0.0) > _MOST_FOREIGN and time.monotonic() < end:
        pass


def _chosen(contenders: Iterable[Contender], asked: argparse.Namespace) -> Iterator[Contender]:
    for place, contender in enumerate(contenders):
        if not place or contender.name == "onlooker" or asked.peers is None or contender.name in asked.peers:
            yield contender


def _line(cell: Cell, segment: Segment) -> str:
    told = segment.failure or f"{summary.quartiles(segment.samples)[1]:.1f} {cell.unit}, start {segment.start:.1f} s"
    load = "" if segment.foreign is None else f", {segment.foreign:.2f} foreign cores"
    return f"{cell.name} [{segment.number}] {segment.contender}: {told}{load}{' DISTURBED' * segment.disturbed}"


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True).stdout.strip()

    changed = " with changes" if git("status", "--porcelain", "--untracked-files=no", "--", "src") else ""
    return f"{git('rev-parse', '--short', 'HEAD') or 'unknown'}{changed}"


def _same(asked: argparse.Namespace) -> list[str]:
    """The options that change what is measured."""
    options = [text for one in asked.set for text in ("--set", one)]
    for key in ("segments", "rounds"):
        options += [f"--{key}", str(getattr(asked, key))] if getattr(asked, key) else []
    return options + (["--peers", ",".join(asked.peers)] if asked.peers is not None else [])


def _arguments() -> argparse.Namespace:
    def names(text: str) -> list[str]:
        return [name for name in text.split(",") if name]

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names, default=list(CELLS), help="cells, separated by commas; see --list")
    parser.add_argument("--peers", type=names, help="peers, separated by commas; all by default")
    parser.add_argument("--segments", type=int, help="turns of each contender; the cell's own number by default")
    parser.add_argument("--rounds", type=int, help="rounds of each turn; the cell's own number by default")
    parser.add_argument("--engine", help="of Onlooker: --engine NAME is --set engine.name=NAME")
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE", help="given to Onlooker")
    parser.add_argument("--environments", type=Path, default=environments.DEFAULT, help="the folder that has the peers")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "benchmarks", help="the folder of the tables")
    parser.add_argument("--tries", type=int, default=3, help="of a turn that is disturbed")
    parser.add_argument("--patience", type=float, default=60.0, help="seconds to wait for a quiet machine")
    parser.add_argument("--longest", type=float, default=900.0, help="seconds that a process may take")
    parser.add_argument("--list", action="store_true", help="name the cells, and measure nothing")
    asked = parser.parse_args()
    asked.set += [f'engine.name="{asked.engine}"'] if asked.engine else []
    unknown = [name for name in asked.only if name not in CELLS]
    if unknown:
        parser.error(f"--only {','.join(unknown)} is not known; choose from {', '.join(CELLS)}.")
    return asked


def main() -> None:
    """Measure every cell that is asked for."""
    asked = _arguments()
    if asked.list:
        print("\n".join(f"{cell.name:12} {cell.title}" for cell in CELLS.values()))
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # as Ctrl-C does: what runs is ended first
    asked.out.mkdir(parents=True, exist_ok=True)
    store = asked.out / "results.json"
    stored = json.loads(store.read_text()) if store.exists() else {}
    for name in asked.only:
        stored[name] = summary.to_json(measured(CELLS[name], asked))
        store.write_text(json.dumps({name: stored[name] for name in CELLS if name in stored}, indent=1) + "\n")
        render.write(asked.out)


if __name__ == "__main__":
    main()
