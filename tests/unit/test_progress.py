"""What the command says of a run as it goes: where it goes on, and how good the model was when last looked at."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

from onlooker import config, display, run
from onlooker.cli import app
from onlooker.folder import RunFolder
from onlooker.run import Progress

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


def test_lines_show_the_latest_evaluation_and_of_which_round_it_is():
    Path("run.toml").write_text(TEXT.format(rounds=10, every=4))
    result = CliRunner().invoke(app, ["run", "run.toml", "--out", "run"])
    assert result.exit_code == 0, result.output
    measured = {line["round"]: f"accuracy {line['accuracy']:.1%}" for line in metrics("run") if "accuracy" in line}
    assert list(measured) == [4, 8, 10]
    expected = [f"round {round} of 10  not evaluated yet" for round in (1, 2, 3)]
    expected += [
        f"round 4 of 10  {measured[4]}",
        *(f"round {at} of 10  {measured[4]} after round 4" for at in (5, 6, 7)),
    ]
    expected += [f"round 8 of 10  {measured[8]}", f"round 9 of 10  {measured[8]} after round 8"]
    assert result.stdout.splitlines()[:10] == [*expected, f"round 10 of 10  {measured[10]}"]


def test_a_round_that_was_given_up_says_so_beside_what_was_evaluated_before_the_run_was_cut_short():
    console = Console(file=io.StringIO(), width=100)
    folder = cut_short(6, 4, every=3)
    prepared = config.prepare(config.parse(folder.configuration()), Path())
    display.follow(console, prepared, folder, [Progress(folder.ledger(), None)])
    (before,) = [line["accuracy"] for line in metrics("cut") if "accuracy" in line]
    told = console.file.getvalue()
    assert told == f"round 5 of 6  given up, stays charged; accuracy {before:.1%} after round 3\n"


def metrics(place: str) -> list[dict[str, Any]]:
    return RunFolder.open(Path(place)).metrics()
