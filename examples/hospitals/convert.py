"""From the processed files of the UCI Heart Disease set to one file of each hospital, as it would have it itself.

Every hospital's rows name the patient, write a missing value as nothing, and hold nothing that the others have. A fifth
of the patients of each are set aside as the public rows on which the coordinator measures the model: for this example
they are declared public, because the whole set is; in earnest such rows come from a study that was published.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
_FIELDS = tuple("age sex cp trestbps chol fbs restecg thalach exang oldpeak slope ca thal".split())
COLUMNS = ("patient", *_FIELDS, "disease")
_ZERO_IS_MISSING = ("trestbps", "chol")
"""No living patient has a blood pressure or a cholesterol of 0."""
_PUBLIC = 5
"""One patient in so many is public."""


def convert(data: Path, files: Sequence[Path], public: Path) -> list[int]:
    """Write each hospital's rows to its own file, and the public ones to another; how many patients each has then.

    Args:
        data: the folder with `processed.cleveland.data` and the three others.
        files: where those of each hospital go, in the order of `HOSPITALS`.
        public: where the public rows go.

    Raises:
        FileNotFoundError: if a file of the set is not there.
    """
    kept: list[int] = []
    shown: list[Sequence[str]] = []
    for hospital, file in zip(HOSPITALS, files, strict=True):
        rows = list(_rows(data / f"processed.{hospital}.data", hospital))
        shown += rows[::_PUBLIC]
        own = [row for place, row in enumerate(rows) if place % _PUBLIC]
        _write(file, own)
        kept.append(len(own))
    _write(public, shown)
    return kept


def _rows(path: Path, hospital: str) -> Iterable[tuple[str, ...]]:
    with open(path, encoding="utf-8", newline="") as file:
        for number, values in enumerate(csv.reader(file), 1):
            *features, found = values
            cells = (_cell(name, value) for name, value in zip(_FIELDS, features, strict=True))
            yield f"{hospital}-{number:03}", *cells, "yes" if float(found) > 0 else "no"


def _cell(name: str, value: str) -> str:
    """Numbers as short as they are: the files write one code as 3 and as 3.0."""
    if value == "?" or (name in _ZERO_IS_MISSING and float(value) == 0):
        return ""
    return f"{float(value):g}"


def _write(path: Path, rows: Iterable[Sequence[str]]) -> None:
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows(rows)
