"""The lines of `docs/export.md` do what the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from onlooker.cli import app

PROJECT = Path(__file__).resolve().parents[2]
QUICK = ["--set", "task.rounds=1", "--set", "training.steps=1", "--engine", "loop"]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (PROJECT / "docs/export.md").read_text(encoding="utf-8"), re.DOTALL)


def test_the_lines_of_the_page_load_an_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(PROJECT / "examples")
    (console,) = blocks("console")
    commands = re.findall(r"^\$ onlooker (.*)$", console, re.MULTILINE)
    assert [command.split()[0] for command in commands] == ["run", "export"]
    for command in commands:
        quick = QUICK if command.startswith("run") else []
        result = CliRunner().invoke(app, [*command.split(), *quick])
        assert result.exit_code == 0, result.output
    assert result.stdout.strip() == console.splitlines()[-1]
    found: dict[str, Any] = {}
    for block in blocks("python"):
        exec(compile(block, "docs/export.md", "exec"), found)
    assert set(found["models"]) == {"group:0", "group:1"} and found["classes"].shape == (1,)
    used, *each = (dict(one.named_parameters()) for one in (found["network"], *found["models"].values()))
    for name, weights in used.items():
        one, other = (model[name] for model in each)
        assert not torch.equal(one, other)
        torch.testing.assert_close(weights, (one + other) / 2)
