"""The sums of a round as its reports come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onlooker.privacy.shares import Ring


@dataclass
class Running:
    """The sums of a round as reports come: O(d) whatever their number.

    Attributes:
        round: of which round.
        clients: whose reports are in it.
        totals: of each channel.
    """

    round: int
    clients: set[int]
    totals: tuple[Ring, ...]

    def add(self, client: int, shares: Sequence[Ring]) -> None:
        """One more client's."""
        for total, share in zip(self.totals, shares, strict=True):
            np.add(total, share, out=total)
        self.clients.add(client)

    def remove(self, client: int, shares: Sequence[Ring]) -> None:
        """One that is not in the batch."""
        for total, share in zip(self.totals, shares, strict=True):
            np.subtract(total, share, out=total)
        self.clients.remove(client)
