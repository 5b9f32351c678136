"""What parties say to each other: each kind checked whole, for type, size and range, before anybody acts on it."""

from __future__ import annotations

import itertools
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field
from pydantic.dataclasses import dataclass as checked

from onlooker.secagg.fields import (
    MOST_CLIENTS,
    MOST_SERVERS,
    STRICT,
    Client,
    Digest,
    Identity,
    Server,
    Signature,
)
from onlooker.secagg.invitation import Greeting, Invitation


def _in_order(reports: tuple[tuple[int, bytes], ...]) -> tuple[tuple[int, bytes], ...]:
    clients = [client for client, _ in reports]
    if any(after <= before for before, after in itertools.pairwise(clients)):
        raise ValueError("clients must be named once each, in their order")
    return reports


@checked(config=STRICT, frozen=True)
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


@checked(config=STRICT, frozen=True)
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


@checked(config=STRICT, frozen=True)
class Freeze:
    """The coordinator's word that a server takes no more reports."""

    context: Digest


@checked(config=STRICT, frozen=True)
class Commitment:
    """A server's commitment to its coin of a round, before the batch is known."""

    context: Digest
    server: Server
    coin: Digest


@checked(config=STRICT, frozen=True)
class Holding:
    """The reports that a server holds, after which it takes no more in this round.

    Attributes:
        context: of which round.
        server: who.
        reports: each client with the identity of its report, in the order of clients.
    """

    context: Digest
    server: Server
    reports: Annotated[tuple[tuple[Client, Identity], ...], Field(max_length=MOST_CLIENTS), AfterValidator(_in_order)]


@checked(config=STRICT, frozen=True)
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


@checked(config=STRICT, frozen=True)
class Reveal:
    """A server's coin, once all agree on the batch."""

    context: Digest
    server: Server
    coin: Digest
    nonce: Digest


@checked(config=STRICT, frozen=True)
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


@checked(config=STRICT, frozen=True)
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
    envelopes: Annotated[tuple[bytes, ...], Field(min_length=2, max_length=MOST_SERVERS)]


@checked(config=STRICT, frozen=True)
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


@checked(config=STRICT, frozen=True)
class Received:
    """A server's own note that it holds a report.

    Attributes:
        context: of which round.
        client: its place in the roster.
        identity: of the report.
        sealed: SHA-256 of what the client sealed for this server.
        signature: the client's, over that.
    """

    context: Digest
    client: Client
    identity: Identity
    sealed: Digest
    signature: Signature


@checked(config=STRICT, frozen=True)
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


@checked(config=STRICT, frozen=True)
class Closing:
    """A server's word that its log of a round has come to its end, with its share sealed.

    Attributes:
        context: of which round.
        server: who.
        head: the hash of the whole log (`store.Store.head`).
    """

    context: Digest
    server: Server
    head: Digest


@checked(config=STRICT, frozen=True)
class Witness:
    """A server's countersignature of another's `Closing`: it has heard of this end of the log, and of no other.

    Attributes:
        context: of which round.
        server: who signs this.
        of: whose log it is.
        head: the hash of it.
    """

    context: Digest
    server: Server
    of: Server
    head: Digest


@checked(config=STRICT, frozen=True)
class Heard:
    """All that a party has ever heard from a server, for that one when it starts (`memory.Memory.recall`).

    Attributes:
        task: the digest of the task.
        party: who heard it: "coordinator" or "aux:j".
        of: from which server.
        nonce: drawn by that server as it started, so that what was true of an earlier start is not told again.
        words: each with its signature, as they were sent.
    """

    task: Digest
    party: Annotated[str, Field(max_length=16)]
    of: Server
    nonce: Digest
    words: tuple[bytes, ...]


Spoken: TypeAlias = Commitment | Holding | Agreement | Reveal
"""What servers say to each other in a round."""

Note: TypeAlias = Received | Ended
"""What a server writes into its own log."""

Message: TypeAlias = (
    Announcement
    | Opening
    | Invitation
    | Greeting
    | Freeze
    | Report
    | Delivery
    | Spoken
    | NoisyShare
    | Note
    | Closing
    | Witness
    | Heard
)
