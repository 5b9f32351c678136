"""What a page says about a run folder, checked without a browser."""

from __future__ import annotations

import html
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from plotly import graph_objects

from onlooker import report
from onlooker.errors import FolderError, OnlookerError
from onlooker.folder import RunFolder
from onlooker.privacy.forecast import forecast
from onlooker.privacy.sampling import Poisson
from onlooker.privacy.summation import Plain, Shared
from onlooker.report import charts, words
from onlooker.report import facts as gathering
from run_folders import environment, make, metrics, open_terms, record_terms, rewrite_metrics, terms

SECTIONS = [
    "observers",
    "learning",
    "spending",
    "noise",
    "run",
    "released",
    "uncharged",
    "randomness",
    "provenance",
]


def page_of(folder: RunFolder) -> str:
    return report.write(folder).read_text(encoding="utf-8")


def embedded(page: str, name: str = "onlooker-report") -> dict[str, Any]:
    """The JSON in the page, by a reader that accepts nothing that is not strict JSON."""

    def refuse(constant: str) -> Any:
        raise ValueError(f"{constant} is no JSON")

    _, _, rest = page.partition(f'<script type="application/json" id="{name}">')
    return json.loads(rest.partition("</script>")[0], parse_constant=refuse)


def words_of(page: str) -> str:
    """The visible part of the page, before its scripts, as one line."""
    return " ".join(html.unescape(page.partition('<script type="application/json"')[0]).split())


@pytest.mark.parametrize("drowned", [True, False])
def test_a_forecast_and_every_warning_stand_once(tmp_path: Path, drowned: bool) -> None:
    rules = terms()
    expected = forecast(rules).sentence()
    warnings = ["privacy.delta is large.", *([expected] if drowned else [])]
    shown = words_of(page_of(make(tmp_path / "run", rules, metrics(2), environment(warnings=warnings))))
    assert shown.lower().count(expected.lower()) == 1 and shown.count(warnings[0]) == 1
    assert ("warning at the top of the page" in shown) == drowned


def test_every_section_is_there_in_order(tmp_path: Path) -> None:
    page = page_of(make(tmp_path / "run", terms(), metrics(40)))
    places = [page.index(f'<section id="{name}">') for name in SECTIONS]
    assert places == sorted(places)
    shown = words_of(page)
    for words_shown in (
        "ten-hospitals",
        "Epsilon by round",
        "Accuracy by round",
        "Loss by round",
        "Signal over noise by round",
        "simulation only",
        "released",
        'method = "feddecouple"',
        "Pixels are divided by 16, a public constant.",
        "The test set was held out before the partition.",
        "A seeded study protects nobody",
        "torch 2.6.0",
        terms().hash,
        "40 digests",
    ):
        assert words_shown in shown, words_shown


def test_the_worst_comes_first_and_hides_nobody(tmp_path: Path) -> None:
    shown = words_of(page_of(make(tmp_path / "run", terms(), metrics(40))))
    header = shown[shown.index("<header>") : shown.index("</header>")]
    assert header.index("no guarantee</p>") < header.index("17.14</p>")
    assert "<strong>aux:0+aux:1</strong>: together hold every share and every noise" in header
    assert "<strong>coordinator</strong>" in header and "<strong>aux:0</strong>" in header


def test_only_some_guarantees_rest_on_encryption(tmp_path: Path) -> None:
    shown = words_of(page_of(make(tmp_path / "run", record_terms(), metrics(40))))
    assert "Against coordinator and aux:0 it rests on encryption" in shown
    env = environment(observers=["public"])
    assert "rests on encryption" not in words_of(page_of(make(tmp_path / "open", terms(), metrics(40), env)))


def test_a_threat_model_that_holds_leads_with_its_worst_epsilon(tmp_path: Path) -> None:
    env = environment(observers=["public", "aux:0"])
    folder = make(tmp_path / "run", terms(), metrics(40), env)
    facts = gathering.read(folder)
    assert words.verdict(facts) == (
        "What the public and auxiliary server 0 can learn about one client is bounded by epsilon 17.14 at delta 1e-5."
    )
    assert "no guarantee" not in words_of(page_of(folder)).partition("</header>")[0].partition("<header>")[2]


def test_every_epsilon_is_computed_from_the_ledger(tmp_path: Path) -> None:
    """A stored number has no say, and one round fewer on the ledger is a smaller epsilon."""
    env = environment(**{"target-epsilon": 0.123, "epsilon": 0.123})
    lines = metrics(40, epsilon=0.123)
    whole = embedded(page_of(make(tmp_path / "whole", terms(), lines, env)))
    shorter = embedded(page_of(make(tmp_path / "shorter", terms(), lines[:39], env)))
    folder = RunFolder(tmp_path / "whole")
    for row in whole["rows"]:
        expected = folder.ledger().epsilon(0, row["observers"][0])
        assert row["epsilon"] == (None if math.isinf(expected) else expected)
    by_observer = {name: row["epsilon"] for row in whole["rows"] for name in row["observers"]}
    assert by_observer["public"] == pytest.approx(8.0, rel=5e-3)
    assert by_observer["aux:0"] == by_observer["coordinator"] == pytest.approx(17.14, rel=5e-3)
    assert by_observer["aux:0+aux:1"] is None
    assert shorter["worst"]["epsilon"] < whole["worst"]["epsilon"]


def test_the_curve_is_the_price_of_each_prefix_of_the_ledger(tmp_path: Path) -> None:
    folder = make(tmp_path / "run", terms(), metrics(40))
    curves = embedded(page_of(folder))["epsilon-by-round"]
    assert [curve["observers"] for curve in curves] == [["public"], ["coordinator", "aux:0"]]
    for curve in curves:
        assert len(curve["rounds"]) == 25 and curve["rounds"][0] == 1 and curve["rounds"][-1] == 40
        assert curve["epsilon"] == sorted(curve["epsilon"])
        at_ten = gathering.replace(folder.ledger(), releases=folder.ledger().releases[: curve["rounds"][9]])
        assert curve["epsilon"][9] == at_ten.epsilon(0, curve["observers"][0])


def test_the_curve_of_clients_who_differ_is_that_of_the_worst(tmp_path: Path) -> None:
    rates = Poisson((0.1,) * 9 + (0.9,))
    env = environment(observers=["public"])
    statement = embedded(page_of(make(tmp_path / "run", terms(sampling=rates), metrics(40), env)))
    (curve,) = statement["epsilon-by-round"]
    assert curve["subject"] == "client:9"
    assert curve["epsilon"][-1] == statement["worst"]["epsilon"] == max(row["epsilon"] for row in statement["rows"])


def test_an_unfinished_run_says_so_and_what_the_rest_would_cost(tmp_path: Path) -> None:
    folder = make(tmp_path / "run", terms(), metrics(12), charged=13)
    page = page_of(folder)
    assert "13 of 40 rounds are charged, 12 are in the model." in words_of(page)
    assert "After 13 of 40 rounds" in words_of(page)
    assert "Once all are charged, the worst that holds is epsilon 17.14." in words_of(page)
    statement = embedded(page)
    assert statement["rounds"] == {"planned": 40, "charged": 13, "committed": 12}
    assert statement["worst"]["epsilon"] == folder.ledger().epsilon(0, "aux:0") < 10
    assert len(statement["metrics"]) == 12


def test_a_round_that_was_given_up_stays_charged(tmp_path: Path) -> None:
    lines = [line for line in metrics(40) if line["round"] != 7]
    shown = words_of(page_of(make(tmp_path / "run", terms(), lines, charged=40)))
    assert "1 of 40 charged rounds are not in the model; they stay charged." in shown
    assert "Unfinished" not in shown


def test_a_run_that_released_nothing_shows_its_plan(tmp_path: Path) -> None:
    page = page_of(make(tmp_path / "run", terms()))
    assert "Nothing was released yet" in words_of(page)
    assert "Once all 40 rounds are charged" in words_of(page)
    assert "No round is charged yet." in words_of(page) and "No round was evaluated." in words_of(page)
    assert embedded(page)["worst"]["epsilon"] == pytest.approx(17.14, rel=5e-3)


@pytest.mark.parametrize("rounds", [0, 3, 40])
def test_unit_none_says_no_guarantee_wherever_an_epsilon_would_stand(tmp_path: Path, rounds: int) -> None:
    env = environment(task="fedavg", observers=["public", "coordinator"])
    page = page_of(make(tmp_path / "run", open_terms(), metrics(rounds), env))
    shown = words_of(page)
    assert "This run gives no guarantee" in shown
    assert (
        shown.count('<td class="number epsilon">no guarantee</td>') == shown.count('<td class="number epsilon">') == 2
    )
    assert 'class="card held"' not in page and "bounded by epsilon" not in shown
    statement = embedded(page)
    assert statement["worst"] == {"no-guarantee": ["public", "coordinator"], "observers": [], "epsilon": None}
    assert statement["epsilon-by-round"] == []
    assert "No guarantee, at any round and for any observer" in shown
    assert all(row["epsilon"] is None for row in statement["planned"])


def test_values_that_are_not_finite_are_gaps_and_never_in_the_json(tmp_path: Path) -> None:
    lines = metrics(10)
    lines[3]["loss"] = math.nan
    lines[4]["accuracy"] = math.inf
    lines[5]["simulation"]["noise-norm"] = 0.0
    lines[6]["simulation"]["signal-norm"] = -math.inf
    folder = make(tmp_path / "run", terms(), metrics(10))
    rewrite_metrics(folder, lines)
    (folder.path / "env.json").write_text(json.dumps(environment(**{"target-epsilon": math.nan})))
    page = page_of(folder)
    figures = embedded(page, "onlooker-figures")
    assert figures["loss"]["data"][0]["y"][3] is None and None not in figures["loss"]["data"][0]["y"][:3]
    assert figures["accuracy"]["data"][0]["y"][4] is None
    assert [place for place, value in enumerate(figures["signal"]["data"][0]["y"]) if value is None] == [5, 6]
    assert all(trace["connectgaps"] is False for figure in figures.values() for trace in figure["data"])
    assert "1 of 10 values are not finite and left out." in words_of(page)
    assert embedded(page)["metrics"][3]["loss"] is None


def test_a_run_whose_every_loss_is_nan_still_has_a_page(tmp_path: Path) -> None:
    folder = make(tmp_path / "run", terms(), metrics(3))
    rewrite_metrics(folder, metrics(3, loss=math.nan, accuracy=math.nan))
    assert "No round has a finite value." in words_of(page_of(folder))


def test_a_line_without_one_measure_is_a_gap_in_it(tmp_path: Path) -> None:
    lines = metrics(5)
    del lines[2]["loss"]
    figures = embedded(page_of(make(tmp_path / "run", terms(), lines)), "onlooker-figures")
    assert figures["loss"]["data"][0]["y"][2] is None and len(figures["loss"]["data"][0]["x"]) == 5


def test_text_of_the_folder_never_becomes_markup(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    env = environment(
        name=evil,
        task=evil,
        started=evil,
        packages={evil: evil},
        data={"name": evil, "partition": evil, "preprocessing": [evil], "uncharged": [evil]},
        model={"name": evil},
        warnings=[evil],
    )
    folder = make(tmp_path / "run", terms(), metrics(2, **{"simulation": {evil: 1.0}}), env, f"# {evil}\n")
    page = page_of(folder)
    assert evil not in page and "<script>alert" not in page and "<img" not in page.partition("<script>")[0]
    assert embedded(page)["configuration"] == f"# {evil}\n"
    assert page.count("&lt;script&gt;alert(1)") >= 10


def test_a_folder_name_is_escaped(tmp_path: Path) -> None:
    folder = make(tmp_path / "<script>alert(1)<", terms(), metrics(1), environment(name=None))
    assert "<h1>&lt;script&gt;alert(1)&lt;</h1>" in page_of(folder)


def test_an_empty_environment_breaks_nothing(tmp_path: Path) -> None:
    folder = make(tmp_path / "run", terms(), metrics(2), {})
    page = page_of(folder)
    assert "The run folder names no threat model, so everybody that its terms know is listed." in page
    listed = [name for row in embedded(page)["rows"] for name in row["observers"]]
    assert listed == ["public", "coordinator", "aux:0", "aux:1", "aux:0+aux:1"]
    assert "not recorded, so take it for a seed" in words_of(page)
    (folder.path / "env.json").unlink()
    assert embedded(page_of(folder))["rows"] == embedded(page)["rows"]


@pytest.mark.parametrize("value", ["text", 7, [1, 2], True, {"deep": {"er": []}}])
def test_an_environment_of_other_types_breaks_nothing(tmp_path: Path, value: Any) -> None:
    env = {key: value for key in environment() if key != "observers"}
    assert embedded(page_of(make(tmp_path / "run", terms(), metrics(2), env)))["rows"]


def test_the_configuration_names_the_threat_model_where_the_environment_does_not(tmp_path: Path) -> None:
    text = '[privacy]\nobservers = ["aux:1"]\n'
    statement = embedded(page_of(make(tmp_path / "run", terms(), metrics(1), environment(observers=None), text)))
    assert [row["observers"] for row in statement["rows"]] == [["aux:1"]]


def test_an_unknown_observer_is_one_sentence(tmp_path: Path) -> None:
    folder = make(tmp_path / "run", terms(), metrics(1), environment(observers=["aux:7"]))
    with pytest.raises(OnlookerError, match='"aux:7" is not known'):
        report.write(folder)


def test_secret_randomness_is_told_from_a_seed(tmp_path: Path) -> None:
    secret = words_of(page_of(make(tmp_path / "secret", terms(), metrics(1), environment(seed="system"))))
    seeded = words_of(page_of(make(tmp_path / "seeded", terms(), metrics(1), environment(seed=7))))
    assert "operating system's generator" in secret and "seeded" not in secret.lower()
    assert seeded.count("came from the seed 7") == 2
    deployed = words_of(
        page_of(make(tmp_path / "real", terms(), metrics(1), environment(seed="system", deployment=True)))
    )
    assert "It was no simulation" in deployed and "one process held" not in deployed


def test_what_each_summation_releases_is_said(tmp_path: Path) -> None:
    central = terms(summation=Plain())
    env = environment(observers=["public", "coordinator"])
    shown = words_of(page_of(make(tmp_path / "central", central, metrics(1), env)))
    assert "the coordinator adds the noise, and sees the sum before it" in shown
    shown = words_of(page_of(make(tmp_path / "open", open_terms(), metrics(1), env)))
    assert "to the coordinator, without any noise" in shown
    shown = words_of(page_of(make(tmp_path / "shares", record_terms(), metrics(1))))
    assert "Each server's noisy sum of shares in each round" in shown


def test_tags_stand_beside_what_they_tag(tmp_path: Path) -> None:
    statement = embedded(page_of(make(tmp_path / "run", terms(), metrics(2))))
    tags = {item["what"]: item["tag"] for item in statement["disclosure"]}
    assert tags["The model after each round"] == "released"
    assert tags["How many clients took part in each round"] == "simulation only"
    assert tags["The norm of each round's sum before noise"] == "simulation only"
    assert tags["The seconds that each round took"] == "simulation only"
    assert list(statement["uncharged"]) == [
        "Choice of hyper-parameters",
        "Other runs on the same data",
        "Preprocessing",
        "Evaluation",
        "Anything else",
    ]


def test_a_host_is_no_guarantee_for_itself_and_an_epsilon_for_others(tmp_path: Path) -> None:
    env = environment(observers=["public", "aux:0"])
    folder = make(tmp_path / "run", terms(summation=Shared(hosted_by=(0, 3))), metrics(40), env)
    verdict = words.verdict(gathering.read(folder))
    assert verdict.startswith(
        "Against auxiliary server 0 there is no guarantee for client:0; what the public can learn"
    )
    curves = embedded(page_of(folder))["epsilon-by-round"]
    assert {curve["subject"]: curve["observers"] for curve in curves} == {
        "client:0": ["public"],
        "client:1": ["aux:0"],
    }


def test_plotly_accepts_every_figure(tmp_path: Path) -> None:
    facts = gathering.read(make(tmp_path / "run", terms(), metrics(40)))
    drawn = [*charts.measured(facts), charts.spent(facts), charts.signal(facts)]
    assert len(drawn) == 4
    for chart in drawn:
        assert chart is not None
        graph_objects.Figure(dict(chart.figure))


def test_lines_can_be_told_apart_without_colour(tmp_path: Path) -> None:
    chart = charts.spent(gathering.read(make(tmp_path / "run", terms(), metrics(5))))
    assert chart is not None
    looks = [(trace["line"]["dash"], trace["marker"]["symbol"]) for trace in chart.figure["data"]]
    assert len(set(looks)) == len(looks) == 2


def test_a_regression_shows_its_own_error(tmp_path: Path) -> None:
    lines = metrics(3, **{"mean-absolute-error": 0.5})
    for line in lines:
        del line["accuracy"]
    names = [chart.name for chart in charts.measured(gathering.read(make(tmp_path / "run", terms(), lines)))]
    assert names == ["loss", "mean-absolute-error"]


@pytest.mark.parametrize("value", [True, "0.5", None, math.nan, math.inf, 10**400])
def test_what_is_no_finite_number_is_a_gap(value: Any) -> None:
    assert charts.finite(value) is None


def test_the_page_replaces_an_older_one_whole(tmp_path: Path) -> None:
    folder = make(tmp_path / "run", terms(), metrics(2))
    page = report.write(folder)
    assert page == folder.path / "report.html"
    page.write_text("old")
    assert report.write(folder).read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    elsewhere = report.write(folder, tmp_path / "other.html")
    assert elsewhere.read_bytes() == page.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.html", "run"]
    assert not [path for path in folder.path.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("place", ["missing/report.html", "run"])
def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path, place: str) -> None:
    folder = make(tmp_path / "run", terms(), metrics(1))
    with pytest.raises(FolderError, match="cannot be written"):
        report.write(folder, tmp_path / place)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run"]


def test_a_failed_write_keeps_the_older_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path / "run", terms(), metrics(1))
    before = report.write(folder).read_bytes()

    def fail(*paths: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(FolderError, match="No space left on device"):
        report.write(folder)
    assert (folder.path / "report.html").read_bytes() == before
    assert not [path for path in folder.path.iterdir() if path.name.startswith(".")]


def test_the_page_links_to_nothing_outside(tmp_path: Path) -> None:
    own = page_of(make(tmp_path / "run", terms(), metrics(2))).partition("<script>")[0]
    assert "http://" not in own and "https://" not in own and "src=" not in own and "@import" not in own
    assert "default-src 'none'" in html.unescape(own)


def test_the_room_never_imports_torch() -> None:
    code = "import sys, onlooker.report; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [("env.json", "{", "env.json is damaged"), ("ledger.jsonl", "", "terms.toml was changed")],
)
def test_a_damaged_folder_is_one_sentence(tmp_path: Path, name: str, content: str, sentence: str) -> None:
    folder = make(tmp_path / "run", terms(), metrics(1))
    (folder.path / name).write_text(content)
    with pytest.raises(FolderError, match=sentence):
        report.write(folder)
