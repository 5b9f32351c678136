"""What the command says of a run as it goes: where it goes on, and how good the model was when last looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from onlooker import config, run
from onlooker.cli import app
from onlooker.folder import RunFolder

TEXT = """
[task]
method = "fedavg"
rounds = {rounds}
[data]
name = "digits"
clients = 2
[model]
name = "logistic"
[training]
steps = 1
[evaluation]
every = {every}
[engine]
name = "loop"
"""


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def cut_short(rounds: int, done: int, every: int = 1) -> RunFolder:
    """A run that was cut after `done` rounds."""
    prepared = config.prepare(config.parse(TEXT.format(rounds=rounds, every=every)), Path())
    study = config.study(prepared, torch.device("cpu"))
    text, start = config.as_toml(prepared.configuration), run.starting_tensors(study)
    folder = RunFolder.create(Path("cut"), text, prepared.agreement.terms, {}, start)
    steps = run.simulate(study, folder)
    for _ in range(done):
        next(steps)
    steps.close()
    return folder


def resumed() -> list[str]:
    result = CliRunner().invoke(app, ["resume", "cut"])
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


@pytest.mark.parametrize("done", [0, 2])
def test_a_resumed_run_says_from_which_round_it_goes_on(done):
    cut_short(3, done)
    first, second, *_ = resumed()
    assert first == f"cut goes on from round {done + 1} of 3." and second.startswith(f"round {done + 1} of 3 ")


def test_a_run_with_nothing_left_says_so():
    cut_short(3, 3)
    first, second, *_ = resumed()
    assert first == "cut has played all its 3 rounds." and not second.startswith("round")
