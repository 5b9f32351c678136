"""What a page says of overlapping groups, of models that are split, and of who takes part when."""

from __future__ import annotations

import dataclasses
import io
import math
import re
from pathlib import Path

import numpy as np
import pytest
from plotly import graph_objects
from rich.console import Console
from test_page import embedded, page_of, words_of

from onlooker import display
from onlooker.privacy import structures
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.matrix import Banded, Tree
from onlooker.privacy.pairs import pair_of
from onlooker.privacy.records import WithoutReplacement, WithReplacement
from onlooker.privacy.sampling import Cyclic, FixedOffset, Poisson, RandomAllocation
from onlooker.privacy.statement import find, worst_first
from onlooker.privacy.summation import Plain
from onlooker.privacy.training import Training
from onlooker.report import charts, disclosure, maps, network, settings, words
from onlooker.report import facts as gathering
from onlooker.report.between import between
from run_folders import environment, grouped_terms, make, metrics, personal_metrics, terms

OBSERVERS = ("public", "coordinator", "client:0", "client:4")
GROUPED = environment(task="dp-ogl", observers=list(OBSERVERS), model={"name": "logistic", "parameters": 100})


def facts_of(path: Path, rules, lines=None, env=GROUPED):
    return gathering.read(make(path / "run", rules, metrics(rules.rounds) if lines is None else lines, env))


def test_the_map_is_the_price_of_every_pair():
    rules = grouped_terms()
    known = between(Ledger.plan(rules))
    assert known is not None and known.accountant == "exact" and not known.left_out
    for row, line in enumerate(known.cells):
        for column, cell in enumerate(line):
            if row == column:
                assert cell.epsilon is None
                continue
            pair = pair_of(rules, row, f"client:{column}", rules.rounds, rules.delta)
            assert (cell.epsilon, cell.releases, cell.theorem) == (pair.price.epsilon, pair.releases, pair.theorem)
    assert [cell.distance for cell in known.worst] == [0, 1, 2]
    for cell in known.worst:
        alike = [
            one for line in known.cells for one in line if one.epsilon is not None and one.distance == cell.distance
        ]
        assert cell.epsilon == max(one.epsilon for one in alike)


def test_many_kinds_share_rows_whose_cells_are_never_below_a_pair():
    rules = grouped_terms(structures.string(200, 40, 1), rounds=12, period=2)
    known = between(Ledger.plan(rules))
    assert known is not None and known.merged and known.accountant == "rdp"
    assert sorted(client for row in known.rows for client in row) == list(range(200))
    assert len(known.rows) == len(known.cells) == 60
    place = {client: row for row, clients in enumerate(known.rows) for client in clients}
    for subject, observer in [(0, 1), (4, 3), (0, 9), (17, 40), (60, 199), (120, 131), (199, 190)]:
        pair = pair_of(rules, subject, f"client:{observer}", rules.rounds, rules.delta)
        cell = known.cells[place[subject]][place[observer]]
        assert pair.price.epsilon <= cell.epsilon + 1e-9
        exact = pair_of(rules, cell.subject, f"client:{cell.observer}", rules.rounds, rules.delta)
        assert cell.releases == exact.releases and exact.price.epsilon <= cell.epsilon <= 1.4 * exact.price.epsilon
    falling = [cell.epsilon for cell in known.worst]
    assert falling == sorted(falling, reverse=True) and falling[0] > 2 > falling[-1] == 0
    assert [cell.distance for cell in known.worst] == sorted({cell.distance for cell in known.worst})


def test_the_map_is_of_what_was_charged(tmp_path):
    rules = grouped_terms()
    part = gathering.read(make(tmp_path / "part", rules, metrics(4), GROUPED)).between
    whole = gathering.read(make(tmp_path / "whole", rules, metrics(10), GROUPED)).between
    plan = gathering.read(make(tmp_path / "plan", rules, env=GROUPED)).between
    assert part.rounds == 4 and part.cells[0][1].epsilon == Ledger.plan(rules, 4).epsilon(0, "client:1")
    assert part.cells[0][1].epsilon < whole.cells[0][1].epsilon
    assert plan == whole


def test_two_kinds_of_no_number_have_layers_of_their_own(tmp_path):
    """DP-OGL+ as printed: no guarantee within a group, and beside the sound number the one that is assumed."""
    facts = facts_of(tmp_path, grouped_terms(rounds=2, interval=5))
    chart = maps.pairs(facts)
    layers = {layer["meta"]["to"]: layer for layer in chart.figure["data"]}
    assert set(layers) == {"held", "open", "own"}
    assert all(layers["own"]["z"][client][client] == 1.0 for client in range(8))
    assert layers["open"]["z"][0][1] == 1.0 and layers["held"]["z"][0][1] is None
    assert layers["held"]["z"][0][4] == facts.between.cells[0][4].epsilon
    assert "no guarantee" in layers["open"]["hovertext"][0][1]
    assert "without noise inside an interval" in layers["open"]["hovertext"][0][1]
    assumed = facts.between.cells[0][4].assumed
    assert 0 < assumed < facts.between.cells[0][4].epsilon
    assert f"assumed, not proven: {words.number(assumed)}" in layers["held"]["hovertext"][0][4]
    shown = words_of(page_of(make(tmp_path / "page", grouped_terms(rounds=2, interval=5), metrics(2), GROUPED)))
    assert "Assumed, not proven" in shown and f"{words.number(assumed)}</td>" in shown


def test_a_cell_tells_which_theorem_and_path_decided(tmp_path):
    facts = facts_of(tmp_path, grouped_terms())
    told = maps.pairs(facts).figure["data"][0]["hovertext"][0][4]
    cell = facts.between.cells[0][4]
    assert f"epsilon {words.number(cell.epsilon)}" in told and f"by theorem {cell.theorem}" in told
    assert "5 releases can arrive, distance 1" in told and "path: groups 0 - 1 by client:3" in told
    assert "nothing arrives, distance 2" in maps.pairs(facts).figure["data"][0]["hovertext"][0][6]


def test_plotly_accepts_the_pictures_of_groups(tmp_path):
    facts = facts_of(tmp_path, grouped_terms(rounds=2, interval=5))
    for chart in (maps.pairs(facts), network.graph(facts)):
        graph_objects.Figure(dict(chart.figure))


def test_no_groups_no_map(tmp_path):
    page = page_of(make(tmp_path / "run", terms(), metrics(2)))
    assert '<section id="between">' not in page and embedded(page)["between"] is None


def test_the_map_is_in_the_json_too(tmp_path):
    table = embedded(page_of(make(tmp_path / "run", grouped_terms(), metrics(10), GROUPED)))["between"]
    assert table["clients"][3] == ["client:3"] and table["epsilon"][3][3] is None
    assert table["epsilon"][0][1] == Ledger.plan(grouped_terms()).epsilon(0, "client:1")
    assert [row["theorem"] for row in table["worst-by-distance"]][-1] == 0


@pytest.mark.parametrize("build", [structures.string, structures.ring, structures.star, structures.grid])
def test_groups_lie_as_far_apart_as_their_hops(build):
    from onlooker.privacy.topology import Groups
    from onlooker.report.between import hops_of

    hops = hops_of(Groups(build(60, 9, 1)))
    places = network.arranged(hops)
    assert np.array_equal(places, network.arranged(hops))
    apart = np.linalg.norm(places[:, None] - places[None], axis=2)
    upper = np.triu_indices(9, 1)
    linked = hops[upper] == 1
    assert apart[upper][linked].mean() < 0.75 * apart[upper][~linked].mean()
    assert apart[upper].min() > 0.3


def test_groups_without_a_way_are_drawn_apart(tmp_path):
    env = {**GROUPED, "observers": ["public", "client:0"]}
    facts = facts_of(tmp_path, grouped_terms(((0, 1), (2, 3))), env=env)
    assert facts.between.cells[0][2].epsilon == 0 and math.isinf(facts.between.cells[0][2].distance)
    shown = words_of(page_of(make(tmp_path / "page", grouped_terms(((0, 1), (2, 3))), metrics(10), env)))
    assert "no way" in shown and "2 groups and 0 links" in shown
    places = network.graph(facts).figure["data"][2]
    assert math.dist(*zip(places["x"], places["y"], strict=True)) > 0.3


def test_the_table_of_observers_shows_the_worst_of_each_and_hides_no_larger(tmp_path):
    rules = grouped_terms(structures.string(60, 12, 1), period=2)
    findings = find(Ledger.plan(rules), OBSERVERS)
    rows = worst_first(findings)
    assert sorted(name for row in rows for name in row.observers) == sorted(OBSERVERS)
    for row in rows:
        for name, subjects in zip(row.observers, row.subjects, strict=True):
            prices = {
                one: finding.price.epsilon
                for finding in findings
                if name in finding.observers
                for one in finding.subjects
            }
            largest = max(prices.values())
            assert row.finding.price.epsilon == largest and row.least <= min(prices.values())
            assert {one for one, price in prices.items() if price == largest} == set(subjects)
    epsilons = [row.finding.price.epsilon for row in rows]
    assert epsilons == sorted(epsilons, reverse=True) and len(rows) < len(findings) / 3


def test_the_terminal_table_of_groups_is_short_and_fits_100_columns():
    rules = grouped_terms(structures.string(60, 12, 1), period=2)
    ledger, text = Ledger.plan(rules), io.StringIO()
    display.show_findings(Console(file=text, width=100), ledger, find(ledger, OBSERVERS))
    table = text.getvalue().partition("Unit client")[0]
    assert max(map(len, table.splitlines())) <= 100 and len(table.splitlines()) < 25
    assert all(any(name in line.split() for line in table.splitlines()) for name in OBSERVERS)
    assert re.search(r"from 0\.00", table)


def test_a_verdict_never_lends_the_price_of_one_observer_to_another(tmp_path):
    verdict = words.verdict(facts_of(tmp_path, grouped_terms(rounds=2, interval=5)))
    assert "what the public can learn about one client is bounded by epsilon 0.00" in verdict
    assert "client 4 can learn about one client elsewhere is bounded by epsilon" in verdict


def test_a_hundred_alike_groups_take_one_line_each_kind(tmp_path):
    members = structures.string(200, 100, 1)
    rows = settings.settings(facts_of(tmp_path, grouped_terms(members), []))
    labels = [label for label, _ in rows]
    assert len(labels) == len(set(labels)) < 20
    table = dict(rows)
    assert table["Noise multiplier"] == "3, added by the coordinator, to the sum of each round"
    assert table["Groups"].startswith("100, of 2 to 3 clients") and table["Mixing period"].startswith(
        "5: every 5 rounds"
    )
    noises = [1.0 + group for group in range(100)]
    other = dict(settings.settings(facts_of(tmp_path / "other", grouped_terms(members, noises=noises), [])))
    assert other["Noise multiplier"].startswith("1 to 100 (it differs by group)")


def test_an_interval_says_its_epochs_and_its_clip(tmp_path):
    table = dict(settings.settings(facts_of(tmp_path, grouped_terms(rounds=2, interval=5))))
    assert "an interval of 5 epochs" in table["Mixing period"] and "sums without noise" in table["Mixing period"]
    assert "sqrt(5) times the clip of an epoch" in table["Clip"]


def test_a_split_model_claims_nothing_of_its_private_part(tmp_path):
    facts = facts_of(tmp_path, grouped_terms(part="a share of 0.9"), personal_metrics(10))
    table = dict(settings.settings(facts))
    assert table["Public part"].startswith("90 of 100 parameters (a share of 0.9)")
    assert table["Private part"].startswith("10 parameters: not sent, which is all that is claimed of it")
    tags = {item.what: item.tag for item in disclosure.items(facts)}
    assert tags["The private part of each client's model"] == "never sent"
    assert tags["The public part of the model of each group after each round"] == "released"
    assert "The model after each round" not in tags


def test_scores_of_own_models_are_for_a_simulator_alone(tmp_path):
    facts = facts_of(tmp_path, grouped_terms(), personal_metrics(10))
    drawn = {chart.name: chart for chart in charts.measured(facts)}
    assert set(drawn) == {"accuracy", "own-accuracy", "loss"} and all(chart.simulated for chart in drawn.values())
    for name in ("accuracy", "own-accuracy"):
        lines = [trace["name"] for trace in drawn[name].figure["data"]]
        assert lines == ["mean over clients", "worst client", "spread (standard deviation over clients)"]
    assert drawn["own-accuracy"].figure["data"][1]["y"] == [0.3] * 10
    items = {item.what: item for item in disclosure.items(facts)}
    scores = [item for what, item in items.items() if "Accuracy" in what or "Loss" in what]
    assert len(scores) == 7 and {item.tag for item in scores} == {"simulation only"}
    one = facts_of(tmp_path / "one", terms(), metrics(2), environment())
    assert not any(chart.simulated for chart in charts.measured(one))


def test_who_sees_the_release_of_a_group_is_said(tmp_path):
    rules = grouped_terms()
    (first, *_) = disclosure.items(facts_of(tmp_path, rules))
    assert first.what.startswith("In each group: the noisy mean") and "members of the group alone" in first.remark
    open_group = dataclasses.replace(rules, topology=dataclasses.replace(rules.topology, publish=(1,)))
    (first, *_) = disclosure.items(facts_of(tmp_path / "open", open_group))
    assert "and of group 1 to everybody" in first.remark
    printed = disclosure.items(facts_of(tmp_path / "printed", grouped_terms(rounds=2, interval=5)))
    within = next(item for item in printed if "without noise" in item.what)
    assert within.tag == "released" and within.charged == "no: no guarantee"


@pytest.mark.parametrize(
    ("sampling", "what", "tag"),
    [
        (FixedOffset(4), "The rounds that each client drew for itself", "never sent"),
        (RandomAllocation(3, 40), "The rounds that each client drew for itself", "never sent"),
        (Cyclic(4), "Who takes part in which round", "public"),
        (Poisson(0.5, True), "A report of the same size from every client in each round", "released"),
    ],
)
def test_what_a_schedule_gives_away_is_said(tmp_path, sampling, what, tag):
    facts = facts_of(tmp_path, terms(sampling=sampling), [], environment())
    assert {item.what: item.tag for item in disclosure.items(facts)}[what] == tag
    plain = disclosure.items(facts_of(tmp_path / "plain", terms(), [], environment()))
    assert what not in [item.what for item in plain]


@pytest.mark.parametrize(("mechanism", "word"), [(Tree(3.0), "tree"), (Banded(3.0, 4), "the 3 before it")])
def test_correlated_noise_is_named_and_its_memory_kept(tmp_path, mechanism, word):
    rules = terms(sampling=Cyclic(4), summation=Plain())
    rules = dataclasses.replace(rules, channels=(dataclasses.replace(rules.channels[0], mechanism=mechanism),))
    facts = facts_of(tmp_path, rules, [], environment(observers=["public"]))
    assert word in dict(settings.settings(facts))["Correlated noise"]
    items = {item.what: item.tag for item in disclosure.items(facts)}
    assert items["What noising parties remember of their noise"] == "never sent"


@pytest.mark.parametrize(
    ("records", "rate"), [(WithoutReplacement(2, 5), "q = 0.1 "), (WithReplacement(2, 5), "q = 0.09562 ")]
)
def test_batches_of_records_say_their_rate(tmp_path, records, rate):
    rules = dataclasses.replace(terms(), unit="record", training=Training("nothing", records, 100))
    facts = facts_of(tmp_path, rules, [], environment())
    drawn = dict(settings.settings(facts))["Records"]
    assert "2 batches of 5 in a round" in drawn and f"{rate}at a client of at least 100" in drawn


def test_a_realised_divisor_is_a_release_of_the_count(tmp_path):
    rules = dataclasses.replace(terms(), counted="realised")
    facts = facts_of(tmp_path, rules, metrics(2), environment())
    counts = [item for item in disclosure.items(facts) if item.what == "How many clients took part in each round"]
    assert [item.tag for item in counts] == ["released"]
    assert "everybody then sees" in dict(settings.settings(facts))["Divisor"]


def test_a_clipped_model_is_told_from_a_clipped_update(tmp_path):
    for mode, word in (("model", "client's model itself"), ("update", "client's update")):
        text = f'[privacy]\nclip-mode = "{mode}"\n'
        facts = gathering.read(make(tmp_path / mode, terms(), [], environment(), text))
        assert word in dict(settings.settings(facts))["Clip"]


def test_the_glossary_has_the_words_that_the_page_uses(tmp_path):
    shown = words_of(page_of(make(tmp_path / "run", grouped_terms(part="x"), personal_metrics(10), GROUPED)))
    for word in ("Group", "Mixing period", "Private part", *(f"Theorem {number} (" for number in (1, 2, 3, 4))):
        assert f"<dt>{word}" in shown
    assert "<dt>Theorem" not in words_of(page_of(make(tmp_path / "star", terms(), metrics(1))))
