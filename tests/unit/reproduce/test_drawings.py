"""Every reproduced figure and table says what kind of number each of its numbers is."""

from __future__ import annotations

import csv
import html
import io
import json
from pathlib import Path

import pytest

from onlooker.config import Configuration
from onlooker.privacy.channel import Channel
from onlooker.privacy.pairs import pair_of
from onlooker.privacy.published import LABEL
from onlooker.privacy.summation import Shared
from onlooker.reproduce import opacus_runs, traffic, training
from onlooker.reproduce import runs as runs_module
from onlooker.reproduce.catalogue import FORMULAS, TRAINED
from onlooker.reproduce.distances import by_distance
from onlooker.reproduce.runs import Runs
from onlooker.reproduce.scale import Scale
from onlooker.reproduce.trace import Trace
from onlooker.reproduce.training import Arm, interval
from onlooker.reproduce.write import as_csv, as_html, as_markdown

NAMES = [(paper, name) for paper, drawn in FORMULAS.items() for name in drawn]
QUICK, STUDY, PAPER = Scale("quick", None), Scale("study", Path("data")), Scale("paper", Path("data"))
SCALES = [QUICK, Scale("quick", Path("data")), STUDY, PAPER]


@pytest.fixture(scope="module", params=NAMES, ids="-".join)
def drawing(request):
    paper, name = request.param
    return FORMULAS[paper][name]()


def test_what_is_printed_carries_the_label_and_the_reason(drawing):
    for series in [one for panel in drawing.panels for one in panel.series]:
        assert (series.kind == "published") == (series.label == LABEL)
        assert (series.kind == "published") == bool(series.reason)
        assert series.kind == "published" or "against" in series.label
    for row in [one for table in drawing.tables for one in table.rows]:
        assert row.kind != "published" or row.label.startswith("as published"), row


def test_every_plot_has_what_holds_beside_what_is_printed(drawing):
    for panel in drawing.panels:
        assert {series.kind for series in panel.series} == {"published", "sound"}


def test_every_line_of_the_numbers_carries_the_label(drawing):
    lines = list(csv.reader(io.StringIO(as_csv(drawing))))
    points = sum(len(series.x) for panel in drawing.panels for series in panel.series)
    rows = sum(len(table.rows) for table in drawing.tables)
    heads = bool(drawing.panels) + len(drawing.tables)
    assert len(lines) == points + rows + heads
    for line in lines:
        if "published" in line:
            assert any(cell.startswith("as published") for cell in line), line
            assert not drawing.panels or LABEL in line


def test_page_and_summary_carry_the_label_and_reach_nowhere(drawing):
    page, summary = html.unescape(as_html(drawing)), as_markdown(drawing)
    published = [
        *(one for panel in drawing.panels for one in panel.series),
        *(r for t in drawing.tables for r in t.rows),
    ]
    for one in published:
        if one.kind == "published":
            assert one.label in page and one.label in summary
    assert "default-src 'none'" in page
    assert f"onlooker reproduce {drawing.paper} --" in summary


def test_bytes_are_counted_and_not_asserted(monkeypatch):
    size = 1000
    found = traffic.measure(size, Shared(count=3, corrupt=1))
    assert found.upload == 3 * 4 * size == found.sealed and found.additions == 3 * size
    assert traffic.keyed_upload(size, 3) == 4 * size + 64
    honest = Channel.shard

    def larger(*arguments):
        report = honest(*arguments)
        return type(report)(report.client, (*report.shares, report.shares[0]))

    monkeypatch.setattr(Channel, "shard", larger)
    monkeypatch.setattr(Channel, "aggregate", lambda *arguments: None)
    assert traffic.measure(size, Shared()).upload == 3 * 4 * size


def test_what_no_run_sends_is_not_said_to_be_measured(monkeypatch):
    """Rows whose numbers hold whatever channels do: they stay when every channel sends twice."""
    honest = traffic.measure
    rows = traffic.table_6().tables[0].rows
    monkeypatch.setattr(traffic, "measure", lambda *arguments, **more: twice(honest(*arguments, **more)))
    after = traffic.table_6().tables[0].rows
    for row, again in zip(rows, after, strict=True):
        assert (row.kind == "constructed") == (row.cells == again.cells) == row.label.startswith("by construction")
    assert [row.cells[0] for row in rows if row.kind == "constructed"] == ["client to servers", "server to server"]
    (three,) = traffic.table_3().tables
    assert all("with keys by construction" in row.label for row in three.rows)


def twice(found):
    return traffic.Traffic(found.parts, 2 * found.upload, 2 * found.sealed, found.additions)


def test_two_servers_stand_against_three_in_one_table():
    _, sent = traffic.table_4().tables
    size = traffic._size()
    assert [row.cells for row in sent.rows] == [(n, n, n * 4 * size, n * 4 * size, 0) for n in (2, 3)]
    assert all("between servers by construction" in row.label for row in sent.rows)


@pytest.mark.parametrize("scale", SCALES, ids=["quick", "quick on data", "study", "paper"])
@pytest.mark.parametrize("paper", TRAINED)
def test_every_trained_figure_has_configurations_that_can_be_read(paper, scale):
    for experiment in TRAINED[paper](scale):
        arms = [arm for arms in experiment.panels.values() for arm in arms]
        assert arms and len(experiment.seeds) == (5 if not scale.quick else 1 if scale.root else 2)
        for arm in arms:
            configuration = Configuration.model_validate({**arm.configuration})
            assert configuration.data.root is None or scale.root
            assert (arm.printed is None) == (arm.reason == "")


def test_papers_compare_the_printed_noise_with_a_sound_one():
    for paper in ("ms-pafl", "feddecouple"):
        for experiment in TRAINED[paper](STUDY):
            for arms in experiment.panels.values():
                printed = {(arm.colour, arm.name.split(", as")[0]) for arm in arms if arm.printed}
                kept = {(arm.colour, arm.name.split(", sound")[0]) for arm in arms if "epsilon" in _privacy(arm)}
                assert printed and printed <= kept


def _privacy(arm):
    return arm.configuration.get("privacy", {})


@pytest.mark.parametrize("paper", TRAINED)
def test_every_trained_configuration_is_one_that_can_be_priced(paper, monkeypatch):
    """All arms of the study's size but those that Opacus runs, at some noise: to calibrate each would take long."""
    monkeypatch.setattr(runs_module, "_noise", lambda lender: 1.0)
    for experiment in TRAINED[paper](STUDY):
        for arm in {json.dumps(arm.configuration): arm for arm in experiment.built}.values():
            if arm.configuration["task"]["method"] not in opacus_runs.METHODS:
                runs_module.prepare(runs_module.with_noise(arm.configuration, _privacy(arm).get("noise-multiplier", 3)))


def test_ms_pafl_trains_as_printed_and_beside_it_soundly():
    for experiment in TRAINED["ms-pafl"](STUDY):
        for title, arms in experiment.panels.items():
            labels = arms[0].configuration["data"]["classes-per-client"]
            assert labels == (1 if title.startswith("adult") else 2)
            for printed, sound in zip(arms[:-1:2], arms[1::2], strict=True):
                privacy = _privacy(printed)
                assert (privacy["clip-mode"], privacy["divisor"], privacy["noised-by"]) == (
                    "model",
                    "realised",
                    "clients",
                )
                assert _privacy(sound)["epsilon"] == printed.printed and "clip-mode" not in _privacy(sound)
                assert "aux:0" in _privacy(sound)["observers"] and sound.configuration["servers"]["corrupt"] == 1


def test_feddecouple_has_all_four_methods_and_one_network_where_it_says_so():
    by_name = {one.name: one for one in TRAINED["feddecouple"](STUDY)}
    assert {"table-12", "figure-11", *(f"figure-{number}" for number in range(3, 11))} == set(by_name)
    for one in by_name.values():
        methods = {arm.configuration["task"]["method"] for arms in one.panels.values() for arm in arms}
        assert {"feddecouple", "dp-fedavg", "dp-ftrl", "opacus-pooled"} <= methods
    for name in ("figure-9", "figure-11"):
        models = {arm.configuration["model"]["name"] for arms in by_name[name].panels.values() for arm in arms}
        assert models == {"cnn-common"}
    own = {one.name: one for one in TRAINED["feddecouple"](PAPER)}["figure-9"]
    assert {"cnn-feddecouple", "cnn-dp-sgd", "cnn-dp-ftrl", "cnn-opacus"} == {
        arm.configuration["model"]["name"] for arms in own.panels.values() for arm in arms
    }


def test_accuracy_and_loss_are_drawn_from_the_same_runs():
    jobs = {one.name: set(one.jobs) for one in TRAINED["feddecouple"](STUDY)}
    assert jobs["figure-3"] == jobs["figure-6"] and jobs["figure-9"] == jobs["figure-10"]
    assert jobs["table-12"] == jobs["figure-3"] | jobs["figure-4"] | jobs["figure-5"] | jobs["figure-9"]


def test_a_run_with_printed_noise_carries_the_label():
    printed, sound = Arm("a", 1, {}, 8.0, "why"), Arm("b", 1, {})
    assert LABEL in training.label(printed, "public 11.6") and "sound epsilon: public 11.6" in training.label(
        printed, "public 11.6"
    )
    assert LABEL not in training.label(sound, "public 8")


def test_intervals_by_hand():
    mean, half = interval([0.8, 0.9, 1.0, 0.7, 0.6])
    assert mean == pytest.approx(0.8) and half == pytest.approx(2.776445 * 0.158114 / 5**0.5, rel=1e-5)
    assert interval([0.5]) == (0.5, None)
    assert interval([0.5, None]) == (None, None)


def test_figures_against_something_else_than_rounds(monkeypatch, tmp_path):
    """DP-OGL's: one line for each method, one point for each arm, and every epsilon by distance."""
    accuracy = {"string": 0.5, "ring": 0.6, "star": 0.7, "grid": 0.8}
    structures = TRAINED["dp-ogl"](QUICK)[1]

    def trained(job):
        table = json.loads(job.text)
        value = accuracy[table["groups"]["structure"]] + table["task"]["seed"] / 100
        return Trace((1, 2), {"accuracy": (0.1, value), "loss": (1.0, 1.0)}, 1.0, 0.5, "the worst peer 8", 4.0)

    monkeypatch.setattr(runs_module, "train", trained)
    drawing = training.carry_out(structures, Runs(tmp_path))
    (panel,) = drawing.panels
    assert [series.name for series in panel.series] == ["DP-OGL", "DP-OGL+", "DP-OGL+, isolated", "DP-OGL, no noise"]
    for series in panel.series:
        assert list(series.x) == list(accuracy)
        assert list(series.y) == pytest.approx([0.515, 0.615, 0.715, 0.815])
    assert as_markdown(drawing).count("| DP-OGL | ") == 8  # four points and four rows of epsilons
    (table,) = drawing.tables
    within = {(row.cells[0], row.cells[1]): row.cells[table.columns.index("own group")] for row in table.rows}
    assert all((epsilon == "no guarantee") == (name == "DP-OGL+") for (name, _), epsilon in within.items())


@pytest.mark.parametrize("structure", ["string", "ring", "star", "grid"])
def test_the_noise_of_dp_ogl_keeps_the_worst_peer_to_epsilon(structure):
    arm = next(arm for arm in TRAINED["dp-ogl"](QUICK)[1].built if arm.x == structure)
    terms = runs_module.prepare(arm.configuration).agreement.terms
    found = by_distance(terms)
    assert max(found.values()) == found[0] == pytest.approx(8.0, rel=1e-3)
    every = [
        pair_of(terms, subject, f"client:{peer}", terms.rounds, terms.delta).price.epsilon
        for subject in range(terms.clients)
        for peer in range(terms.clients)
        if peer != subject
    ]
    assert max(every) == found[0]


def test_a_finished_run_is_kept_and_another_setting_is_another_run(monkeypatch, tmp_path):
    trained = []

    def train(job):
        trained.append(job)
        return Trace((2,), {"accuracy": (0.5,), "loss": (None,)}, 1.0, 0.5, "public 8", 1.0)

    monkeypatch.setattr(runs_module, "train", train)
    table = {"task": {"method": "fedavg"}, "data": {}}
    one, two = runs_module.job_of(table, 1), runs_module.job_of(table, 2)
    lent = runs_module.job_of(table, 1, {"task": {}})
    first = Runs(tmp_path).of([one, one, two])
    assert Runs(tmp_path).of([one, lent]) == {one: first[one], lent: first[one]}
    assert trained == [one, two, lent]


def test_runs_side_by_side_come_to_the_same(tmp_path):
    jobs = TRAINED["feddecouple"](QUICK)[0].jobs[:2]
    apart, together = Runs(tmp_path / "one").of(jobs), Runs(tmp_path / "two", processes=2).of(jobs)
    assert [trace.values for trace in apart.values()] == [trace.values for trace in together.values()]


def test_borrowed_noise_is_the_lenders():
    (arm,) = [arm for arm in TRAINED["dp-ogl"](QUICK)[0].built if arm.lender and arm.x == 3.0]
    own = runs_module.prepare(arm.lender).agreement.terms.channels[0].mechanism
    assert runs_module.lent(arm.configuration, arm.lender)["privacy"]["noise-multiplier"] == own.noise_multiplier


def test_what_the_papers_size_would_take_is_by_the_rounds_that_were_measured(monkeypatch, tmp_path):
    trace = Trace((30,), {"accuracy": (0.5,), "loss": (1.0,)}, 99.0, 2.0, "public 8", 1.0)
    monkeypatch.setattr(runs_module, "train", lambda job: trace)
    experiment = next(one for one in TRAINED["feddecouple"](STUDY) if one.name == "figure-3")
    hours = len(experiment.built) * 5 * 30 * 2.0 * experiment.longer / 3600
    assert f"{hours:.0f} hours of one core" in training.carry_out(experiment, Runs(tmp_path)).caption
    assert experiment.longer == pytest.approx(282 / 5)
