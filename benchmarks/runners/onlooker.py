"""The job by Onlooker, as a configuration of it, in a run folder: with all that `onlooker run` does but show it."""

from __future__ import annotations

import importlib.metadata
import tempfile
import time
from pathlib import Path

import torch

import onlooker
from benchmarks.configuration import text_of
from benchmarks.job import Job
from benchmarks.protocol import asked, report
from onlooker import config, run
from onlooker.folder import RunFolder


def play(job: Job, path: str, settings: list[str], parent: Path) -> tuple[list[float], list[float]]:
    """When each round ended, and the seconds of each round without the writing of its folder."""
    prepared = config.prepare(config.parse(text_of(job, path), settings), Path())
    study = config.study(prepared, torch.device("cpu"))
    folder = RunFolder.create(
        parent / "run",
        config.as_toml(prepared.configuration),
        prepared.agreement.terms,
        {},
        run.starting_tensors(study),
        run.starting_draws(study),
    )
    stamps: list[float] = []
    unwritten: list[float] = []
    for progress in run.simulate(study, folder):
        stamps.append(time.time())
        unwritten.append((progress.metrics or {})["seconds"])
    return stamps, unwritten


def main() -> None:
    """Play the job; the last round, which evaluates, does not count."""
    job, options = asked(path="plain", set=[])
    with tempfile.TemporaryDirectory() as parent:
        stamps, unwritten = play(job, options.path, options.set, Path(parent))
    versions = {"onlooker": onlooker.__version__, "torch": importlib.metadata.version("torch")}
    report(stamps[:-1], versions, unwritten=unwritten[1:-1])


if __name__ == "__main__":
    main()
