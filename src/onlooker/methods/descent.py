"""Local training: Q steps of minibatch descent from the received model, and nothing remembered afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from onlooker.privacy.random import Stream
from onlooker.privacy.records import RecordBatches
from onlooker.types import Examples, Row

if TYPE_CHECKING:
    import torch

    from onlooker.methods.optimizer import Optimizer
    from onlooker.models import Model


@dataclass(frozen=True)
class LocalDescent:
    """The local half of federated averaging (McMahan et al. 2017, Algorithm 1, ClientUpdate).

    Attributes:
        steps: Q, the minibatch steps of a round; or None where `epochs` counts passes over the client's data.
        epochs: E, the passes over the client's data; or None.
        batch_size: b.
        optimizer: "sgd" or "adam", made afresh in every round: its state never survives one (rule 6).
        learning_rate: eta.
        momentum: of the fresh optimizer, within a round.
        weight_decay: of the fresh optimizer.
        records: how the records of a round's batches are drawn, where that is a matter of privacy; None for passes in
            a new order each.
        slots: the public number of records that `records` draws from at the least.
    """

    steps: int | None = 5
    epochs: int | None = None
    batch_size: int = 64
    optimizer: Literal["sgd", "adam"] = "sgd"
    learning_rate: float = 0.1
    momentum: float = 0.0
    weight_decay: float = 0.0
    records: RecordBatches | None = None
    slots: int = 1

    def __call__(
        self, model: Model, received: NDArray[np.float32], examples: Examples, stream: Stream, device: torch.device
    ) -> Row:
        """Delta, `float64[d]`: the trained parameters less the received ones."""
        import torch  # when something is trained, and not when it is planned

        from onlooker.models.model import seeded

        module = model.fresh(received).to(device).train()
        parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        optimizer = self.fresh_optimizer(parameters)
        features = torch.from_numpy(examples.features)
        labels = torch.from_numpy(examples.labels)
        batches = self.batches(len(examples), stream)
        with seeded(stream.seed()):  # layers that draw, such as dropout, draw the same for any client order
            for batch in batches:
                chosen = torch.from_numpy(batch)
                losses = model.losses(module(features[chosen].to(device)), labels[chosen].to(device))
                module.zero_grad(set_to_none=True)
                losses.mean().backward()
                optimizer.step()
        return model.flatten(module).astype(np.float64) - received.astype(np.float64)

    def fresh_optimizer(self, parameters: list[torch.nn.Parameter]) -> Optimizer:
        """The optimizer of one round."""
        from onlooker.methods.optimizer import Adam, Descent

        if self.optimizer == "adam":
            return Adam(parameters, self.learning_rate, self.weight_decay)
        return Descent(parameters, self.learning_rate, self.momentum, self.weight_decay)

    def batches(self, count: int, stream: Stream) -> Iterator[NDArray[np.int64]]:
        """Those of `records`; or reshuffled passes, whose order decides nothing private, so that numpy draws it."""
        if self.records is not None:
            yield from self.records.draw(count, self.slots, stream)
            return
        generator = np.random.default_rng(stream.seed())
        size = min(self.batch_size, count)
        left = self.steps if self.epochs is None else self.epochs * -(-count // size)
        while left:
            order = generator.permutation(count)
            for start in range(0, count, size):
                yield order[start : start + size]
                left -= 1
                if not left:
                    return
