"""What parties say to each other, as bytes: each kind checked whole before anybody acts on it.

A message is MessagePack of its kind and its fields, then checked for type, size and range. What is signed is the bytes
as they are sent, with the digest of the context: a signature for one round is none for another.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeAlias, cast, get_args

import msgpack
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import AfterValidator, ConfigDict, Field
from pydantic.dataclasses import dataclass as checked

from onlooker.errors import MessageError
from onlooker.secagg.hashing import Use, digest

IDENTITY_BYTES = 16
"""Of a report's identity."""
_MOST_CLIENTS = 1_000_000
_MOST_SERVERS = 1000
_STRICT = ConfigDict(strict=True)

Digest: TypeAlias = Annotated[bytes, Field(min_length=32, max_length=32)]
Identity: TypeAlias = Annotated[bytes, Field(min_length=IDENTITY_BYTES, max_length=IDENTITY_BYTES)]
Server: TypeAlias = Annotated[int, Field(ge=0, lt=_MOST_SERVERS)]
Client: TypeAlias = Annotated[int, Field(ge=0, lt=_MOST_CLIENTS)]


def _in_order(reports: tuple[tuple[int, bytes], ...]) -> tuple[tuple[int, bytes], ...]:
    clients = [client for client, _ in reports]
    if any(after <= before for before, after in itertools.pairwise(clients)):
        raise ValueError("clients must be named once each, in their order")
    return reports


@checked(config=_STRICT, frozen=True)
class Announcement:
    """A server's keys for a task, before any client seals a report.

    Attributes:
        task: the digest of the task.
        server: who.
        envelope_key: its public key for envelopes of this task (`envelope.EnvelopeKey`).
        secret: its commitment to the secret that its noise will come from.
    """

    task: Digest
    server: Server
    envelope_key: Annotated[bytes, Field(max_length=4096)]
    secret: Digest


@checked(config=_STRICT, frozen=True)
class Opening:
    """The coordinator's word that a round begins.

    Attributes:
        task: the digest of the task.
        round: from 1.
        group: of the topology.
        model: SHA-256 of the model that clients receive.
    """

    task: Digest
    round: Annotated[int, Field(ge=1, le=1_000_000)]
    group: Annotated[int, Field(ge=0, lt=1_000_000)]
    model: Digest


@checked(config=_STRICT, frozen=True)
class Freeze:
    """The coordinator's word that a server takes no more reports."""

    context: Digest


@checked(config=_STRICT, frozen=True)
class Commitment:
    """A server's commitment to its coin of a round, before the batch is known."""

    context: Digest
    server: Server
    coin: Digest


@checked(config=_STRICT, frozen=True)
class Holding:
    """The reports that a server holds, after which it takes no more in this round.

    Attributes:
        context: of which round.
        server: who.
        reports: each client with the identity of its report, in the order of clients.
    """

    context: Digest
    server: Server
    reports: Annotated[tuple[tuple[Client, Identity], ...], Field(max_length=_MOST_CLIENTS), AfterValidator(_in_order)]


@checked(config=_STRICT, frozen=True)
class Agreement:
    """The batch that a server found all servers to hold.

    Attributes:
        context: of which round.
        server: who.
        batch: the digest of it (`protocol.batch_digest`).
    """

    context: Digest
    server: Server
    batch: Digest


@checked(config=_STRICT, frozen=True)
class Reveal:
    """A server's coin, once all agree on the batch."""

    context: Digest
    server: Server
    coin: Digest
    nonce: Digest


@checked(config=_STRICT, frozen=True)
class NoisyShare:
    """A server's share of a batch's sums with its noise: the only thing that ever leaves it.

    Attributes:
        context: of which round.
        server: who.
        batch: of which reports.
        shares: for each sum its elements, the lowest byte first.
    """

    context: Digest
    server: Server
    batch: Digest
    shares: Annotated[tuple[bytes, ...], Field(max_length=64)]


@checked(config=_STRICT, frozen=True)
class Report:
    """What a client uploads, which only the servers can open, each its own envelope.

    Attributes:
        context: of which round.
        client: its place in the roster.
        identity: drawn at random by the client.
        envelopes: one for each server.
    """

    context: Digest
    client: Client
    identity: Identity
    envelopes: Annotated[tuple[bytes, ...], Field(min_length=2, max_length=_MOST_SERVERS)]


@checked(config=_STRICT, frozen=True)
class Delivery:
    """One server's part of a report, as whoever relays it brings it.

    Attributes:
        context: of which round.
        client: its place in the roster.
        identity: of the report.
        envelope: that of this server.
    """

    context: Digest
    client: Client
    identity: Identity
    envelope: bytes


@checked(config=_STRICT, frozen=True)
class Received:
    """A server's own note that it holds a report.

    Attributes:
        context: of which round.
        client: its place in the roster.
        identity: of the report.
        envelope: SHA-256 of the envelope.
    """

    context: Digest
    client: Client
    identity: Identity
    envelope: Digest


@checked(config=_STRICT, frozen=True)
class Ended:
    """A server's own note that a round is over.

    Attributes:
        context: of which round.
        share: SHA-256 of the signed message with its noisy share; empty where it has none.
        why: what ended it then; empty where it has a share.
    """

    context: Digest
    share: Annotated[bytes, Field(max_length=32)]
    why: str


Spoken: TypeAlias = Commitment | Holding | Agreement | Reveal
"""What servers say to each other in a round."""

Message: TypeAlias = Announcement | Opening | Freeze | Spoken | NoisyShare | Report | Delivery | Received | Ended
_KINDS: dict[str, type[Any]] = {one.__name__: one for one in get_args(Message)}


def packed(message: Message) -> bytes:
    """A message as bytes."""
    kind = type(message).__name__
    return cast(bytes, msgpack.packb([kind, *(getattr(message, field.name) for field in fields(message))]))


def unpacked(body: bytes) -> Message:
    """The message of these bytes.

    Raises:
        MessageError: if they are none; it never tells what they hold.
    """
    try:
        kind, *values = cast(Iterable[Any], msgpack.unpackb(body, use_list=False))
        return _KINDS[kind](*values)
    except (ValueError, TypeError, KeyError, RecursionError, msgpack.UnpackException) as error:
        raise MessageError(f"bytes that are no message of Onlooker ({type(error).__name__}).") from None


@dataclass(frozen=True)
class Signed:
    """A message with the signature of who says it.

    Attributes:
        body: the message as `packed`.
        signature: 64 bytes, Ed25519.
    """

    body: bytes
    signature: bytes

    @staticmethod
    def by(key: Ed25519PrivateKey, message: Message) -> Signed:
        """A message, signed."""
        body = packed(message)
        return Signed(body, key.sign(digest(Use.MESSAGE, body)))

    def to_bytes(self) -> bytes:
        """Both, as they are sent and kept."""
        return cast(bytes, msgpack.packb([self.body, self.signature]))

    @staticmethod
    def from_bytes(given: bytes) -> Signed:
        """What `to_bytes` gave.

        Raises:
            MessageError: if it did not.
        """
        try:
            body, signature = cast(Iterable[Any], msgpack.unpackb(given, use_list=False))
        except (ValueError, TypeError, msgpack.UnpackException) as error:
            raise MessageError(f"bytes that are no signed message ({type(error).__name__}).") from None
        if not isinstance(body, bytes) or not isinstance(signature, bytes):
            raise MessageError("bytes that are no signed message.")
        return Signed(body, signature)

    def opened(self, key: bytes) -> Message:
        """The message, if the holder of this public key said it.

        Raises:
            MessageError: if not, or if it is no message.
        """
        self.check(key)
        return unpacked(self.body)

    def check(self, key: bytes) -> None:
        """Refuse what the holder of this public key, 32 bytes, did not say.

        Raises:
            MessageError: if so.
        """
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(self.signature, digest(Use.MESSAGE, self.body))
        except (InvalidSignature, ValueError):
            raise MessageError("a message that its sender did not sign.") from None
