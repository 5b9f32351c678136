"""The methods on a real Flower federation, as strategies and as the two apps of a configuration file.

Flower carries; nothing rests on it. The ServerApp is the coordinator: it brings each client the model, and the two
auxiliary servers the sealed reports that come back, which it cannot read (`servers.relay = "coordinator"`, priced so).
The ClientApp holds no data: it hands what came to the `onlooker client` process of its machine, which decides, trains,
charges its own budget and seals. So a report leaves behind a firewall over the connection that the SuperNode opened,
and whoever writes the app that runs on a SuperNode can ask for no more than a report.

>>> from onlooker.flower import FedDecouple
>>> FedDecouple("coordinator.toml").start(grid, initial_arrays, num_rounds=40)  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from onlooker.flower.apps import client_app, server_app

if TYPE_CHECKING:
    from onlooker.flower.strategies import DPFTRL, DPOGL, DPSGD, MSPAFL, Deployment, DPFedAvg, FedDecouple

__all__ = [
    "DPFTRL",
    "DPOGL",
    "DPSGD",
    "MSPAFL",
    "DPFedAvg",
    "Deployment",
    "FedDecouple",
    "client_app",
    "server_app",
]


def __getattr__(name: str) -> Any:
    """Strategies when they are asked for: with them comes torch, which a ClientApp would wait for at every message."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("onlooker.flower.strategies"), name)
