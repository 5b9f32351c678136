"""How good the models of a study are: one for everybody, or one for each client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from onlooker.methods.groups import personal
from onlooker.methods.method import Method, State
from onlooker.models import evaluate, score, score_name
from onlooker.round import Kept, Study
from onlooker.types import Examples, Vector

Scores = NDArray[np.float64]
"""`float64[n]`: one number for each row of the test set."""


@dataclass(frozen=True)
class Evaluation:
    """Metrics on the public test set.

    Attributes:
        metrics: "loss" and "accuracy" (or "mean-absolute-error"): of the one model, or the mean over clients of their
            own models.
        simulation: what rests on private parts or on whose data are whose, so that only a simulator sees it.
    """

    metrics: Mapping[str, float]
    simulation: Mapping[str, float]


def is_personal(study: Study) -> bool:
    """True if clients end with models of their own: where models are split, or clients are in groups."""
    return bool(len(study.method.parts.private)) or study.method.terms.groups > 1


def evaluated(study: Study, state: State, kept: Kept) -> Evaluation:
    """The model on the test set; where clients have their own, the mean, the worst and the spread over them.

    The spread is the standard deviation over clients. "own" stands for a client's own distribution: each class of the
    test set weighs as much as among the client's records.
    """
    model, test = study.model, study.federation.test
    if not is_personal(study):
        return Evaluation(
            evaluate(model, study.method.parts.join(state.models[0], kept.of(0, 0)), test, device=study.device), {}
        )
    found = _each(study, state, kept)
    means = np.array([[losses.mean(), scores.mean()] for losses, scores in found])
    name = score_name(model)
    metrics = {"loss": float(means[:, 0].mean()), name: float(means[:, 1].mean())}
    simulation = _over_clients(name, means[:, 1])
    if model.task == "classification":
        own = [_own(client, test, scores) for client, (_, scores) in zip(study.federation.clients, found, strict=True)]
        simulation |= {f"own-{name}": float(np.mean(own))} | _over_clients(f"own-{name}", np.array(own))
    return Evaluation(metrics, simulation)


def personal_model(method: Method, state: State, kept: Kept, client: int) -> Vector:
    """What a client uses in the end, `float32[d]`: the mean of its groups' models and of its own parts in them."""
    groups = method.terms.topology.groups_of(client)
    own = np.stack([kept.of(client, group) for group in groups]).astype(np.float64).mean(axis=0)
    return method.parts.join(personal(method.terms, state, client), np.asarray(own, dtype=np.float32))


def _each(study: Study, state: State, kept: Kept) -> list[tuple[Scores, Scores]]:
    """Losses and scores of every client's model; clients that share one are looked at once."""
    found: dict[object, tuple[Scores, Scores]] = {}
    keys: list[object] = []
    for client in range(study.method.terms.clients):
        key = client if kept.seats else study.method.terms.topology.groups_of(client)
        keys.append(key)
        if key not in found:
            vector = personal_model(study.method, state, kept, client)
            found[key] = score(study.model, vector, study.federation.test, device=study.device)
    return [found[key] for key in keys]


def _own(client: Examples, test: Examples, scores: Scores) -> float:
    """The mean score where classes weigh as among the client's records; classes without test rows are left out."""
    classes = 1 + int(max(client.labels.max(), test.labels.max()))
    rows = np.bincount(test.labels, minlength=classes)
    right = np.bincount(test.labels, weights=scores, minlength=classes)
    weights = np.where(rows > 0, np.bincount(client.labels, minlength=classes), 0)
    if not weights.sum():
        return float(scores.mean())
    return float(np.sum(weights * right / np.maximum(rows, 1)) / weights.sum())


def _over_clients(name: str, values: Scores) -> dict[str, float]:
    worst = values.max() if name.endswith("error") else values.min()
    return {f"{name}-worst": float(worst), f"{name}-spread": float(values.std())}
