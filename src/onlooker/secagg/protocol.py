"""One round of an auxiliary server, as a table of what it waits for and what it says next.

Nothing is sent, stored or drawn here: a `Round` is a value, what is heard makes another one, and `advanced` says what
a server does next. So a server that is started again hears what it had written down, in the same order, and is where
it was; and it says the same bytes, because they follow from the round and from its secret.

The six rounds of the protocol, with what each is for:

0. Each server has a secret and, from it, a coin for the round.
1. Commitments to the coins are exchanged, before anybody knows the batch: nobody can choose a coin that suits it.
2. Reports come in until the coordinator says that it is enough. Servers tell each other whose they hold; the batch is
   what all of them hold, and never changes again. They agree on its digest, and then show their coins.
3. From all coins follows a salt that no server could have aimed at.
4. From the salt and its secret follows a server's noise, which no other party can know.
5. Each server adds its noise to its share of the sum and hands that to the coordinator: the same bytes however often
   it is asked.

Whatever goes wrong before the fifth ends the round for good, and its place is used up: two noisy shares of one place
could be subtracted from each other (reference: FedDecouple, phases 1 to 3, with the repairs of docs/decisions/010).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TypeAlias

from onlooker.errors import ProtocolError
from onlooker.secagg.agreement import Context
from onlooker.secagg.hashing import Use, digest, number
from onlooker.secagg.messages import Agreement, Commitment, Delivery, Holding, Received, Reveal, Spoken
from onlooker.secagg.secret import Secret, is_kept

Reports: TypeAlias = Mapping[int, bytes]
"""Each client with the identity of its report."""


class Phase(Enum):
    """How far a round is."""

    COLLECTING = "takes reports"
    HOLDING = "has told what it holds"
    AGREEING = "has told which reports all hold"
    REVEALING = "has shown its coin"
    NOISING = "knows all coins, and can seal its share"
    SEALED = "has sealed its share"
    ABORTED = "has ended without a share"


@dataclass(frozen=True)
class Round:
    """What one server knows of one round.

    Attributes:
        context: which round.
        server: who knows it.
        phase: how far it is.
        reports: those that it holds.
        frozen: True once the coordinator has said that it is enough.
        commitments: of each server, its own included, as the others.
        holdings: of each server.
        agreements: of each server.
        reveals: of each server.
        why: what ended the round; empty unless it was aborted.
    """

    context: Context
    server: int
    phase: Phase = Phase.COLLECTING
    reports: Reports = field(default_factory=dict[int, bytes])
    frozen: bool = False
    commitments: Mapping[int, Commitment] = field(default_factory=dict[int, Commitment])
    holdings: Mapping[int, Holding] = field(default_factory=dict[int, Holding])
    agreements: Mapping[int, Agreement] = field(default_factory=dict[int, Agreement])
    reveals: Mapping[int, Reveal] = field(default_factory=dict[int, Reveal])
    why: str = ""

    @cached_property
    def batch(self) -> Reports:
        """The reports that all servers hold, once all have said what they hold."""
        first, *others = (dict(one.reports) for one in self.holdings.values())
        return {client: name for client, name in first.items() if all(one.get(client) == name for one in others)}

    @cached_property
    def batch_digest(self) -> bytes:
        """What a batch is agreed on by."""
        named = [number(client) + name for client, name in sorted(self.batch.items())]
        return digest(Use.BATCH, self.context.digest, *named)

    @property
    def coins(self) -> list[bytes]:
        """Of each server, in their order."""
        return [self.reveals[server].coin for server in range(len(self.context.task.servers))]

    def all_of(self, heard: Mapping[int, object]) -> bool:
        """True if every server has said it."""
        return len(heard) == len(self.context.task.servers)


_UNTIL_HOLDING = (Phase.COLLECTING, Phase.HOLDING)
_UNTIL_AGREEING = (*_UNTIL_HOLDING, Phase.AGREEING)
_UNTIL_REVEALING = (*_UNTIL_AGREEING, Phase.REVEALING)

_HEARD: dict[type[Spoken], tuple[str, tuple[Phase, ...]]] = {
    # A server may be ahead of another by a step, so each thing may be heard before it is waited for.
    Commitment: ("commitments", _UNTIL_HOLDING),
    Holding: ("holdings", _UNTIL_HOLDING),
    Agreement: ("agreements", _UNTIL_AGREEING),
    Reveal: ("reveals", _UNTIL_REVEALING),
}
"""In which field it is kept, and in which phases it may be new."""


def reported(round: Round, report: Delivery | Received) -> Round:
    """The round with one more report, whose envelope was opened and checked; the same one if it was there already.

    Raises:
        ProtocolError: if the client is no member, has another report in this round, or the round takes no more.
    """
    client = report.client
    if client not in round.context.members:
        raise ProtocolError(f"client:{client} has no part in this sum.")
    known = round.reports.get(client)
    if known == report.identity:
        return round
    if known is not None:
        raise ProtocolError(f"client:{client} has another report in round {round.context.round}.")
    if round.phase is not Phase.COLLECTING or round.frozen:
        raise ProtocolError(f"round {round.context.round} takes no more reports: this server {round.phase.value}.")
    return replace(round, reports={**round.reports, client: report.identity})


def heard(round: Round, message: Spoken) -> Round:
    """The round after a server has said something.

    A server that says two things in one place ends the round: nobody can know which of them the others have heard.

    Raises:
        ProtocolError: if it comes too late to be new.
    """
    name, phases = _HEARD[type(message)]
    before: Mapping[int, Spoken] = getattr(round, name)
    known = before.get(message.server)
    if known == message or round.phase is Phase.ABORTED:
        return round
    if known is not None and round.phase is not Phase.SEALED:
        return aborted(round, f"aux:{message.server} said two different things ({type(message).__name__})")
    if known is not None or round.phase not in phases:
        raise ProtocolError(f"a {type(message).__name__} of aux:{message.server} that is too late.")
    return replace(round, **{name: {**before, message.server: message}})


def frozen(round: Round) -> Round:
    """The round after the coordinator said that it is enough."""
    return round if round.frozen else replace(round, frozen=True)


def sealed(round: Round) -> Round:
    """The round whose noisy share is safe on disk.

    Raises:
        ProtocolError: if it cannot have one.
    """
    if round.phase not in (Phase.NOISING, Phase.SEALED):
        raise ProtocolError(f"a share of round {round.context.round}, where this server {round.phase.value}.")
    return replace(round, phase=Phase.SEALED)


def aborted(round: Round, why: str) -> Round:
    """The round ended, unless its share was sealed."""
    ended = round.phase in (Phase.SEALED, Phase.ABORTED)
    return round if ended else replace(round, phase=Phase.ABORTED, why=why)


@dataclass(frozen=True)
class _Step:
    """What a server waits for in a phase, why it may have to give up then, and what it says as it goes on."""

    phase: Phase
    ready: Callable[[Round], bool]
    refuses: Callable[[Round], str]
    says: Callable[[Round, Secret], Spoken | None]
    then: Phase


def _too_few(round: Round) -> str:
    least = round.context.task.min_batch
    return f"{len(round.batch)} reports are held by all, below servers.min-batch = {least}" * (len(round.batch) < least)


def _disagree(round: Round) -> str:
    return "the servers do not agree on the batch" * (
        {one.batch for one in round.agreements.values()} != {round.batch_digest}
    )


def _broken(round: Round) -> str:
    liars = [f"aux:{j}" for j, reveal in round.reveals.items() if not is_kept(round.commitments[j], reveal)]
    return f"{', '.join(liars)} showed a coin that was not committed to" * bool(liars)


def _nothing(round: Round) -> str:
    del round
    return ""


TABLE: dict[Phase, _Step] = {
    step.phase: step
    for step in (
        _Step(
            Phase.COLLECTING,
            ready=lambda round: round.frozen and round.all_of(round.commitments),
            refuses=_nothing,
            says=lambda round, secret: Holding(
                round.context.digest, round.server, tuple(sorted(round.reports.items()))
            ),
            then=Phase.HOLDING,
        ),
        _Step(
            Phase.HOLDING,
            ready=lambda round: round.all_of(round.holdings),
            refuses=_too_few,
            says=lambda round, secret: Agreement(round.context.digest, round.server, round.batch_digest),
            then=Phase.AGREEING,
        ),
        _Step(
            Phase.AGREEING,
            ready=lambda round: round.all_of(round.agreements),
            refuses=_disagree,
            says=lambda round, secret: secret.reveal(round.context),
            then=Phase.REVEALING,
        ),
        _Step(
            Phase.REVEALING,
            ready=lambda round: round.all_of(round.reveals),
            refuses=_broken,
            says=lambda round, secret: None,
            then=Phase.NOISING,
        ),
    )
}
"""Every transition of a round that is not hearing something; NOISING ends by `sealed`, and anything by `aborted`."""


def begun(context: Context, server: int, secret: Secret) -> Round:
    """A round whose server has said its commitment, and nothing else."""
    return Round(context, server, commitments={server: secret.committed(context)})


def advanced(round: Round, secret: Secret) -> tuple[Round, tuple[Spoken, ...]]:
    """The round as far as it goes by itself, and what its server says on the way, which it has then heard too."""
    said: list[Spoken] = []
    while (step := TABLE.get(round.phase)) is not None and step.ready(round):
        if why := step.refuses(round):
            return aborted(round, why), tuple(said)
        word = step.says(round, secret)
        if word is not None:
            said.append(word)
            round = heard(round, word)
        round = replace(round, phase=step.then)
    return round, tuple(said)
