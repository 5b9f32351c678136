"""DP-OGL's utility against the mixing period and the structure of groups: our own, its figures not being at hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onlooker.reproduce.scale import Scale
from onlooker.reproduce.training import Arm, Experiment

PAPER = "dp-ogl"
_GROUPS, _SIZE, _ROUNDS = 5, 6, 60
_PERIODS = (1, 2, 3, 6)
_METHODS = {"DP-OGL": "dp-ogl", "DP-OGL+": "dp-ogl-plus", "DP-OGL+, isolated": "dp-ogl-plus-isolated"}
_CAPTION = (
    "Five groups of six workers, epsilon 8 at delta 1e-5 for a member of another group. DP-OGL+ as its paper has it "
    "guards nobody within a group from a mixing period of 2 on."
)


def string() -> list[list[int]]:
    """Each group shares one worker with the next."""
    step = _SIZE - 1
    return [list(range(group * step, group * step + _SIZE)) for group in range(_GROUPS)]


def ring() -> list[list[int]]:
    """A string whose last group shares a worker with the first."""
    workers = _GROUPS * (_SIZE - 1)
    return [[worker % workers for worker in group] for group in string()]


def star() -> list[list[int]]:
    """One worker is in all groups."""
    step = _SIZE - 1
    return [[0, *range(1 + group * step, 1 + (group + 1) * step)] for group in range(_GROUPS)]


_STRUCTURES = {"string": string, "ring": ring, "star": star}


def _configuration(scale: Scale, method: str, members: list[list[int]], period: int) -> Mapping[str, Any]:
    workers = 1 + max(worker for group in members for worker in group)
    (data,) = scale.sets(("mnist",))
    return {
        "task": {"method": method, "rounds": 6 if scale.quick else _ROUNDS},
        "data": scale.data(data, clients=workers, partition="iid"),
        "model": {"name": scale.model("logistic")},
        "training": {"steps": 5, "batch-size": 32, "learning-rate": 0.1},
        "sampling": {"clients": {"name": "poisson", "rate": 0.5}},
        "groups": {"members": members, "mixing-period": period},
        "privacy": {"unit": "client", "clip": 1.0, "delta": 1e-5, "epsilon": 8.0, "observers": ["client:0"]},
    }


def experiments(scale: Scale) -> tuple[Experiment, ...]:
    """Accuracy against the mixing period, and against the structure."""
    periods = tuple(
        Arm(name, colour, _configuration(scale, method, string(), period), x=float(period))
        for colour, (name, method) in enumerate(_METHODS.items(), 1)
        for period in _PERIODS
    )
    structures = tuple(
        Arm(name, colour, _configuration(scale, method, build(), 3), x=structure)
        for colour, (name, method) in enumerate(_METHODS.items(), 1)
        for structure, build in _STRUCTURES.items()
    )
    return (
        _experiment(scale, "figure-1", "Accuracy by mixing period, on a string", "mixing period S", periods),
        _experiment(scale, "figure-2", "Accuracy by structure, at a mixing period of 3", "structure", structures),
    )


def _experiment(scale: Scale, name: str, title: str, across: str, arms: tuple[Arm, ...]) -> Experiment:
    (data,) = scale.sets(("mnist",))
    return Experiment(PAPER, name, title, _CAPTION + scale.note, {data: arms}, "accuracy", across, scale.seeds)
