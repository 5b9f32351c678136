"""What passes between a client and whoever brings it its invitations."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass as checked

from onlooker.secagg.fields import MOST_GROUPS, MOST_SERVERS, STRICT, Client, Digest


@checked(config=STRICT, frozen=True)
class Invitation:
    """All that a client needs for a round, as whoever carries it brings it; what decides is signed by its own sender.

    Attributes:
        openings: the coordinator's signed `Opening` of each of the client's groups, all of one round.
        models: the public part of each group's model, `float32[p]`, the lowest byte of each first.
        announcements: every server's signed `Announcement`.
    """

    openings: Annotated[tuple[bytes, ...], Field(min_length=1, max_length=MOST_GROUPS)]
    models: Annotated[tuple[bytes, ...], Field(min_length=1, max_length=MOST_GROUPS)]
    announcements: Annotated[tuple[bytes, ...], Field(min_length=2, max_length=MOST_SERVERS)]


@checked(config=STRICT, frozen=True)
class Greeting:
    """Who waits behind a connection, as it says itself: whom to bring which invitation. Nothing rests on it.

    Attributes:
        task: the digest of the task.
        client: its place in the roster.
    """

    task: Digest
    client: Client
