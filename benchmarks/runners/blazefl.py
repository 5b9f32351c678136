"""The job by blazefl's federated averaging; it has no clipping and no noise, so its server is given both here."""

from __future__ import annotations

import importlib.metadata
import time
from typing import Any

import blazefl.contrib.fedavg as fedavg
import torch
from blazefl.core import ModelSelector, PartitionedDataset
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.job import Job, all_records, records_of
from benchmarks.protocol import asked, report
from benchmarks.torch_networks import build

fedavg.tqdm = lambda rounds, **_: rounds  # no bar


class _Selector(ModelSelector):
    def __init__(self, job: Job) -> None:
        self.job = job

    def select_model(self, model_name: str) -> torch.nn.Module:
        return build(self.job.network)


class _Data(PartitionedDataset):
    def __init__(self, job: Job) -> None:
        self.job = job

    def get_dataset(self, type_: str, cid: int | None) -> TensorDataset:
        return TensorDataset(*map(torch.from_numpy, records_of(self.job.name, cid or 0, self.job.records)))

    def get_dataloader(
        self, type_: str, cid: int | None, batch_size: int | None, generator: torch.Generator | None = None
    ) -> DataLoader[Any]:
        return DataLoader(self.get_dataset(type_, cid), batch_size=batch_size, shuffle=True, generator=generator)


class _Server(fedavg.FedAvgBaseServerHandler):
    job: Job

    def global_update(self, buffer: list[Any]) -> None:
        before = fedavg.serialize_model(self.model)
        total = torch.zeros_like(before)
        for package in buffer:
            update = package.model_parameters - before
            total.add_(update, alpha=min(1.0, self.job.clip / (float(update.norm()) + 1e-12)))
        noise = self.job.noise * self.job.clip * torch.randn_like(before)
        fedavg.deserialize_model(self.model, before + (total + noise) / len(buffer))


def main() -> None:
    """Play the job."""
    job, options = asked(threads=2)
    torch.set_num_threads(1)
    all_records(job)
    common = {
        "model_selector": _Selector(job),
        "model_name": job.name,
        "dataset": _Data(job),
        "device": "cpu",
        "num_clients": job.clients,
        "batch_size": job.batch,
        "seed": 0,
    }
    server = _Server(**common, global_round=job.rounds, sample_ratio=job.cohort / job.clients)
    server.job = job
    trainer = fedavg.FedAvgThreadPoolClientTrainer(
        **common, epochs=1, lr=job.learning_rate, num_parallels=options.threads
    )
    stamps: list[float] = []
    while not server.if_stop():
        cohort = server.sample_clients()
        trainer.local_process(server.downlink_package(), cohort)
        for update in trainer.uplink_package():
            server.load(update)
        stamps.append(time.time())
    versions = {package: importlib.metadata.version(package) for package in ("blazefl", "torch")}
    report(stamps, versions)


if __name__ == "__main__":
    main()
