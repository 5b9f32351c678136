"""`--engine NAME` is `--set engine.name=NAME`, also where a run goes on."""

import tomllib

import pytest
from typer.testing import CliRunner

from onlooker.cli import app

TEXT = '[task]\nmethod = "fedavg"\nrounds = 2\n[data]\nname = "digits"\nclients = 2\n[model]\nname = "logistic"\n'


@pytest.fixture
def file(tmp_path):
    place = tmp_path / "run.toml"
    place.write_text(TEXT)
    return place


def test_a_run_takes_the_engine_and_another_may_go_on(file, tmp_path):
    folder = tmp_path / "run"
    done = CliRunner().invoke(app, ["run", str(file), "--out", str(folder), "--engine", "loop"])
    assert done.exit_code == 0, done.stderr
    assert tomllib.loads((folder / "run.toml").read_text())["engine"] == {"name": "loop"}
    again = CliRunner().invoke(app, ["resume", str(folder), "--engine", "vectorised", "--set", "engine.workers=1"])
    assert again.exit_code == 0, again.stderr


def test_an_engine_that_is_not_known_is_named_with_those_that_are(file, tmp_path):
    done = CliRunner().invoke(app, ["run", str(file), "--out", str(tmp_path / "run"), "--engine", "warp"])
    assert done.exit_code == 2 and not (tmp_path / "run").exists()
    assert 'engine.name = "warp" must be' in done.stderr and "'ray'" in done.stderr
