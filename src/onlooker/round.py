"""One round, start to finish: draw, broadcast, local, shard, aggregate, seal, release, update, record."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from onlooker.data import Federation
from onlooker.engines import loop
from onlooker.engines.loop import Job
from onlooker.methods.groups import broadcast
from onlooker.methods.method import Local, Method, State, Vector
from onlooker.models import Model
from onlooker.privacy.channel import Channel, Sealed, Sums
from onlooker.privacy.mechanisms import NoNoise
from onlooker.privacy.random import Source
from onlooker.privacy.topology import Groups
from onlooker.types import Array, Integers, Row


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
    """

    method: Method
    model: Model
    federation: Federation
    source: Source
    device: torch.device = torch.device("cpu")
    evaluate_every: int = 1


Charge: TypeAlias = Callable[[str, Mapping[str, tuple[Integers, ...]]], None]
"""Told what is about to be released."""


@dataclass(frozen=True)
class Kept:
    """What stays on clients between rounds; it is nobody else's, and a simulator holds it for all of them.

    Attributes:
        private: `float32[seats, a]`, a row for each client and group of it; no rows where a model is not split.
        seats: the row of each client and group.
        draws: what clients drew before round 1 for the whole run; None where they draw in each round.
        noise: where noise is correlated, what each noising party remembers of its own, by channel; a server's, not a
            client's.
    """

    private: NDArray[np.float32]
    seats: Mapping[tuple[int, int], int]
    draws: Integers | None = None
    noise: Mapping[str, tuple[Integers, ...]] = field(default_factory=dict[str, tuple[Integers, ...]])

    def of(self, client: int, group: int) -> Vector:
        """A client's private part in a group, `float32[a]`."""
        return self.private[self.seats[client, group]] if self.seats else _NOTHING


_NOTHING: Vector = np.empty(0, dtype=np.float32)


@dataclass(frozen=True)
class Played:
    """What one round left behind.

    Attributes:
        state: the next state of the coordinator, made of releases alone.
        kept: what clients hold now.
        simulation: what only a simulator can see, by name; never released.
    """

    state: State
    kept: Kept
    simulation: Mapping[str, float]


@dataclass
class _Gathering:
    """One channel's sum of a round as it grows, and the same without noise, which only a simulator has."""

    channel: Channel
    sums: Sums
    clean: Array
    weight: float = 0.0


def play(study: Study, state: State, kept: Kept, round: int, charge: Charge) -> Played:
    """Play one round.

    Args:
        study: the run.
        state: the coordinator's state before the round.
        kept: what clients hold before the round.
        round: from 1.
        charge: called with the digest of the sealed sums, and what noising parties have to remember, before any of them
            is released: it must return only once both are safe, and raise where the release must not happen (rule 10b).
    """
    method, source = study.method, study.source
    terms = method.terms
    cohorts = [terms.cohort(group, round, source, kept.draws) for group in range(terms.groups)]
    private = kept.private.copy() if kept.private.size else kept.private
    gathered = [
        [_Gathering(one, one.empty(), np.zeros(one.size)) for one in terms.channels_of(group)]
        for group in range(terms.groups)
    ]
    for group, cohort in enumerate(cohorts):
        for client, local in _trained(study, state, kept, group, cohort, round):
            if private.size:
                private[kept.seats[client, group]] = local.kept
            for one in gathered[group]:
                _gather(study, one, client, local, round)
    flat = [one for group in gathered for one in group]
    sealed = {
        one.channel.name: one.channel.seal(one.sums, round, source, kept.noise.get(one.channel.name, ()))
        for one in flat
    }
    noise = {name: one.states for name, one in sealed.items() if one.states}
    charge(hashlib.sha256("".join(one.digest for one in sealed.values()).encode()).hexdigest(), noise)
    divisors = {one.channel.name: _divisor(study, group, one) for group, few in enumerate(gathered) for one in few}
    released = [
        {_kind(one.channel): _release(one.channel, sealed[one.channel.name], divisors[one.channel.name]) for one in few}
        for few in gathered
    ]
    simulation = {"clients": float(sum(len(cohort) for cohort in cohorts))} | _signal(flat, divisors)
    return Played(method.update(state, released), replace(kept, private=private, noise=noise), simulation)


def beginning(method: Method, round_zero: Vector) -> tuple[State, Kept]:
    """What there is before round 1, where everybody starts from the same weights, `float32[d]`, that no data decided.

    Every group has the same model, and every client the same private part in each of its groups.
    """
    terms, parts = method.terms, method.parts
    models = np.tile(round_zero[parts.public], (terms.groups, 1))
    seats = _seats(method)
    return State(models, np.zeros_like(models)), Kept(np.tile(round_zero[parts.private], (len(seats), 1)), seats)


def _seats(method: Method) -> dict[tuple[int, int], int]:
    terms = method.terms
    if not len(method.parts.private):
        return {}
    pairs = [(client, group) for client in range(terms.clients) for group in terms.topology.groups_of(client)]
    return {pair: seat for seat, pair in enumerate(pairs)}


def _trained(
    study: Study, state: State, kept: Kept, group: int, cohort: Sequence[int], round: int
) -> Iterator[tuple[int, Local]]:
    """Each client of a group's cohort with what its local training came to."""
    starts = {client: broadcast(study.method.terms, state, client, group, round) for client in cohort}
    if study.method.epochs > 1:
        yield from _interval(study, state, group, starts, round)
        return
    jobs = (Job(one, _party(study, one, group), start, kept.of(one, group)) for one, start in starts.items())
    for job, local in loop.run_clients(
        study.method, study.model, study.federation.clients, jobs, round, study.source, study.device
    ):
        yield job.client, local


def _interval(
    study: Study, state: State, group: int, starts: Mapping[int, Vector], round: int
) -> Iterator[tuple[int, Local]]:
    """DP-OGL+ as printed: epochs whose sums the group shares without noise, and each worker's total at the end."""
    terms = study.method.terms
    shared, size = state.models[group].astype(np.float64), state.models.shape[1]
    within = Channel(size, NoNoise(), None, "server", name=f"within/{group}")
    totals = {client: np.zeros(size) for client in starts}
    for epoch in range(study.method.epochs):
        sums = within.empty()
        jobs = (Job(one, f"{_party(study, one, group)}/epoch:{epoch}", starts[one], _NOTHING) for one in starts)
        for job, local in loop.run_clients(
            study.method, study.model, study.federation.clients, jobs, round, study.source, study.device
        ):
            row = terms.weight(job.client) * local.rows["model"]
            totals[job.client] += local.rows["model"]
            within.aggregate(sums, within.shard(within.encode(row, job.client), job.client, round, study.source))
        mean = within.release(within.seal(sums, round, study.source), terms.divisor_of(group))
        shared = shared if mean is None else shared + mean
        starts = {client: shared.astype(np.float32) for client in starts}
    for client, total in totals.items():
        yield client, Local({"model": total}, _NOTHING)


def _gather(study: Study, one: _Gathering, client: int, local: Local, round: int) -> None:
    weight = study.method.terms.weight(client)
    encoded = one.channel.encode(weight * local.rows[_kind(one.channel)], client)
    one.clean += encoded
    one.weight += weight
    one.channel.aggregate(one.sums, one.channel.shard(encoded, client, round, study.source))


def _divisor(study: Study, group: int, one: _Gathering) -> float:
    """The public divisor, or the realised weight, which is then public too (MS-PAFL, eq. 17)."""
    terms = study.method.terms
    return one.weight if terms.counted == "realised" else terms.divisor_of(group)


def _release(channel: Channel, sealed: Sealed, divisor: float) -> Row | None:
    """What a channel releases: nothing where a realised count was none, which keeps the model."""
    return channel.release(sealed, divisor) if divisor > 0 else None


def _kind(channel: Channel) -> str:
    """What a channel carries, whichever group's it is."""
    return channel.name.partition("/")[0]


def _party(study: Study, client: int, group: int) -> str:
    grouped = isinstance(study.method.terms.topology, Groups)
    return f"client:{client}/group:{group}" if grouped else f"client:{client}"


def _signal(gathered: Sequence[_Gathering], divisors: Mapping[str, float]) -> dict[str, float]:
    """L2 norms on the released mean, averaged over sums: of what clients sent, and of the noise as it is expected."""
    private = [one for one in gathered if one.channel.grid is not None and divisors[one.channel.name] > 0]
    if not private:
        return {}
    signals, noises = zip(*(_norms(one, divisors[one.channel.name]) for one in private), strict=True)
    return {"signal-norm": float(np.mean(signals)), "noise-norm": float(np.mean(noises))}


def _norms(one: _Gathering, divisor: float) -> tuple[float, float]:
    channel = one.channel
    assert channel.grid is not None
    signal = float(np.linalg.norm(one.clean / 2.0**channel.grid.fraction_bits)) * channel.grid.clip / divisor
    return signal, channel.deviation(one.sums.reports) * channel.size**0.5 / divisor
