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


@pytest.mark.parametrize(("asked", "measure"), [(("--figure", 5), "accuracy"), (("--table", 12), "seconds")])
def test_training_quickly(tmp_path, asked, measure):
    result = invoke("feddecouple", *asked, "--quick", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    (table,) = tmp_path.glob("*.csv")
    lines = list(csv.DictReader(table.read_text().splitlines()))
    names = {line.get("series") or line["run"] for line in lines}
    assert {"FedDecouple, as published", "FedDecouple, sound"} <= names
    for line in lines:
        printed = (line.get("series") or line["run"]).endswith("as published")
        assert (LABEL in line["label"]) == printed
        assert "public" in line["label"]
        assert float(line.get("y") or line["seconds"]) >= 0, measure


def test_two_trainings_come_to_the_same_numbers(tmp_path):
    from onlooker.reproduce import training

    texts = []
    for place in ("one", "two"):
        training._trained.cache_clear()
        assert invoke("feddecouple", "--figure", 8, "--quick", "--out", tmp_path / place).exit_code == 0
        texts.append((tmp_path / place / "figure-8.csv").read_text())
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("feddecouple", "--figure", 11), "--figure 11 of feddecouple is not here; there are figure 1, figure 3"),
        (("ms-pafl", "--table", 1), "--table 1 of ms-pafl is not here; there are figure 3, figure 4"),
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


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    result = invoke("feddecouple", "--table", 8, "--out", tmp_path / "file")
    assert result.exit_code == 2 and "name another by --out" in result.stderr
