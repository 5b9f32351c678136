"""One round, start to finish: draw, broadcast, local, shard, aggregate, seal, release, update, record."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import torch

from onlooker._shadowed import Shadowed
from onlooker.data import Federation
from onlooker.engines.engine import Engine, Settings, opened
from onlooker.engines.work import Gathered, Job, Rows
from onlooker.methods.groups import broadcast
from onlooker.methods.measuring import estimated
from onlooker.methods.method import Method, State
from onlooker.models import Model
from onlooker.privacy.blocks import squared_norm
from onlooker.privacy.channel import Channel
from onlooker.privacy.measures import Estimate
from onlooker.privacy.random import Source
from onlooker.privacy.shares import combine
from onlooker.privacy.summation import Shared
from onlooker.privacy.sums import Sealed
from onlooker.privacy.terms import Terms
from onlooker.types import Integers, Row, Vector


@dataclass(frozen=True)
class Study:
    """Everything that a simulated run needs, checked and ready.

    Attributes:
        method: the method under its terms.
        model: what is trained.
        federation: every client's data, and the test set.
        source: where randomness comes from.
        device: where tensors live.
        evaluate_every: evaluate after every so many rounds, and after the last.
        engine: who plays the clients.
    """

    method: Method
    model: Model
    federation: Federation
    source: Source
    device: torch.device = torch.device("cpu")
    evaluate_every: int = 1
    engine: Settings = Settings()

    @property
    def elides(self) -> bool:
        """True if rows that would be cut into shares are added whole, which gives the same sums (see `engines`)."""
        shared = any(
            isinstance(one.summation, Shared) and one.noised_by != "clients" for one in self.method.terms.channels
        )
        return shared and self.engine.name != "loop" and self.engine.elide

    def opened(self) -> AbstractContextManager[Engine]:
        """The engine, for as long as the run lasts."""
        return opened(self.engine, self.method, self.model, self.federation.clients, self.source, self.device)


Charge: TypeAlias = Callable[[str, Mapping[str, tuple[Integers, ...]]], None]
"""Told what is about to be released."""


@dataclass(frozen=True)
class Kept:
    """What stays on clients between rounds; it is nobody else's, and a simulator holds it for all of them.

    Attributes:
        private: a row for each client and group of it; none where a model is not split.
        seats: the row of each client and group.
        draws: what clients drew before round 1 for the whole run; None where they draw in each round.
        noise: where noise is correlated, what each noising party remembers of its own, by channel; a server's, not a
            client's.
    """

    private: Shadowed
    seats: Mapping[tuple[int, int], int]
    draws: Integers | None = None
    noise: Mapping[str, tuple[Integers, ...]] = field(default_factory=dict[str, tuple[Integers, ...]])

    def of(self, client: int, group: int) -> Vector:
        """A client's private part in a group, `float32[a]`."""
        return self.private.take([self.seats[client, group]])[0] if self.seats else _NOTHING


_NOTHING: Vector = np.empty(0, dtype=np.float32)


@dataclass(frozen=True)
class Played:
    """What one round left behind.

    Attributes:
        state: the next state of the coordinator, made of releases alone.
        kept: what clients hold now.
        simulation: what only a simulator can see, by name; never released.
        measured: what the round released of how good the model was before it, by name; empty where it is not measured.
    """

    state: State
    kept: Kept
    simulation: Mapping[str, float]
    measured: Mapping[str, Estimate | None] = field(default_factory=dict[str, Estimate | None])


def play(study: Study, engine: Engine, state: State, kept: Kept, round: int, charge: Charge) -> Played:
    """Play one round.

    Args:
        study: the run.
        engine: who plays the clients.
        state: the coordinator's state before the round.
        kept: what clients hold before the round.
        round: from 1.
        charge: called with the digest of the sealed sums, and what noising parties have to remember, before any of them
            is released: it must return only once both are safe, and raise where the release must not happen (rule 10b).
    """
    method, source = study.method, study.source
    terms = method.terms
    cohorts = [terms.cohort(group, round, source, kept.draws) for group in range(terms.groups)]
    jobs, starts = _broadcast(study, state, cohorts, round)
    seats = [kept.seats[job.client, job.group] for few in jobs for job in few] if kept.seats else []
    rows = kept.private.take(seats)
    gathered = engine.play(round, jobs, starts, rows)
    flat = [one for group in gathered for one in group]
    models = [one for one in flat if one.channel.kind == "model"]
    signals = [_signal_norm(one) for one in models]
    sealed = {
        one.channel.name: one.channel.seal(one.sums, round, source, kept.noise.get(one.channel.name, ()))
        for one in flat
    }
    noise = {name: one.states for name, one in sealed.items() if one.states}
    charge(hashlib.sha256("".join(one.digest for one in sealed.values()).encode()).hexdigest(), noise)
    divisors = [_divisor(terms, group, cohort) for group, cohort in enumerate(cohorts)]
    released = [
        {one.channel.kind: _release(one.channel, sealed[one.channel.name], divisor) for one in few}
        for few, divisor in zip(gathered, divisors, strict=True)
    ]
    simulation = {"clients": float(sum(len(cohort) for cohort in cohorts))} | _norms(models, signals, divisors)
    after = replace(kept, private=kept.private.changed(seats, rows), noise=noise)
    measured = estimated(method, released, flat[-1].sums.reports, divisors[-1], round)
    return Played(method.update(state, released), after, simulation, measured)


def beginning(method: Method, round_zero: Vector) -> tuple[State, Kept]:
    """What there is before round 1, where everybody starts from the same weights, `float32[d]`, that no data decided.

    Every group has the same model, and every client the same private part in each of its groups.
    """
    terms, parts = method.terms, method.parts
    models = np.tile(round_zero[parts.public], (terms.groups, 1))
    seats = _seats(method)
    return State(models, np.zeros_like(models)), Kept(Shadowed.in_memory(len(seats), round_zero[parts.private]), seats)


def _seats(method: Method) -> dict[tuple[int, int], int]:
    terms = method.terms
    if not len(method.parts.private):
        return {}
    pairs = [(client, group) for client in range(terms.clients) for group in terms.topology.groups_of(client)]
    return {pair: seat for seat, pair in enumerate(pairs)}


def _broadcast(
    study: Study, state: State, cohorts: Sequence[Sequence[int]], round: int
) -> tuple[list[list[Job]], Rows]:
    """The jobs of each group, and the models that they start from: a group's own, or one of the client's."""
    topology = study.method.terms.topology
    mixes = topology.mixes(round)
    starts: list[Vector] = list(state.models)
    places: dict[tuple[int, ...], int] = {(group,): group for group in range(len(starts))}
    jobs: list[list[Job]] = []
    seat = 0
    for group, cohort in enumerate(cohorts):
        jobs.append([])
        for client, covers in _senders(study, group, cohort):
            mixed = topology.groups_of(client) if mixes else (group,)  # all clients of these groups have one mean
            if mixed not in places:
                places[mixed] = len(starts)
                starts.append(broadcast(study.method.terms, state, client, group, round))
            jobs[-1].append(Job(client, group, places[mixed], seat, covers))
            seat += 1
    return jobs, np.stack(starts)


def _senders(study: Study, group: int, cohort: Sequence[int]) -> list[tuple[int, bool]]:
    """Whoever sends a report in a group, and whether it is cover alone.

    Where shares are elided so is cover: rows of zeros add nothing.
    """
    terms = study.method.terms
    if not terms.sampling.cover_traffic or study.elides:
        return [(client, False) for client in cohort]
    drawn = set(cohort)
    return [(client, client not in drawn) for client in sorted(terms.members(group))]


def _divisor(terms: Terms, group: int, cohort: Sequence[int]) -> float:
    """The public divisor, or the realised weight, which is then public too (MS-PAFL, eq. 17)."""
    if terms.counted == "realised":
        return float(sum(terms.weight(client) for client in cohort))
    return terms.divisor_of(group)


def _release(channel: Channel, sealed: Sealed, divisor: float) -> Row | None:
    """What a channel releases: nothing where a realised count was none, which keeps the model."""
    return channel.release(sealed, divisor) if divisor > 0 else None


def _signal_norm(one: Gathered) -> float:
    """The L2 norm of the sum before noise, in units of a row."""
    grid = one.channel.grid
    if grid is None:
        return 0.0
    clean = grid.from_ring(combine(one.sums.shares)) if one.clean is None else one.clean
    return math.sqrt(squared_norm(clean.astype(np.float64))) / 2.0**grid.fraction_bits * grid.clip


def _norms(gathered: Sequence[Gathered], signals: Sequence[float], divisors: Sequence[float]) -> dict[str, float]:
    """L2 norms on the released mean, averaged over sums: of what clients sent, and of the noise as it is expected."""
    private = [
        (signal / divisor, one.channel.deviation(one.sums.reports) * one.channel.size**0.5 / divisor)
        for one, signal, divisor in zip(gathered, signals, divisors, strict=True)
        if one.channel.grid is not None and divisor > 0
    ]
    if not private:
        return {}
    sent, noises = zip(*private, strict=True)
    return {"signal-norm": float(np.mean(sent)), "noise-norm": float(np.mean(noises))}
