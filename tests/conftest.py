from __future__ import annotations

from pathlib import Path

import pytest

PROJECT_ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data sets and reference values beside the project; tests that need it skip without it."""
    folder = PROJECT_ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"there is no {folder} with the data sets and reference values")
    return folder
