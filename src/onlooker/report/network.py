"""A drawing of overlapping groups: nodes, and the clients that link them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onlooker.privacy.statement import ranges
from onlooker.privacy.topology import Groups, named
from onlooker.report.between import hops_of, shared_members
from onlooker.report.charts import Chart, figure, finite, layout
from onlooker.report.facts import Facts
from onlooker.report.maps import short

_FEW_LINKS, _MOST_LINKS = 6, 24
"""Up to so many links are labelled in full; and so many by numbers alone."""
_LONGEST_LABEL = 16
_SIZES = ((8, 44, 14), (30, 26, 12), (10**6, 11, 0))
"""Up to so many groups, the largest node and the letters in it, in pixels; no letters where there is no room."""


def graph(facts: Facts) -> Chart | None:
    """Groups as nodes, and the clients that link them; None without groups."""
    groups = facts.terms.topology
    if not isinstance(groups, Groups):
        return None
    places, links = arranged(hops_of(groups)), _links(groups)
    across, up = _ranges(places)
    hidden: Mapping[str, Any] = {"visible": False, "title": {"text": ""}}
    placed = layout({**hidden, "range": across}, {**hidden, "range": up})
    spans = np.ptp(places, axis=0)
    flat = min(1.0, float(spans[1] / max(spans[0], 1.0)))
    placed |= {"height": round(200 + 260 * flat), "margin": {"l": 8, "r": 8, "t": 8, "b": 8}}
    count = "1 link" if len(links) == 1 else f"{len(links)} links"
    caption = (
        f"{len(groups.members)} groups and {count} between them; a larger node has more clients. What a client sends "
        f"reaches another group only over the clients that link the two{_named(len(links))}."
    )
    beside = "top center" if flat < 0.2 else "top right"
    names = facts.group_names
    drawn = [_edges(places, links), _labels(places, links, beside, names), _nodes(places, groups, names)]
    return Chart("groups", "Who links which groups", caption, figure(drawn, placed))


def _named(links: int) -> str:
    return ", whose numbers stand at the links" if links <= _MOST_LINKS else ": point at a link to see them"


def _links(groups: Groups) -> dict[tuple[int, int], list[int]]:
    """The clients that two groups share, for each two that share any."""
    shared = shared_members(groups)
    found: list[list[int]] = np.argwhere(np.triu(shared, 1)).tolist()
    return {(one, other): sorted(set(groups.members[one]) & set(groups.members[other])) for one, other in found}


def _edges(places: NDArray[np.float64], links: Mapping[tuple[int, int], Sequence[int]]) -> dict[str, Any]:
    ends = [[*map(finite, places[[one, other], axis]), None] for axis in (0, 1) for one, other in links]
    across, up = ends[: len(links)], ends[len(links) :]
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "",
        "meta": {"colour": "soft"},
        "x": [value for part in across for value in part],
        "y": [value for part in up for value in part],
        "line": {"width": 1.5},
        "hoverinfo": "skip",
    }


def _labels(
    places: NDArray[np.float64], links: Mapping[tuple[int, int], Sequence[int]], beside: str, names: Sequence[str]
) -> dict[str, Any]:
    """The linking clients at the middle of each edge: in words where there are few, else for whoever points there."""
    middles = [places[[one, other]].mean(axis=0) for one, other in links]
    few, labels = len(links) <= _MOST_LINKS, [short(clients) for clients in links.values()]
    return {
        "type": "scatter",
        "mode": "text+markers" if few else "markers",
        "name": "",
        "meta": {"colour": "soft"},
        "x": [float(middle[0]) for middle in middles],
        "y": [float(middle[1]) for middle in middles],
        "text": [label if len(links) <= _FEW_LINKS else label.removeprefix("client:") for label in labels],
        "textposition": beside,
        "marker": {"size": 5 if few else 3},
        "hovertext": [
            f"groups {_told(one, names)} and {_told(other, names)}: {', '.join(ranges(links[one, other]))}"
            for one, other in links
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _nodes(places: NDArray[np.float64], groups: Groups, names: Sequence[str]) -> dict[str, Any]:
    sizes = np.sqrt([len(group) for group in groups.members])
    largest, letters = next((size, letters) for most, size, letters in _SIZES if len(sizes) <= most)
    return {
        "type": "scatter",
        "mode": "markers+text" if letters else "markers",
        "name": "",
        "meta": {"colour": "series-1", "letters": "ink" if names else "paper"},
        "x": places[:, 0].tolist(),
        "y": places[:, 1].tolist(),
        "text": [_label(group, names) for group in range(len(sizes))],
        "textposition": "bottom center" if names else "middle center",
        "cliponaxis": False,
        "textfont": {"size": letters or 12},
        "marker": {"size": (largest * sizes / sizes.max()).tolist(), "opacity": 1},
        "hovertext": [
            f"group {_told(place, names)}: {len(group)} clients, {', '.join(ranges(group)[:6])}"
            for place, group in enumerate(groups.members)
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
    }


def _label(group: int, names: Sequence[str]) -> str:
    """A number, which fits into a node, or as much of a name as fits under one."""
    name = named(group, names)
    return escape(name if len(name) <= _LONGEST_LABEL else f"{name[: _LONGEST_LABEL - 1]}…", quote=False)


def _told(group: int, names: Sequence[str]) -> str:
    """A group for whoever points at it; Plotly would read some names as tags."""
    return escape(named(group, names), quote=False)


def _ranges(places: NDArray[np.float64]) -> tuple[list[float], list[float]]:
    """Axes around all nodes with a margin, and not so flat that a row of groups fills the height."""
    spans = np.ptp(places, axis=0)
    halves = np.maximum(spans, max(float(spans.max()) * 0.3, 1.0)) / 2 * np.array([1.2, 1.4])
    middles = (places.max(axis=0) + places.min(axis=0)) / 2
    low, high = (middles - halves).tolist(), (middles + halves).tolist()
    return [low[0], high[0]], [low[1], high[1]]


def arranged(hops: NDArray[np.float64], steps: int = 200) -> NDArray[np.float64]:
    """`float64[g, 2]`: places whose distances are as near to the hops as the plane allows; the same each time.

    Classical scaling, then majorisation of the stress (de Leeuw 1977) from there. A small circle is added first, or
    groups that are alike would start from one point and stay there.
    """
    count = len(hops)
    far = hops[np.isfinite(hops)].max(initial=1.0)
    wanted = np.where(np.isfinite(hops), hops, far + 1.0)
    centred = wanted**2 - (wanted**2).mean(axis=0) - (wanted**2).mean(axis=1)[:, None] + (wanted**2).mean()
    values, vectors = np.linalg.eigh(-centred / 2)
    flat = vectors[:, ::-1][:, :2] * np.sqrt(np.maximum(values[::-1][:2], 0.0))
    angles = 2 * np.pi * np.arange(count) / count
    places = np.zeros((count, 2))
    places[:, : flat.shape[1]] = flat
    places += 0.03 * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    places *= np.where(places[0] > places[-1], -1.0, 1.0)
    for _ in range(steps):
        apart = np.linalg.norm(places[:, None] - places[None], axis=2)
        ratio = np.divide(wanted, apart, out=np.zeros_like(wanted), where=apart > 1e-9)
        places = (ratio.sum(axis=1)[:, None] * places - ratio @ places) / count
    return places
