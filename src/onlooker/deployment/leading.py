"""What a coordinator's round stands on: a conductor and the loop in which it runs, and what it draws by itself."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from onlooker.deployment.conductor import Conductor
from onlooker.deployment.coordinator_file import OwnCoordinator
from onlooker.deployment.ends import Ends
from onlooker.deployment.http import Link
from onlooker.errors import MessageError, ProtocolError
from onlooker.folder import RunFolder
from onlooker.privacy.random import Stream
from onlooker.secagg.hashing import Use, derived, number
from onlooker.secagg.messages import Report

Result = TypeVar("Result")
_AT_ONCE = 8
"""Reports on their way to the servers."""
_ENDS = "ends.jsonl"


@dataclass(frozen=True)
class Lead:
    """The conductor, and the loop in which it runs."""

    conductor: Conductor
    runner: asyncio.Runner

    def __call__(self, act: Coroutine[Any, Any, Result]) -> Result:
        """What an act of the conductor comes to."""
        return self.runner.run(act)


@contextlib.contextmanager
def conducting(own: OwnCoordinator, folder: RunFolder) -> Generator[Lead]:
    """A conductor for as long as a run lasts, which keeps in the run folder what it must not forget.

    Raises:
        FolderError: if what was kept there is gone, or cannot be read.
    """
    addresses = own.shared.addresses
    ends = Ends(folder.path / _ENDS, len(addresses))
    ends.require(len(folder.metrics()))
    links = [Link(f"aux:{server}", address, own.credentials) for server, address in enumerate(addresses)]
    conductor = Conductor(own.shared.task, own.signing_key, links, own.patience, ends)
    with asyncio.Runner() as runner:
        try:
            yield Lead(conductor, runner)
        finally:
            for link in links:
                runner.run(link.close())


async def brought(conductor: Conductor, reports: Sequence[Report], say: Callable[[str], None]) -> list[Report]:
    """Those of some reports that every server took."""
    gate = asyncio.Semaphore(_AT_ONCE)

    async def bring(report: Report) -> Report | None:
        async with gate:
            try:
                await conductor.deliver(report)
            except (ProtocolError, MessageError) as error:
                say(f"the report of client:{report.client} is left out: {error}")
                return None
            return report

    return [one for one in await asyncio.gather(*map(bring, reports)) if one is not None]


@dataclass(frozen=True)
class Drawing:
    """Where a coordinator's draws come from: its key, for this task alone."""

    key: bytes
    task: bytes
    repeatable = True

    def stream(self, purpose: str, round: int = 0, party: str = "") -> Stream:
        """As `Source.stream`."""
        return Stream(derived(self.key, Use.COHORT, self.task, purpose.encode(), number(round), party.encode()))
