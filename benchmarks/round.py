"""What a whole private round costs beside its local training alone, in one process and one run.

The job: 20 clients of 320 rows, an mlp 784-64-10, 5 steps of 64, clip, shares to two servers, exact rounded Gaussian.
The machine's own limit is the same local training in a bare torch loop. Prints medians and the ratio.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
import torch

from onlooker.data import Description, Federation
from onlooker.methods.decouple import feddecouple
from onlooker.methods.descent import LocalDescent
from onlooker.methods.method import ServerStep, initial_vector
from onlooker.models import build
from onlooker.models.parts import whole
from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.random import Seeded
from onlooker.privacy.sampling import Everyone
from onlooker.privacy.summation import Shared
from onlooker.privacy.terms import Terms
from onlooker.privacy.training import Training
from onlooker.round import Study, beginning, play
from onlooker.types import Examples

CLIENTS, ROWS, STEPS, BATCH, REPEATS = 20, 320, 5, 64, 15


def study() -> Study:
    """The job on random rows: a benchmark of time, not of learning."""
    generator = np.random.default_rng(0)
    model = build("mlp", (1, 28, 28), 10, "classification")
    clients = tuple(
        Examples(generator.random((ROWS, 1, 28, 28), dtype=np.float32), generator.integers(0, 10, ROWS))
        for _ in range(CLIENTS)
    )
    channel = Channel(model.size, RoundedGaussian(1.0), Grid(1.0, 20, 32), "servers", Shared(), bounds=1.0)
    terms = Terms("client", "zero-out", 1e-5, 1000, CLIENTS, Everyone(), Training(), (channel,))
    method = feddecouple(terms, LocalDescent(steps=STEPS, batch_size=BATCH), ServerStep(), whole(model.size))
    description = Description("random", (1, 28, 28), 10, "classification", ())
    return Study(method, model, Federation(clients, clients[0], description), Seeded(1))


def bare(job: Study) -> None:
    """The local training of one round and nothing else."""
    for examples in job.federation.clients:
        module = job.model.module
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        features, labels = torch.from_numpy(examples.features), torch.from_numpy(examples.labels)
        for start in range(0, STEPS * BATCH, BATCH):
            optimizer.zero_grad()
            outputs = module(features[start : start + BATCH])
            torch.nn.functional.cross_entropy(outputs, labels[start : start + BATCH]).backward()
            optimizer.step()


def median(timed: Callable[[], object]) -> float:
    """Seconds, after two rounds to warm up."""
    seconds: list[float] = []
    for _ in range(REPEATS + 2):
        start = time.perf_counter()
        timed()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[2:])


def main() -> None:
    """Print both medians and their ratio."""
    torch.set_num_threads(1)
    job = study()
    state, kept = beginning(job.method, initial_vector(job.model, job.source))
    with job.opened() as engine:
        whole = median(lambda: play(job, engine, state, kept, 1, lambda digest, noise: None))
    limit = median(lambda: bare(job))
    print(f"private round {1000 * whole:.1f} ms, bare local training {1000 * limit:.1f} ms, ratio {whole / limit:.2f}")


if __name__ == "__main__":
    main()
