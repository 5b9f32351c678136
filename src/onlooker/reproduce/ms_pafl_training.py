"""MS-PAFL's figures 2, 7 and 8: training on Adult and MNIST, as section V describes it.

The paper does not name T but for the CNN (100; here 50 for the others), the batches of figures 2 and 7 (here those
that make q = 0.2 with Q = 5), the learning rate (0.1), the number of labels that an MNIST client has (2), or the clip
beside its rule, a median of private norms, which is a release that nobody charged (here 1). That figure 7 has "N = 50
participating clients" where section V-A has N = 100 is read as p = 0.5.

As the paper trains: the public part itself is clipped (13), each client adds noise to it (14), and their sum is
divided by how many came (17), at the noise that Theorem 4 prints the target for. Beside it the same split and the same
sampling, trained soundly at the same epsilon: the update is clipped, the divisor is public, and two auxiliary servers
add the noise, of which one may collude.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onlooker.privacy.published import ms_pafl
from onlooker.reproduce.ms_pafl import PAPER
from onlooker.reproduce.scale import Scale
from onlooker.reproduce.training import NO_NOISE, Arm, Experiment

_STEPS, _DELTA, _RATE = 5, 1e-4, 0.2
_TARGET = {"adult": 2.0, "mnist": 20.0, "digits": 20.0}
_LABELS = {"adult": 1, "mnist": 2, "digits": 2}
_RECORDS = {"adult": 32_561, "mnist": 60_000, "digits": 1_437}
_DRAWS = {"WR": "with-replacement", "WOR": "without-replacement"}
_RATIOS = {"9:1": 0.1, "5:5": 0.5, "1:9": 0.9}
_CAPTION = (
    "Mean accuracy of the clients' own models on the test set; a client has one class (Adult) or two (MNIST). Dotted: "
    "as the paper trains, each client noising its clipped model, at the noise for which Theorem 4 prints epsilon 2 "
    "(Adult) or 20 (MNIST). Solid: clipped updates, a public divisor and noise by two auxiliary servers, which keeps "
    "one client to that epsilon against the public, the coordinator and one auxiliary server (aux:0), the last of "
    "which decides. delta 1e-4, one client replaced. A rate q is that of a client of mean size."
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
    rounds: int = 50
    every: int = 5

    def records(self, clients: int) -> int:
        """How many records a client has, on average."""
        return _RECORDS[self.name] // clients

    def batch(self, clients: int) -> int:
        """b: that of the paper, or the one that makes q = 0.2."""
        return self.batch_size or max(1, round(_RATE * self.records(clients) / _STEPS))


def _configuration(scale: Scale, setting: _Setting) -> dict[str, Any]:
    clients = scale.clients(setting.clients)
    labels = _LABELS[setting.name]
    return {
        "task": {"method": "ms-pafl", "rounds": scale.rounds(setting.rounds)},
        "data": scale.data(setting.name, clients=clients, partition="pathological", classes_per_client=labels),
        "model": {"name": scale.model(setting.model)},
        "split": {"ratio": setting.ratio, "rule": "mask-per-layer"},
        "training": {"steps": _STEPS, "batch-size": setting.batch(clients), "learning-rate": 0.1},
        "sampling": {
            "clients": {"name": "poisson", "rate": setting.participation},
            "records": {"name": _DRAWS[setting.draw]},
        },
        "evaluation": scale.every(setting.every),
    }


def _pair(scale: Scale, label: str, colour: int, setting: _Setting) -> tuple[Arm, Arm]:
    """The noise as printed, and the noise that keeps to the printed epsilon."""
    target, clients, rounds = _TARGET[setting.name], scale.clients(setting.clients), scale.rounds(setting.rounds)
    rate = ms_pafl.record_rate(_STEPS, setting.batch(clients), setting.records(clients), setting.draw == "WR")
    local = ms_pafl.printed_local(target, setting.participation, rate, clients, rounds, _DELTA)
    table = _configuration(scale, setting)
    privacy = {"unit": "client", "adjacency": "replace-one", "clip": 1.0, "delta": _DELTA}
    as_printed = {
        "noised-by": "clients",
        "clip-mode": "model",
        "divisor": "realised",
        "noise-multiplier": local.noise_multiplier,
        "observers": ["public", "coordinator"],
    }
    kept = {"epsilon": target, "observers": ["public", "coordinator", "aux:0"]}
    reason = f"theorem-4: {ms_pafl.REASONS['theorem-4']}; theorem-2: {ms_pafl.REASONS['theorem-2']}"
    servers = {"servers": {"count": 2, "corrupt": 1}}
    return (
        Arm(f"{label}, as published", colour, {**table, "privacy": privacy | as_printed}, target, reason),
        Arm(f"{label}, sound", colour, {**table, **servers, "privacy": privacy | kept}),
    )


def _without_noise(scale: Scale, setting: _Setting) -> Arm:
    """What the clipped updates teach at p = 0.5 and a ratio of 1:9."""
    privacy = {"unit": "client", "clip": 1.0, "delta": _DELTA, "noise-multiplier": 0.0, "observers": ["public"]}
    return Arm("p = 0.5, 1:9, no noise", 4, {**_configuration(scale, setting), "privacy": privacy}, how=NO_NOISE)


def experiments(scale: Scale) -> tuple[Experiment, ...]:
    """Figures 2, 7 and 8."""
    participations = {f"p = {p:g}": {"participation": p} for p in (0.1, 0.5, 1.0)}
    ratios = {f"private : public = {name}": {"ratio": ratio} for name, ratio in _RATIOS.items()}
    batch = None if scale.quick else 64
    cnn = {"model": "cnn-ms-pafl", "clients": 20, "rounds": 100, "every": 25, "batch_size": batch}
    free = "T = 50, which the paper leaves open. "
    own = "The paper's CNN, T = 100, N = 20, b = 64: nothing departs from its size. "
    return (
        _experiment(scale, "figure-2", "Accuracy by participation", ("adult", "mnist"), participations, {}, free),
        _experiment(scale, "figure-7", "Accuracy by splitting ratio", ("adult", "mnist"), ratios, {}, free),
        _experiment(scale, "figure-8", "Accuracy of the CNN by splitting ratio", ("mnist",), ratios, cnn, own),
    )


def _experiment(
    scale: Scale,
    name: str,
    title: str,
    sets: Sequence[str],
    varied: Mapping[str, Mapping[str, Any]],
    fixed: Mapping[str, Any],
    size: str,
) -> Experiment:
    panels: dict[str, tuple[Arm, ...]] = {}
    for data in scale.sets(sets):
        for draw in _DRAWS:
            settings = {label: _Setting(data, draw, **{**fixed, **values}) for label, values in varied.items()}
            pairs = [_pair(scale, label, colour, one) for colour, (label, one) in enumerate(settings.items(), 1)]
            last = _without_noise(scale, _Setting(data, draw, **fixed))
            panels[f"{data}, {draw}"] = (*(arm for pair in pairs for arm in pair), last)
    caption = scale.note.strip() + " " + _CAPTION if scale.quick else size + _CAPTION
    return Experiment(PAPER, name, title, caption, panels, "accuracy", "round", scale.seeds, options=scale.options)
