"""Bytes as Flower carries them, with nothing imported that an app would have to wait for."""

from __future__ import annotations

from flwr.app import ConfigRecord, Message, RecordDict

_RECORD, _BODY = "onlooker", "body"
GREETING = 30.0
"""Seconds that a client may take to say who it is."""


def message_of(body: bytes, node: int, kind: str, round: int, seconds: float) -> Message:
    """Bytes to a node, as `body_of` finds them.

    A node that was away must not find them later than that: its client would pay for a report that nobody awaits.
    """
    return Message(content_of(body), node, kind, ttl=seconds, group_id=str(round))


def content_of(body: bytes) -> RecordDict:
    """Bytes as what Flower carries."""
    return RecordDict({_RECORD: ConfigRecord({_BODY: body})})


def body_of(message: Message) -> bytes | None:
    """The bytes of a message; None where it carries none."""
    record = message.content.get(_RECORD) if message.has_content() else None
    body = record.get(_BODY) if isinstance(record, ConfigRecord) else None
    return body if isinstance(body, bytes) else None
