"""Whole runs with a private evaluation: within their target, with intervals in their metrics and on the screen."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from onlooker.cli import app
from onlooker.folder import RunFolder
from onlooker.privacy.ledger import Ledger

TEXT = """
[task]
method = "dp-sgd"
rounds = 12
[data]
name = "digits"
clients = 10
expected-records = 140
[model]
name = "mlp"
[training]
learning-rate = 1.0
[sampling.records]
rate = 0.3
[servers]
count = 2
[privacy]
unit = "record"
epsilon = 8.0
delta = 1e-4
observers = ["public", "coordinator", "aux:0", "aux:0+aux:1"]
[evaluation]
every = 4
private = true
[engine]
name = "loop"
"""


def test_a_run_over_two_servers_tells_how_good_its_model_was_and_stays_within_its_target(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(TEXT)
    result = CliRunner().invoke(app, ["run", "run.toml", "--out", "run"])
    assert result.exit_code == 0, result.output
    folder = RunFolder.open(Path("run"))
    rules, lines = folder.terms(), folder.metrics()
    assert [one.name for one in rules.channels] == ["model", "evaluation"]
    assert max(folder.ledger().epsilon(0, name) for name in ("public", "coordinator", "aux:0")) <= 8.0
    assert folder.ledger() == Ledger.plan(rules)
    for line in lines:
        told = line["released"]
        (low, high), (least, most) = told["accuracy-interval"], told["loss-interval"]
        assert 0 <= low <= told["accuracy"] <= high <= 1 and high - low < 0.25
        assert 0 <= least <= told["loss"] <= most <= 2 * math.log(10) and "released" not in line["simulation"]
    assert [line["round"] for line in lines if "accuracy" in line] == [4, 8, 12]
    said = [one for one in result.stdout.splitlines() if one.startswith("round 5 of 12")]
    low, high = lines[4]["released"]["accuracy-interval"]
    value = lines[4]["released"]["accuracy"]
    assert said[0].endswith(f" after round 4; clients say {value:.1%} ({low:.1%} to {high:.1%}) before it")
    assert "Forecast: private evaluation, at the 420 records" in CliRunner().invoke(app, ["plan", "run.toml"]).output
    plan = CliRunner().invoke(app, ["plan", "run.toml", "--json"])
    noises = json.loads(plan.stdout)["noise-multipliers"]
    assert noises["evaluation"] == pytest.approx(3 * noises["model"])
    other = CliRunner().invoke(app, ["resume", "run", "--set", "evaluation.private=false"])
    assert other.exit_code == 2 and "evaluation.private: true became false" in other.output


REGRESSION = """
[task]
method = "dp-fedavg"
rounds = 4
[data]
name = "csv"
root = "rows.csv"
clients = 2
label-column = "y"
task = "regression"
[data.ranges]
x = [-1.0, 1.0]
[model]
name = "linear"
[sampling.clients]
name = "all"
[privacy]
noise-multiplier = {noise}
observers = ["public"]
[evaluation]
private = true
loss-bound = 4.0
[engine]
name = "loop"
"""


@pytest.mark.parametrize("noise, drowned", [(0.01, False), (10.0, True)])
def test_a_regression_tells_its_error_or_that_noise_hides_it(tmp_path, monkeypatch, noise, drowned):
    monkeypatch.chdir(tmp_path)
    places = np.random.default_rng(0).uniform(-1, 1, 40)
    Path("rows.csv").write_text("x,y\n" + "\n".join(f"{x:.4f},{0.5 * x + 0.25:.4f}" for x in places))
    Path("run.toml").write_text(REGRESSION.format(noise=noise))
    result = CliRunner().invoke(app, ["run", "run.toml", "--out", "run"])
    assert result.exit_code == 0, result.output
    assert ("tells nothing above its noise" in result.stderr) == drowned
    said = [one for one in result.stdout.splitlines() if one.startswith("round ")]
    for line, shown in zip(RunFolder.open(Path("run")).metrics(), said, strict=True):
        told = line["released"]
        assert set(told) == {"mean-absolute-error", "mean-absolute-error-interval", "loss", "loss-interval"}
        if drowned:
            assert set(told.values()) == {None} and shown.endswith("; clients say nothing above the noise")
            continue
        low, high = told["mean-absolute-error-interval"]
        assert 0 <= low <= told["mean-absolute-error"] <= high <= 2
        assert shown.endswith(f"clients say {told['mean-absolute-error']:.4g} ({low:.4g} to {high:.4g}) before it")
