"""One client at a time, plainly: the oracle that every other engine is tested against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch

from onlooker.methods.method import Local, Method, Vector
from onlooker.models import Model
from onlooker.privacy.random import Source
from onlooker.types import Examples


@dataclass(frozen=True)
class Job:
    """One client's part of a round.

    Attributes:
        client: who.
        party: the name that its streams of this round have: one client may train in several groups.
        received: `float32[p]`, the public part that it starts from.
        kept: `float32[a]`, the private part that it holds.
    """

    client: int
    party: str
    received: Vector
    kept: Vector


def run_clients(
    method: Method,
    model: Model,
    clients: Sequence[Examples],
    jobs: Iterable[Job],
    round: int,
    source: Source,
    device: torch.device,
) -> Iterator[tuple[Job, Local]]:
    """Each job with what it comes to, in order.

    A client's stream depends on the names of the party and the round alone, so the order changes nothing.
    """
    for job in jobs:
        stream = source.stream("local training", round, job.party)
        yield job, method.local(model, job.received, job.kept, clients[job.client], stream, device)
