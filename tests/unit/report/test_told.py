"""What a page says of measures that clients told under noise, apart from what only a simulator can see."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from plotly import graph_objects
from test_page import embedded, page_of, words_of

from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.summation import Shared
from onlooker.report import disclosure, settings
from onlooker.report import facts as gathering
from run_folders import make, metrics, terms


def measured_terms(**more: Any):
    rules = terms(**more)
    own = Channel(3, RoundedGaussian(6.192), Grid(1.0, 16, 32), "servers", Shared(), bounds=1.0, name="evaluation")
    return replace(rules, channels=(*rules.channels, own))


def lines(rounds: int, silent: tuple[int, ...] = ()) -> list[dict[str, Any]]:
    told = {"accuracy": 0.8125, "accuracy-interval": [0.75, 0.9], "loss": 0.5, "loss-interval": [0.25, 0.7]}
    none = dict.fromkeys(told)
    return [{**line, "released": none if line["round"] in silent else told} for line in metrics(rounds)]


def test_it_stands_with_its_interval_and_as_released(tmp_path: Path) -> None:
    folder = make(tmp_path / "run", measured_terms(), lines(40, silent=(3,)))
    page = page_of(folder)
    shown = words_of(page)
    for said in (
        "Told by the clients, under noise",
        "Accuracy before each round, told under noise",
        "81.2% before round 40, 95 % interval 75.0% to 90.0%.",
        "1 of 40 rounds told nothing: too few took part for the noise.",
        "Of the training rows of those who took part, and not of rows held out.",
        "What clients tell of the model under noise is charged.",
    ):
        assert said in shown, said
    drawn = embedded(page, "onlooker-figures")["told-accuracy"]
    graph_objects.Figure(drawn)
    (trace,) = drawn["data"]
    assert trace["y"][2] is None and trace["y"][3] == 0.8125
    assert trace["error_y"]["array"][3] == 0.9 - 0.8125 and trace["error_y"]["arrayminus"][3] == 0.8125 - 0.75
    (heading,) = [
        part for part in page.split("<h3>") if part.startswith("Accuracy before each round, told under noise")
    ]
    assert "simulation only" not in heading.partition("</h3>")[0]


def test_it_is_disclosed_as_charged_and_its_noise_is_named(tmp_path: Path) -> None:
    facts = gathering.read(make(tmp_path / "run", measured_terms(), lines(2)))
    (item,) = [one for one in disclosure.items(facts) if "how good the model is" in one.what.lower()]
    assert (item.tag, item.charged) == ("released", "yes")
    found = dict(settings.settings(facts))
    assert found["Noise multiplier"].startswith("2.064, ") and found["Clip"].startswith("1 ")
    assert found["Private evaluation"] == "in every round, with noise multiplier 6.192, 10.0% of what a round costs"


def test_a_page_without_it_says_nothing_of_it(tmp_path: Path) -> None:
    facts = gathering.read(make(tmp_path / "run", terms(), metrics(2)))
    assert "Private evaluation" not in dict(settings.settings(facts))
    assert (
        "under noise" not in words_of(page_of(make(tmp_path / "other", terms(), metrics(2)))).partition("released")[0]
    )


def test_where_nothing_is_public_to_test_on_what_clients_told_is_still_there(tmp_path: Path) -> None:
    bare = [{key: value for key, value in line.items() if key not in ("accuracy", "loss")} for line in lines(2)]
    shown = words_of(page_of(make(tmp_path / "run", measured_terms(), bare)))
    assert "No round was evaluated" not in shown and "told under noise" in shown
