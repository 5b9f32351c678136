"""A run that dies at any moment goes on, never charges less than it released, and ends with the same model."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from onlooker import config, folder, run
from onlooker.errors import FolderError
from onlooker.folder import RunFolder
from onlooker.privacy.ledger import Ledger

TEXT = """
[task]
method = "feddecouple"
rounds = {rounds}
seed = {seed}
[data]
name = "digits"
clients = 4
[model]
name = "logistic"
[training]
steps = 2
server-momentum = 0.5
[privacy]
noise-multiplier = 2.0
"""


def start(path: Path, rounds: int = 6, seed: object = 3):
    prepared = config.prepare(config.parse(TEXT.format(rounds=rounds, seed=seed)), Path())
    study = config.study(prepared, device())
    environment = {"name": "death"}
    return study, RunFolder.create(
        path,
        config.as_toml(prepared.configuration),
        prepared.agreement.terms,
        environment,
        run.starting_tensors(study),
    )


def device():
    import torch

    return torch.device("cpu")


def finish(study, opened) -> bytes:
    for _ in run.simulate(study, opened):
        pass
    return (opened.path / "model.safetensors").read_bytes()


def test_every_single_write_may_fail(tmp_path, monkeypatch):
    """Fail the n-th write, for every n that a run makes: nothing is lost, and resuming gives the same model."""
    study, whole = start(tmp_path / "whole")
    expected = finish(study, whole)
    failures = 0
    for place in range(1, 1000):
        study, broken = start(tmp_path / f"broken-{place}")
        fuse = Fuse(place)
        with monkeypatch.context() as patched:
            patched.setattr(folder.os, "fsync", fuse.wrap(os.fsync))
            patched.setattr(folder.os, "replace", fuse.wrap(os.replace))
            try:
                for _ in run.simulate(study, broken):
                    pass
            except FolderError as error:
                assert "cannot be written" in str(error)
                failures += 1
        ledger = broken.ledger()
        assert len(ledger.releases) >= broken.commit().round
        assert finish(study, RunFolder.open(broken.path)) == expected
        assert broken.ledger() == Ledger.plan(study.method.terms)
        assert [line["round"] for line in broken.metrics()] == list(range(1, 7))
        if not fuse.blown:
            break
    assert failures >= 6 * 5  # each round: charge, metrics, and the draft, its place and its folder's entry


class Fuse:
    """Lets so many calls pass, fails one, and lets the rest pass."""

    def __init__(self, place):
        self.left, self.blown = place, False

    def wrap(self, function):
        def called(*arguments):
            self.left -= 1
            if self.left == 0:
                self.blown = True
                raise OSError(28, "No space left on device")
            return function(*arguments)

        return called


@pytest.mark.parametrize("cut", [1, 10, 60])
def test_a_torn_line_is_dropped(tmp_path, cut):
    study, whole = start(tmp_path / "whole")
    expected = finish(study, whole)
    study, torn = start(tmp_path / "torn")
    steps = run.simulate(study, torn)
    for _ in range(3):
        next(steps)
    steps.close()
    for name in ("ledger.jsonl", "metrics.jsonl"):
        with open(torn.path / name, "ab") as file:
            file.write(b'{"round": 4, "digest": "0123456789abcdef0123456789abcdef0123456789abcdef"}'[:cut])
    assert finish(study, torn) == expected
    assert torn.ledger() == Ledger.plan(study.method.terms)


def test_a_round_that_cannot_be_repeated_is_given_up_and_stays_charged(tmp_path):
    """Without a seed the noise of a sealed round cannot come again, so the round must not."""
    study, opened = start(tmp_path / "system", seed='"system"')
    steps = run.simulate(study, opened)
    next(steps)
    steps.close()
    opened.charge(opened.ledger().charge(2, "0" * 64).releases[-1])  # died between the charge and the commit
    digests = {release.round: release.digest for release in opened.ledger().releases}
    finish(study, opened)
    assert opened.ledger() == Ledger.plan(study.method.terms)
    assert digests.items() <= {release.round: release.digest for release in opened.ledger().releases}.items()
    assert [line["round"] for line in opened.metrics()] == [1, 3, 4, 5, 6]


def test_other_bytes_for_a_sealed_round_are_never_released(tmp_path):
    study, opened = start(tmp_path / "other")
    opened.charge(opened.ledger().charge(1, "f" * 64).releases[-1])
    finish(study, opened)
    assert opened.ledger() == Ledger.plan(study.method.terms)
    assert [line["round"] for line in opened.metrics()] == [2, 3, 4, 5, 6]


def test_two_writers_are_kept_apart(tmp_path):
    study, opened = start(tmp_path / "busy")
    steps = run.simulate(study, opened)
    next(steps)
    with pytest.raises(FolderError, match="another process"):
        next(run.simulate(study, opened))
    steps.close()


def test_killed_at_random_moments(tmp_path):
    """Real processes, SIGKILL, until the run is whole."""
    file = tmp_path / "run.toml"
    file.write_text(TEXT.format(rounds=12, seed=3))
    command = [sys.executable, "-m", "onlooker"]
    study, whole = start(tmp_path / "whole", rounds=12)
    expected = finish(study, whole)
    place = tmp_path / "killed"
    dice = random.Random(11)
    kills, seen = 0, 0
    process = subprocess.Popen([*command, "run", str(file), "--out", str(place)], stdout=subprocess.DEVNULL)
    for _ in range(30):
        wait_for(process, place, seen)
        time.sleep(dice.uniform(0, 0.06))
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        kills += 1
        opened = RunFolder.open(place)
        seen = charged(place)
        assert seen >= opened.commit().round
        process = subprocess.Popen([*command, "resume", str(place)], stdout=subprocess.DEVNULL)
    assert process.wait() == 0
    assert kills >= 2
    assert (place / "model.safetensors").read_bytes() == expected
    assert RunFolder.open(place).ledger() == Ledger.plan(study.method.terms)


def charged(place: Path) -> int:
    """Whole lines on the ledger, its first left out."""
    file = place / "ledger.jsonl"
    return file.read_bytes().count(b"\n") - 1 if file.exists() else 0


def wait_for(process, place: Path, seen: int, seconds: float = 60) -> None:
    """Until the process has ended or charged a round more."""
    end = time.monotonic() + seconds
    while process.poll() is None and charged(place) <= seen:
        assert time.monotonic() < end, "nothing happened for a minute"
        time.sleep(0.005)


@pytest.mark.parametrize("key", ["training.learning-rate=0.5", "training.server-momentum=0.1", "task.seed=4"])
def test_a_resumed_run_is_the_same_run(tmp_path, key):
    """Other training or another seed would make run.toml and env.json lie about what ran."""
    from typer.testing import CliRunner

    from onlooker.cli import app

    start(tmp_path / "run")
    result = CliRunner().invoke(app, ["resume", str(tmp_path / "run"), "--set", key])
    assert result.exit_code == 2 and key.split("=")[0] in result.stderr
    fine = CliRunner().invoke(app, ["resume", str(tmp_path / "run"), "--set", "evaluation.every=3"])
    assert fine.exit_code == 0, fine.stderr


def test_a_closed_pipe_ends_in_a_sentence_and_a_folder_that_goes_on(tmp_path):
    """As in `onlooker run ... | head -1`: nothing is lost, and the reader is told how to go on."""
    command = f"{sys.executable} -m onlooker run {tmp_path}/run.toml --out {tmp_path}/run | head -1"
    (tmp_path / "run.toml").write_text(
        '[task]\nmethod = "feddecouple"\nrounds = 30\n[data]\nname = "digits"\n[model]\nname = "logistic"\n'
        "[privacy]\nnoise-multiplier = 2.0\n"
    )
    result = subprocess.run(command, shell=True, capture_output=True, text=True, check=False)
    assert result.stdout.startswith("round 3 of 30")
    assert "onlooker resume" in result.stderr and "Traceback" not in result.stderr
    resumed = subprocess.run(
        [sys.executable, "-m", "onlooker", "resume", f"{tmp_path}/run"], capture_output=True, text=True, check=False
    )
    assert resumed.returncode == 0 and resumed.stdout.strip().endswith(f"{tmp_path}/run")
