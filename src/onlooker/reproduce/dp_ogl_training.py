"""DP-OGL's utility against the mixing period and the structure of groups: our own, its figures not being at hand.

Held fixed is the epsilon of the worst pair within a group: a worker that is in two groups, against a peer of both. The
matrix of all other pairs stands beside it, by distance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from onlooker.privacy.structures import BUILDERS
from onlooker.reproduce.distances import by_distance
from onlooker.reproduce.drawing import Cell, Row, Table
from onlooker.reproduce.runs import prepare, with_noise
from onlooker.reproduce.scale import Scale
from onlooker.reproduce.training import NO_NOISE, SOUND, Arm, Experiment, Traced

PAPER = "dp-ogl"
_EPSILON, _GROUPS = 8.0, 6
_FREE = "DP-OGL, no noise"
_METHODS = {
    "DP-OGL": "dp-ogl",
    "DP-OGL+": "dp-ogl-plus",
    "DP-OGL+, isolated": "dp-ogl-plus-isolated",
    _FREE: "dp-ogl",
}
_NO_GUARANTEE = "no guarantee within a group where S is above 1; the noise of the isolated form, epsilon"
_CAPTION = (
    "Ours alone: the paper's figures are not available. {clients} workers with two labels each in 6 groups, "
    "neighbouring ones sharing {overlap}, logistic regression, T = {rounds}, coins of rate 0.5. The mean accuracy of "
    "the workers' own models, at the end. Held fixed is epsilon 8 at delta 1e-5, zero-out, of the worst worker against "
    "the worst peer of its own group; the table below has the worst pair at each distance. DP-OGL+ as its paper has it "
    "guards nobody within a group from S = 2 on, and runs with the noise of its isolated form."
)


@dataclass(frozen=True)
class _Size:
    """How large the groups are, and what S is tried: small quickly."""

    clients: int
    overlap: int
    rounds: int
    periods: tuple[int, ...]
    common: int

    @classmethod
    def of(cls, scale: Scale) -> _Size:
        return cls(24, 1, 6, (1, 3), 3) if scale.quick else cls(300, 5, 40, (1, 5, 10, 20), 10)


def _peers(size: _Size, structure: str) -> list[str]:
    """One client of each set of groups that there is, against whom all are to be guarded."""
    members = BUILDERS[structure](size.clients, _GROUPS, size.overlap)
    first: dict[tuple[int, ...], int] = {}
    for client in range(size.clients):
        first.setdefault(tuple(group for group, inside in enumerate(members) if client in inside), client)
    return [f"client:{client}" for client in first.values()]


def _configuration(scale: Scale, method: str, structure: str, period: int) -> Mapping[str, Any]:
    size = _Size.of(scale)
    (data,) = scale.sets(("mnist",))
    return {
        "task": {"method": method, "rounds": size.rounds},
        "data": scale.data(data, clients=size.clients, partition="pathological", classes_per_client=2),
        "model": {"name": "logistic"},
        "training": {"steps": 5, "batch-size": 32, "learning-rate": 0.1},
        "sampling": {"clients": {"name": "poisson", "rate": 0.5}},
        "groups": {
            "structure": structure,
            "groups": _GROUPS,
            "overlap": size.overlap,
            "mixing-period": period,
        },
        "privacy": {
            "unit": "client",
            "clip": 1.0,
            "delta": 1e-5,
            "epsilon": _EPSILON,
            "observers": _peers(size, structure),
        },
        "evaluation": {"every": size.rounds},
    }


def _arm(scale: Scale, name: str, colour: int, structure: str, period: int, x: float | str) -> Arm:
    method = _METHODS[name]
    table = _configuration(scale, method, structure, period)
    if name == _FREE:
        return Arm(name, colour, with_noise(table, 0.0), x=x, how=NO_NOISE)
    if method != "dp-ogl-plus":
        return Arm(name, colour, table, x=x, how=SOUND)
    lender = _configuration(scale, "dp-ogl-plus-isolated", structure, period)
    return Arm(name, colour, table, x=x, how=_NO_GUARANTEE, lender=lender)


def experiments(scale: Scale) -> tuple[Experiment, ...]:
    """Accuracy against the mixing period, and against the structure."""
    size = _Size.of(scale)
    named = tuple(enumerate(_METHODS, 1))
    periods = tuple(_arm(scale, name, colour, "string", s, float(s)) for colour, name in named for s in size.periods)
    structures = tuple(_arm(scale, name, colour, one, size.common, one) for colour, name in named for one in BUILDERS)
    by_structure = f"Accuracy by structure, at a mixing period of {size.common}"
    return (
        _experiment(scale, "figure-1", "Accuracy by mixing period, on a string", "mixing period S", periods),
        _experiment(scale, "figure-2", by_structure, "structure", structures),
    )


def _experiment(scale: Scale, name: str, title: str, across: str, arms: tuple[Arm, ...]) -> Experiment:
    size = _Size.of(scale)
    (data,) = scale.sets(("mnist",))
    caption = _CAPTION.format(clients=size.clients, overlap=size.overlap, rounds=size.rounds) + scale.note
    return Experiment(
        PAPER,
        name,
        title,
        caption,
        {data: arms},
        "accuracy",
        across,
        scale.seeds,
        beside=lambda traced: (_distances(across, traced),),
        options=scale.options,
    )


def _distances(across: str, traced: Traced) -> Table:
    """The epsilon of the worst pair of workers at each distance, and out of reach of each other."""
    found = [
        (arm, traces[0].noise_multiplier, _by_distance(arm, traces[0].noise_multiplier))
        for arm, traces in traced
        if arm.name != _FREE
    ]
    hops = sorted({distance for _, _, epsilons in found for distance in epsilons})
    rows: list[Row] = []
    for arm, noise, epsilons in found:
        cells: list[Cell] = [arm.name, arm.x, noise, *(_epsilon(epsilons.get(one)) for one in hops)]
        rows.append(Row(tuple(cells), "sound", "sound epsilons of the worst pair of clients, delta 1e-5"))
    return Table(("method", across, "noise multiplier", *map(_away, hops)), tuple(rows))


def _away(hops: float) -> str:
    if math.isinf(hops):
        return "out of reach"
    return "own group" if hops == 0 else f"{hops:g} hop{'s' if hops > 1 else ''} away"


def _epsilon(epsilon: float | None) -> Cell:
    """A structure may have no pair of some distance."""
    return "-" if epsilon is None else "no guarantee" if math.isinf(epsilon) else epsilon


def _by_distance(arm: Arm, noise_multiplier: float) -> dict[float, float]:
    return by_distance(prepare(with_noise(arm.configuration, noise_multiplier)).agreement.terms)
