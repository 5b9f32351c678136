"""Every reproduced figure and table says what kind of number each of its numbers is."""

from __future__ import annotations

import csv
import html
import io
from pathlib import Path

import pytest

from onlooker.config import Configuration
from onlooker.privacy.channel import Channel
from onlooker.privacy.published import LABEL
from onlooker.privacy.summation import Shared
from onlooker.reproduce import traffic, training
from onlooker.reproduce.catalogue import FORMULAS, TRAINED
from onlooker.reproduce.scale import Scale
from onlooker.reproduce.training import Arm, Trace, interval
from onlooker.reproduce.write import as_csv, as_html, as_markdown

NAMES = [(paper, name) for paper, drawn in FORMULAS.items() for name in drawn]
SCALES = [Scale(True, None), Scale(True, Path("data")), Scale(False, Path("data"))]


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


@pytest.mark.parametrize("scale", SCALES, ids=["quick", "quick on data", "full"])
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
        for experiment in TRAINED[paper](Scale(False, Path("data"))):
            for arms in experiment.panels.values():
                printed = {(arm.colour, arm.name.split(", as")[0]) for arm in arms if arm.printed}
                kept = {(arm.colour, arm.name.split(", sound")[0]) for arm in arms if "epsilon" in _privacy(arm)}
                assert printed and printed == kept


def _privacy(arm):
    return arm.configuration.get("privacy", {})


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


def test_figures_against_something_else_than_rounds(monkeypatch):
    """DP-OGL's: one line for each method, one point for each arm."""
    accuracy = {"string": 0.5, "ring": 0.6, "star": 0.7}
    structures = TRAINED["dp-ogl"](Scale(True, None))[1]
    by_members = {
        str(arm.configuration["groups"]["members"]): arm.x for arms in structures.panels.values() for arm in arms
    }

    def trained(configuration, seed):
        value = accuracy[by_members[str(configuration["groups"]["members"])]] + seed / 100
        return Trace((1, 2), {"accuracy": (0.1, value), "loss": (1.0, 1.0)}, 1.0, "client:0 8")

    monkeypatch.setattr(training, "train", trained)
    monkeypatch.setattr(training, "KINDS", {"dp-ogl": None, "dp-ogl-plus": None})
    drawing = training.carry_out(structures)
    (panel,) = drawing.panels
    assert [series.name for series in panel.series] == ["DP-OGL", "DP-OGL+"]
    for series in panel.series:
        assert list(series.x) == ["string", "ring", "star"]
        assert list(series.y) == pytest.approx([0.515, 0.615, 0.715])
    assert "left out: DP-OGL+, isolated" in drawing.caption
