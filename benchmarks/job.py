"""The job that every contender does: so many clients with so many records each, clipped, noised and averaged.

It is read in every contender's own environment, so it needs numpy alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.networks import CLASSES, NETWORKS, Network

Records = tuple[NDArray[np.float32], NDArray[np.int64]]
"""Features and labels of one client."""


@dataclass(frozen=True)
class Job:
    """One cell's work; each round draws a new cohort of this size from all clients.

    Attributes:
        name: of the network.
        cohort: the clients of a round.
        rounds: how many are played, the first two of which nobody counts.
        clients: how many there are.
        records: that each of them holds.
        steps: of local descent in a round.
        batch: records of a step; the steps make one pass.
        learning_rate: of plain SGD.
        clip: the L2 bound of a client's update.
        noise: the standard deviation of the Gaussian noise on the sum, over the clip.
    """

    name: str
    cohort: int
    rounds: int
    clients: int = 100
    records: int = 320
    steps: int = 5
    batch: int = 64
    learning_rate: float = 0.05
    clip: float = 1.0
    noise: float = 0.5

    @property
    def network(self) -> Network:
        """What is trained."""
        return NETWORKS[self.name]

    @property
    def operations(self) -> int:
        """Multiplications and additions of all local training in a round."""
        return self.cohort * self.steps * self.network.operations(self.batch)


@cache
def records_of(name: str, client: int, records: int) -> Records:
    """A client's records, `float32[n, *shape]` and `int64[n]`: noise of the right shape, the same in every process.

    A process draws a client's records once, so that no contender is charged for drawing them in the rounds that count.
    """
    generator = np.random.default_rng([client, records])
    features = generator.standard_normal((records, *NETWORKS[name].shape), dtype=np.float32)
    return features, generator.integers(0, CLASSES, records)


def all_records(job: Job) -> list[Records]:
    """Every client's records, drawn now."""
    return [records_of(job.name, client, job.records) for client in range(job.clients)]
