"""One round, start to finish: draw, broadcast, local, shard, aggregate, seal, release, update, record."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from onlooker.data import Federation
from onlooker.engines import loop
from onlooker.methods.method import Method, State
from onlooker.models import Model
from onlooker.privacy.channel import Channel
from onlooker.privacy.random import Source
from onlooker.types import Array


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


@dataclass(frozen=True)
class Played:
    """What one round left behind.

    Attributes:
        state: the next state of the coordinator, made of releases alone.
        simulation: what only a simulator can see, by name; never released.
    """

    state: State
    simulation: Mapping[str, float]


def play(study: Study, state: State, round: int, charge: Callable[[str], None]) -> Played:
    """Play one round.

    Args:
        study: the run.
        state: the coordinator's state before the round.
        round: from 1.
        charge: called with the digest of the sealed sums, before any of them is released: it must return only once the
            charge is safe, and raise where the release must not happen (rule 10b).
    """
    method, source = study.method, study.source
    terms = method.terms
    cohort = terms.sampling.cohort(terms.clients, round, source)
    sums = {channel.name: channel.empty() for channel in terms.channels}
    clean = {channel.name: np.zeros(channel.size) for channel in terms.channels}
    rows = loop.run_clients(
        method, study.model, state.parameters, study.federation.clients, cohort, round, source, study.device
    )
    for client, row in rows:
        for channel in terms.channels:
            encoded = channel.encode(terms.weight(client) * row[channel.name], client)
            clean[channel.name] += encoded
            channel.aggregate(sums[channel.name], channel.shard(encoded, client, round, source))
    sealed = {channel.name: channel.seal(sums[channel.name], round, source) for channel in terms.channels}
    charge(hashlib.sha256("".join(one.digest for one in sealed.values()).encode()).hexdigest())
    released = {channel.name: channel.release(sealed[channel.name], terms.divisor) for channel in terms.channels}
    simulation = {"clients": float(len(cohort))}
    for channel in terms.channels:
        simulation |= _signal(channel, clean[channel.name], len(cohort), terms.divisor)
    return Played(method.update(state, released), simulation)


def _signal(channel: Channel, clean: Array, cohort: int, divisor: float) -> dict[str, float]:
    """L2 norms on the released mean: of what the clients sent, and of the noise as it is expected."""
    if channel.grid is None:
        return {}
    return {
        "signal-norm": float(np.linalg.norm(clean / 2.0**channel.grid.fraction_bits)) * channel.grid.clip / divisor,
        "noise-norm": channel.deviation(cohort) * channel.size**0.5 / divisor,
    }
