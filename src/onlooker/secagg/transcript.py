"""What a server's own auditor can check of it: its log, whose words it holds, and that its noise is its secret's.

The auditor is trusted by this server alone: it is given the secret, the store and nothing of any other server, and so
sees what the server saw (`auditor:j` is an observer as `aux:j` is). Commitments prove where a server's noise came from,
not that its users were right to trust it: a server that adds none harms nobody's privacy but by its own share of the
noise, because every other honest server adds all of its own (docs/privacy.md, rule 7).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onlooker.errors import MessageError, OnlookerError
from onlooker.secagg.agreement import Context, Task
from onlooker.secagg.hashing import Use, digest
from onlooker.secagg.messages import Announcement, Ended, Freeze, NoisyShare, Received, Spoken, Witness
from onlooker.secagg.protocol import Phase, Round
from onlooker.secagg.replay import context_of, replayed
from onlooker.secagg.reports import each_from_bytes, signed_for, to_bytes
from onlooker.secagg.secret import Secret
from onlooker.secagg.store import Store
from onlooker.secagg.wire import Signed, unpacked
from onlooker.types import Integers


@dataclass(frozen=True)
class Verdict:
    """What an auditor finds in one round's log.

    Attributes:
        round: from 1.
        group: of the topology.
        phase: how far the round was.
        reports: how many were summed, or held where none were.
        faults: what is wrong, a sentence each; empty where all is as it should be.
        unchecked: what could not be checked, a sentence each.
    """

    round: int
    group: int
    phase: Phase
    reports: int
    faults: tuple[str, ...]
    unchecked: tuple[str, ...]


def verified(task: Task, server: int, secret: Secret, store: Store) -> Iterator[Verdict]:
    """Check a server's store, round by round.

    Args:
        task: what all parties have agreed on.
        server: whose store it is.
        secret: what it announced a commitment to.
        store: what it kept; it is only read.

    Raises:
        MessageError: if the store is not of this server, task and secret; or what opened a round is no message.
    """
    owner = store.owner()
    announced = None if owner is None else unpacked(owner)
    if not isinstance(announced, Announcement) or secret.announced(task, announced.envelope_key) != announced:
        raise MessageError(f"the store is none of aux:{server} in this task, or not of this secret.")
    states: dict[str, _After] = {}
    openings = [Signed.from_bytes(one) for one in store.openings()]
    contexts = [(one, context_of(task, unpacked(one.body))) for one in openings]
    for opening, context in sorted(contexts, key=lambda pair: pair[1].place):
        yield _Audit(context, server, secret, store, states).of(opening)


@dataclass(frozen=True)
class _After:
    """What the noise of later rounds of a sum rests on, after its last share."""

    round: int = 0
    state: Integers | None = None


class _Audit:
    """One round's, with what the noise of later rounds rests on."""

    def __init__(self, context: Context, server: int, secret: Secret, store: Store, states: dict[str, _After]) -> None:
        self._context, self._server, self._secret, self._store = context, server, secret, store
        self._states = states
        self._faults: list[str] = []
        self._unchecked: list[str] = []

    def of(self, opening: Signed) -> Verdict:
        """All of it."""
        context, chain = self._context, self._store.chain(self._context.digest)
        entries = [body for body, _ in chain]
        self._require(_is_signed(opening, context.task.coordinator), "the coordinator did not sign the opening")
        self._follow(chain)
        for number, entry in enumerate(entries, 1):
            self._signature(number, Signed.from_bytes(entry))
        try:
            round = replayed(context, self._server, self._secret, entries)
        except OnlookerError as error:
            self._faults.append(f"the log cannot have come about: {error}")
            return self._verdict(Phase.ABORTED, 0)
        if round.phase is Phase.SEALED:
            self._share(replayed(context, self._server, self._secret, entries[:-1]), entries[-1])
            self._witnesses()
        return self._verdict(round.phase, len(round.batch) if round.phase is Phase.SEALED else len(round.reports))

    def _verdict(self, phase: Phase, reports: int) -> Verdict:
        context = self._context
        return Verdict(context.round, context.group, phase, reports, tuple(self._faults), tuple(self._unchecked))

    def _require(self, holds: bool, fault: str) -> None:
        if not holds:
            self._faults.append(fault)

    def _follow(self, chain: Sequence[tuple[bytes, bytes]]) -> None:
        head = digest(Use.TRANSCRIPT, self._context.digest)
        for number, (body, kept) in enumerate(chain, 1):
            head = digest(Use.TRANSCRIPT, head, body)
            if head != kept:
                self._faults.append(f"the log was changed at its entry {number} or before")
                return

    def _signature(self, number: int, entry: Signed) -> None:
        """An entry is a note of the server's own, or signed by who said it."""
        task, message = self._context.task, unpacked(entry.body)
        match message:
            case Ended():
                return
            case Received():
                try:
                    signed_for(message, self._context, self._server)
                except (MessageError, IndexError):
                    self._faults.append(f"client:{message.client} did not sign the report of entry {number}")
                return
            case Freeze():
                speaker, key = "the coordinator", task.coordinator
            case _ if isinstance(message, Spoken) and message.server < len(task.servers):
                speaker, key = f"aux:{message.server}", task.servers[message.server]
            case _:
                self._faults.append(f"entry {number} is a {type(message).__name__}, which no server writes")
                return
        self._require(_is_signed(entry, key), f"{speaker} did not sign entry {number}")

    def _share(self, before: Round, last: bytes) -> None:
        """The noisy share is the one that the log ends with, of the batch agreed on, with the noise of the secret."""
        task, body = self._context.task, self._store.share(before.context.digest)
        ended = unpacked(Signed.from_bytes(last).body)
        if body is None or not isinstance(ended, Ended) or hashlib.sha256(body).digest() != ended.share:
            self._faults.append("the noisy share is not the one that the log ends with")
            return
        message = Signed.from_bytes(body)
        share = unpacked(message.body)
        self._require(_is_signed(message, task.servers[self._server]), "the server did not sign its share")
        if before.phase is not Phase.NOISING:
            self._faults.append(f"a share was sealed where the server {before.phase.value}")
        elif not isinstance(share, NoisyShare) or share.batch != before.batch_digest:
            self._faults.append("the share is of another batch than the one agreed on")
        else:
            self._noise(before, share.shares)

    def _noise(self, before: Round, shares: Sequence[bytes]) -> None:
        context, party = before.context, f"aux:{self._server}"
        source = self._secret.noise(context, before.batch_digest, before.coins)
        kept, nothing = self._store.sums(context.digest), [channel.empty().shares[0] for channel in context.channels]
        sums = nothing if kept is None else each_from_bytes(kept, context.channels)
        for channel, share, total in zip(context.channels, shares, sums, strict=True):
            before_it = self._states.get(channel.name, _After())
            state = channel.passed(before_it.state, range(before_it.round + 1, context.round))
            expected, after = channel.noised(total, party, context.round, source, state)
            self._states[channel.name] = _After(context.round, after)
            if kept is None:
                self._unchecked.append(f'the noise of "{channel.name}": the share before it was not kept')
            else:
                self._require(to_bytes(expected) == share, f'the noise of "{channel.name}" is not that of the secret')

    def _witnesses(self) -> None:
        context, head = self._context, self._store.head(self._context.digest)
        found = [Signed.from_bytes(one) for one in self._store.witnesses(self._server, context.digest)]
        expected = {j: Witness(context.digest, j, self._server, head) for j in range(len(context.task.servers))}
        del expected[self._server]
        for server, witness in expected.items():
            signed = [one for one in found if _is_signed(one, context.task.servers[server])]
            if not signed:
                self._unchecked.append(f"aux:{server} has not countersigned the log")
            elif unpacked(signed[0].body) != witness:
                self._faults.append(f"aux:{server} countersigned another log")


def _is_signed(message: Signed, key: bytes) -> bool:
    try:
        message.check(key)
    except MessageError:
        return False
    return True
