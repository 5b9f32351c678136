"""The command `onlooker reproduce`: one figure of each kind, small."""

from __future__ import annotations

import csv

import pytest
from typer.testing import CliRunner

from onlooker.cli import app
from onlooker.privacy.published import LABEL


def invoke(*arguments):
    return CliRunner().invoke(app, ["reproduce", *map(str, arguments)])


def test_a_formula(tmp_path):
    result = invoke("ms-pafl", "--figure", 5, "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == str(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "figure-5.csv",
        "figure-5.html",
        "figure-5.md",
        "README.md",
    }
    assert LABEL in (tmp_path / "out" / "README.md").read_text()


def test_a_table_joins_the_figures_of_one_folder(tmp_path):
    for asked in (("--table", 4), ("--table", 8)):
        assert invoke("feddecouple", *asked, "--out", tmp_path).exit_code == 0
    summary = (tmp_path / "README.md").read_text()
    assert summary.index("## Table 4") < summary.index("## Table 8")


def lines_of(folder):
    (table,) = folder.glob("*.csv")
    return list(csv.DictReader(table.read_text().splitlines()))


@pytest.mark.parametrize(("asked", "measure"), [(("--figure", 5), "accuracy"), (("--table", 12), "seconds")])
def test_training_quickly(tmp_path, asked, measure):
    result = invoke("feddecouple", *asked, "--quick", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    lines = lines_of(tmp_path)
    names = {line.get("series") or line["run"] for line in lines}
    assert {"FedDecouple, as published", "FedDecouple, sound", "DP-FTRL, sound", "Opacus, pooled records"} <= names
    for line in lines:
        printed = (line.get("series") or line["run"]).endswith("as published")
        assert (LABEL in line["label"]) == printed
        assert "public" in line["label"] or "no noise" in line["label"]
        assert float(line.get("y") or line["seconds"]) >= 0, measure


def test_ms_pafl_trained_quickly(tmp_path):
    result = invoke("ms-pafl", "--figure", 7, "--quick", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    lines = lines_of(tmp_path)
    assert {line["panel"] for line in lines} == {"digits, WR", "digits, WOR"}
    assert len({line["series"] for line in lines}) == 7
    for line in [one for one in lines if not one["series"].endswith("no noise")]:
        assert 0 <= float(line["y"]) <= 1
        printed, sound = line["series"].endswith("as published"), "aux:0 20" in line["label"]
        assert printed != sound and (LABEL in line["label"]) == printed


def test_dp_ogl_trained_quickly(tmp_path):
    result = invoke("dp-ogl", "--figure", 1, "--quick", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    measured = [line for line in lines_of(tmp_path) if line["kind"] == "measured"]
    assert len(measured) == 8
    ends = {(line["series"], line["mixing period S"]): line for line in measured}
    assert ends["DP-OGL", "1"]["y"] == ends["DP-OGL+", "1"]["y"] == ends["DP-OGL+, isolated", "1"]["y"]
    assert ends["DP-OGL", "3"]["y"] != ends["DP-OGL+, isolated", "3"]["y"]
    assert "no guarantee within a group" in ends["DP-OGL+", "3"]["label"]
    assert "the worst peer 8" in ends["DP-OGL", "3"]["label"]


def test_two_trainings_come_to_the_same_numbers(tmp_path):
    texts = []
    for place in ("one", "two"):
        assert invoke("feddecouple", "--figure", 8, "--quick", "--out", tmp_path / place).exit_code == 0
        texts.append((tmp_path / place / "figure-8.csv").read_text())
    assert texts[0] == texts[1]


def test_a_figure_that_shares_the_runs_of_another_trains_nothing(tmp_path, monkeypatch):
    from onlooker.reproduce import runs

    kept = ("--quick", "--out", tmp_path / "out", "--runs", tmp_path / "runs")
    assert invoke("feddecouple", "--figure", 3, *kept).exit_code == 0
    monkeypatch.delattr(runs, "train")
    assert invoke("feddecouple", "--figure", 6, *kept).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("feddecouple", "--figure", 12), "--figure 12 of feddecouple is not here; there are figure 1, figure 3"),
        (("ms-pafl", "--table", 1), "--table 1 of ms-pafl is not here; there are figure 2, figure 3"),
        (("dp-ogl",), "--root is missing: figure 1 of dp-ogl is trained on real data"),
        (("feddecouple", "--figure", 3, "--quick", "--paper-size"), "--quick and --paper-size exclude each other"),
        (("feddecouple", "--figure", 3, "--quick", "--processes", 0), "processes = 0 must be at least 1"),
        (("feddecouple", "--figure", 3), "--root is missing: figure 3 of feddecouple is trained on real data"),
        (("fedavg",), 'paper = "fedavg" is not known; choose one of dp-ogl, feddecouple, ms-pafl'),
        (("feddecouple", "--figure", 3, "--quick", "--root", "nowhere"), "nowhere"),
    ],
)
def test_what_cannot_be_drawn_gets_one_sentence(arguments, said, tmp_path):
    result = invoke(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert said in result.stderr and result.stderr.count("\n") == 1 and "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("key", ["--out", "--runs"])
def test_a_folder_that_cannot_be_written(tmp_path, key):
    (tmp_path / "file").write_text("")
    if key == "--runs":
        result = invoke("feddecouple", "--figure", 3, "--quick", "--runs", tmp_path / "file", "--out", tmp_path / "out")
        assert result.exit_code == 2 and "name another by --runs" in result.stderr
        return
    result = invoke("feddecouple", "--table", 8, "--out", tmp_path / "file")
    assert result.exit_code == 2 and "name another by --out" in result.stderr
