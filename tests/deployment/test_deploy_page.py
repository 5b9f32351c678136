"""The commands of docs/deploy.md do what the page says, in its order, by whoever copies them."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from federation import is_free

PAGE = Path(__file__).parents[2] / "docs" / "deploy.md"
LIMIT = 180.0


def blocks():
    return re.findall(r"^```sh\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def free_ten():
    """The ports of the page, 9100 and on, without their last digit, moved to where nobody is."""
    tens = random.sample(range(2000, 3200), 1200)  # drawn, so that two who look at one time hardly find the same
    return next(ten for ten in tens if all(is_free(10 * ten + one) for one in range(7)))


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What running all blocks printed."""
    folder = tmp_path_factory.mktemp("deploy")
    script = "set -euo pipefail\n" + "\n".join(blocks()).replace("910", str(free_ten()))
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "100",
    }
    process = subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=LIMIT)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    logs = {one: one.read_text()[-600:] for one in folder.glob("*/log")}
    assert process.returncode == 0, (said[-3000:], logs)
    return folder, said


def test_the_commands_of_the_page_end_with_a_report(told):
    folder, said = told
    assert said.count("faults: 0") == 2 and said.count("sealed its share.") == 4
    assert "round 2 of 2" in said and (folder / "coordinator" / "run" / "report.html").is_file()
    assert re.search(r"client:0 sealed 1 report of round 2; spent so far epsilon (2|1[.]9+) of 3 ", said), said


def test_what_is_private_is_for_its_owner_alone(told):
    folder, _ = told
    for name in ("signing.pem", "tls-key.pem", "supernode", "budget.db", "patients.csv"):
        found = list(folder.glob(f"*/{name}"))
        assert found and all(one.stat().st_mode & 0o077 == 0 for one in found), name


def test_every_command_of_the_page_is_one():
    named = set(re.findall(r"\bonlooker ([a-z-]+)", "\n".join(blocks())))
    assert named == {"new", "plan", "task", "serve", "client", "verify-transcript", "report"}
