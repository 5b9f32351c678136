"""The command as a user types it: to its first finished round, or the whole of a plan."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onlooker
from benchmarks.configuration import text_of
from benchmarks.job import Job
from benchmarks.protocol import asked, say

_LONGEST = 300.0


def until_first_round(job: Job, path: str, settings: list[str], parent: Path) -> float:
    """Seconds from the start of `onlooker run` to its first line of `metrics.jsonl`."""
    metrics = parent / "run" / "metrics.jsonl"
    command = [*_written(job, path, parent, "run"), *settings, "--out", str(parent / "run")]
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            while not (metrics.exists() and metrics.stat().st_size):
                if process.poll() not in (None, 0) or time.perf_counter() - start > _LONGEST:
                    raise SystemExit(f"{' '.join(command)} came to no round.")
                time.sleep(0.005)
            return time.perf_counter() - start
        finally:
            process.terminate()


def planned(job: Job, path: str, settings: list[str], parent: Path) -> float:
    """Seconds that `onlooker plan` takes."""
    command = [*_written(job, path, parent, "plan"), *settings]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def _written(job: Job, path: str, parent: Path, word: str) -> list[str]:
    file = parent / "job.toml"
    file.write_text(text_of(job, path))
    return [sys.executable, "-m", "onlooker", word, str(file)]


def main() -> None:
    """Once: the driver repeats it."""
    job, options = asked(word="run", path="plain", set=[])
    settings = [text for setting in options.set for text in ("--set", setting)]
    measure = until_first_round if options.word == "run" else planned
    with tempfile.TemporaryDirectory() as parent:
        seconds = measure(job, options.path, settings, Path(parent))
    say({"seconds": [], "start": seconds, "versions": {"onlooker": onlooker.__version__}})


if __name__ == "__main__":
    main()
