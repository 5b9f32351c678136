"""Bytes between the coordinator and the clients, as Flower carries them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from onlooker.deployment.http import each
from onlooker.errors import MessageError
from onlooker.secagg.invitation import Greeting
from onlooker.secagg.wire import unpacked

_RECORD, _BODY = "onlooker", "body"
GREETING = 30.0
"""Seconds that a client may take to say who it is."""


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
        messages = [message_of(body, node, kind, round) for node, body in bodies.items()]
        if not messages:
            return
        for reply in self._grid.send_and_receive(messages, timeout=seconds):
            if (body := body_of(reply)) is not None:
                yield reply.metadata.src_node_id, body


def message_of(body: bytes, node: int, kind: str, round: int) -> Message:
    """Bytes to a node, as `body_of` finds them."""
    return Message(content_of(body), node, kind, group_id=str(round))


def content_of(body: bytes) -> RecordDict:
    """Bytes as what Flower carries."""
    return RecordDict({_RECORD: ConfigRecord({_BODY: body})})


def body_of(message: Message) -> bytes | None:
    """The bytes of a message; None where it carries none."""
    record = message.content.get(_RECORD) if message.has_content() else None
    body = record.get(_BODY) if isinstance(record, ConfigRecord) else None
    return body if isinstance(body, bytes) else None


def _greeting(body: bytes) -> Greeting | None:
    try:
        found = unpacked(body)
    except MessageError:
        return None
    return found if isinstance(found, Greeting) else None
