"""Four hospitals train one model over Flower, each with its own rows, each in its own processes, all on this machine.

    python examples/hospitals/run.py DATA [--out DIR]

DATA is the folder of the UCI Heart Disease set (`processed.cleveland.data` and three others); nothing is downloaded.
What runs: an onlooker client and a Flower SuperNode for each hospital, two auxiliary servers, and the coordinator's
SuperLink, in which the ServerApp runs. They speak over TLS, and a SuperNode shows the key that was registered for it.
Here one machine has everybody's keys, so it is a rehearsal and protects nobody: docs/deploy.md is about four sites.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import tomli_w
from rich.console import Console

from convert import HOSPITALS, convert
from federation import HOST, ONLOOKER, Federation, free_ports
from onlooker import display
from onlooker.errors import OnlookerError
from onlooker.folder import RunFolder
from onlooker.privacy.statement import find
from processes import Failed, Processes, processes

JOB = Path(__file__).with_name("job.toml")
SERVERS = 2


def main() -> int:
    """Rehearse; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, metavar="DATA", help="the folder of the UCI Heart Disease set")
    parser.add_argument("--out", type=Path, default=Path("runs/hospitals"), help="runs/hospitals by default")
    given = parser.parse_args()
    try:
        rehearse(given.data, given.out)
    except (Failed, OnlookerError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; every process was ended.", file=sys.stderr)
        return 130
    return 0


def rehearse(data: Path, out: Path) -> None:
    """All of it, from the rows to the report.

    Raises:
        Failed: if a process does not do its part; the logs in `out` say more.
        OnlookerError: if the run folder cannot be read.
    """
    federation = prepared(data, out)
    with processes(out / "logs", os.environ | {"OMP_NUM_THREADS": "1"}) as everyone:
        say(f"starting {2 * len(HOSPITALS) + SERVERS + 1} processes; each has its log in {out / 'logs'}")
        federation.begin(everyone)
        show_places(federation)
        run = play(federation, everyone)
        for hospital, name in enumerate(HOSPITALS):
            say(f"{name}: {everyone.said(f'client{hospital}').strip().splitlines()[-1]}")
    for server in range(SERVERS):
        done = tool("verify-transcript", federation.trial / f"aux{server}.toml")
        say(f"aux:{server}, as its own auditor finds it: {done.splitlines()[-1]}")
    show_findings(run)
    print(f"report {tool('report', run)}")


def prepared(data: Path, out: Path) -> Federation:
    """Every party's folder: its rows, keys and files."""
    if out.exists():
        raise Failed(f"{out} is there already; name another folder by --out.")
    files = [out / name / "patients.csv" for name in HOSPITALS]
    missing = [one for name in HOSPITALS if not (one := data / f"processed.{name}.data").is_file()]
    if missing:
        raise Failed(f"{missing[0]} is not there; name the folder of the UCI Heart Disease set, as it comes.")
    for file in files:
        file.parent.mkdir(parents=True, mode=0o700)
    public = out / "public.csv"
    counts = convert(data, files, public)
    for name, file, count in zip(HOSPITALS, files, counts, strict=True):
        say(f"{name} has {count} patients, in {file}")
    app, trial, port = out / "app", out / "trial", free_ports(SERVERS + 1 + len(HOSPITALS))
    tool("new", app)
    shutil.copy(JOB, app / "job.toml")
    tool("keys", trial, "--job", app / "job.toml", "--port", str(port), "--budget", "5")
    for hospital, file in enumerate(files):
        change(trial / f"client{hospital}.toml", {"data": {"own": True, "root": str(file.resolve())}})
    change(trial / "coordinator.toml", {"test-root": str(public.resolve()), "run": "coordinator/hospitals"})
    return Federation(trial, app, len(HOSPITALS), SERVERS, port + SERVERS)


def play(federation: Federation, everyone: Processes) -> Path:
    """Submit the run to Flower and show what its ServerApp says; the run folder."""
    sentence = "nothing"
    for sentence in federation.submit(everyone, "flwr-run"):
        say(f"coordinator: {sentence}")
    if not Path(sentence).is_dir():
        raise Failed(f"the run did not end as it should; the last that the coordinator said is: {sentence}")
    return Path(sentence)


def show_places(federation: Federation) -> None:
    """Which process is whose, and who calls whom."""
    superlink = f"{HOST}:{federation.port}"
    say(f"coordinator: flower-superlink at {superlink}, over TLS; SuperNodes show the keys that were registered")
    for server in range(SERVERS):
        say(f"aux:{server}: onlooker serve at {HOST}:{federation.port - SERVERS + server}, over TLS both ways")
    for hospital, name in enumerate(HOSPITALS):
        say(
            f"{name}: onlooker client {hospital} with rows, key and budget; its SuperNode calls {superlink}, and "
            "nobody calls it"
        )


def show_findings(run: Path) -> None:
    """What every observer has learned, as a simulation says it."""
    folder = RunFolder.open(run)
    ledger = folder.ledger()
    display.show_findings(Console(), ledger, find(ledger, tuple(folder.environment()["observers"])))


def change(path: Path, keys: dict[str, object]) -> None:
    """Set keys of a party's file."""
    path.write_text(tomli_w.dumps(tomllib.loads(path.read_text(encoding="utf-8")) | keys), encoding="utf-8")


def tool(*words: str | Path) -> str:
    """What an onlooker command prints."""
    done = subprocess.run([*ONLOOKER, *map(str, words)], capture_output=True, text=True)
    if done.returncode:
        raise Failed(done.stderr.strip() or f"onlooker {words[0]} failed.")
    return done.stdout.strip()


def say(sentence: str) -> None:
    """To whoever watches, at once."""
    print(sentence, flush=True)


if __name__ == "__main__":
    sys.exit(main())
