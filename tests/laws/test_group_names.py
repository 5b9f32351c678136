"""Groups of a file go by the names that it gives them, wherever they are shown, and at no other price than numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner

from onlooker import config
from onlooker.cli import app
from onlooker.folder import RunFolder
from onlooker.report import facts as gathering
from onlooker.report import maps, network

NORTH, MIDDLE, SOUTH = "north", "[bold]Lyon & <Est>", "1"
"""A word, what rich and a page would take for markup, and a number that is not its place."""
REGIONS = f"""client,group
0,{NORTH}
1,{NORTH}
2,{NORTH}
2,{MIDDLE}
3,{MIDDLE}
4,{MIDDLE}
4,{SOUTH}
5,{SOUTH}
"""
MEMBERS = "members = [[0, 1, 2], [2, 3, 4], [4, 5]]"
RUN = """
[task]
method = "dp-ogl"
rounds = 4
[data]
name = "digits"
clients = 6
[model]
name = "logistic"
[training]
steps = 1
[groups]
{groups}
mixing-period = 2
publish = [1]
[privacy]
noise-multiplier = 3.0
observers = ["client:5", "public"]
[engine]
name = "loop"
"""


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("regions.csv").write_text(REGIONS, encoding="utf-8")
    Path("named.toml").write_text(RUN.format(groups='path = "regions.csv"'))
    Path("numbered.toml").write_text(RUN.format(groups=MEMBERS))


def printed(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.stdout


def told(text: str) -> str:
    """The text without the breaks of a table's lines."""
    return " ".join(text.split())


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_missing_file_of_groups_gets_one_sentence(command):
    Path("regions.csv").unlink()
    result = CliRunner().invoke(app, [command, "named.toml"])
    (sentence,) = result.stderr.splitlines()
    assert result.exit_code == 2 and not Path("runs").exists()
    assert sentence.startswith(f"onlooker: error: groups.path = {Path.cwd() / 'regions.csv'} cannot be read: ")
    assert sentence.endswith("correct the path, which is relative to the configuration.")


@pytest.fixture
def run() -> RunFolder:
    printed("run", "named.toml", "--out", "run")
    return RunFolder.open(Path("run"))


def test_names_are_no_part_of_the_terms(run):
    named, numbered = (config.prepare(config.load(Path(f"{name}.toml")), Path()) for name in ("named", "numbered"))
    assert named.agreement.group_names == (NORTH, MIDDLE, SOUTH) and numbered.agreement.group_names == ()
    assert named.agreement.terms == numbered.agreement.terms == run.terms()
    assert named.agreement.terms.hash == numbered.agreement.terms.hash
    assert NORTH not in Path("run/terms.toml").read_text()


def test_a_plan_calls_groups_by_their_names():
    pair = ("--subject", "client:0", "--observer", "client:5")
    assert (
        f"over groups {NORTH} - {MIDDLE} by client:2"
        in told(printed("plan", "named.toml", *pair)).partition("Worst")[2]
    )
    assert "over groups 0 - 1 by client:2" in told(printed("plan", "numbered.toml", *pair)).partition("Worst")[2]
    named, numbered = (json.loads(printed("plan", f"{name}.toml", "--json", *pair)) for name in ("named", "numbered"))
    assert named.pop("groups") == [NORTH, MIDDLE, SOUTH] and "groups" not in numbered
    assert f"groups {NORTH} - {MIDDLE}" in named["rows"][0].pop("because")
    assert "groups 0 - 1" in numbered["rows"][0].pop("because")
    assert named == numbered


def test_a_report_calls_groups_by_their_names(run):
    facts = gathering.read(run)
    page = Path("run/report.html").read_text(encoding="utf-8")
    escaped = "[bold]Lyon &amp; &lt;Est&gt;"
    assert f"groups {NORTH} - {escaped} by client:2" in page and f"that group {escaped} publishes" in page
    assert f"and of group {escaped} to everybody" in page and f"<dd>{escaped}</dd>" in page
    *_, nodes = network.graph(facts).figure["data"]
    assert nodes["text"] == [NORTH, "[bold]Lyon &amp; &lt;E…", SOUTH]
    assert nodes["hovertext"][1].startswith(f"group {escaped}: 3 clients")
    hovers = [cell for layer in maps.pairs(facts).figure["data"] for line in layer["hovertext"] for cell in line]
    assert any(f"path: groups {NORTH} - {escaped} by client:2" in cell for cell in hovers)
    assert not any("<Est>" in cell for cell in hovers)


def test_an_export_calls_groups_by_their_names(run):
    printed("export", str(run.path), "--to", "client:4", "--out", "four.safetensors")
    prefixes = {name.rpartition("/")[0] for name in load_file("four.safetensors")}
    assert prefixes == {"", f"group:{MIDDLE}", f"group:{SOUTH}"}


def test_names_are_those_that_the_run_began_with(run):
    """A file of groups may be written anew, and a folder may be older than names: its groups keep their numbers."""
    Path("regions.csv").write_text(REGIONS.replace(NORTH, "elsewhere"), encoding="utf-8")
    assert gathering.read(run).group_names == (NORTH, MIDDLE, SOUTH)
    printed("export", "run", "--to", "client:0", "--out", "zero.safetensors")
    assert {name.rpartition("/")[0] for name in load_file("zero.safetensors")} == {"", f"group:{NORTH}"}
    environment = json.loads(Path("run/env.json").read_text())
    del environment["groups"]
    Path("run/env.json").write_text(json.dumps(environment))
    assert gathering.read(run).group_names == ()
    printed("report", "run")
    assert "groups 0 - 1 by client:2" in Path("run/report.html").read_text(encoding="utf-8")
    printed("export", "run", "--to", "client:4", "--out", "four.safetensors")
    assert {name.rpartition("/")[0] for name in load_file("four.safetensors")} == {"", "group:1", "group:2"}
