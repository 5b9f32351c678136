"""Which figures and tables there are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from onlooker.reproduce import (
    dp_ogl_training,
    feddecouple,
    feddecouple_training,
    ms_pafl,
    ms_pafl_training,
    traffic,
)
from onlooker.reproduce.drawing import Drawing
from onlooker.reproduce.runs import Runs
from onlooker.reproduce.scale import Scale
from onlooker.reproduce.training import Experiment, carry_out

Draw = Callable[[], Drawing]

FORMULAS: Mapping[str, Mapping[str, Draw]] = {
    "ms-pafl": {
        "figure-3": ms_pafl.figure_3,
        "figure-4": ms_pafl.figure_4,
        "figure-5": ms_pafl.figure_5,
        "figure-6": ms_pafl.figure_6,
    },
    "dp-ogl": {},
    "feddecouple": {
        "figure-1": feddecouple.figure_1,
        "table-3": traffic.table_3,
        "table-4": traffic.table_4,
        "table-5": feddecouple.table_5,
        "table-6": traffic.table_6,
        "table-8": feddecouple.table_8,
    },
}
"""What needs no training, by paper."""

TRAINED: Mapping[str, Callable[[Scale], tuple[Experiment, ...]]] = {
    "ms-pafl": ms_pafl_training.experiments,
    "dp-ogl": dp_ogl_training.experiments,
    "feddecouple": feddecouple_training.experiments,
}
"""What is trained, by paper."""


def available(paper: str, scale: Scale, runs: Runs) -> dict[str, Draw]:
    """Every figure and table of a paper, by name, in order."""
    trained = {one.name: partial(carry_out, one, runs) for one in TRAINED[paper](scale)}
    found: dict[str, Draw] = {**FORMULAS[paper], **trained}
    return dict(sorted(found.items(), key=_order))


def needs_data(paper: str, name: str) -> bool:
    """True for what is trained."""
    return name not in FORMULAS[paper]


def _order(item: tuple[str, Draw]) -> tuple[str, int]:
    kind, number = item[0].split("-")
    return kind, int(number)
