"""FedDecouple: clients compute and share, auxiliary servers add one noise together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from onlooker.errors import UnpricedError
from onlooker.methods.descent import LocalDescent
from onlooker.methods.method import ServerStep, State, Vector
from onlooker.models import Model
from onlooker.privacy.random import Stream
from onlooker.privacy.terms import Terms
from onlooker.types import Examples, Row


@dataclass(frozen=True)
class FedDecouple:
    """FedDecouple in its sound form: two phases, n non-colluding auxiliary servers, one act of noising a round.

    Phase 1 (the paper's 4.2.1): client k trains, clips its update to C and cuts it into additive shares, one for each
    server. Phase 2 (4.2.2): each server adds its own Gaussian noise of z C / sqrt(n - t) to the sum of its shares,
    and the coordinator adds the noisy shares. The paper's servers add half the variance each, which leaves a server
    that subtracts its own noise with half of what was promised; here what is left is the full z.

    Guarantee: client level, for at most t = `servers.corrupt` colluding servers; if all collude, none.
    """

    terms: Terms
    descent: LocalDescent
    step: ServerStep

    def __post_init__(self) -> None:
        if self.terms.unit != "client":
            raise UnpricedError(
                f'task.method = "feddecouple" guards clients, so privacy.unit = "{self.terms.unit}" must be "client"; '
                'use "dp-sgd" to guard records.'
            )
        if any(channel.noised_by != "servers" for channel in self.terms.channels):
            raise UnpricedError(
                'task.method = "feddecouple" is one act of noising at the auxiliary servers, so privacy.noised-by must '
                'be "servers".'
            )

    def local(
        self, model: Model, received: Vector, examples: Examples, stream: Stream, device: torch.device
    ) -> Mapping[str, Row]:
        """Delta_k^t = theta_k - theta^t, `float64[d]`; the channel clips it to C (paper: Delta-tilde) and shares it."""
        return {"model": self.descent(model, received, examples, stream, device)}

    def update(self, state: State, released: Mapping[str, Row | None]) -> State:
        """theta^{t+1} = theta^t + eta_g times the released mean, which is noise alone where nobody took part."""
        mean = released["model"]
        return state if mean is None else self.step(state, mean)
