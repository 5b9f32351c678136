"""A client's report: each row cut into shares, each server's share in an envelope of its own.

Server 0 receives the row less all masks, as it is summed; each other server a key of 32 bytes, from which it expands
its masks itself. So an upload is about as long as the row.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from onlooker.errors import MessageError
from onlooker.privacy.channel import Channel
from onlooker.privacy.random import Source, Stream
from onlooker.privacy.shares import Ring, move_by_mask
from onlooker.secagg.agreement import Context
from onlooker.secagg.envelope import Address, Checked, EnvelopeKey, check, seal
from onlooker.secagg.fields import IDENTITY_BYTES
from onlooker.secagg.hashing import Use, derived, number
from onlooker.secagg.messages import Announcement, Delivery, Received, Report
from onlooker.types import Row

_KEY_BYTES = 32


def report(
    context: Context,
    client: int,
    rows: Mapping[str, Row],
    announcements: Sequence[Announcement],
    signing_key: Ed25519PrivateKey,
    noise: Source,
) -> Report:
    """A report, which is made once for a client and a round, kept, and delivered as often as need be.

    Guarantee: each row is bounded by its channel. All envelopes but one say nothing of it; where clients add the noise,
    neither do all of them beyond the noisy row.

    Args:
        context: of which round.
        client: its place in the roster.
        rows: for each sum of the context its row, `float64[d]`, by the name of the channel.
        announcements: of each server, in their order, whose signatures were checked.
        signing_key: the client's own.
        noise: where the client's own noise comes from, where clients add it.
    """
    identity = secrets.token_bytes(IDENTITY_BYTES)
    keys = [secrets.token_bytes(_KEY_BYTES) for _ in announcements[1:]]
    firsts: list[bytes] = []
    for channel in context.channels:
        encoded = channel.encode(rows[channel.name], client)
        source = _ClientSource(context, identity, keys, noise)
        shares = channel.shard(encoded, client, context.round, source).shares
        firsts.append(to_bytes(shares[0]))
    envelopes = [
        seal(content, Address(context, server, client, identity), announcement.envelope_key, signing_key)
        for server, (content, announcement) in enumerate(zip((b"".join(firsts), *keys), announcements, strict=True))
    ]
    return Report(context.digest, client, identity, tuple(envelopes))


def deliveries(report: Report) -> tuple[Delivery, ...]:
    """A report as each server is brought it."""
    return tuple(Delivery(report.context, report.client, report.identity, one) for one in report.envelopes)


def received(delivery: Delivery, context: Context, server: int) -> Received:
    """A server's note that it holds a delivery, with the client's signature for its auditor.

    Raises:
        MessageError: if the client did not sign it for this server and round.
    """
    checked = check(delivery.envelope, _address(delivery, context, server))
    return Received(delivery.context, delivery.client, delivery.identity, checked.sealed, checked.signature)


def opened(delivery: Delivery, context: Context, server: int, key: EnvelopeKey) -> bytes:
    """What is in an envelope that its client signed: for server 0 its shares, for another a key.

    Raises:
        MessageError: if the envelope does not open, or it holds something else.
    """
    content = key.open(delivery.envelope, _address(delivery, context, server))
    expected = _KEY_BYTES if server else bytes_of(context.channels)
    if len(content) != expected:
        raise MessageError(
            f"a report of client:{delivery.client} with {len(content)} bytes in the place of {expected}."
        )
    return content


def move_by_share(
    by: np.ufunc, totals: Sequence[Ring], content: bytes, identity: bytes, context: Context, server: int
) -> None:
    """Add a server's share of each sum to its running sums, or take it away.

    Args:
        by: `np.add` or `np.subtract`.
        totals: `uint32[d]` or `uint64[d]` for each channel, changed in place.
        content: what was in the envelope.
        identity: of the report.
        context: of which round.
        server: which.
    """
    if server:
        for channel, total in zip(context.channels, totals, strict=True):
            move_by_mask(by, total, _mask(content, context, identity, server, channel.name))
        return
    for total, share in zip(totals, each_from_bytes(content, context.channels), strict=True):
        by(total, share, out=total)


def signed_for(note: Received, context: Context, server: int) -> None:
    """Refuse a note of a report that its client did not sign, as the server's auditor does.

    Raises:
        MessageError: if so.
    """
    Checked(note.sealed, note.signature).verify(_address(note, context, server))


def _address(report: Delivery | Received, context: Context, server: int) -> Address:
    return Address(context, server, report.client, report.identity)


def bytes_of(channels: Sequence[Channel]) -> int:
    """How many bytes the shares of some sums have together."""
    return sum(channel.size * _width(channel) for channel in channels)


def each_from_bytes(content: bytes, channels: Sequence[Channel]) -> tuple[Ring, ...]:
    """The share of each sum, out of the bytes of all of them one after the other.

    Raises:
        MessageError: if they are too few.
    """
    shares: list[Ring] = []
    rest = memoryview(content)  # of which a part is no copy
    for channel in channels:
        size = bytes_of([channel])
        shares.append(from_bytes(rest[:size], channel))
        rest = rest[size:]
    return tuple(shares)


def to_bytes(share: Ring) -> bytes:
    """The elements of a share, the lowest byte of each first."""
    return share.astype(share.dtype.newbyteorder("<"), copy=False).tobytes()


def from_bytes(content: bytes | memoryview, channel: Channel) -> Ring:
    """The share of these bytes.

    Raises:
        MessageError: if they are too many or too few for the channel.
    """
    width = _width(channel)
    if len(content) != bytes_of([channel]):
        raise MessageError(f"a share of {len(content)} bytes in the place of {bytes_of([channel])}.")
    return np.frombuffer(content, dtype=f"<u{width}").astype(f"u{width}", copy=False)


def _width(channel: Channel) -> int:
    assert channel.grid is not None
    return channel.grid.ring_bits // 8


def _mask(key: bytes, context: Context, identity: bytes, server: int, channel: str) -> Stream:
    return Stream(derived(key, Use.MASK, context.digest, identity, number(server), channel.encode()))


class _ClientSource:
    """The streams of a report: its masks from the servers' keys, its noise from wherever the client has it from."""

    repeatable = False

    def __init__(self, context: Context, identity: bytes, keys: Sequence[bytes], noise: Source) -> None:
        self._context, self._identity, self._keys, self._noise = context, identity, keys, noise

    def stream(self, purpose: str, round: int = 0, party: str = "") -> Stream:
        """As `Source.stream`, for the names that `Channel.shard` asks for."""
        kind, _, channel = purpose.partition("/")
        if kind != "mask":
            return self._noise.stream(purpose, round, party)
        server = int(party.rpartition(":")[2])
        return _mask(self._keys[server - 1], self._context, self._identity, server, channel)
