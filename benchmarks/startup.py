"""What stands between a command and what it says: `plan` with all its prices, and `run` to its first round.

Every case is a process of its own, on one thread, and next to it `import torch` is timed by itself: cases take turns,
and the least of a few repeats counts, because whatever else runs on a machine only adds. A plan's job is 10,000 rounds.
What a run's workers take of the processor shows on the wall clock alone.

Usage: python benchmarks/startup.py [REPEATS] [WORD]    (only cases whose name has the word)
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROUNDS = 10_000
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
JOB = """
[task]
method = "{method}"
rounds = {rounds}
[data]
name = "digits"
clients = {clients}
{data}
[model]
name = "mlp"
{more}
[privacy]
delta = 1e-5
{privacy}
"""


WATCHED = """
import builtins, os, sys, time
share, *sys.argv = sys.argv[1:]
inner, spent, running = builtins.__import__, 0.0, False
def watched(*names, **more):
    global spent, running
    if running:
        return inner(*names, **more)
    running, began = True, time.process_time()
    try:
        return inner(*names, **more)
    finally:
        running, took = False, time.process_time() - began
        spent += took
        if took > 1e-3:
            with open(share + ".new", "w") as file:
                file.write(str(spent))
            os.replace(share + ".new", share)
builtins.__import__ = watched
if sys.argv[0] == "torch":
    import torch
else:
    from onlooker.cli import main
    main()
"""
"""Runs a command, and keeps in a file what its imports have taken so far."""


@dataclass(frozen=True)
class Cost:
    """What a process took, in seconds: by the clock on the wall, on the processor, and there for imports alone."""

    wall: float
    cpu: float
    imports: float


@dataclass(frozen=True)
class Case:
    """A command on a configuration, which is over when it ends, or once the run's first line of metrics is there."""

    name: str
    arguments: tuple[str, ...]
    until_first_round: bool = False


def clients(sampler: str, privacy: str, more: str = "") -> str:
    """A dp-fedavg job under one sampler of clients."""
    table = f"[sampling.clients]\n{sampler}\n{more}"
    return JOB.format(method="dp-fedavg", rounds=ROUNDS, clients=100, data="", more=table, privacy=privacy)


def written() -> dict[str, str]:
    """The configurations by name: every sampler, with its noise given and, where said, calibrated to a target."""
    target, given, replaced = "epsilon = 8.0", "noise-multiplier = 8.0", '\nadjacency = "replace-one"'
    samplers = {
        "poisson": 'name = "poisson"\nrate = 0.1',
        "fixed size": 'name = "fixed-size"\nrate = 0.1',
        "everyone": 'name = "all"',
        "random allocation": 'name = "random-allocation"\nparticipations = 1000',
        "cyclic": 'name = "cyclic"\nperiod = 10',
        "fixed offset": 'name = "fixed-offset"\nperiod = 10',
    }
    found = {
        f"{name}, {how}": clients(s, p) for name, s in samplers.items() for how, p in (("z", given), ("eps", target))
    }
    found |= {
        f"{name}, replace-one, eps": clients(samplers[name], target + replaced) for name in ("poisson", "fixed size")
    }
    realised = f'{target}\ndivisor = "realised"'
    found["counted, eps"] = clients(samplers["poisson"], realised).replace("dp-fedavg", "ms-pafl")
    records = "[sampling.records]\nrate = 0.1\n[servers]\ncount = 2"
    silos = {"method": "dp-sgd", "rounds": ROUNDS, "clients": 10, "data": "expected-records = 140", "privacy": target}
    found["dp-sgd, records, eps"] = JOB.format(more=records, **silos)
    groups = '[groups]\nstructure = "string"\ngroups = 5\noverlap = 2\nmixing-period = 10'
    for method in ("dp-ogl", "dp-ogl-plus", "dp-ogl-plus-isolated"):
        found[f"{method}, z"] = clients("rate = 0.5", given, groups).replace("dp-fedavg", method)
    tree = "[sampling.clients]\nperiod = 10"
    found["dp-ftrl, tree, eps"] = JOB.format(
        method="dp-ftrl", rounds=ROUNDS, clients=100, data="", more=tree, privacy=target
    )
    return found


def cases(folder: Path) -> list[Case]:
    """Every command that is timed."""
    found: list[Case] = []
    for name, text in written().items():
        path = folder / f"{re.sub('[^a-z0-9]+', '-', name)}.toml"
        path.write_text(text)
        found.append(Case(f"plan {name}", ("onlooker", "plan", str(path))))
    found += [Case(f"plan {path.stem}", ("onlooker", "plan", str(path))) for path in sorted(EXAMPLES.glob("*.toml"))]
    digits, fedavg = EXAMPLES / "digits_silos.toml", folder / "poisson-eps.toml"
    found.append(Case("run digits_silos", ("onlooker", "run", str(digits)), until_first_round=True))
    found.append(Case("run dp-fedavg mlp", ("onlooker", "run", str(fedavg)), until_first_round=True))
    return found


def cost(case: Case) -> Cost:
    """One process from its start to its end, or to its first round, where it is stopped."""
    with tempfile.TemporaryDirectory() as place:
        share, metrics = Path(place, "share"), Path(place, "run", "metrics.jsonl")
        where = ("--out", str(metrics.parent)) if case.until_first_round else ()
        command = [sys.executable, "-c", WATCHED, str(share), *case.arguments, *where]
        began = time.perf_counter()
        with open(Path(place, "errors"), "w") as errors:
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors)
            wall = first_line(metrics, process, began) if where else 0.0
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode and not where:
            raise SystemExit(f"{case.name} failed: {Path(place, 'errors').read_text()[-500:]}")
        return Cost(wall or time.perf_counter() - began, usage.ru_utime + usage.ru_stime, float(share.read_text()))


def first_line(metrics: Path, process: subprocess.Popen[bytes], began: float) -> float:
    """Seconds until the run has written a line of metrics; then it is killed."""
    while not (metrics.exists() and metrics.stat().st_size):
        if os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            raise SystemExit("the run ended before its first round.")
        time.sleep(0.002)
    wall = time.perf_counter() - began
    process.kill()
    return wall


def main() -> None:
    """Print a line for each case."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    word = sys.argv[2] if len(sys.argv) > 2 else ""
    os.environ["OMP_NUM_THREADS"] = "1"
    torch = Case("import torch", ("torch",))
    with tempfile.TemporaryDirectory() as place:
        chosen = [case for case in cases(Path(place)) if word in case.name]
        cost(torch)  # from the disk
        print(f"{'case':<44}{'wall s':>8}{'cpu s':>8}{'imports s':>11}{'cpu / torch':>13}{'wall / torch':>14}")
        for case in chosen:
            pairs = [(cost(case), cost(torch)) for _ in range(repeats)]
            wall, cpu, imports = (min(getattr(one, key) for one, _ in pairs) for key in ("wall", "cpu", "imports"))
            by_cpu, by_wall = cpu / min(alone.cpu for _, alone in pairs), wall / min(alone.wall for _, alone in pairs)
            print(f"{case.name:<44}{wall:>8.2f}{cpu:>8.2f}{imports:>11.2f}{by_cpu:>13.2f}{by_wall:>14.2f}", flush=True)


if __name__ == "__main__":
    main()
