"""The coordinator's half of a round through auxiliary servers: it relays what it cannot read, and sums their shares.

Whatever it says may be said again, so it says everything again until it was heard or its patience ends.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from onlooker.deployment.ends import Ends
from onlooker.deployment.http import Link, Pauses, each
from onlooker.errors import ProtocolError, UnreachableError, WaitingError
from onlooker.privacy.sums import Sealed
from onlooker.secagg import coordinator
from onlooker.secagg.agreement import Context, Task
from onlooker.secagg.memory import heard
from onlooker.secagg.messages import Report
from onlooker.secagg.protocol import Phase
from onlooker.secagg.reports import deliveries
from onlooker.secagg.wire import Signed, packed

Result = TypeVar("Result")
_SOONEST, _LATEST = 0.02, 1.0
"""Seconds until something is asked again, at first and in the end."""


class Conductor:
    """A coordinator of one task.

    Args:
        task: what all parties have agreed on.
        key: its own, which signs.
        links: to each server, in their order.
        patience: seconds that a server may take until it is given up for this round.
        ends: what it has heard of the ends of servers' logs.
    """

    def __init__(
        self,
        task: Task,
        key: Ed25519PrivateKey,
        links: Sequence[Link],
        patience: float,
        ends: Ends,
    ) -> None:
        self._task, self._key, self._links, self._patience, self._ends = task, key, links, patience, ends
        self._greeted: dict[int, bytes] = {}

    async def announcements(self) -> list[Signed]:
        """Every server's keys for the task, as each signed them, for clients.

        Raises:
            UnreachableError: if one does not answer in time.
            MessageError: if one announces none of its own.
        """
        bodies = await self._all(lambda server: self._ask(server, "/1/announcement"))
        messages = [Signed.from_bytes(one) for one in bodies]
        coordinator.announced(self._task, messages)
        return messages

    async def open(self, context: Context) -> None:
        """Begin a round everywhere.

        Raises:
            UnreachableError: if a server does not answer in time.
            ProtocolError: if one refuses, for this place was used.
        """
        message = coordinator.opening(context, self._key).to_bytes()
        await self._all(lambda server: self._ask(server, "/1/open", message))

    async def deliver(self, report: Report) -> None:
        """Bring each server its part of a client's report.

        Raises:
            UnreachableError: if one does not answer in time.
            ProtocolError: if one does not take it.
            MessageError: if it is none.
        """
        parts = [packed(one) for one in deliveries(report)]
        await self._all(lambda server: self._ask(server, "/1/report", parts[server]))

    async def finish(self, context: Context, reports: int) -> dict[str, Sealed]:
        """End a round's reports, and wait for the noisy sums, by the names of their channels.

        Args:
            context: of which round.
            reports: how many all servers took.

        Raises:
            UnreachableError: if a server does not answer in time.
            ProtocolError: if the round ended without a sum, and why; or is not over in time.
        """
        message = coordinator.freeze(context, self._key).to_bytes()
        await self._all(lambda server: self._ask(server, "/1/freeze", message))
        shares = await self._all(lambda server: self._share(server, context))
        return coordinator.sealed(context, shares, reports)

    async def greet(self, server: int) -> None:
        """Tell a server what it was heard to say, which it waits for whenever it was started; and once for each start.

        Raises:
            UnreachableError: if it does not answer.
        """
        nonce = await self._links[server].ask("/1/nonce")
        if nonce != self._greeted.get(server):
            told = heard(self._task, "coordinator", server, nonce, self._ends.of(server), self._key)
            await self._links[server].ask("/1/recall", told.to_bytes())
            self._greeted[server] = nonce

    async def _share(self, server: int, context: Context) -> Signed:
        pauses = Pauses(_SOONEST, _LATEST, self._patience)
        while (phase := await self._phase(server, context)) not in (Phase.NOISING, Phase.SEALED):
            if not await pauses.next():
                raise ProtocolError(f"round {context.round} is not over in time: aux:{server} {phase.value}.")
        share, closing = (Signed.from_bytes(one) for one in each(await self._ask(server, "/1/share", context.digest)))
        self._ends.add(server, closing)
        return share

    async def _phase(self, server: int, context: Context) -> Phase:
        name, why = each(await self._ask(server, "/1/phase", context.digest))
        phase = Phase[name.decode()]
        if phase is Phase.ABORTED:
            raise ProtocolError(f"round {context.round} ended without a sum: {why.decode()}.")
        return phase

    async def _ask(self, server: int, path: str, body: bytes = b"") -> bytes:
        """Ask until it is answered; a server that was started in between is told what it waits for."""
        pauses = Pauses(_SOONEST, _LATEST, self._patience)
        while True:
            try:
                return await self._links[server].ask(path, body)
            except (WaitingError, UnreachableError):
                if not await pauses.next():
                    raise
            with contextlib.suppress(UnreachableError):
                await self.greet(server)

    async def _all(self, act: Callable[[int], Awaitable[Result]]) -> list[Result]:
        return list(await asyncio.gather(*(act(server) for server in range(len(self._links)))))
