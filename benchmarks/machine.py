"""This machine: what it is, what else it is doing, and how one contender is run alone on it.

Load and memory are read from `/proc`; on systems without it they are unknown, and nothing is called disturbed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc")
_BECOME_SUBREAPER = 36  # prctl: orphans of what is run come to this process, which then knows their processor time
_LOOK = 1.0


@dataclass(frozen=True)
class Ran:
    """What became of one contender's process.

    Attributes:
        output: all that it printed, errors among it.
        status: 0 where it ended well.
        foreign: the cores that other processes used meanwhile, on average; None where unknown.
        memory: the most that it and its children held, in MiB, shared pages counted once; None where unknown.
    """

    output: str
    status: int
    foreign: float | None
    memory: float | None


def processor() -> str:
    """The name of the processor, and how many cores there are."""
    try:
        lines = (_PROC / "cpuinfo").read_text().splitlines()
        name = next(line.partition(": ")[2] for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        name = platform.processor() or platform.machine()
    return f"{name}, {os.cpu_count()} cores"


def foreign_cores(seconds: float) -> float | None:
    """The cores that other processes use, over so many seconds in which this one sleeps."""
    before = _busy()
    time.sleep(seconds)
    after = _busy()
    return None if before is None or after is None else (after - before) / seconds


def run_alone(command: Sequence[str], environment: Mapping[str, str], folder: Path, longest: float) -> Ran:
    """Run one process to its end, and leave none of its children behind.

    Args:
        command: the process.
        environment: all its variables.
        folder: where it works.
        longest: seconds, after which it is killed.
    """
    earlier = set(_descendants())
    busy, own, start, memory = _busy(), _own(), time.monotonic(), 0.0
    with tempfile.TemporaryFile() as output, _adopting_orphans():
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, env=environment)
        try:
            while process.returncode is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_LOOK)
                memory = max(memory, sum(_held(one) for one in _descendants() if one not in earlier))
                if time.monotonic() - start > longest:
                    process.kill()
        finally:
            process.kill()
            process.wait()
            _end_rest(earlier)
        seconds, after = time.monotonic() - start, _busy()
        output.seek(0)
        text = output.read().decode(errors="replace")
    foreign = None if busy is None or after is None else max(0.0, (after - busy - _own() + own) / seconds)
    return Ran(text, process.returncode, foreign, memory or None)


def _busy() -> float | None:
    """Seconds of all cores that were not idle since the machine started, those taken by a host among them."""
    try:
        fields = [int(field) for field in (_PROC / "stat").read_text().splitlines()[0].split()[1:9]]
    except (OSError, ValueError):
        return None
    user, nice, system, _, _, interrupts, soft, stolen = fields
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def _own() -> float:
    """Processor time of this process and of all its children that have ended."""
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in spent)


@contextlib.contextmanager
def _adopting_orphans() -> Iterator[None]:
    on_linux = platform.system() == "Linux"
    control = ctypes.CDLL(None).prctl if on_linux else None
    if control:
        control(_BECOME_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        if control:
            control(_BECOME_SUBREAPER, 0, 0, 0, 0)


def _end_rest(earlier: Collection[int]) -> None:
    """End what the process left behind, and nothing that was there before; some need a moment to end by themselves."""
    for patience in (3.0, 1.0):
        end = time.monotonic() + patience
        while left := [one for one in _descendants() if one not in earlier]:
            for one in left:
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(one, os.WNOHANG)
            if time.monotonic() > end:
                break
            time.sleep(0.02)
        for one in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)


def _descendants() -> Iterator[int]:
    """The processes that this one started, and those that they started."""
    parents: dict[int, list[int]] = {}
    for place in _PROC.glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError):
            after_name = place.read_text().rpartition(")")[2].split()
            parents.setdefault(int(after_name[1]), []).append(int(place.parent.name))
    waiting = list(parents.get(os.getpid(), []))
    while waiting:
        one = waiting.pop()
        yield one
        waiting += parents.get(one, [])


def _held(process: int) -> float:
    """MiB of one process, a page that n processes share counted as one n-th."""
    with contextlib.suppress(OSError):
        for line in (_PROC / str(process) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
