"""`onlooker serve`: one auxiliary server until it is stopped."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from pathlib import Path

from onlooker.deployment import state
from onlooker.deployment.files import Own
from onlooker.deployment.http import Link, server
from onlooker.deployment.service import Service
from onlooker.errors import ConfigError, RestoredError
from onlooker.secagg.aggregator import Aggregator
from onlooker.secagg.store import Store


def serve(own: Own, say: Callable[[str], None]) -> None:
    """Serve until the process is asked to stop.

    Args:
        own: what it is started with.
        say: shows its operator a sentence.

    Raises:
        OnlookerError: if it cannot start, or must not go on.
    """
    try:
        asyncio.run(_served(own, say))
    except KeyboardInterrupt:
        say(f"aux:{own.server} was stopped.")


def restored(folder: Path) -> int:
    """End all tasks of a folder that was put back from a backup; how many there were."""
    return state.end_all(folder, "its server was put back from a backup.")


def _listening(own: Own) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in own.host else socket.AF_INET
        return socket.create_server((own.host.strip("[]"), own.port), family=family)
    except OSError as error:
        raise ConfigError(
            f'listen = "{own.host}:{own.port}" cannot be used: {error.strerror}; name an address of this machine and a '
            "free port."
        ) from error


async def _served(own: Own, say: Callable[[str], None]) -> None:
    task, number, listening = own.shared.task, own.server, _listening(own)
    kept = state.begun(own.folder, task.identity, number)

    def start() -> Aggregator:
        store = Store(kept.store)
        return Aggregator(task, number, own.signing_key, kept.envelope_key, kept.secret, store, own.audited_rounds)

    links = {
        other: Link(f"aux:{other}", address, own.credentials)
        for other, address in enumerate(own.shared.addresses)
        if other != number
    }
    service = Service(task, number, start, links, own.round_patience)
    web = server(service.application(), own.host, own.port, own.credentials)
    serving = asyncio.create_task(web.serve([listening]))
    ended = asyncio.create_task(service.ended.wait())
    while not (web.started or serving.done()):
        await asyncio.sleep(0.02)
    if web.started:
        say(f"aux:{number} serves task {task.identity.hex()[:16]} at {own.host}:{own.port}.")
    await asyncio.wait({serving, ended}, return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()
    web.should_exit = True
    await serving
    if isinstance(service.why, RestoredError):
        state.end(own.folder, task.identity, f"{service.why}")
    if service.why is not None:
        raise service.why
