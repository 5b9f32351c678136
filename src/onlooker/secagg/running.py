"""The sums of a round as its reports come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onlooker.privacy.shares import Ring
from onlooker.secagg.agreement import Context
from onlooker.secagg.reports import move_by_share


@dataclass
class Running:
    """The sums of a round as reports come: O(d) whatever their number.

    Attributes:
        context: of which round.
        server: whose sums.
        clients: whose reports are in it.
        totals: of each channel.
    """

    context: Context
    server: int
    clients: set[int]
    totals: tuple[Ring, ...]

    @staticmethod
    def nothing(context: Context, server: int) -> Running:
        """Before the first report."""
        return Running(context, server, set(), tuple(one.empty().shares[server] for one in context.channels))

    def add(self, client: int, identity: bytes, content: bytes) -> None:
        """One more report, by what was in its envelope."""
        move_by_share(np.add, self.totals, content, identity, self.context, self.server)
        self.clients.add(client)

    def remove(self, client: int, identity: bytes, content: bytes) -> None:
        """One that is not in the batch."""
        move_by_share(np.subtract, self.totals, content, identity, self.context, self.server)
        self.clients.remove(client)
