"""What clients told under noise of how good the model was, beside what was measured on test records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from onlooker.report.charts import Chart, figure, finite, line, scores
from onlooker.report.disclosure import MEASURED
from onlooker.report.facts import Facts, table


def told(facts: Facts) -> list[Chart]:
    """Accuracy (or error) and loss before each round, as they were released, with their 95 % intervals."""
    lines = [(line["round"], table(line, "released")) for line in facts.metrics if "released" in line]
    return [_chart(key, lines, facts) for key in MEASURED if any(key in released for _, released in lines)]


def _chart(key: str, lines: Sequence[tuple[int, Mapping[str, Any]]], facts: Facts) -> Chart:
    shown = ".1%" if key == "accuracy" else ".4g"
    found = [_estimate(key, released) for _, released in lines]
    trace = line(
        "",
        0,
        [round for round, _ in lines],
        [None if one is None else one[0] for one in found],
        f"before round %{{x}}: %{{y:{shown}}}",
    )
    trace["error_y"] = {
        "type": "data",
        "symmetric": False,
        "array": [0.0 if one is None else one[2] - one[0] for one in found],
        "arrayminus": [0.0 if one is None else one[0] - one[1] for one in found],
        "thickness": 1,
    }
    caption = f"{_course(lines, found, shown)} Of the training rows of those who took part, and not of rows held out."
    title = f"{MEASURED[key]} before each round, told under noise"
    return Chart(f"told-{key}", title, caption, figure([trace], scores(facts, key == "accuracy")))


def _estimate(key: str, released: Mapping[str, Any]) -> tuple[float, float, float] | None:
    """The value and the ends of its interval; None where a round told nothing."""
    value, ends = finite(released.get(key)), released.get(f"{key}-interval")
    low, high = (finite(one) for one in cast("list[Any]", ends)) if isinstance(ends, list) else (None, None)
    return None if value is None or low is None or high is None else (value, low, high)


def _course(
    lines: Sequence[tuple[int, Mapping[str, Any]]], found: Sequence[tuple[float, float, float] | None], shown: str
) -> str:
    """Where it ended, with its interval, and how often nothing was told."""
    known = [(round, one) for (round, _), one in zip(lines, found, strict=True) if one is not None]
    gaps = len(found) - len(known)
    silent = f" {gaps} of {len(found)} rounds told nothing: too few took part for the noise." if gaps else ""
    if not known:
        return f"No value.{silent}"
    round, (value, low, high) = known[-1]
    return f"{value:{shown}} before round {round}, 95 % interval {low:{shown}} to {high:{shown}}.{silent}"
