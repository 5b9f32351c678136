"""Every figure and table of the papers into docs/studies/, one at a time.

`python studies/papers.py DATA [PAPER]`, where DATA has a folder for each data set. What is there already is left
alone, and finished runs are kept in reproduced/runs, so that a study that was cut short goes on where it was; delete
a CSV to have its figure drawn again, and the runs to have them trained again. docs/studies/README.md says how long
each takes, two runs at a time; without DATA only those that are formulas are made.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from onlooker.reproduce.catalogue import FORMULAS, available
from onlooker.reproduce.runs import Runs
from onlooker.reproduce.scale import Scale

ROOT = Path(__file__).resolve().parents[1]
STUDIES, KEPT, PROCESSES = ROOT / "docs" / "studies", ROOT / "reproduced" / "runs", 2


def make(paper: str, name: str, root: Path | None) -> None:
    """One figure or table, by the command."""
    kind, number = name.split("-")
    command = [sys.executable, "-m", "onlooker", "reproduce", paper, f"--{kind}", number, "--out", str(STUDIES / paper)]
    kept = ["--root", str(root), "--runs", str(KEPT), "--processes", str(PROCESSES)] if root else []
    subprocess.run([*command, *kept], check=True)


def main() -> None:
    """What is missing, in order."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if root is None:
        print("Formulas alone: name the folder that has a folder for each data set for what is trained.", flush=True)
    for paper in sys.argv[2:] or FORMULAS:
        for name in available(paper, Scale("study", root), Runs(KEPT)):
            if not (STUDIES / paper / f"{name}.csv").exists() and (root or name in FORMULAS[paper]):
                make(paper, name, root)


if __name__ == "__main__":
    main()
