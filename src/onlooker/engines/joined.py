"""How a process joins a Ray cluster, or starts one of its own that ends with it."""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import shutil
import signal
import socket
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
def joined(workers: int, address: str | None, folder: str) -> Generator[Any]:
    """The library, joined to a cluster for as long as the block lasts, in a process that does nothing else.

    Args:
        workers: the processes of a cluster of this machine's own, which obeys nobody without its token.
        address: HOST:PORT of a cluster that this machine is part of; None to start one.
        folder: where such a cluster keeps what it writes, which goes with it.

    Raises:
        ConfigError: one sentence for why it cannot be.
    """
    os.environ.update(_QUIET if address else _QUIET | _secret())
    try:
        ray = importlib.import_module("ray")
    except ImportError as error:
        raise ConfigError(
            f'engine.name = "ray" needs a library that is not here ({error}); `pip install "onlooker[ray]"` brings it.'
        ) from None
    try:
        if address is None:
            own = {"include_dashboard": False, "_temp_dir": folder}
            _join(ray, 'engine.name = "ray"', "mend that, or name another engine", "local", num_cpus=workers, **own)
        else:
            _refuse_unheard(address)
            _join(ray, f'engine.address = "{address}"', _HOW, address)
        yield ray
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # once is enough
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)


def _secret() -> dict[str, str]:
    """Ray listens on every interface, and does what it is told there."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


def _join(ray: Any, key: str, how: str, address: str, **options: Any) -> None:
    try:
        ray.init(address, log_to_driver=False, logging_level=logging.CRITICAL, **options)
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        told = " ".join(str(error).split()).rstrip(".")
        raise ConfigError(f"{key}: Ray cannot be joined: {told}; {how}.") from None
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
