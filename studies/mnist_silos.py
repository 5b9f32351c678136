"""Three seeds of examples/mnist_silos.toml, through the command, with what each of them came to.

`python studies/mnist_silos.py DATA [--set ...]`, where DATA has a folder `mnist`; options are passed on. It takes about
seven minutes a seed on two quiet cores.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "mnist_silos.toml"


def run(seed: int, options: list[str], parent: Path) -> str:
    """One seed: its accuracy, its time, and every observer's epsilon."""
    folder = parent / f"seed-{seed}"
    command = [
        sys.executable,
        "-m",
        "onlooker",
        "run",
        str(EXAMPLE),
        "--set",
        f"task.seed={seed}",
        "--out",
        str(folder),
    ]
    subprocess.run([*command, *options], check=True, stdout=subprocess.DEVNULL)
    plan = subprocess.run(
        [sys.executable, "-m", "onlooker", "plan", str(EXAMPLE), *options, "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows = json.loads(plan.stdout)["rows"]
    spent = ", ".join(
        f"{name} {'none' if row['epsilon'] is None else format(row['epsilon'], '.4f')}"
        for row in rows
        for name in row["observers"]
    )
    seconds = sum(line["seconds"] for line in lines)
    accuracy = lines[-1]["accuracy"]
    return f"seed {seed}: accuracy {accuracy:.4f} after {len(lines)} rounds in {seconds:.0f} s; epsilon: {spent}"


def main() -> None:
    """Run the seeds one after another, for each uses both cores."""
    if len(sys.argv) < 2:
        sys.exit("python studies/mnist_silos.py DATA: name the folder that has a folder for each data set.")
    root = Path(sys.argv[1]).resolve() / "mnist"
    with tempfile.TemporaryDirectory() as parent:
        for seed in (1, 2, 3):
            print(run(seed, ["--set", f"data.root={json.dumps(str(root))}", *sys.argv[2:]], Path(parent)), flush=True)


if __name__ == "__main__":
    main()
