"""Run folders that lie, or were damaged: nothing is charged less than was released, and nothing ends in a traceback."""

import contextlib
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from typer.testing import CliRunner

from onlooker import folder as run_folder
from onlooker.cli import app
from onlooker.folder import RunFolder

TEXT = """
[task]
method = "feddecouple"
rounds = 4
seed = {seed}
[data]
name = "digits"
clients = 4
[model]
name = "logistic"
[training]
server-momentum = 0.5
[privacy]
noise-multiplier = 2.0
observers = ["public", "aux:0"]
"""


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def refused(*arguments) -> str:
    result = invoke(*arguments)
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code == 2, result.output
    (sentence,) = result.stderr.splitlines()
    return sentence


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """A finished run."""
    place = tmp_path_factory.mktemp("whole")
    (place / "run.toml").write_text(TEXT.format(seed=3))
    result = invoke("run", place / "run.toml", "--out", place / "run")
    assert result.exit_code == 0, result.output
    return place / "run"


@pytest.fixture
def folder(whole, tmp_path) -> Path:
    """A copy of it, to be damaged."""
    return shutil.copytree(whole, tmp_path / "run")


def change_lines(folder, name, change):
    lines = (folder / name).read_text().splitlines(keepends=True)
    (folder / name).write_text("".join(change(lines)))


@pytest.mark.parametrize("command", ["report", "resume"])
@pytest.mark.parametrize("kept", [[0, 1, 2, 3], [0, 1, 3, 4], [0]])
def test_a_ledger_that_lost_a_round_prints_no_epsilon(folder, command, kept):
    """The model holds four rounds; an epsilon of fewer would be too small."""
    change_lines(folder, "ledger.jsonl", lambda lines: [lines[place] for place in kept])
    assert "does not charge round" in refused(command, folder)


@pytest.mark.parametrize("command", ["report", "resume"])
@pytest.mark.parametrize(
    "line", ["null", "[1]", "{}", '{"round": "1", "digest": "a"}', '{"round": 99, "digest": "a"}', "[" * 3000, "{"]
)
def test_a_line_that_is_no_charge_is_damage(folder, command, line):
    change_lines(folder, "ledger.jsonl", lambda lines: [*lines, line + "\n"])
    assert "ledger.jsonl is damaged" in refused(command, folder)


@pytest.mark.parametrize("line", ["null", "[1]", "{}", '{"round": "1"}', "{"])
def test_a_line_that_is_no_round_is_damage(folder, line):
    change_lines(folder, "metrics.jsonl", lambda lines: [*lines, line + "\n"])
    for command in ("report", "resume"):
        assert "metrics.jsonl is damaged" in refused(command, folder)


@pytest.mark.parametrize("content", [b"null", b"[1]", b"{", b"\xff", b"[" * 3000])
def test_an_environment_that_is_no_object_is_damage(folder, content):
    (folder / "env.json").write_bytes(content)
    assert "env.json is damaged" in refused("report", folder)


@pytest.mark.parametrize("name", ["run.toml", "terms.toml", "ledger.jsonl", "model.safetensors"])
@pytest.mark.parametrize("damage", [lambda content: b"", lambda content: content[:40], lambda content: b"\xff\xfe\x00"])
def test_a_file_that_was_cut_short_is_named(folder, name, damage):
    (folder / name).write_bytes(damage((folder / name).read_bytes()))
    assert f"{folder}/" in refused("resume", folder)
    (folder / name).unlink()
    assert name in refused("resume", folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda tensors: {"another": np.zeros(3, dtype=np.float32)},
        lambda tensors: {name: value[:1] for name, value in tensors.items()},
        lambda tensors: {**tensors, "onlooker.server-momentum": np.zeros(1, dtype=np.float32)},
    ],
)
def test_a_model_of_another_run_is_refused(folder, change):
    file = folder / "model.safetensors"
    save_file(change(load_file(file)), file, {"round": "2"})
    assert "model.safetensors has" in refused("resume", folder)


@pytest.mark.parametrize(
    "setting",
    ["task.seed=4", "task.seed=system", "data.partition=dirichlet", "data.classes-per-client=3", "model.name=os:x"],
)
def test_a_resumed_run_is_not_another_run(folder, setting):
    """Other clients would be behind the same names, or `env.json` would lie about the seed."""
    sentence = refused("resume", folder, "--set", setting)
    assert setting.partition("=")[0] in sentence


def test_secret_noise_never_becomes_a_seed(tmp_path):
    """A page must not say that the operating system drew what a seed drew (rule 9)."""
    (tmp_path / "run.toml").write_text(TEXT.format(seed='"system"'))
    assert invoke("run", tmp_path / "run.toml", "--out", tmp_path / "run").exit_code == 0
    assert json.loads((tmp_path / "run" / "env.json").read_text())["seed"] == "system"
    assert "task.seed = 3 for system" in refused("resume", tmp_path / "run", "--set", "task.seed=3")


@pytest.mark.parametrize(
    ("setting", "key"),
    [
        ("privacy.noise-multiplier=3.0", "privacy.noise-multiplier"),
        ("privacy.clip=2.0", "privacy.clip"),
        ("privacy.delta=1e-6", "privacy.delta"),
        ("privacy.adjacency=replace-one", "privacy.adjacency"),
        ("task.rounds=5", "task.rounds"),
        ("sampling.clients.rate=0.4", "sampling.clients.rate"),
        ("servers.corrupt=0", "servers.corrupt"),
        ("servers.relay=aux:1", "servers.relay"),
    ],
)
def test_changed_privacy_is_refused_with_the_difference_shown(folder, setting, key):
    sentence = refused("resume", folder, "--set", setting)
    assert key in sentence and "became" in sentence


@pytest.mark.parametrize("place", ["", ".", "nowhere/page.html", "/dev/null/x", "a" * 300])
def test_a_page_that_cannot_be_written_gets_one_sentence(folder, monkeypatch, place):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert "cannot be written" in refused("report", ".", "--out", place)
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("place", range(7))
def test_a_folder_that_died_in_the_making_is_not_there(whole, tmp_path, monkeypatch, place):
    """Killed after any of its writes, or before it is put in place: no folder, rather than half of one."""
    calls = iter(range(place + 1))

    def deadly(function):
        def called(*arguments):
            if next(calls, None) is None:
                raise KeyboardInterrupt
            return function(*arguments)

        return called

    made = RunFolder.open(whole)
    monkeypatch.setattr(run_folder, "write", deadly(run_folder.write))
    monkeypatch.setattr(run_folder, "replace_file", deadly(run_folder.replace_file))
    with contextlib.suppress(KeyboardInterrupt):
        RunFolder.create(tmp_path / "new", made.configuration(), made.terms(), {}, made.commit().tensors)
    assert (tmp_path / "new").exists() is (place == 6)
