"""An auxiliary server at work: it answers the coordinator, and tells the other servers whatever they have not heard.

All that a server knows is in its `Aggregator`, which one thread alone touches. For every other server runs one task
that tells it what is new, again and again until it was heard: a message that is lost, or a server that is gone for a
while, costs time and nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.applications import Starlette

from onlooker.deployment.http import Answer, Link, Pauses, application, each, many
from onlooker.errors import MessageError, OnlookerError, RestoredError, UnreachableError
from onlooker.secagg.aggregator import Aggregator
from onlooker.secagg.agreement import Task
from onlooker.secagg.protocol import Phase
from onlooker.secagg.reports import bytes_of
from onlooker.secagg.wire import Signed

Result = TypeVar("Result")
_SOONEST, _LATEST = 0.05, 2.0
"""Seconds until something that was not heard is said again, at first and in the end."""
_END = 256
"""Bytes of the end of a round's log, signed, with room to spare."""
_OVER = (Phase.SEALED, Phase.ABORTED)


class Service:
    """One server's.

    Args:
        task: what all parties have agreed on.
        server: which of the servers.
        start: makes its aggregator; called in the thread that will use it.
        links: to every other server, by its number.
        patience: seconds from the end of a round's reports after which it is given up, if others keep it waiting.

    Attributes:
        ended: set when it must not go on.
        why: for what reason then.

    Raises:
        OnlookerError: as `start`.
    """

    def __init__(
        self, task: Task, server: int, start: Callable[[], Aggregator], links: dict[int, Link], patience: float
    ) -> None:
        self._task, self._server, self._links, self._patience = task, server, links, patience
        self._alone = ThreadPoolExecutor(1)
        self._aggregator = self._alone.submit(start).result()
        self._news = {other: asyncio.Event() for other in links}
        self._told: dict[int, set[bytes]] = {other: set() for other in links}
        self.ended = asyncio.Event()
        self.why: BaseException | None = None

    def application(self) -> Starlette:
        """What it answers."""
        answers: dict[str, Answer] = {
            "/1/announcement": self._announcement,
            "/1/nonce": self._nonce,
            "/1/recall": self._recall,
            "/1/heard": self._heard,
            "/1/open": self._opened,
            "/1/report": self._report,
            "/1/freeze": self._freeze,
            "/1/words": self._words,
            "/1/countersign": self._countersign,
            "/1/phase": self._phase,
            "/1/share": self._share,
        }
        return application(answers, largest(self._task), self._running)

    @asynccontextmanager
    async def _running(self, app: Starlette) -> AsyncGenerator[None]:
        del app
        tasks = [asyncio.create_task(self._tell(other)) for other in self._links]
        tasks.append(asyncio.create_task(self._watch()))
        for task in tasks:
            task.add_done_callback(self._fell)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for link in self._links.values():
                await link.close()
            self._alone.shutdown()

    def _fell(self, task: asyncio.Task[None]) -> None:
        """A server that can no longer tell others what is new must not look as if it served."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.why = self.why or error
            self.ended.set()

    async def _do(self, act: Callable[[], Result]) -> Result:
        """In the thread of the aggregator, one after the other."""
        try:
            return await asyncio.get_running_loop().run_in_executor(self._alone, act)
        except RestoredError as error:
            self.why = error
            self.ended.set()
            raise

    # -- What it answers --------------------------------------------------------------------------------------------

    async def _announcement(self, body: bytes) -> bytes:
        del body
        return (await self._do(self._aggregator.announcement)).to_bytes()

    async def _nonce(self, body: bytes) -> bytes:
        del body
        return self._aggregator.memory.nonce

    async def _recall(self, body: bytes) -> bytes:
        await self._do(lambda: self._aggregator.memory.recall(Signed.from_bytes(body)))
        self._say()
        return b""

    async def _heard(self, body: bytes) -> bytes:
        other, nonce = body[:8], body[8:]
        return (await self._do(lambda: self._aggregator.memory.heard_from(_number(other), nonce))).to_bytes()

    async def _opened(self, body: bytes) -> bytes:
        commitment = await self._do(lambda: self._aggregator.open(Signed.from_bytes(body)))
        self._say()
        return commitment.to_bytes()

    async def _report(self, body: bytes) -> bytes:
        await self._do(lambda: self._aggregator.report(body))
        return b""

    async def _freeze(self, body: bytes) -> bytes:
        await self._do(lambda: self._aggregator.freeze(Signed.from_bytes(body)))
        self._say()
        return b""

    async def _words(self, body: bytes) -> bytes:
        for word in each(body):
            await self._do(lambda word=word: self._aggregator.hear(Signed.from_bytes(word)))
        self._say()
        return b""

    async def _countersign(self, body: bytes) -> bytes:
        return (await self._do(lambda: self._aggregator.memory.countersign(Signed.from_bytes(body)))).to_bytes()

    async def _phase(self, body: bytes) -> bytes:
        phase, why = await self._do(lambda: self._aggregator.phase(body))
        return many([phase.name.encode(), why.encode()])

    async def _share(self, body: bytes) -> bytes:
        share = await self._do(lambda: self._aggregator.share(body))
        closing = await self._do(lambda: self._aggregator.memory.closing(body))
        self._say()
        return many([share.to_bytes(), closing.to_bytes()])

    # -- What it says by itself -------------------------------------------------------------------------------------

    def _say(self) -> None:
        for news in self._news.values():
            news.set()

    async def _tell(self, other: int) -> None:
        """Tell another server all that is new, for ever."""
        link, news, pauses = self._links[other], self._news[other], Pauses(_SOONEST, _LATEST)
        remembered = False
        while True:
            try:
                if not remembered:
                    await self._remember(other)
                    remembered = True
                news.clear()
                await self._tell_news(other, link)
                pauses.reset()
                await news.wait()
            except RestoredError:
                raise
            except OnlookerError:  # not there, or not yet where it can hear this: it will be
                await pauses.next()

    async def _remember(self, other: int) -> None:
        nonce = self._aggregator.memory.nonce
        told = await self._links[other].ask("/1/heard", self._server.to_bytes(8, "big") + nonce)
        await self._do(lambda: self._aggregator.memory.recall(Signed.from_bytes(told)))

    async def _tell_news(self, other: int, link: Link) -> None:
        failed: OnlookerError | None = None
        for context in await self._do(self._aggregator.contexts):
            if context in self._told[other]:
                continue
            try:
                await self._tell_of(context, other, link)
            except (UnreachableError, RestoredError):
                raise
            except OnlookerError as error:  # of this round; others must not wait for it
                failed = error
        if failed is not None:
            raise failed

    async def _tell_of(self, context: bytes, other: int, link: Link) -> None:
        told = self._told[other]
        phase, _ = await self._do(lambda: self._aggregator.phase(context))  # before its words: they end with it
        words = [one.to_bytes() for one in await self._do(lambda: self._aggregator.memory.said(context))]
        new = [word for word in words if word not in told]
        if new:
            await link.ask("/1/words", many(new))
            told.update(new)
        if phase is Phase.SEALED:
            closing = await self._do(lambda: self._aggregator.memory.closing(context))
            witness = await link.ask("/1/countersign", closing.to_bytes())
            await self._do(lambda: self._aggregator.memory.keep(Signed.from_bytes(witness)))
        if phase in _OVER:
            told.difference_update(words)
            told.add(context)

    async def _watch(self) -> None:
        """Give up rounds whose reports have ended and that do not come to an end themselves."""
        since: dict[bytes, float] = {}
        while True:
            await asyncio.sleep(min(1.0, self._patience / 4))
            for context in await self._do(self._aggregator.contexts):
                if not await self._do(lambda c=context: self._aggregator.waits(c)):
                    since.pop(context, None)
                elif time.monotonic() - since.setdefault(context, time.monotonic()) > self._patience:
                    why = f"not over {self._patience:g} seconds after its last report"
                    await self._do(lambda c=context, why=why: self._aggregator.give_up(c, why))


def _number(body: bytes) -> int:
    if len(body) != 8:
        raise MessageError("a server's number of other than eight bytes.")
    return int.from_bytes(body, "big")


def largest(task: Task) -> int:
    """The most bytes of a request: a client's report, whom a server holds reports of, or the ends of all logs."""
    shares = max(bytes_of(task.terms.channels_of(group)) for group in range(task.terms.groups))
    return 2**16 + shares + 128 * task.terms.clients + _END * task.terms.rounds * task.terms.groups
