"""MS-PAFL's figures 2, 7 and 8: training on Adult and MNIST, as section V describes it.

The paper does not name T but for the CNN (100), the batches of figures 2 and 7 (here those that make q = 0.2 with Q =
5), the learning rate (0.1), the number of labels that an MNIST client has (2), or the clip beside its rule, a median
of private norms, which is a release that nobody charged (here 1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onlooker.privacy.published import ms_pafl
from onlooker.reproduce.ms_pafl import PAPER
from onlooker.reproduce.scale import Scale
from onlooker.reproduce.training import Arm, Experiment

_STEPS, _ROUNDS, _DELTA, _RATE = 5, 100, 1e-4, 0.2
_TARGET = {"adult": 2.0, "mnist": 20.0, "digits": 20.0}
_LABELS = {"adult": 1, "mnist": 2, "digits": 2}
_RECORDS = {"adult": 32_561, "mnist": 60_000, "digits": 1_437}
_DRAWS = {"WR": "with-replacement", "WOR": "without-replacement"}
_RATIOS = {"9:1": 0.1, "5:5": 0.5, "1:9": 0.9}
_CAPTION = (
    "Dotted: as the paper adds its noise, by Theorem 4 at the printed epsilon. Solid: the noise that keeps one client "
    "to that epsilon against the public and the coordinator, which receives each row."
)


@dataclass(frozen=True)
class _Setting:
    """One line of a figure: the data set and network, and what section V varies."""

    name: str
    draw: str
    participation: float = 0.5
    ratio: float = 0.9
    model: str = "logistic"
    clients: int = 100
    batch_size: int | None = None

    def records(self, clients: int) -> int:
        """How many records a client has."""
        return _RECORDS[self.name] // clients

    def batch(self, clients: int) -> int:
        """b: that of the paper, or the one that makes q = 0.2."""
        return self.batch_size or max(1, round(_RATE * self.records(clients) / _STEPS))


def _configuration(scale: Scale, setting: _Setting) -> dict[str, Any]:
    clients = scale.clients(setting.clients)
    labels = _LABELS[setting.name]
    return {
        "task": {"method": "ms-pafl", "rounds": scale.rounds(_ROUNDS)},
        "data": scale.data(setting.name, clients=clients, partition="pathological", classes_per_client=labels),
        "model": {"name": scale.model(setting.model)},
        "split": {"ratio": setting.ratio, "rule": "mask-per-layer"},
        "training": {"steps": _STEPS, "batch-size": setting.batch(clients), "learning-rate": 0.1},
        "sampling": {
            "clients": {"name": "poisson", "rate": setting.participation},
            "records": {"name": _DRAWS[setting.draw]},
        },
        "evaluation": {"every": 1 if scale.quick else 5},
    }


def _pair(scale: Scale, label: str, colour: int, setting: _Setting) -> tuple[Arm, Arm]:
    """The noise as printed, and the noise that keeps to the printed epsilon."""
    target, clients = _TARGET[setting.name], scale.clients(setting.clients)
    rate = ms_pafl.record_rate(_STEPS, setting.batch(clients), setting.records(clients), setting.draw == "WR")
    local = ms_pafl.printed_local(target, setting.participation, rate, clients, scale.rounds(_ROUNDS), _DELTA)
    table = _configuration(scale, setting)
    privacy = {
        "unit": "client",
        "adjacency": "replace-one",
        "noised-by": "clients",
        "clip": 1.0,
        "delta": _DELTA,
        "observers": ["public", "coordinator"],
    }
    as_printed = {"clip-mode": "model", "divisor": "realised", "noise-multiplier": local.noise_multiplier}
    reason = f"theorem-4: {ms_pafl.REASONS['theorem-4']}; theorem-2: {ms_pafl.REASONS['theorem-2']}"
    return (
        Arm(f"{label}, as published", colour, {**table, "privacy": privacy | as_printed}, target, reason),
        Arm(f"{label}, sound", colour, {**table, "privacy": privacy | {"epsilon": target}}),
    )


def experiments(scale: Scale) -> tuple[Experiment, ...]:
    """Figures 2, 7 and 8."""
    participations = {f"p = {p:g}": {"participation": p} for p in (0.1, 0.5, 1.0)}
    ratios = {f"private : public = {name}": {"ratio": ratio} for name, ratio in _RATIOS.items()}
    cnn = {"model": "cnn-ms-pafl", "clients": 20, "batch_size": None if scale.quick else 64}
    return (
        _experiment(scale, "figure-2", "Accuracy by participation", ("adult", "mnist"), participations, {}),
        _experiment(scale, "figure-7", "Accuracy by splitting ratio", ("adult", "mnist"), ratios, {}),
        _experiment(scale, "figure-8", "Accuracy of the CNN by splitting ratio", ("mnist",), ratios, cnn),
    )


def _experiment(
    scale: Scale,
    name: str,
    title: str,
    sets: Sequence[str],
    varied: Mapping[str, Mapping[str, Any]],
    fixed: Mapping[str, Any],
) -> Experiment:
    panels = {
        f"{data}, {draw}": tuple(
            arm
            for colour, (label, values) in enumerate(varied.items(), 1)
            for arm in _pair(scale, label, colour, _Setting(data, draw, **{**fixed, **values}))
        )
        for data in scale.sets(sets)
        for draw in _DRAWS
    }
    return Experiment(PAPER, name, title, _CAPTION + scale.note, panels, "accuracy", "round", scale.seeds)
