"""A heat map of what each client of overlapping groups learns of each other, and what decided it, in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

from onlooker.privacy.accounting import Price
from onlooker.privacy.pairs import Pair, because
from onlooker.privacy.statement import ranges
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import named
from onlooker.report.between import Between, Cell
from onlooker.report.charts import Chart, figure, layout
from onlooker.report.facts import Facts
from onlooker.report.words import number

_MOST_DISTANCES = 15
_MOST_WRITTEN, _MOST_LABELS = 14, 30
"""Up to so many rows have their numbers in the cells, and so many labels stand on an axis."""


def pairs(facts: Facts) -> Chart | None:
    """Epsilon of each client to each other; None without groups."""
    known = facts.between
    if known is None:
        return None
    labels = [short(clients) for clients in known.rows]
    layers = [
        _layer(facts, known, "epsilon", "held-wash", "held"),
        _layer(facts, known, "none", "open", "open"),
        _layer(facts, known, "own", "own", "own"),
    ]
    ticks = _ticks(labels)
    placed = layout(
        {**ticks, "title": {"text": "who looks", "standoff": 14}, "tickangle": -90 if len(labels) > 8 else 0},
        {**ticks, "title": {"text": "whose data", "standoff": 14}, "autorange": "reversed"},
    )
    placed["height"] = 170 + round(min(660, max(36 * len(labels), 200)))
    placed["margin"] = {"l": 8, "r": 8, "t": 12, "b": 8}
    placed["xaxis"] |= {"automargin": True, "zeroline": False, "showgrid": False}
    placed["yaxis"] |= {"automargin": True, "showgrid": False}
    shown = [layer for layer in layers if layer]
    return Chart("pairs", "What each client can learn of each other", _caption(known), figure(shown, placed))


def _caption(known: Between) -> str:
    about = "Each cell is the epsilon of the row's client to the column's"
    if known.merged:
        about = "Neighbours share a row, and each cell is the largest epsilon of the row's clients to the column's"
    elif any(len(clients) > 1 for clients in known.rows):
        about = "Clients of one price share a row, and each cell is the epsilon of one of them to another"
    parts = [f"{about}, after {known.rounds} rounds."]
    if known.accountant == "rdp":
        parts.append(
            "With so many kinds of clients, prices here are by Rényi's divergences alone, which are larger than need "
            "be and never too small; the table of observers has the least that is proven."
        )
    if known.left_out:
        parts.append(f"The last {known.left_out} clients are not drawn; the plan prices any pair of them.")
    return " ".join(parts)


def _layer(facts: Facts, known: Between, kind: str, low: str, high: str) -> dict[str, Any]:
    """The cells of one kind as a heat map; empty where there are none."""
    values = [[_value(cell, kind) for cell in line] for line in known.cells]
    if not any(value is not None for line in values for value in line):
        return {}
    written = len(known.rows) <= _MOST_WRITTEN
    layer = {
        "type": "heatmap",
        "name": "",
        "meta": {"from": low, "to": high},
        "z": values,
        "zmin": 0,
        "xgap": 1 if len(known.rows) <= _MOST_LABELS else 0,
        "ygap": 1 if len(known.rows) <= _MOST_LABELS else 0,
        "hoverongaps": False,
        "hovertext": [[_told(facts, cell) if _kind(cell) == kind else "" for cell in line] for line in known.cells],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "showscale": kind == "epsilon",
    }
    if kind == "epsilon":
        top = max(value for line in values for value in line if value is not None)
        layer |= {"zmax": top or 1.0, "colorbar": {"title": {"text": "epsilon"}, "thickness": 12, "outlinewidth": 0}}
    if written:
        text = [[_written(cell) if _kind(cell) == kind else "" for cell in line] for line in known.cells]
        layer |= {"text": text, "texttemplate": "%{text}"}
    return layer


def _kind(cell: Cell) -> str:
    return "own" if cell.epsilon is None else "none" if math.isinf(cell.epsilon) else "epsilon"


def _value(cell: Cell, kind: str) -> float | None:
    return None if _kind(cell) != kind else cell.epsilon if kind == "epsilon" else 1.0


def _written(cell: Cell) -> str:
    if cell.epsilon is None:
        return "own"
    return "none" if math.isinf(cell.epsilon) else number(cell.epsilon)


def _told(facts: Facts, cell: Cell) -> str:
    """A cell in words, for whoever points at it."""
    if cell.epsilon is None:
        return f"client:{cell.subject} holds the data itself"
    head = f"client:{cell.subject} to client:{cell.observer}"
    if math.isinf(cell.epsilon):
        return f"{head}<br>{why_none(facts.terms, cell)}"
    if cell.theorem == 0:
        return f"{head}: epsilon 0<br>nothing arrives, {distance(cell)}"
    lines = [
        f"{head}: epsilon {number(cell.epsilon)}",
        f"{releases(cell)} can arrive, {distance(cell)}, by theorem {cell.theorem}",
        *([f"path: {escape(way(cell, facts.group_names), quote=False)}"] if cell.path and cell.path.clients else []),
        *([f"assumed, not proven: {number(cell.assumed)}"] if cell.assumed is not None else []),
    ]
    return "<br>".join(lines)


def hops(cell: Cell) -> str:
    """The distance as a number."""
    return "no way" if math.isinf(cell.distance) else f"{cell.distance:g}"


def arrives(terms: Terms, cell: Cell) -> str:
    """What decided the price, for the table."""
    if cell.epsilon is not None and math.isinf(cell.epsilon):
        return why_none(terms, cell)
    return f"{releases(cell)}, by theorem {cell.theorem}" if cell.theorem else "nothing"


def shows_none(known: Between) -> bool:
    """True if some pair has no guarantee."""
    return any(_kind(cell) == "none" for line in known.cells for cell in line)


def worst_pairs(known: Between) -> list[Cell]:
    """The worst pair at each distance, up to the first at which nothing arrives."""
    last = next((place for place, cell in enumerate(known.worst) if not cell.epsilon), len(known.worst))
    return list(known.worst[: min(last + 1, _MOST_DISTANCES)])


def why_none(terms: Terms, cell: Cell) -> str:
    """Why a pair has no guarantee."""
    observer = f"client:{cell.observer}"
    seen = ", ".join(dict.fromkeys(view.because for view in terms.views(cell.subject, observer)))
    return because(terms, cell.subject, observer, Pair(Price(math.inf, terms.delta, "none"), 0, 0, None), seen)


def releases(cell: Cell) -> str:
    """How many releases arrive."""
    return "1 release" if cell.releases == 1 else f"{cell.releases} releases"


def distance(cell: Cell) -> str:
    """How far apart the two are."""
    if math.isinf(cell.distance):
        return "no way between their groups"
    return f"distance {cell.distance:g}"


def way(cell: Cell, names: Sequence[str] = ()) -> str:
    """Over which groups, by their names where they have any, and by which clients; a long way by its ends."""
    if cell.path is None or not cell.path.clients:
        return "a group of both" if cell.distance == 0 else "none"
    groups, clients = [named(group, names) for group in cell.path.groups], cell.path.clients
    if len(clients) > 3:
        return f"groups {groups[0]} - ... - {groups[-1]}, {len(clients)} clients from client:{clients[0]} on"
    return f"groups {' - '.join(groups)} by {', '.join(f'client:{client}' for client in clients)}"


def short(clients: Sequence[int]) -> str:
    """Clients as a label.

    >>> short([0, 1, 2]), short([0, 2, 4, 6])
    ('client:0-2', 'client:0, 2, ...')
    """
    runs = [run.removeprefix("client:") for run in ranges(clients)]
    return f"client:{', '.join(runs[:2])}{', ...' if len(runs) > 2 else ''}"


def _ticks(labels: Sequence[str]) -> dict[str, Any]:
    """Every label, or so few of many that they can be read."""
    step = -(-len(labels) // _MOST_LABELS)
    return {"tickvals": list(range(0, len(labels), step)), "ticktext": list(labels[::step]), "ticks": ""}
