"""What the coordinator says to the servers, and what it makes of their shares; it can read no report."""

from __future__ import annotations

from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from onlooker.errors import MessageError
from onlooker.privacy.sums import Sealed
from onlooker.secagg.agreement import Context, Task
from onlooker.secagg.messages import Announcement, Freeze, NoisyShare, Opening
from onlooker.secagg.reports import from_bytes
from onlooker.secagg.wire import Signed


def opening(context: Context, key: Ed25519PrivateKey) -> Signed:
    """A round begins."""
    return Signed.by(key, Opening(context.task.digest, context.round, context.group, context.model))


def freeze(context: Context, key: Ed25519PrivateKey) -> Signed:
    """Its reports are enough."""
    return Signed.by(key, Freeze(context.digest))


def announced(task: Task, messages: Sequence[Signed]) -> list[Announcement]:
    """The servers' keys for a task, in their order, as every client checks them before it seals a report.

    Raises:
        MessageError: if one is missing, or not signed by its server, or for another task.
    """
    found: list[Announcement] = []
    for server, (message, key) in enumerate(zip(_each(messages, task), task.servers, strict=True)):
        announcement = message.opened(key)
        if not isinstance(announcement, Announcement) or announcement.task != task.digest:
            raise MessageError(f"aux:{server} announced no keys for this task.")
        if announcement.server != server:
            raise MessageError(f"aux:{server} announced the keys of aux:{announcement.server}.")
        found.append(announcement)
    return found


def sealed(context: Context, messages: Sequence[Signed], reports: int) -> dict[str, Sealed]:
    """The noisy sums of a round by the names of their channels, out of every server's share.

    Args:
        context: of which round.
        messages: `NoisyShare`s, in the order of servers.
        reports: how many were in the batch, as whoever relays them knows.

    Raises:
        MessageError: if a server did not sign its own, or they are not shares of one batch.
    """
    shares: list[NoisyShare] = []
    for server, (message, key) in enumerate(zip(_each(messages, context.task), context.task.servers, strict=True)):
        share = message.opened(key)
        if not isinstance(share, NoisyShare) or share.context != context.digest or share.server != server:
            raise MessageError(f"aux:{server} gave no share of its own of this round.")
        if len(share.shares) != len(context.channels):
            raise MessageError(f"aux:{server} gave {len(share.shares)} sums in the place of {len(context.channels)}.")
        shares.append(share)
    if len({share.batch for share in shares}) != 1:
        raise MessageError("the servers' shares are of different batches, so their sum means nothing.")
    return {
        channel.name: Sealed(tuple(from_bytes(share.shares[place], channel) for share in shares), reports)
        for place, channel in enumerate(context.channels)
    }


def _each(messages: Sequence[Signed], task: Task) -> Sequence[Signed]:
    if len(messages) != len(task.servers):
        raise MessageError(f"{len(messages)} messages of {len(task.servers)} servers.")
    return messages
