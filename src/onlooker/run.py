"""Simulate a run in a folder, or go on with one that was cut short."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from onlooker.errors import SealedError
from onlooker.evaluation import evaluated
from onlooker.folder import DRAWS, RunFolder
from onlooker.methods.method import State, initial_vector
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.measures import CHANNEL, Estimate
from onlooker.privacy.sampling import expected_weight
from onlooker.privacy.terms import Terms, to_dict
from onlooker.privacy.topology import Groups
from onlooker.round import Kept, Played, Study, beginning, play
from onlooker.stored import kept_of, noise_of, remembered, resumed, tensors_of, whole_of
from onlooker.types import Array, Integers


@dataclass(frozen=True)
class Progress:
    """Where a run is after a round.

    Attributes:
        ledger: everything charged so far.
        metrics: the round's line of `metrics.jsonl`; None for a round that was given up.
    """

    ledger: Ledger
    metrics: Mapping[str, Any] | None


def starting_draws(study: Study) -> dict[str, Array]:
    """What clients draw before round 1 for the whole run, to be kept; empty where they draw in each round."""
    terms = study.method.terms
    draws = terms.sampling.draw(terms.clients, study.source)
    return {} if draws is None else {DRAWS: draws}


def starting_tensors(study: Study) -> dict[str, Array]:
    """The tensors of round 0."""
    start = initial_vector(study.model, study.source)
    return tensors_of(study.method, study.model, beginning(study.method, start)[0], start)


def simulate(study: Study, folder: RunFolder) -> Iterator[Progress]:
    """Play every round that the folder has not seen, and yield after each.

    A round that was sealed before a death is played again where the source is repeatable, with the same bytes, which
    costs nothing; where other bytes come out, or none can come again, the round is given up: it stays charged.

    Raises:
        FolderError: if the folder cannot be written; nothing that was committed is lost.
    """
    terms = study.method.terms
    expected = expected_clients(terms)
    with folder.lock(), study.opened() as engine:
        ledger = folder.ledger()
        commit = folder.commit()
        start = whole_of(study.method, study.model, commit, 0)
        state, kept = resumed(study.method, study.model, commit, go_on=True)
        kept = replace(kept, noise=remembered(folder.noise(commit.round)))
        for round in range(commit.round + 1, terms.rounds + 1):
            started = time.perf_counter()

            def charge(digest: str, noise: Mapping[str, tuple[Integers, ...]], round: int = round) -> None:
                nonlocal ledger
                charged = ledger.charge(round, digest)
                if charged is not ledger:
                    folder.charge(charged.releases[-1], noise_of(noise))
                ledger = charged

            played: Played | None = None
            if study.source.repeatable or not any(release.round == round for release in ledger.releases):
                with contextlib.suppress(SealedError):
                    played = play(study, engine, state, kept, round, charge)
            if played is None:  # given up, but its noise went out, and later noise takes it back
                kept = replace(kept, noise=remembered(folder.noise(round)))
                yield Progress(ledger, None)
                continue
            state, kept = played.state, played.kept
            metrics = {
                "round": round,
                "seconds": 0.0,
                "expected-clients": expected,
                **_measured(study, state, kept, round, played.simulation),
                **told(played.measured),
            }
            metrics["seconds"] = time.perf_counter() - started
            tensors = tensors_of(study.method, study.model, state, start)
            kept.private.flush()
            folder.finish(metrics, tensors, kept_of(kept))
            yield Progress(ledger, metrics)


def difference(recorded: Terms, asked: Terms) -> list[str]:
    """The privacy keys in which two terms differ, each with both values; empty if they are the same."""
    before, after = _flat(to_dict(recorded), ""), _flat(to_dict(asked), "")
    keys = [key for key in dict.fromkeys([*before, *after]) if before.get(key) != after.get(key)]
    was, is_now = (one.get("channels.1.name") == CHANNEL for one in (before, after))
    turned = [] if was == is_now else [f"evaluation.private: {str(was).lower()} became {str(is_now).lower()}"]
    return [
        f"{_CONFIGURED.get(key, key)}: {before.get(key, 'nothing')} became {after.get(key, 'nothing')}"
        for key in keys
        if not (turned and key.startswith("channels.1."))
    ] + turned


_CONFIGURED = {
    "rounds": "task.rounds",
    "clients": "data.clients",
    "unit": "privacy.unit",
    "adjacency": "privacy.adjacency",
    "delta": "privacy.delta",
    "sampling.name": "sampling.clients.name",
    "sampling.rate": "sampling.clients.rate",
    "sampling.size": "sampling.clients.rate (as a number of clients)",
    "sampling.period": "sampling.clients.period",
    "sampling.picks": "sampling.clients.participations",
    "channels.0.mechanism.bands": "privacy.bands",
    "counted": "privacy.divisor",
    "topology.mixing_period": "groups.mixing-period",
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
    "channels.1.mechanism.noise_multiplier": "evaluation.noise-multiplier",
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


def expected_clients(terms: Terms) -> float:
    """How many times a round is expected to find a client there: a client counts in each of its groups."""
    if isinstance(terms.topology, Groups):
        each = ((terms.sampling_of(group), terms.members(group)) for group in range(terms.groups))
        return sum(sampling.rate_of(one, terms.clients) for sampling, members in each for one in members)
    return expected_weight(terms.sampling, (1.0,) * terms.clients)


def _measured(
    study: Study, state: State, kept: Kept, round: int, simulation: Mapping[str, float]
) -> dict[str, float | None | list[str] | dict[str, float | None]]:
    """Metrics on the public test set where they are due; None where not finite, so that JSON stays strict."""
    if round % study.evaluate_every and round != study.method.terms.rounds:
        return {"simulation": _finite(simulation)}
    found = evaluated(study, state, kept)
    # They stand where every reader looks for them; where they rest on private parts, no party could see them (rule 10).
    tagged = {"simulation-only": sorted(found.metrics)} if len(study.method.parts.private) else {}
    return {**_finite(found.metrics), **tagged, "simulation": _finite({**simulation, **found.simulation})}


def told(measured: Mapping[str, Estimate | None]) -> dict[str, dict[str, float | list[float] | None]]:
    """What the round itself released of how good the model was before it, with 95 % intervals; null where nothing."""
    if not measured:
        return {}
    values = {name: found and found.value for name, found in measured.items()}
    intervals = {f"{name}-interval": found and [found.low, found.high] for name, found in measured.items()}
    return {"released": {**values, **intervals}}


def _finite(values: Mapping[str, float]) -> dict[str, float | None]:
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
