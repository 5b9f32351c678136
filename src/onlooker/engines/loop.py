"""One client at a time, plainly: the oracle that every other engine is tested against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import torch

from onlooker.methods.method import Method, Vector
from onlooker.models import Model
from onlooker.privacy.random import Source
from onlooker.types import Examples, Row


def run_clients(
    method: Method,
    model: Model,
    received: Vector,
    clients: Sequence[Examples],
    cohort: Iterable[int],
    round: int,
    source: Source,
    device: torch.device,
) -> Iterator[tuple[int, Mapping[str, Row]]]:
    """Each client of the cohort with its rows, one for each channel, in the cohort's order.

    A client's stream depends on its number and the round alone, so the order changes nothing.
    """
    for client in cohort:
        stream = source.stream("local training", round, f"client:{client}")
        yield client, method.local(model, received, clients[client], stream, device)
