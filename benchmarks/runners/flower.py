"""The job by Flower's simulation on Ray, with its own clipping and noise at the server, an actor for each core."""

from __future__ import annotations

import importlib.metadata
import os
import time
from typing import Any

os.environ |= {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}

import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import DifferentialPrivacyServerSideFixedClipping, FedAvg
from flwr.simulation import run_simulation

from benchmarks.job import Job, all_records, records_of
from benchmarks.protocol import asked, report
from benchmarks.torch_networks import build


def client_of(job: Job) -> ClientApp:
    """What an actor does for one client."""
    app = ClientApp()

    @app.train()
    def train(message: Message, context: Context) -> Message:
        torch.set_num_threads(1)
        all_records(job)  # an actor draws them in its first round, which nobody counts
        module = build(job.network)
        module.load_state_dict(message.content["arrays"].to_torch_state_dict())
        client = int(context.node_config["partition-id"])
        features, labels = map(torch.from_numpy, records_of(job.name, client, job.records))
        optimizer = torch.optim.SGD(module.parameters(), lr=job.learning_rate)
        for chosen in torch.randperm(job.records).split(job.batch)[: job.steps]:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(features[chosen]), labels[chosen]).backward()
            optimizer.step()
        content = {
            "arrays": ArrayRecord(module.state_dict()),
            "metrics": MetricRecord({"num-examples": job.records}),
        }
        return Message(content=RecordDict(content), reply_to=message)

    return app


def server_of(job: Job, stamps: list[float]) -> ServerApp:
    """What the server does: `stamps` gets the time before each round and after the last."""
    app = ServerApp()

    class Timed(FedAvg):
        def configure_train(self, *arguments: Any, **keywords: Any) -> Any:
            stamps.append(time.time())
            return super().configure_train(*arguments, **keywords)

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        plain = Timed(
            fraction_train=job.cohort / job.clients,
            fraction_evaluate=0.0,
            min_train_nodes=job.cohort,
            min_available_nodes=job.clients,
        )
        strategy = DifferentialPrivacyServerSideFixedClipping(
            plain, noise_multiplier=job.noise, clipping_norm=job.clip, num_sampled_clients=job.cohort
        )
        start = ArrayRecord(build(job.network).state_dict())
        strategy.start(grid=grid, initial_arrays=start, num_rounds=job.rounds)
        stamps.append(time.time())

    return app


def main() -> None:
    """Play the job."""
    job, options = asked(actors=2)
    stamps: list[float] = []
    resources = {
        "init_args": {"num_cpus": options.actors, "logging_level": 40},
        "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
    }
    run_simulation(
        server_app=server_of(job, stamps),
        client_app=client_of(job),
        num_supernodes=job.clients,
        backend_config=resources,
    )
    versions = {package: importlib.metadata.version(package) for package in ("flwr", "ray", "torch")}
    report(stamps[1:], versions)


if __name__ == "__main__":
    main()
