"""Medians and ratios of segments whose answer can be worked out by hand, and what is made of them."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from benchmarks import protocol, render, summary
from benchmarks.cells import CELLS
from benchmarks.job import Job
from benchmarks.summary import Result, Segment

SEGMENTS = (
    Segment("onlooker", 0, (10.0, 12.0, 14.0), 2.0, 300.0, 0.0, versions={"onlooker": "1"}, unwritten=(9.0, 9.5, 10.0)),
    Segment("pfl (1 thread)", 0, (30.0, 36.0, 60.0), 3.0, 400.0, 0.05, versions={"pfl": "2"}),
    Segment("onlooker", 1, (20.0, 24.0, 28.0), 2.0, 320.0, 0.0, versions={"onlooker": "1"}),
    Segment("pfl (1 thread)", 1, (48.0, 48.0, 48.0), 4.0, 390.0, 0.0, versions={"pfl": "2"}),
    Segment("fedjax (jit)", 0, failure="no wheel | for this machine"),
)
RESULT = Result(
    name="mlp-50",
    title="MLP, 50 <of> 100",
    aim="twice",
    unit="ms a round",
    operations=1_200_000_000,
    date="2026-01-01",
    processor="a processor, 2 cores",
    commit="abc",
    command="python -m benchmarks.compare --only mlp-50",
    limits=({"product-1": 90.0, "product-2": 190.0, "layer-1": 50.0, "layer-2": 80.0},) * 2,
    segments=SEGMENTS,
)


def rows(result=RESULT):
    return {row.contender: row for row in summary.rows_of(result)}


def test_medians_are_over_all_turns_and_ratios_within_each():
    found = rows()
    assert found["onlooker"].median == 17.0 and found["onlooker"].ratio == 1.0
    assert found["pfl (1 thread)"].median == 48.0
    assert found["pfl (1 thread)"].ratio == pytest.approx((36 / 12 + 48 / 24) / 2)
    assert (found["pfl (1 thread)"].start, found["pfl (1 thread)"].memory) == (3.5, 400.0)


def test_the_rate_is_operations_over_the_median():
    assert rows()["pfl (1 thread)"].rate == pytest.approx(1.2 / 0.048)


def test_a_disturbed_turn_counts_only_where_there_is_no_other():
    once = replace(SEGMENTS[2], disturbed=True)
    both = (replace(SEGMENTS[0], disturbed=True), SEGMENTS[1], once)
    assert rows(replace(RESULT, segments=(*SEGMENTS[:2], once)))["onlooker"].median == 12.0
    assert not rows(replace(RESULT, segments=(*SEGMENTS[:2], once)))["onlooker"].note
    assert rows(replace(RESULT, segments=both))["onlooker"].median == 17.0
    assert "disturbed" in rows(replace(RESULT, segments=both))["onlooker"].note


def test_who_could_not_run_says_why():
    found = rows()["fedjax (jit)"]
    assert found.median is None and found.ratio is None
    assert found.note == "no wheel | for this machine"


def test_two_rounds_of_each_process_are_dropped():
    stamps = [100.0, 109.0, 109.5, 110.5]  # ends of rounds 1 to 4
    seconds = [after - before for before, after in zip(stamps, stamps[1:], strict=False)]
    assert summary.samples_of(seconds, 1) == (500.0, 1000.0)
    assert summary.samples_of(seconds, 20) == (25.0, 50.0)
    assert summary.samples_of(seconds[:1], 1) == ()


def test_what_is_stored_comes_back():
    assert summary.from_json(json.loads(json.dumps(summary.to_json(RESULT)))) == replace(
        RESULT, limits=tuple(dict(one) for one in RESULT.limits)
    )


def test_the_table_has_a_line_for_each_contender_and_as_many_cells_in_each():
    lines = [line for line in render.section(RESULT).splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 3
    assert {line.count("|") for line in lines} == {lines[0].count("|")}
    assert "| pfl (1 thread) | 48 (39-48) | - | 2.50 | 13% | 3.5 | 400 |" in lines[3]
    assert "| onlooker | 17 (12.5-23) | 9.5 | 1.00 |" in lines[2]
    assert "no wheel / for this machine" in lines[4]


def test_the_page_names_versions_date_processor_and_command():
    page = render.page([RESULT])
    for text in ("onlooker 1, pfl 2", "2026-01-01", "a processor, 2 cores", f"`{RESULT.command}`", "190 GFLOP/s"):
        assert text in page


def test_the_plot_is_well_formed_and_its_bars_are_as_long_as_the_ratios():
    drawing = ElementTree.fromstring(render.plot([RESULT]))
    bars = [one for one in drawing.iter("{http://www.w3.org/2000/svg}rect") if one.get("y")]
    widths = [float(bar.get("width", 0)) for bar in bars]
    assert widths[1] / widths[0] == pytest.approx(2.5, rel=0.01)
    assert "MLP, 50 <of> 100" in [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")]


def test_a_line_for_each_turn_of_the_numbers():
    assert len(render.numbers([RESULT]).splitlines()) == 1 + len(SEGMENTS)


def test_a_job_survives_the_command_line(monkeypatch):
    job = Job("cnn", 7, 9, records=64)
    monkeypatch.setattr("sys.argv", ["runner", *protocol.arguments_of(job, {"threads": 2}), "--set", "a.b=1"])
    found, options = protocol.asked(threads=1, set=[])
    assert found == job
    assert (options.threads, options.set) == (2, ["a.b=1"])


def test_every_cell_begins_with_onlooker_and_has_its_own_contenders():
    for cell in CELLS.values():
        assert cell.contenders[0].name == "onlooker"
        titles = [one.title for one in cell.contenders]
        assert len(set(titles)) == len(titles)
