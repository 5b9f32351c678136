"""FedDecouple's figures 3 to 10 and table 12: training on MNIST and CIFAR-10, as its section 5 describes it.

The paper names no learning rate (here 0.01 for its network, 0.05 for the others) and splits the noise evenly between
two servers, so that each adds half the variance. Its "custom DP-SGD" is DP-FedAvg with noise by the clients, whose
noise is taken from its section 3.3. Neither data augmentation nor dropout is done here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from onlooker.privacy.published import Formula, printed_noise
from onlooker.reproduce.feddecouple import CLIENTS, COHORT, DELTA, PAPER, TARGETS
from onlooker.reproduce.scale import Scale
from onlooker.reproduce.training import Arm, Experiment

_PRINTED_SECONDS = {
    ("mnist", 8.0): (580.3, 673.1, 603.2, 647.2),
    ("mnist", 4.0): (585.6, 672.7, 594.5, 640.9),
    ("mnist", 1.0): (590.4, 677.8, 600.1, 645.8),
    ("cifar10", 8.0): (777.5, 894.3, 785.0, 853.3),
}
_CAPTION = (
    "K = 10 clients, 5 in a round, 3 local epochs, iid, clip 1, delta 1e-5, one client replaced. Dotted: the noise "
    "that the paper's formula prints for that epsilon. Solid: the noise that keeps one client to it against the "
    "public, the coordinator and each server alone."
)


@dataclass(frozen=True)
class _Task:
    """One of the paper's four settings."""

    data: str
    rounds: int
    epsilon: float


_TASKS = tuple(_Task("cifar10" if rounds == 40 else "mnist", rounds, epsilon) for rounds, epsilon in TARGETS)


def _base(scale: Scale, task: _Task, method: str, model: str, learning_rate: float) -> dict[str, Any]:
    local = {"epochs": 3, "batch-size": 64, "momentum": 0.9, "weight-decay": 5e-4, "learning-rate": learning_rate}
    (data,) = scale.sets((task.data,))
    return {
        "task": {"method": method, "rounds": scale.rounds(task.rounds)},
        "data": scale.data(data, clients=CLIENTS, partition="iid"),
        "model": {"name": scale.model(model)},
        "training": scale.training(local),
        "sampling": {"clients": {"name": "fixed-size", "rate": COHORT / CLIENTS}},
    }


def _pair(
    scale: Scale,
    task: _Task,
    name: str,
    colour: int,
    base: Mapping[str, Any],
    formula: Formula,
    as_printed: Mapping[str, Any],
    sound: Mapping[str, Any],
) -> tuple[Arm, Arm]:
    """One method with the noise that its formula prints, and with the noise that keeps to that epsilon."""
    noise = printed_noise(task.epsilon, COHORT / CLIENTS, scale.rounds(task.rounds), DELTA, formula)
    privacy = {"unit": "client", "adjacency": "replace-one", "clip": 1.0, "delta": DELTA}
    printed = {"privacy": {**privacy, "noise-multiplier": noise.noise_multiplier, **as_printed["privacy"]}}
    kept = {"privacy": {**privacy, "epsilon": task.epsilon, **sound["privacy"]}}
    reason = f"{formula}: {noise.reason}"
    return (
        Arm(f"{name}, as published", colour, {**base, **as_printed, **printed}, task.epsilon, reason),
        Arm(f"{name}, sound", colour, {**base, **sound, **kept}),
    )


def _arms(scale: Scale, task: _Task) -> tuple[Arm, ...]:
    rows = {"noised-by": "clients", "observers": ["public", "coordinator"]}
    shared = {"observers": ["public", "coordinator", "aux:0"]}
    decoupled = _pair(
        scale,
        task,
        "FedDecouple",
        1,
        _base(scale, task, "feddecouple", "cnn-feddecouple", 0.01),
        "section-4.4.5",
        {"servers": {"count": 2, "corrupt": 0}, "privacy": shared},
        {"servers": {"count": 2, "corrupt": 1}, "privacy": shared},
    )
    local = _pair(
        scale,
        task,
        "DP-SGD (noise by clients)",
        2,
        _base(scale, task, "dp-fedavg", "cnn-dp-sgd", 0.05),
        "section-3.3",
        {"privacy": rows},
        {"privacy": rows},
    )
    to_come = tuple(
        Arm(name, colour, _base(scale, task, method, model, 0.05))
        for name, colour, method, model in (
            ("Opacus", 3, "opacus", "cnn-opacus"),
            ("DP-FTRL", 4, "dp-ftrl", "cnn-dp-ftrl"),
        )
    )
    return (*decoupled, *local, *to_come)


def experiments(scale: Scale) -> tuple[Experiment, ...]:
    """Figures 3 to 10, of which each run shows twice, and table 12."""
    accuracies, losses = (
        ("figure-3", "figure-4", "figure-5", "figure-9"),
        ("figure-6", "figure-7", "figure-8", "figure-10"),
    )
    return (
        *(_experiment(scale, name, task, "accuracy") for name, task in zip(accuracies, _TASKS, strict=True)),
        *(_experiment(scale, name, task, "loss") for name, task in zip(losses, _TASKS, strict=True)),
        _times(scale),
    )


def _experiment(scale: Scale, name: str, task: _Task, measure: Literal["accuracy", "loss"]) -> Experiment:
    (data,) = scale.sets((task.data,))
    title = f"{measure.capitalize()} on {data} at a printed epsilon of {task.epsilon:g}"
    return Experiment(
        PAPER, name, title, _CAPTION + scale.note, {data: _arms(scale, task)}, measure, "round", scale.seeds
    )


def _times(scale: Scale) -> Experiment:
    panels = {f"{task.data}, {task.epsilon:g}": _arms(scale, task) for task in _TASKS}
    printed = "; ".join(
        f"{data} at {epsilon:g}: {', '.join(f'{seconds:g}' for seconds in each)}"
        for (data, epsilon), each in _PRINTED_SECONDS.items()
    )
    caption = (
        f"Of one process on this machine. The paper prints, on its own machine, for FedDecouple, DP-SGD, Opacus and "
        f"DP-FTRL: {printed}.{scale.note}"
    )
    return Experiment(PAPER, "table-12", "Seconds of training", caption, panels, "seconds", "round", scale.seeds)
