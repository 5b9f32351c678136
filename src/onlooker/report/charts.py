"""The plots as plain Plotly figures: data and layout without colours, which the page chooses by its theme."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onlooker.report.disclosure import MEASURED
from onlooker.report.facts import Curve, Facts, table
from onlooker.report.words import listed, number

_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x")
_FEW = 60
"""Up to so many points each gets a marker."""


@dataclass(frozen=True)
class Chart:
    """One plot.

    Attributes:
        name: the id of its place on the page.
        title: its heading.
        caption: what it shows, in words that stand without it.
        figure: what Plotly draws.
        simulated: True if only a simulator can see it.
    """

    name: str
    title: str
    caption: str
    figure: Mapping[str, Any]
    simulated: bool = False


def measured(facts: Facts) -> list[Chart]:
    """Accuracy, loss and mean absolute error by round, as far as they were measured.

    Where clients have models of their own, the mean over clients, with the worst and the spread, on the common test
    set and on each client's own distribution.
    """
    evaluated = [line for line in facts.metrics if any(key in line for key in MEASURED)]
    found = [key for key in MEASURED if any(key in line for line in evaluated)]
    if not facts.personal:
        return [_measure(key, evaluated, facts) for key in found]
    simulated = {key for line in evaluated for key in table(line, "simulation")}
    keys = [kind for key in found for kind in (key, f"own-{key}") if kind == key or kind in simulated]
    return [_of_clients(key, evaluated, facts) for key in keys]


def _measure(key: str, evaluated: Sequence[Mapping[str, Any]], facts: Facts) -> Chart:
    share = key == "accuracy"
    rounds = [line["round"] for line in evaluated]
    values = [finite(line.get(key)) for line in evaluated]
    shown = ".1%" if share else ".4g"
    trace = line("", 0, rounds, values, f"round %{{x}}: %{{y:{shown}}}")
    return Chart(
        key, f"{MEASURED[key]} by round", _course(rounds, values, shown), figure([trace], scores(facts, share))
    )


def _of_clients(key: str, evaluated: Sequence[Mapping[str, Any]], facts: Facts) -> Chart:
    """The mean, the worst and the spread over clients' own models."""
    share = key.endswith("accuracy")
    shown = ".1%" if share else ".4g"
    rounds = [line["round"] for line in evaluated]
    known = [{**line, **table(line, "simulation")} for line in evaluated]
    names = {
        key: "mean over clients",
        f"{key}-worst": "worst client",
        f"{key}-spread": "spread (standard deviation over clients)",
    }
    drawn = {name: [finite(line.get(name)) for line in known] for name in names if any(name in line for line in known)}
    traces = [
        line(names[name] if len(drawn) > 1 else "", place, rounds, values, f"round %{{x}}: %{{y:{shown}}}")
        for place, (name, values) in enumerate(drawn.items())
    ]
    heading = MEASURED[key.removeprefix("own-")]
    where = "each on its client's own distribution" if key.startswith("own-") else "on the common test set"
    title = f"{heading} of the clients' own models, {where}"
    caption = f"The mean over clients: {_course(rounds, drawn[key], shown)}"
    return Chart(key, title, caption, figure(traces, scores(facts, share)), simulated=True)


def scores(facts: Facts, share: bool) -> dict[str, Any]:
    """Where a measure is drawn: a share from 0 to 1, or a number from 0 on."""
    return _layout(facts, {"tickformat": ".0%", "range": [-0.02, 1.02]} if share else {"rangemode": "tozero"})


def _course(rounds: Sequence[int], values: Sequence[float | None], shown: str) -> str:
    """How a measure went, in words."""
    known = [(round, value) for round, value in zip(rounds, values, strict=True) if value is not None]
    if not known:
        return "No round has a finite value."
    (first, start), (last, end) = known[0], known[-1]
    gaps = len(values) - len(known)
    missing = f" {gaps} of {len(values)} values are not finite and left out." if gaps else ""
    went = f"{start:{shown}} after round {first}"
    return f"{went}, {end:{shown}} after round {last}.{missing}" if last != first else f"{went}.{missing}"


def spent(facts: Facts) -> Chart | None:
    """Epsilon by round, a line for each different price; None where there is none, or nothing is charged."""
    if not facts.curves:
        return None
    data = [_spent_by(curve, place) for place, curve in enumerate(facts.curves)]
    ends = [f"{listed(curve.observers)}: {number(curve.prices[-1].epsilon)}" for curve in facts.curves]
    rounds = facts.curves[0].rounds
    priced = f"Priced anew from the ledger at {len(rounds)} of {facts.charged} charged rounds."
    caption = f"{priced} At the end, {'; '.join(ends)}."
    return Chart("epsilon", "Epsilon by round", caption, figure(data, _layout(facts, {"rangemode": "tozero"})))


def _spent_by(curve: Curve, place: int) -> dict[str, Any]:
    values = [finite(price.epsilon) for price in curve.prices]
    return line(listed(curve.observers), place, curve.rounds, values, "after round %{x}: epsilon %{y:.2f}")


def signal(facts: Facts) -> Chart | None:
    """The norm of what the clients sent over the norm of the noise, by round; None where unrecorded."""
    lines = [(line["round"], table(line, "simulation")) for line in facts.metrics]
    known = [(round, values) for round, values in lines if "signal-norm" in values]
    rounds = [round for round, _ in known]
    ratios = [_ratio(values) for _, values in known]
    if not any(ratios):
        return None
    layout = _layout(facts, logarithmic(ratios))
    layout["shapes"] = [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1, "line": {"dash": "dot"}}]
    trace = line("", 0, rounds, ratios, "round %{x}: %{y:.3g} times as long as the noise")
    caption = f"{_course(rounds, ratios, '.3g')} Above the dotted line the signal is longer than the noise."
    return Chart("signal", "Signal over noise by round", caption, figure([trace], layout), simulated=True)


def _ratio(values: Mapping[str, Any]) -> float | None:
    above, below = finite(values.get("signal-norm")), finite(values.get("noise-norm"))
    return finite(above / below) if above and below else None


def logarithmic(values: Iterable[float | None]) -> dict[str, Any]:
    """A log axis around all values and 1, with few ticks."""
    logs = [math.log10(value) for value in values if value]
    low, high = min(*logs, -0.1) - 0.1, max(*logs, 0.1) + 0.1
    return {"type": "log", "range": [low, high], "dtick": "D2" if high - low < 2 else 1, "tickformat": "~g"}


def finite(value: Any) -> float | None:
    """The number, or None, which leaves a gap, for anything that is not a finite one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def line(
    name: str, place: int, across: Sequence[float] | Sequence[str], values: Sequence[float | None], hover: str
) -> dict[str, Any]:
    """A line that can be told from others without colour; a missing value is a gap, never bridged."""
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(values) <= _FEW else "lines",
        "name": name,
        "x": list(across),
        "y": list(values),
        "connectgaps": False,
        "line": {"width": 2.5, "dash": _DASHES[place % len(_DASHES)]},
        "marker": {"size": 7, "symbol": _SYMBOLS[place % len(_SYMBOLS)]},
        "hovertemplate": f"{hover}<extra>{name}</extra>",
    }


def _layout(facts: Facts, axis: Mapping[str, Any]) -> dict[str, Any]:
    rounds = facts.terms.rounds
    across = {"title": {"text": "round"}, "range": [0, rounds * 1.03], "zeroline": False}
    if rounds <= 10:
        across |= {"dtick": 1, "range": [0.5, rounds + 0.5]}
    return layout(across, axis)


def layout(across: Mapping[str, Any], axis: Mapping[str, Any]) -> dict[str, Any]:
    """Where axes and legend go, whatever is drawn."""
    return {
        "height": 340,
        "margin": {"l": 56, "r": 16, "t": 16, "b": 52},
        "xaxis": dict(across),
        "yaxis": {"automargin": True, "zeroline": False, **axis},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
        "hovermode": "closest",
    }


def figure(data: list[dict[str, Any]], layout: dict[str, Any]) -> dict[str, Any]:
    """What Plotly draws, with a legend where a line has a name."""
    return {"data": data, "layout": {**layout, "showlegend": any(trace["name"] for trace in data)}}
