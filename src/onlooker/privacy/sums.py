"""What a sum is made of on its way: a client's report, the parties' running sums, and what is sealed of them.

None of their values is ever printed.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from onlooker.privacy.shares import combine
from onlooker.privacy.summation import Ring
from onlooker.types import Integers


@dataclass(frozen=True)
class Report:
    """What one client sends in one round: one share for each summing party. Its values are never printed."""

    client: int
    shares: tuple[Ring, ...]

    def __repr__(self) -> str:
        return f"Report(client:{self.client}, shares {len(self.shares)} x {len(self.shares[0])})"


@dataclass
class Sums:
    """The running sum of each summing party, not yet noisy: for `Channel.seal` and for nobody else.

    Attributes:
        shares: `Ring[d]` of each party.
        reports: how many went in.
        room: where `Channel.gather` encodes one row after the other, `Ring[d]`; None until it does. No sum of anything.
    """

    shares: tuple[Ring, ...]
    reports: int = 0
    room: Ring | None = None

    def __repr__(self) -> str:
        return f"Sums({len(self.shares)} x {len(self.shares[0])})"


@dataclass(frozen=True)
class Sealed:
    """The noisy share of each summing party, fixed: these bytes may leave, and no others for this round.

    Attributes:
        shares: `Ring[d]` of each party.
        reports: how many reports went in, which is nobody's business but the summing parties'.
        states: where noise is correlated, what each party has to remember of its own, `int64[k, d]`, and to tell
            nobody; else empty. It must be safe before the shares leave, for later noise takes this one back.
    """

    shares: tuple[Ring, ...]
    reports: int
    states: tuple[Integers, ...] = ()

    @property
    def digest(self) -> str:
        """SHA-256 of the sum of the shares: equal digests are one release, different ones are two (rule 10b).

        How the sum is cut is left out, for it says nothing: given their sum, shares under fresh masks are as good as
        uniform, whatever went in. So a round may be played again with its shares elided (`Channel.gather`).
        """
        total = self.shares[0] if len(self.shares) == 1 else combine(self.shares)
        return hashlib.sha256(np.ascontiguousarray(total).view(np.uint8).data).hexdigest()

    def __repr__(self) -> str:
        return f"Sealed({len(self.shares)} x {len(self.shares[0])})"
