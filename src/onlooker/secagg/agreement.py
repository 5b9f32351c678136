"""What all parties of a task have agreed on, and the one sum that a message is about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy.channel import Channel
from onlooker.privacy.matrix import Correlated
from onlooker.privacy.summation import Shared
from onlooker.privacy.terms import Terms
from onlooker.secagg.hashing import Use, digest, number

KEY_BYTES = 32
"""Of a public Ed25519 key."""


@dataclass(frozen=True)
class Task:
    """One training, from its first round to its last.

    Attributes:
        identity: 32 bytes that no other task has.
        terms: all that decides its privacy; their sums go through auxiliary servers.
        coordinator: the coordinator's public signing key, 32 bytes, Ed25519.
        servers: that of each auxiliary server.
        roster: that of each client, in their order: whoever is not in it cannot report, and a batch counts these keys,
            so that nobody fills one with clients that do not exist.

    Raises:
        TermsError: if the keys are not one for each party, or two parties have the same.
    """

    identity: bytes
    terms: Terms
    coordinator: bytes
    servers: tuple[bytes, ...]
    roster: tuple[bytes, ...]

    def __post_init__(self) -> None:
        if len(self.identity) != KEY_BYTES:
            raise TermsError(f"task.identity has {len(self.identity)} bytes and must have {KEY_BYTES}.")
        keys = (self.coordinator, *self.servers, *self.roster)
        if any(len(key) != KEY_BYTES for key in keys):
            raise TermsError(f"each party's key must have {KEY_BYTES} bytes, those of a public Ed25519 key.")
        if len(set(keys)) != len(keys):
            raise TermsError("two parties have the same key, so one could speak for the other; give each its own.")
        if len(self.roster) != self.terms.clients:
            raise TermsError(
                f"the roster has {len(self.roster)} keys for data.clients = {self.terms.clients}; give one for each."
            )
        for channel in self.terms.channels:
            _refuse_what_servers_cannot_sum(channel, len(self.servers))

    @cached_property
    def digest(self) -> bytes:
        """What every message binds: 32 bytes."""
        keys = (self.coordinator, *self.servers, *self.roster)
        return digest(Use.TASK, self.identity, bytes.fromhex(self.terms.hash), number(len(self.servers)), *keys)

    @property
    def min_batch(self) -> int:
        """The fewest clients whose reports are summed."""
        (least,) = {_shared(channel).min_batch for channel in self.terms.channels}
        return least


@dataclass(frozen=True)
class Context:
    """One group's sums of one round, which are noised once: the first attempt at a context is its only one.

    Attributes:
        task: of which training.
        round: from 1.
        group: of the topology; 0 in a star.
        model: SHA-256 of the model that clients received.

    Raises:
        TermsError: if the task has no such round or group.
    """

    task: Task
    round: int
    group: int
    model: bytes

    def __post_init__(self) -> None:
        _check.at_least(1, round=self.round)
        _check.at_most(self.task.terms.rounds, round=self.round)
        _check.at_least(0, group=self.group)
        _check.at_most(self.task.terms.groups - 1, group=self.group)
        if len(self.model) != 32:
            raise TermsError(f"the digest of a model has 32 bytes, not {len(self.model)}.")

    @cached_property
    def digest(self) -> bytes:
        """What every message of the round binds: 32 bytes."""
        return digest(Use.CONTEXT, self.task.digest, self.place, self.model)

    @property
    def place(self) -> bytes:
        """Which round and group, whatever the model: what can be used once."""
        return number(self.round) + number(self.group)

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The sums."""
        return self.task.terms.channels_of(self.group)

    @property
    def is_correlated(self) -> bool:
        """True if the noise of a round rests on that of earlier ones."""
        return any(isinstance(channel.mechanism, Correlated) for channel in self.channels)

    @property
    def members(self) -> frozenset[int]:
        """The clients that may report."""
        return frozenset(self.task.terms.members(self.group))


def _shared(channel: Channel) -> Shared:
    assert isinstance(channel.summation, Shared)
    return channel.summation


def _refuse_what_servers_cannot_sum(channel: Channel, servers: int) -> None:
    if not isinstance(channel.summation, Shared) or channel.grid is None:
        raise TermsError(
            f'the sum "{channel.name}" has no shares, so auxiliary servers have nothing to do in this task.'
        )
    if channel.summation.count != servers:
        raise TermsError(
            f"{servers} servers have keys, where servers.count = {channel.summation.count}; give one each."
        )
