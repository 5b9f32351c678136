"""The job as a configuration of Onlooker, and the functions that such a file names."""

from __future__ import annotations

from functools import partial
from typing import Any

import tomli_w

from benchmarks.job import Job, records_of
from benchmarks.networks import CLASSES, NETWORKS
from onlooker.data import DataSettings, Description, Federation
from onlooker.types import Examples

_TESTED = 10
_TABLES: dict[str, dict[str, Any]] = {
    "fedavg": {"task": {"method": "fedavg"}},
    "plain": {"task": {"method": "dp-fedavg"}, "privacy": {"noised-by": "server"}},
    "servers": {"task": {"method": "feddecouple"}, "servers": {"count": 2, "corrupt": 1}},
    "target": {
        "task": {"method": "feddecouple"},
        "servers": {"count": 2, "corrupt": 1},
        "privacy": {"epsilon": 8.0},
    },
    "records": {"task": {"method": "dp-sgd"}, "sampling": {"records": {"rate": 1.0}}},
}
PATHS = tuple(_TABLES)
"""How a round may go: no privacy; one trusted server; two auxiliary servers, with this noise or with what a target
needs; clipped gradients of single records."""


def text_of(job: Job, path: str = "plain") -> str:
    """The whole TOML file.

    Args:
        job: what is done.
        path: one of `PATHS`.
    """
    tables = _TABLES[path]
    task = {**tables["task"], "rounds": job.rounds, "seed": 1}
    training: dict[str, Any] = {"learning-rate": job.learning_rate}
    data: dict[str, Any] = {"name": f"{__name__}:{job.name}_{job.records}", "clients": job.clients}
    everyone = job.cohort == job.clients
    clients = {"name": "all"} if everyone else {"name": "fixed-size", "rate": job.cohort / job.clients}
    sampling: dict[str, Any] = {**tables.get("sampling", {}), "clients": clients}
    if path == "records":
        data["expected-records"] = job.records
    else:
        training |= {"steps": job.steps, "batch-size": job.batch}
    noise = {} if path in ("fedavg", "target") else {"noise-multiplier": job.noise}
    clip = {} if path == "fedavg" else {"clip": job.clip}
    privacy = {**clip, **noise, **tables.get("privacy", {})}
    servers = {"servers": tables["servers"]} if "servers" in tables else {}
    return tomli_w.dumps(
        {
            "task": task,
            "data": data,
            "model": {"name": f"benchmarks.torch_networks:{job.name}"},
            "training": training,
            "sampling": sampling,
            **servers,
            "privacy": privacy,
            "evaluation": {"every": job.rounds},
        }
    )


def _federation(name: str, records: int, settings: DataSettings) -> Federation:
    """As many clients as the configuration says, and a test set that takes no time."""
    network = NETWORKS[name]
    clients = tuple(Examples(*records_of(name, client, records)) for client in range(settings.clients))
    test = Examples(*records_of(name, settings.clients, _TESTED))
    return Federation(clients, test, Description("random", network.shape, CLASSES, "classification", ()))


def __getattr__(name: str) -> Any:
    """The function that `data.name = "benchmarks.configuration:mlp_320"` means: 320 records of the MLP's shape each."""
    network, _, records = name.partition("_")
    if network in NETWORKS and records.isdigit():
        return partial(_federation, network, int(records))
    raise AttributeError(name)
