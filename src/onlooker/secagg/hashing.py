"""Hashes and keys, each for one use: whatever is hashed here names its use first, and where each of its parts ends."""

from __future__ import annotations

import hashlib
import hmac
from enum import Enum

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF


class Use(Enum):
    """What a hash or a key is for. No two uses can meet in one value, for the name is hashed along."""

    TASK = "onlooker/1/task"
    CONTEXT = "onlooker/1/context"
    ENVELOPE = "onlooker/1/envelope"
    REPORT = "onlooker/1/report"
    MASK = "onlooker/1/mask"
    SECRET = "onlooker/1/secret"
    COIN = "onlooker/1/coin"
    NONCE = "onlooker/1/nonce"
    COMMITMENT = "onlooker/1/commitment"
    BATCH = "onlooker/1/batch"
    SALT = "onlooker/1/salt"
    NOISE = "onlooker/1/noise"
    MESSAGE = "onlooker/1/message"
    TRANSCRIPT = "onlooker/1/transcript"
    COHORT = "onlooker/1/cohort"


def digest(use: Use, *parts: bytes) -> bytes:
    """SHA-256 of the use and the parts, each after its length in eight bytes, so that no two lists of parts are alike.

    >>> digest(Use.TASK, b"ab", b"c") == digest(Use.TASK, b"a", b"bc")
    False
    """
    return hashlib.sha256(_joined(use, parts)).digest()


def keyed(key: bytes, use: Use, *parts: bytes) -> bytes:
    """HMAC-SHA-256 of the same: what only a holder of the key can compute."""
    return hmac.digest(key, _joined(use, parts), "sha256")


def derived(key: bytes, use: Use, *parts: bytes, salt: bytes | None = None) -> bytes:
    """A key of 32 bytes by HKDF-SHA-256, for this use and these parts alone."""
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=_joined(use, parts)).derive(key)


def number(value: int) -> bytes:
    """An integer from 0 to 2^64 - 1 as eight bytes, the highest first."""
    return value.to_bytes(8, "big")


def _joined(use: Use, parts: tuple[bytes, ...]) -> bytes:
    named = (use.value.encode(), *parts)
    return b"".join(number(len(part)) + part for part in named)
