"""Messages as bytes, and the bytes with the signature of who says them.

A message is MessagePack of its kind and its fields. What is signed is the bytes as they are sent, which name the
context: a signature for one round is none for another.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, cast, get_args

import msgpack
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from onlooker.errors import MessageError
from onlooker.secagg.hashing import Use, digest
from onlooker.secagg.messages import Message

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
