"""A round out of a server's log: it hears again what it heard, in the same order, and is where it was."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from onlooker.errors import MessageError
from onlooker.secagg import protocol
from onlooker.secagg.agreement import Context, Task
from onlooker.secagg.messages import Agreement, Commitment, Ended, Freeze, Holding, Message, Opening, Received, Reveal
from onlooker.secagg.protocol import Phase, Round
from onlooker.secagg.secret import Secret
from onlooker.secagg.wire import Signed, unpacked


def context_of(task: Task, opening: Message) -> Context:
    """The round that the coordinator opens.

    Raises:
        MessageError: if it opens none of this task.
        TermsError: if the task has no such round.
    """
    if not isinstance(opening, Opening) or opening.task != task.digest:
        raise MessageError("an opening of another task, or none.")
    return Context(task, opening.round, opening.group, opening.model)


def replayed(context: Context, server: int, secret: Secret, entries: Iterable[bytes]) -> Round:
    """A round as its log tells it.

    Raises:
        MessageError: if an entry is none.
        ProtocolError: if an entry could not have come where it stands.
    """
    round = protocol.begun(context, server, secret)
    for body in entries:
        round, _ = protocol.advanced(_again(round, unpacked(Signed.from_bytes(body).body)), secret)
    return round


def _again(round: Round, entry: Message) -> Round:
    """A round after one more entry of its log, which was checked when it was written."""
    match entry:
        case Received():
            return protocol.reported(round, entry)
        case Freeze():
            return protocol.frozen(round)
        case Commitment() | Holding() | Agreement() | Reveal():
            return protocol.heard(round, entry)
        case Ended():
            return replace(round, phase=Phase.SEALED) if entry.share else protocol.aborted(round, entry.why)
        case _:
            raise MessageError(f"a log with a {type(entry).__name__}, which no server writes.")
