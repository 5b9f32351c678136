"""FedAvg (McMahan et al. 2017) and DP-FedAvg (McMahan et al. 2018): the baselines that the others are measured by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from onlooker.errors import UnpricedError
from onlooker.methods.descent import LocalDescent
from onlooker.methods.method import ServerStep, State, Vector
from onlooker.models import Model
from onlooker.privacy.random import Stream
from onlooker.privacy.terms import Terms
from onlooker.types import Examples, Row


@dataclass(frozen=True)
class FedAvg:
    """Federated averaging, weighted by how many records each client has (McMahan et al. 2017, Algorithm 1).

    Guarantee: none, to anybody. The weights n_k travel beside the weighted updates as one more coordinate, which is
    itself private information: this is the baseline that shows what privacy costs.
    """

    terms: Terms
    descent: LocalDescent
    step: ServerStep

    def __post_init__(self) -> None:
        if self.terms.unit != "none":
            raise UnpricedError(
                f'task.method = "fedavg" has no guarantee, so privacy.unit = "{self.terms.unit}" must be "none"; '
                'use "dp-fedavg" for a guarantee.'
            )

    def local(
        self, model: Model, received: Vector, examples: Examples, stream: Stream, device: torch.device
    ) -> Mapping[str, Row]:
        """n_k Delta_k followed by n_k, `float64[d + 1]`."""
        delta = self.descent(model, received, examples, stream, device)
        return {"model": np.append(len(examples) * delta, len(examples))}

    def update(self, state: State, released: Mapping[str, Row | None]) -> State:
        """theta + eta_g sum(n_k Delta_k) / sum(n_k); unchanged where nobody took part."""
        total = released["model"]
        return state if total is None else self.step(state, total[:-1] / total[-1])


@dataclass(frozen=True)
class DPFedAvg:
    """DP-FedAvg: clipped updates, equal or public weights, Gaussian noise at the server or at the clients.

    McMahan et al. 2018, Algorithm 1 with the fixed-denominator estimator: clip C (paper: S), noise z C on the sum
    (sigma = z S / qW on the mean), and the public divisor q W.

    Guarantee: client level; each observer's epsilon is the ledger's.
    """

    terms: Terms
    descent: LocalDescent
    step: ServerStep

    def __post_init__(self) -> None:
        if self.terms.unit != "client":
            raise UnpricedError(
                f'task.method = "dp-fedavg" guards clients, so privacy.unit = "{self.terms.unit}" must be "client".'
            )

    def local(
        self, model: Model, received: Vector, examples: Examples, stream: Stream, device: torch.device
    ) -> Mapping[str, Row]:
        """Delta_k, `float64[d]`; the channel clips it."""
        return {"model": self.descent(model, received, examples, stream, device)}

    def update(self, state: State, released: Mapping[str, Row | None]) -> State:
        """theta + eta_g times the released mean; unchanged where there is none (noise by clients, nobody there)."""
        mean = released["model"]
        return state if mean is None else self.step(state, mean)
