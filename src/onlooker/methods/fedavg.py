"""FedAvg (McMahan et al. 2017) and DP-FedAvg (McMahan et al. 2018): the baselines that the others are measured by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onlooker.errors import UnpricedError
from onlooker.methods.averaging import Averaging, refuse_another_unit
from onlooker.methods.descent import LocalDescent
from onlooker.methods.method import Local, Released, ServerStep, State
from onlooker.methods.trainer import Asking, Descend
from onlooker.models import Parts
from onlooker.privacy.random import Stream
from onlooker.privacy.terms import Terms
from onlooker.types import Examples, Vector


@dataclass(frozen=True)
class FedAvg:
    """Federated averaging, weighted by how many records each client has (McMahan et al. 2017, Algorithm 1).

    Guarantee: none, to anybody. The weights n_k travel beside the weighted updates as one more coordinate, which is
    itself private information: this is the baseline that shows what privacy costs.
    """

    terms: Terms
    descent: LocalDescent
    step: ServerStep
    parts: Parts
    epochs: int = 1

    def __post_init__(self) -> None:
        if self.terms.unit != "none":
            raise UnpricedError(
                f'task.method = "fedavg" has no guarantee, so privacy.unit = "{self.terms.unit}" must be "none"; '
                'use "dp-fedavg" for a guarantee.'
            )

    def local(self, received: Vector, kept: Vector, examples: Examples, stream: Stream) -> Asking[Local]:
        """n_k Delta_k followed by n_k, `float64[d + 1]`."""
        start = self.parts.join(received, kept)
        delta = yield Descend(self.descent, start, examples, stream)
        trained = (start.astype(np.float64) + delta)[self.parts.private].astype(np.float32)
        row = np.append(len(examples) * delta[self.parts.public], len(examples))
        return Local({"model": row}, trained)

    def update(self, state: State, released: Sequence[Released]) -> State:
        """theta + eta_g sum(n_k Delta_k) / sum(n_k); unchanged where nobody took part."""
        totals = [one["model"] for one in released]
        return self.step(state, [None if total is None else total[:-1] / total[-1] for total in totals])


def dp_fedavg(terms: Terms, descent: LocalDescent, step: ServerStep, parts: Parts) -> Averaging:
    """DP-FedAvg: clipped updates, equal or public weights, Gaussian noise at the server or at the clients.

    McMahan et al. 2018, Algorithm 1 with the fixed-denominator estimator: clip C (paper: S), noise z C on the sum
    (sigma = z S / qW on the mean), and the public divisor q W.

    Guarantee: client level; each observer's epsilon is the ledger's.

    Raises:
        UnpricedError: if the terms guard another unit.
    """
    refuse_another_unit("dp-fedavg", terms)
    return Averaging(terms, descent, step, parts)
