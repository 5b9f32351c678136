"""Simulate a run in a folder, or go on with one that was cut short."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from onlooker.errors import FolderError, SealedError
from onlooker.folder import MOMENTUM, Commit, RunFolder
from onlooker.methods.method import State, initial_state
from onlooker.models import Model, evaluate
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.sampling import expected_weight
from onlooker.privacy.terms import Terms, to_dict
from onlooker.round import Study, play
from onlooker.types import Array


@dataclass(frozen=True)
class Progress:
    """Where a run is after a round.

    Attributes:
        ledger: everything charged so far.
        metrics: the round's line of `metrics.jsonl`; None for a round that was given up.
    """

    ledger: Ledger
    metrics: Mapping[str, Any] | None


def starting_tensors(study: Study) -> dict[str, Array]:
    """The tensors of round 0."""
    return _tensors(study.model, initial_state(study.model, study.source))


def simulate(study: Study, folder: RunFolder) -> Iterator[Progress]:
    """Play every round that the folder has not seen, and yield after each.

    A round that was sealed before a death is played again where the source is repeatable, with the same bytes, which
    costs nothing; where other bytes come out, or none can come again, the round is given up: it stays charged.

    Raises:
        FolderError: if the folder cannot be written; nothing that was committed is lost.
    """
    terms = study.method.terms
    with folder.lock():
        ledger = folder.ledger()
        commit = folder.commit()
        state = _state(study.model, commit)
        for round in range(commit.round + 1, terms.rounds + 1):
            started = time.perf_counter()

            def charge(digest: str, round: int = round) -> None:
                nonlocal ledger
                charged = ledger.charge(round, digest)
                if charged is not ledger:
                    folder.charge(charged.releases[-1])
                ledger = charged

            if not study.source.repeatable and any(release.round == round for release in ledger.releases):
                yield Progress(ledger, None)
                continue
            try:
                played = play(study, state, round, charge)
            except SealedError:
                yield Progress(ledger, None)
                continue
            state = played.state
            metrics = {
                "round": round,
                "seconds": 0.0,
                "expected-clients": expected_weight(terms.sampling, (1.0,) * terms.clients),
                **_evaluated(study, state, round),
                "simulation": dict(played.simulation),
            }
            metrics["seconds"] = time.perf_counter() - started
            folder.finish(metrics, _tensors(study.model, state))
            yield Progress(ledger, metrics)


def difference(recorded: Terms, asked: Terms) -> list[str]:
    """The privacy keys in which two terms differ, each with both values; empty if they are the same."""
    before, after = _flat(to_dict(recorded), ""), _flat(to_dict(asked), "")
    keys = [key for key in dict.fromkeys([*before, *after]) if before.get(key) != after.get(key)]
    return [
        f"{_CONFIGURED.get(key, key)}: {before.get(key, 'nothing')} became {after.get(key, 'nothing')}" for key in keys
    ]


_CONFIGURED = {
    "rounds": "task.rounds",
    "clients": "data.clients",
    "unit": "privacy.unit",
    "adjacency": "privacy.adjacency",
    "delta": "privacy.delta",
    "sampling.name": "sampling.clients.name",
    "sampling.rate": "sampling.clients.rate",
    "sampling.size": "sampling.clients.rate (as a number of clients)",
    "sampling.cover_traffic": "sampling.clients.cover-traffic",
    "training.records.rate": "sampling.records.rate",
    "training.expected_records": "data.expected-records",
    "training.max_records": "data.max-records",
    "channels.0.size": "model.name (as its number of parameters)",
    "channels.0.mechanism.name": "privacy.mechanism",
    "channels.0.mechanism.noise_multiplier": "privacy.noise-multiplier",
    "channels.0.noised_by": "privacy.noised-by",
    "channels.0.grid.clip": "privacy.clip",
    "channels.0.summation.count": "servers.count",
    "channels.0.summation.corrupt": "servers.corrupt",
    "channels.0.summation.relay": "servers.relay",
    "channels.0.summation.min_batch": "servers.min-batch",
}
"""The keys of a configuration that parts of the terms are set by, for whoever changed one."""


def _flat(value: object, key: str) -> dict[str, object]:
    """Nested tables and lists as one table of dotted keys."""
    if isinstance(value, Mapping):
        parts = [(str(name), inner) for name, inner in cast(Mapping[str, object], value).items()]
    elif isinstance(value, (list, tuple)):
        parts = [(str(place), inner) for place, inner in enumerate(cast(Sequence[object], value))]
    else:
        return {key: value}
    return {path: one for name, inner in parts for path, one in _flat(inner, f"{key}.{name}" if key else name).items()}


def _evaluated(study: Study, state: State, round: int) -> dict[str, float | None]:
    """Metrics on the public test set; None for a value that is not finite, so that JSON stays strict."""
    last = study.method.terms.rounds
    if round % study.evaluate_every and round != last:
        return {}
    found = evaluate(study.model, state.parameters, study.federation.test)
    return {name: value if math.isfinite(value) else None for name, value in found.items()}


def _tensors(model: Model, state: State) -> dict[str, Array]:
    tensors = {name: value.detach().cpu().numpy() for name, value in model.fresh(state.parameters).state_dict().items()}
    return {**tensors, MOMENTUM: state.momentum} if np.any(state.momentum) else tensors


def _state(model: Model, commit: Commit) -> State:
    parts: list[Array] = []
    for parameter in model.layout:
        found = commit.tensors.get(parameter.name)
        if found is None or found.shape != parameter.shape:
            raise FolderError(f'model.safetensors has no "{parameter.name}" of shape {parameter.shape}; put it back.')
        parts.append(found.reshape(-1))
    parameters = np.concatenate(parts).astype(np.float32)
    momentum = commit.tensors.get(MOMENTUM, np.zeros_like(parameters))
    if momentum.shape != parameters.shape:
        raise FolderError(f'model.safetensors has "{MOMENTUM}" of shape {momentum.shape}; put it back.')
    return State(parameters, momentum)
