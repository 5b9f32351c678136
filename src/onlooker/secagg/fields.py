"""What messages are made of: each field's type, size and range."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import ConfigDict, Field

IDENTITY_BYTES = 16
"""Of a report's identity."""
MOST_CLIENTS = 1_000_000
MOST_SERVERS = 1000
MOST_GROUPS = 1000
"""That one client is in."""
STRICT = ConfigDict(strict=True)

Digest: TypeAlias = Annotated[bytes, Field(min_length=32, max_length=32)]
Identity: TypeAlias = Annotated[bytes, Field(min_length=IDENTITY_BYTES, max_length=IDENTITY_BYTES)]
Signature: TypeAlias = Annotated[bytes, Field(min_length=64, max_length=64)]
Server: TypeAlias = Annotated[int, Field(ge=0, lt=MOST_SERVERS)]
Client: TypeAlias = Annotated[int, Field(ge=0, lt=MOST_CLIENTS)]
