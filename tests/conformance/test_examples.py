"""Every example plans, and what the pages print of a plan is what the command prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onlooker import config
from onlooker.cli import app
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.statement import find

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.toml"))
PLANS = [
    pytest.param(command, printed, id=f"{page.name}: {command}")
    for page in (ROOT / "README.md", *sorted((ROOT / "docs" / "methods").glob("*.md")))
    for command, printed in re.findall(r"```console\n\$ onlooker (plan [^\n]*)\n(.*?)```", page.read_text(), re.DOTALL)
]


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_has_a_price_against_somebody(file):
    """Without any data, which a plan does not read; the epsilon that it asks for is kept, and nearly reached."""
    prepared = config.prepare(config.load(file), file.parent)
    findings = find(Ledger.plan(prepared.agreement.terms), prepared.agreement.observers)
    promised = [one.price.epsilon for one in findings if one.guarantee != "none" and one.price.epsilon > 0]
    assert promised
    if prepared.agreement.target is not None:
        assert 0.99 * prepared.agreement.target < max(promised) <= prepared.agreement.target


@pytest.mark.parametrize(("command", "printed"), PLANS)
def test_a_page_prints_what_the_command_prints(command, printed, monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    result = CliRunner().invoke(app, command.split())
    assert result.exit_code == 0, result.output
    assert _comparable(result.stderr + result.stdout) == _comparable(printed)


def _comparable(text):
    """Without what a terminal pads, and without the hash, which any new kind of terms changes."""
    lines = (line.rstrip() for line in text.strip().splitlines())
    return [re.sub(r"terms [0-9a-f]{12}", "terms", line) for line in lines]
