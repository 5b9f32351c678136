"""How a process joins a Ray cluster, or starts one of its own that ends with it."""

from __future__ import annotations

import importlib
import logging
import os
import signal
import socket
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from onlooker.errors import ConfigError

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nobody is told of a run
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # Ray warns of what it would else do to GPUs, which no task asks for
}
_HOW = (
    "a cluster begins with `ray start --head` on one machine, which says its address, and each other joins it with "
    "`ray start --address=HOST:PORT`, also the one that runs this"
)
_PATIENCE = 5.0  # seconds


@contextmanager
def joined(workers: int, address: str | None) -> Generator[Any]:
    """The library, joined to a cluster for as long as the block lasts, in a process that does nothing else.

    Args:
        workers: the processes of a cluster of this machine's own, which no other machine can reach.
        address: HOST:PORT of a cluster that this machine is part of; None to start one.

    Raises:
        ConfigError: one sentence for why it cannot be.
    """
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError(
            f'engine.name = "ray" needs a library that is not here ({error}); `pip install "onlooker[ray]"` brings it.'
        ) from None
    os.environ.update(_QUIET)
    with tempfile.TemporaryDirectory(prefix="onlooker-", ignore_cleanup_errors=True) as folder:
        try:
            if address is None:
                own = {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "_temp_dir": folder}
                _join(ray, 'engine.name = "ray"', address="local", num_cpus=workers, **own)
            else:
                _refuse_unheard(address)
                _join(ray, f'engine.address = "{address}"', address=address)
            yield ray
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
            ray.shutdown()


def _join(ray: Any, key: str, **options: Any) -> None:
    try:
        ray.init(log_to_driver=False, logging_level=logging.CRITICAL, **options)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        told = " ".join(str(error).split()).rstrip(".")
        raise ConfigError(f"{key}: Ray cannot be joined: {told}; {_HOW}.") from None
    if ray.cluster_resources().get("CPU", 0) < 1:
        raise ConfigError(f"{key}: this cluster has no processor to play clients; start a machine with --num-cpus.")


def _refuse_unheard(address: str) -> None:
    """Ray itself would ask for minutes."""
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdecimal() or "/" in host:
        raise ConfigError(f'engine.address = "{address}" must be HOST:PORT; {_HOW}.')
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise ConfigError(f'engine.address = "{address}" cannot be reached ({error}); {_HOW}.') from None
