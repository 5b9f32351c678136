"""Where randomness comes from: secret streams for life, repeatable streams for study.

A `Stream` is the AES-256 key stream in counter mode, which is what every coin, mask and noise in Onlooker is made
of; nothing that touches privacy ever uses the generators of numpy or torch. A `Source` hands out one stream for each
(purpose, round, party), so that what one party draws never depends on how many workers there are, on the order in
which clients run, or on how a process was started.
"""

from __future__ import annotations

import hashlib
import secrets
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF, HKDFExpand
from numpy.typing import NDArray

_ZERO_COUNTER = bytes(16)
_ZEROS = memoryview(bytes(2**17))
"""What is encrypted, so that what comes out is the key stream itself; small enough to stay in a cache."""


class Stream:
    """A stream of uniform bits that only the holder of its 256-bit key can tell from noise.

    Two streams of one key give the same bits. The key is never printed.

    >>> Stream(bytes(32)).integers(2).tolist()
    [9910523521560253916, 9736928157321283757]
    """

    def __init__(self, key: bytes) -> None:
        if len(key) != 32:
            raise ValueError(f"a stream needs a key of 32 bytes, not {len(key)}")
        self._encryptor = Cipher(algorithms.AES256(key), modes.CTR(_ZERO_COUNTER)).encryptor()

    def __repr__(self) -> str:
        return "Stream(secret)"

    def bytes(self, count: int) -> bytes:
        """The next `count` bytes."""
        return self._encryptor.update(bytes(count))

    def fill(self, words: NDArray[Any]) -> None:
        """Overwrite words of any size, contiguous, with the next bytes: the lowest of a word first, on every machine.

        >>> words = np.zeros(2, dtype=np.uint32)
        >>> Stream(bytes(32)).fill(words)
        >>> words.tolist()
        [2025887196, 2307473570]
        """
        room = words.view(np.uint8).data
        for start in range(0, len(room), len(_ZEROS)):
            part = room[start : start + len(_ZEROS)]
            self._encryptor.update_into(_ZEROS[: len(part)], part)
        if sys.byteorder == "big":
            words.byteswap(inplace=True)

    def integers(self, count: int) -> NDArray[np.uint64]:
        """The next `count` integers, `uint64[count]`, each uniform on 0 to 2^64 - 1."""
        drawn = np.empty(count, dtype=np.uint64)
        self.fill(drawn)
        return drawn

    def below(self, bound: int) -> int:
        """One integer, exactly uniform on 0 to bound - 1 (by rejection); `bound` is at most 2^64."""
        return next(self._each_below((bound,)))

    def places(self, bound: int, count: int) -> NDArray[np.int64]:
        """`int64[count]`, each exactly uniform on 0 to bound - 1 (by rejection); `bound` is at most 2^63.

        >>> Stream(bytes(32)).places(10, 3).tolist()
        [6, 7, 9]
        """
        drawn = self.integers(count)
        if rest := 2**64 % bound:
            while (outside := drawn >= np.uint64(2**64 - rest)).any():
                drawn[outside] = self.integers(int(outside.sum()))
        return (drawn % np.uint64(bound)).astype(np.int64)

    def coins(self, rate: float | NDArray[np.float64], count: int) -> NDArray[np.bool_]:
        """`bool[count]`, each true with probability floor(2^64 rate) / 2^64: exact down to a rate of 2^-11.

        Below that the probability is too small by less than 2^-64, never too large: an amplification that is priced
        at `rate` holds for what is drawn. Coin i is made of integer i; where all must be true, none are drawn.

        Args:
            rate: one for all, or `float64[count]`.
            count: how many.
        """
        certain = np.asarray(rate) >= 1
        if certain.all():
            return np.ones(count, dtype=bool)
        edges = np.where(certain, 0.0, rate) * 2.0**64
        return (self.integers(count) < edges.astype(np.uint64)) | certain

    def subset(self, size: int, of: int) -> tuple[int, ...]:
        """A uniform subset of `size` among 0 to `of` - 1, sorted (the first steps of a Fisher-Yates shuffle).

        Only the places that a step has moved are remembered, so that the time is that of `size`, whatever `of` is.
        """
        moved: dict[int, int] = {}
        chosen: list[int] = []
        for place, step in enumerate(self._each_below(range(of, of - size, -1))):
            other = place + step
            chosen.append(moved.get(other, other))
            moved[other] = moved.get(place, place)
        return tuple(sorted(chosen))

    def _each_below(self, bounds: Sequence[int]) -> Iterator[int]:
        """For each bound an integer, exactly uniform below it; a word that is rejected gives way to the next."""
        words = self.integers(len(bounds)).tolist()[::-1]
        for bound in bounds:
            limit = 2**64 - 2**64 % bound
            while (word := words.pop() if words else int(self.integers(1)[0])) >= limit:
                continue
            yield word % bound

    def seed(self) -> int:
        """A 63-bit seed for a generator that decides nothing private: batch order, initial weights."""
        return int(self.integers(1)[0] >> np.uint64(1))


class Source(Protocol):
    """Who hands out streams, one for each purpose, round and party."""

    @property
    def repeatable(self) -> bool:
        """True if the same names give the same bits again: fit for a study, never for a deployment."""
        ...

    def stream(self, purpose: str, round: int = 0, party: str = "") -> Stream:
        """The stream of one party for one purpose in one round."""
        ...


@dataclass(frozen=True)
class Seeded:
    """Streams derived from one public seed, for a study that must be repeatable (privacy.md rule 9).

    Whoever knows the seed knows the noise: a run of this source protects nobody, and reports of it say so.

    >>> study = Seeded(42)
    >>> study.stream("noise", 3, "aux:0").bytes(4) == study.stream("noise", 3, "aux:0").bytes(4)
    True
    >>> study.stream("noise", 3, "aux:0").bytes(4) == study.stream("noise", 3, "aux:1").bytes(4)
    False
    """

    seed: int
    repeatable: bool = True

    def stream(self, purpose: str, round: int = 0, party: str = "") -> Stream:
        """HKDF-SHA256 over the seed, with the purpose, round and party as context."""
        context = "|".join(("onlooker/study", purpose, str(round), party)).encode()
        return Stream(HKDFExpand(algorithm=SHA256(), length=32, info=context).derive(self._extracted))

    @cached_property
    def _extracted(self) -> bytes:
        """HKDF's first half, which is the same for every stream."""
        root = hashlib.sha256(f"onlooker/seed|{self.seed}".encode()).digest()
        return HKDF.extract(SHA256(), None, root)


@dataclass(frozen=True)
class System:
    """Streams keyed afresh by the operating system at every call: what a deployment must use."""

    repeatable: bool = False

    def stream(self, purpose: str, round: int = 0, party: str = "") -> Stream:
        """A stream that nobody can draw again; the names are ignored."""
        del purpose, round, party
        return Stream(secrets.token_bytes(32))
