from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path

import pytest

PROJECT_ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Tests neither see nor change which trainers were found fastest for the user."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of data sets and reference values beside the project; tests that need it skip without it."""
    folder = PROJECT_ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip(f"there is no {folder} with the data sets and reference values")
    return folder


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport]:
    """Where everything that tests need is installed, as in CI, a skipped test is a failed one."""
    outcome = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI, where nothing may be missing: {report.longrepr}"
