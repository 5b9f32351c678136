"""Per-record gradients by Opacus: as many steps of DP-SGD on fixed batches as a round has clients, one round timed."""

from __future__ import annotations

import importlib.metadata
import time
import warnings
from typing import Any

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.job import Job, all_records
from benchmarks.protocol import asked, report
from benchmarks.torch_networks import build

WAYS = ("hooks", "ew", "functorch", "ghost")


def private(job: Job, way: str) -> tuple[torch.nn.Module, Any, Any]:
    """The network, the optimizer and the loss, wrapped by Opacus."""
    module, loss = build(job.network), torch.nn.CrossEntropyLoss()
    rows = TensorDataset(torch.zeros(job.records, *job.network.shape), torch.zeros(job.records, dtype=torch.int64))
    wrapped = PrivacyEngine(secure_mode=False).make_private(
        module=module,
        criterion=loss,
        optimizer=torch.optim.SGD(module.parameters(), lr=job.learning_rate),
        data_loader=DataLoader(rows, batch_size=job.records),
        noise_multiplier=job.noise,
        max_grad_norm=job.clip,
        poisson_sampling=False,
        grad_sample_mode=way,
    )
    return (wrapped[0], wrapped[1], wrapped[2]) if way == "ghost" else (wrapped[0], wrapped[1], loss)


def main() -> None:
    """Play the job."""
    job, options = asked(way="hooks", threads=2)
    torch.set_num_threads(options.threads)
    warnings.simplefilter("ignore")
    batches = [(torch.from_numpy(features), torch.from_numpy(labels)) for features, labels in all_records(job)]
    module, optimizer, loss = private(job, options.way)
    stamps: list[float] = []
    for _ in range(job.rounds):
        for features, labels in batches[: job.cohort]:
            optimizer.zero_grad()
            loss(module(features), labels).backward()
            optimizer.step()
        stamps.append(time.time())
    versions = {package: importlib.metadata.version(package) for package in ("opacus", "torch")}
    report(stamps, versions)


if __name__ == "__main__":
    main()
