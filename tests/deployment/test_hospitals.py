"""The example of four hospitals: its rows, how it ends when it is stopped, and all of it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from convert import COLUMNS, HOSPITALS, convert
from onlooker import config, data
from onlooker.config import data_settings

EXAMPLE = Path(__file__).parents[2] / "examples" / "hospitals"

AGE_TO_THAL = "63.0,1.0,4,{pressure},{chol},0,1,120,1,1.5,2,?,{thal},{num}"


def made_up(folder, rows=40):
    """Four files as the set has them, about nobody."""
    folder.mkdir()
    draw = random.Random(7)
    for hospital in HOSPITALS:
        lines = [
            AGE_TO_THAL.format(
                pressure=draw.choice(["140", "0", "?"]),
                chol=draw.choice(["233.0", "0"]),
                thal=draw.choice(["3", "6.0", "?"]),
                num=draw.choice(["0", "2"]),
            )
            for _ in range(rows)
        ]
        (folder / f"processed.{hospital}.data").write_text("\n".join(lines) + "\n")
    return folder


def left(folder):
    """Processes whose Flower folder lies there, or that were given a file there."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            said = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
        except OSError:
            continue
        if process.name.isdecimal() and int(process.name) != os.getpid() and str(folder).encode() in said:
            found.append(said)
    return found


def started(rows, out, **options):
    command = [sys.executable, EXAMPLE / "run.py", rows, "--out", out]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heeding_interrupts,
        **options,
    )


def heeding_interrupts():
    """As in a terminal: whoever runs these tests in the background has a shell that ignores them, for all below it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_each_hospital_s_file_is_what_the_job_reads(tmp_path):
    files = [tmp_path / f"{name}.csv" for name in HOSPITALS]
    assert convert(made_up(tmp_path / "set"), files, tmp_path / "public.csv") == [32] * 4
    prepared = config.prepare(config.load(EXAMPLE / "job.toml"), EXAMPLE)
    assert files[0].read_text().splitlines()[0].split(",") == list(COLUMNS)
    settings = data_settings(prepared.configuration)
    for place, file in enumerate([*files, tmp_path / "public.csv"]):
        own = data.DataSettings(**{**vars(settings), "root": file})
        examples = data.rows(own, f"the rows of client:{place}")
        assert examples.features.shape == (32, prepared.description.shape[0])
        assert len(examples.rows_by_person()) == 32


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_nothing_is_left_of_what_was_stopped(tmp_path, how):
    out = tmp_path / "out"
    process = started(made_up(tmp_path / "set"), out)
    line = next(line for line in process.stdout if line.startswith("starting"))
    assert "11 processes" in line
    time.sleep(4)
    process.send_signal(how)
    _, complaint = process.communicate(timeout=40)
    assert (process.returncode, complaint) == (130, "stopped; every process was ended.\n")
    assert not left(out)


@pytest.mark.parametrize("fault", ["no data", "used folder"])
def test_what_is_wrong_is_one_sentence(tmp_path, fault):
    rows = tmp_path / "none" if fault == "no data" else made_up(tmp_path / "set")
    out = tmp_path / "out" if fault == "no data" else tmp_path
    process = started(rows, out)
    said, complaint = process.communicate(timeout=60)
    assert (process.returncode, said, complaint.count("\n")) == (2, "", 1), complaint
    assert ("processed.cleveland.data" if fault == "no data" else "is there already") in complaint


@pytest.mark.deep
def test_four_hospitals_end_with_a_report(tmp_path, shared):
    rows = shared / "data" / "heart-disease"
    if not rows.is_dir():
        pytest.skip(f"there is no {rows} with the rows of the hospitals")
    out = tmp_path / "out"
    process = started(rows, out)
    said, complaint = process.communicate(timeout=400)
    assert (process.returncode, complaint) == (0, ""), said
    lines = said.splitlines()
    assert sum("of 6, " in line and "accuracy" in line for line in lines) == 6
    assert sum("faults: 0" in line for line in lines) == 2 and "6 of 6 rounds charged" in said
    assert Path(lines[-1].removeprefix("report ")).is_file()
    assert not left(out)
