"""Bytes between the coordinator and the clients, as Flower carries them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from flwr.serverapp import Grid

from onlooker.deployment.http import each
from onlooker.errors import MessageError
from onlooker.flower.bodies import GREETING, body_of, message_of
from onlooker.secagg.invitation import Greeting
from onlooker.secagg.wire import unpacked

_PAUSE = 0.5
"""Seconds from one look for replies to the next."""


class Courier:
    """Who brings messages to SuperNodes and back (`deployment.coordination.Courier`).

    Args:
        grid: of the ServerApp.
        task: the digest of the task.
    """

    def __init__(self, grid: Grid, task: bytes) -> None:
        self._grid, self._task = grid, task
        self._clients: dict[int, int] = {}
        """The client behind each node."""

    def present(self) -> frozenset[int]:
        """The clients behind the nodes that are connected; new nodes are asked who they are."""
        nodes = set(self._grid.get_node_ids())
        self._clients = {node: client for node, client in self._clients.items() if node in nodes}
        strangers = sorted(nodes - set(self._clients))
        for node, body in self._sent("query", dict.fromkeys(strangers, b""), 0, GREETING):
            greeting = _greeting(body)
            if greeting is not None and greeting.task == self._task:
                self._clients[node] = greeting.client
        return frozenset(self._clients.values())

    def ask(self, round: int, invitations: Mapping[int, bytes], patience: float) -> Iterable[bytes]:
        """What clients answered in time."""
        bodies = {node: invitations[client] for node, client in self._clients.items() if client in invitations}
        for _, body in self._sent("train", bodies, round, patience):
            try:
                yield from each(body)
            except MessageError:
                continue  # whoever sends no list of reports has sent no report

    def _sent(self, kind: str, bodies: Mapping[int, bytes], round: int, seconds: float) -> Iterable[tuple[int, bytes]]:
        """What nodes answered in time; Flower itself answers, with nothing, for a node that is gone."""
        messages = [message_of(body, node, kind, round, seconds) for node, body in bodies.items()]
        awaited = {one for one in self._grid.push_messages(messages) if one} if messages else set[str]()
        until = time.monotonic() + seconds
        while awaited and time.monotonic() < until:
            for reply in self._grid.pull_messages(awaited):
                awaited.discard(reply.metadata.reply_to_message_id)
                if (body := body_of(reply)) is not None:
                    yield reply.metadata.src_node_id, body
            if awaited:
                time.sleep(_PAUSE)


def _greeting(body: bytes) -> Greeting | None:
    try:
        found = unpacked(body)
    except MessageError:
        return None
    return found if isinstance(found, Greeting) else None
