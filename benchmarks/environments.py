"""An environment for each peer, made by pip: `python -m benchmarks.environments`.

A peer whose environment cannot be made is left out with the reason, and the others go on.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

DEFAULT = Path("build/benchmarks")
_TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Environment:
    """What a peer needs.

    Attributes:
        name: of the peer.
        installs: the arguments of one `pip install` after another.
        imports: what must import once all is there.
    """

    name: str
    installs: tuple[tuple[str, ...], ...]
    imports: str


ENVIRONMENTS = {
    one.name: one
    for one in (
        Environment("pfl", ((_TORCH, "pfl==0.6.0"),), "pfl.algorithm.federated_averaging"),
        Environment("flower", ((_TORCH, "flwr[simulation]==1.42.0"),), "flwr.simulation"),
        Environment("fedjax", (("fedjax==0.0.17", "jax==0.10.2", "jaxlib==0.10.2"),), "fedjax"),
        # It asks for Python 3.12, which none of the code that is used here needs.
        Environment(
            "blazefl",
            ((_TORCH, "numpy<3", "tqdm"), ("--ignore-requires-python", "--no-deps", "blazefl==2.0.3")),
            "blazefl.contrib.fedavg",
        ),
    )
}


def python_of(name: str, parent: Path) -> Path:
    """The interpreter of a peer's environment."""
    return (parent / name / "bin" / "python").absolute()


def missing(name: str, parent: Path) -> str | None:
    """Why a peer cannot run; None where it can."""
    try:
        return json.loads((parent / f"{name}.json").read_text())["missing"]
    except FileNotFoundError:
        return f"its environment was not made: python -m benchmarks.environments --under {parent} --only {name}"


def make(environment: Environment, parent: Path) -> str | None:
    """Make one environment, unless it is there; why it could not be made, or None.

    What came of it is kept beside it, for the driver to show.
    """
    if missing(environment.name, parent) is None:
        return None
    place, python = parent / environment.name, str(python_of(environment.name, parent))
    shutil.rmtree(place, ignore_errors=True)
    venv.create(place, with_pip=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    commands = [[*pip, *packages] for packages in environment.installs] + [
        [python, "-c", f"import {environment.imports}"]
    ]
    reason = next((failed for command in commands if (failed := _failure(command))), None)
    (parent / f"{environment.name}.json").write_text(json.dumps({"missing": reason}))
    return reason


def _failure(command: list[str]) -> str | None:
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
    return (lines[-1] if lines else f"exit status {done.returncode}") if done.returncode else None


def main() -> None:
    """Make every environment that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--under", type=Path, default=DEFAULT, help="the folder that holds them (some GB)")
    parser.add_argument("--only", default=",".join(ENVIRONMENTS), help="peers, separated by commas")
    asked = parser.parse_args()
    unknown = set(asked.only.split(",")) - ENVIRONMENTS.keys()
    if unknown:
        sys.exit(f"--only {','.join(sorted(unknown))} is not known; choose from {', '.join(ENVIRONMENTS)}.")
    asked.under.mkdir(parents=True, exist_ok=True)
    for name in asked.only.split(","):
        print(f"{name}: {make(ENVIRONMENTS[name], asked.under) or 'ready'}", flush=True)


if __name__ == "__main__":
    main()
