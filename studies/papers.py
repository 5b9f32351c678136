"""Every figure and table of the papers at full size into docs/studies/, one at a time.

`python studies/papers.py DATA [PAPER]`, where DATA has a folder for each data set. What is there already is left
alone, so that a study that was cut short goes on where it was; delete a CSV to have its figure made again. Trained
figures take hours on two cores; without DATA only those that are formulas are made.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from onlooker.reproduce.catalogue import FORMULAS, available
from onlooker.reproduce.scale import Scale

STUDIES = Path(__file__).resolve().parents[1] / "docs" / "studies"


def make(paper: str, name: str, root: Path | None) -> None:
    """One figure or table, by the command."""
    kind, number = name.split("-")
    command = [sys.executable, "-m", "onlooker", "reproduce", paper, f"--{kind}", number, "--out", str(STUDIES / paper)]
    subprocess.run([*command, *(["--root", str(root)] if root else [])], check=True)


def main() -> None:
    """What is missing, in order."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    for paper in sys.argv[2:] or FORMULAS:
        for name in available(paper, Scale(quick=False, root=root)):
            if not (STUDIES / paper / f"{name}.csv").exists() and (root or name in FORMULAS[paper]):
                make(paper, name, root)


if __name__ == "__main__":
    main()
