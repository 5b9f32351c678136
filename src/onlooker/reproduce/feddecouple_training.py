"""FedDecouple's figures 3 to 10 and table 12: training on MNIST and CIFAR-10, as its section 5 describes it.

Figure 11 is ours: all methods on one network, the controlled comparison that its section 5.1.1 leaves open.

The paper names no learning rate (here 0.01 for its network, 0.05 for the others, 0.5 for Opacus) and splits the noise
evenly between two servers, so that each adds half the variance. Its "custom DP-SGD" is DP-FedAvg with noise by the
clients, whose noise is taken from its section 3.3. It prints no formula for the noise of DP-FTRL, whose clients take
turns here, 5 of 10 in every second round, and none for Opacus, which guards single records: they are calibrated as
they should be alone. Data augmentation is not done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from onlooker.privacy.published import Formula, printed_noise
from onlooker.reproduce.feddecouple import CLIENTS, COHORT, DELTA, PAPER, TARGETS
from onlooker.reproduce.scale import Scale
from onlooker.reproduce.training import NO_NOISE, Arm, Experiment

_PRINTED_SECONDS = {
    ("mnist", 8.0): (580.3, 673.1, 603.2, 647.2),
    ("mnist", 4.0): (585.6, 672.7, 594.5, 640.9),
    ("mnist", 1.0): (590.4, 677.8, 600.1, 645.8),
    ("cifar10", 8.0): (777.5, 894.3, 785.0, 853.3),
}
_RECORDS = {"mnist": 60_000, "cifar10": 50_000, "digits": 1_437}
_EPOCHS, _BATCH, _OPACUS_BATCH = 3, 64, 128
_CAPTION = (
    "K = 10 clients, 5 in a round, iid, clip 1, delta 1e-5, one client replaced. Dotted: the noise that the paper's "
    "formula prints for that epsilon. Solid: the noise that keeps one client to it against the public, the coordinator "
    "and, where there are servers, each of them alone. Opacus guards one record against the public, and nobody against "
    "its curator, who holds all records."
)


@dataclass(frozen=True)
class _Task:
    """One of the paper's four settings, and what becomes of it in a study.

    Attributes:
        data: the set.
        rounds: T.
        epsilon: the target.
        common: True if all methods train one network.
        steps: of local training in a study.
        every: evaluate after so many rounds.
    """

    data: str
    rounds: int
    epsilon: float
    common: bool = False
    steps: int = 5
    every: int = 10

    def passes(self, scale: Scale) -> int:
        """How many steps the paper's three epochs of one client are."""
        (data,) = scale.sets((self.data,))
        return _EPOCHS * -(-_RECORDS[data] // CLIENTS // _BATCH)

    def local(self, scale: Scale) -> int:
        """Local steps of a round at this size."""
        return self.passes(scale) if scale.size == "paper" else min(self.steps, 5) if scale.quick else self.steps


_TASKS = tuple(
    _Task("cifar10", rounds, epsilon, steps=10) if rounds == 40 else _Task("mnist", rounds, epsilon)
    for rounds, epsilon in TARGETS
)
_COMMON = (_Task("mnist", 30, 8.0, common=True, steps=10), _Task("cifar10", 40, 8.0, common=True, steps=10))


def _network(scale: Scale, task: _Task, own: str) -> str:
    """A method's own network where it can be trained in time: those on CIFAR-10, and Opacus', take hours."""
    if task.common:
        return scale.model("cnn-common")
    return scale.model(own, "cnn-common" if task.data == "cifar10" or own == "cnn-opacus" else None)


def _base(scale: Scale, task: _Task, method: str, own: str) -> dict[str, Any]:
    network = _network(scale, task, own)
    rate = 0.01 if network == "cnn-feddecouple" else 0.05
    local = {"epochs": _EPOCHS, "batch-size": _BATCH, "momentum": 0.9, "weight-decay": 5e-4, "learning-rate": rate}
    (data,) = scale.sets((task.data,))
    return {
        "task": {"method": method, "rounds": scale.rounds(task.rounds)},
        "data": scale.data(data, clients=CLIENTS, partition="iid"),
        "model": {"name": network},
        "training": scale.training(local, task.steps),
        "sampling": {"clients": {"name": "fixed-size", "rate": COHORT / CLIENTS}},
        "evaluation": scale.every(task.every),
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
    printed = {"privacy": {**_PRIVACY, "noise-multiplier": noise.noise_multiplier, **as_printed["privacy"]}}
    kept = {"privacy": {**_PRIVACY, "epsilon": task.epsilon, **sound["privacy"]}}
    reason = f"{formula}: {noise.reason}"
    return (
        Arm(f"{name}, as published", colour, {**base, **as_printed, **printed}, task.epsilon, reason),
        Arm(f"{name}, sound", colour, {**base, **sound, **kept}),
    )


_PRIVACY = {"unit": "client", "adjacency": "replace-one", "clip": 1.0, "delta": DELTA}
_SHARED = {"observers": ["public", "coordinator", "aux:0"]}


def _arms(scale: Scale, task: _Task) -> tuple[Arm, ...]:
    rows = {"privacy": {"noised-by": "clients", "observers": ["public", "coordinator"]}}
    decoupled = _base(scale, task, "feddecouple", "cnn-feddecouple")
    by_clients = _base(scale, task, "dp-fedavg", "cnn-dp-sgd")
    halves = {"servers": {"count": 2, "corrupt": 0}, "privacy": _SHARED}
    wholes = {"servers": {"count": 2, "corrupt": 1}, "privacy": _SHARED}
    return (
        *_pair(scale, task, "FedDecouple", 1, decoupled, "section-4.4.5", halves, wholes),
        *_pair(scale, task, "DP-SGD (noise by clients)", 2, by_clients, "section-3.3", rows, rows),
        *_opacus(scale, task),
        _tree(scale, task),
        _without_noise(scale, task),
    )


def _tree(scale: Scale, task: _Task) -> Arm:
    """DP-FTRL with the tree's noise by two servers; each client is there in every second round."""
    table = {
        **_base(scale, task, "dp-ftrl", "cnn-dp-ftrl"),
        "sampling": {"clients": {"name": "cyclic", "period": CLIENTS // COHORT}},
        "servers": {"count": 2, "corrupt": 1},
        "privacy": {**_PRIVACY, "epsilon": task.epsilon, **_SHARED},
    }
    return Arm("DP-FTRL, sound", 4, table)


def _without_noise(scale: Scale, task: _Task) -> Arm:
    """What FedDecouple's network learns of the clipped updates themselves."""
    privacy = {**_PRIVACY, "noise-multiplier": 0.0, "observers": ["public"]}
    table = {**_base(scale, task, "dp-fedavg", "cnn-feddecouple"), "privacy": privacy}
    return Arm("FedDecouple, no noise", 5, table, how=NO_NOISE)


def _opacus(scale: Scale, task: _Task) -> tuple[Arm, ...]:
    """Opacus on all records, and in figure 11 on each silo's own; as many records a round as the others use."""
    pooled = task.local(scale) * _BATCH * COHORT // _OPACUS_BATCH
    steps = {"opacus-pooled": pooled}
    if task.common:
        steps["opacus-silos"] = max(1, pooled // CLIENTS)
    return tuple(_by_opacus(scale, task, method, each) for method, each in steps.items())


def _by_opacus(scale: Scale, task: _Task, method: str, steps: int) -> Arm:
    table = {
        **_base(scale, task, method, "cnn-opacus"),
        "training": {"steps": steps, "batch-size": _OPACUS_BATCH, "learning-rate": 0.5},
        "privacy": {
            "unit": "record",
            "adjacency": "add-or-remove",
            "clip": 1.0,
            "delta": DELTA,
            "epsilon": task.epsilon,
            "observers": ["public"],
        },
    }
    name, colour = ("Opacus, pooled records", 3) if method == "opacus-pooled" else ("Opacus, one a silo", 6)
    return Arm(name, colour, table, how="noise calibrated by Opacus, epsilon")


def experiments(scale: Scale) -> tuple[Experiment, ...]:
    """Figures 3 to 10, of which each run shows twice, ours on one network, and table 12."""
    accuracies = ("figure-3", "figure-4", "figure-5", "figure-9")
    losses = ("figure-6", "figure-7", "figure-8", "figure-10")
    return (
        *(_experiment(scale, name, task, "accuracy") for name, task in zip(accuracies, _TASKS, strict=True)),
        *(_experiment(scale, name, task, "loss") for name, task in zip(losses, _TASKS, strict=True)),
        _controlled(scale),
        _times(scale),
    )


def _experiment(scale: Scale, name: str, task: _Task, measure: Literal["accuracy", "loss"]) -> Experiment:
    (data,) = scale.sets((task.data,))
    return Experiment(
        PAPER,
        name,
        f"{measure.capitalize()} on {data} at a printed epsilon of {task.epsilon:g}",
        _CAPTION + _size(scale, task),
        {data: _arms(scale, task)},
        measure,
        "round",
        scale.seeds,
        longer=_longer(scale, task),
        options=scale.options,
    )


def _size(scale: Scale, task: _Task) -> str:
    """Where this departs from the paper."""
    if scale.size == "paper":
        return ""
    if scale.quick:
        return scale.note
    networks = (
        "one small network, cnn-common, for every method"
        if task.common or task.data == "cifar10"
        else "each method's own network, but cnn-common for Opacus"
    )
    return (
        f" Smaller than the paper: {task.steps} local steps in place of 3 epochs ({task.passes(scale)} steps), and "
        f"{networks}."
    )


def _longer(scale: Scale, task: _Task) -> float:
    """How many times as many local steps the paper takes."""
    return task.passes(scale) / task.local(scale) if scale.size == "study" else 1.0


def _controlled(scale: Scale) -> Experiment:
    first, *_ = _COMMON
    panels = {data: _arms(scale, task) for task in _COMMON for data in scale.sets((task.data,))}
    caption = (
        "Ours: the controlled comparison that the paper leaves open, all methods on one network without GroupNorm and "
        f"dropout (docs/models.md), at epsilon 8. {_CAPTION}{_size(scale, first)}"
    )
    title = "All methods on one network, at epsilon 8"
    longer = _longer(scale, first)
    return Experiment(
        PAPER,
        "figure-11",
        title,
        caption,
        panels,
        "accuracy",
        "round",
        scale.seeds,
        longer=longer,
        options=scale.options,
    )


def _times(scale: Scale) -> Experiment:
    panels = {f"{task.data}, {task.epsilon:g}": _arms(scale, task) for task in _TASKS}
    printed = "; ".join(
        f"{data} at {epsilon:g}: {', '.join(f'{seconds:g}' for seconds in each)}"
        for (data, epsilon), each in _PRINTED_SECONDS.items()
    )
    caption = (
        "Processor time of one process on this machine, evaluations included, of the runs of figures 3 to "
        f"10, whose networks and local steps differ. The paper prints, on its own machine, for FedDecouple, DP-SGD, "
        f"Opacus and DP-FTRL: {printed}.{scale.note}"
    )
    return Experiment(
        PAPER,
        "table-12",
        "Seconds of training",
        caption,
        panels,
        "seconds",
        "round",
        scale.seeds,
        options=scale.options,
    )
