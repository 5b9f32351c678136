"""An auxiliary server of one task: what it hears becomes durable, and then what it says.

Nothing here knows a network. Every method may be called again with the same bytes and says the same again; every
message is checked to be signed by who may say it, and to be about a round that exists.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from onlooker.errors import MessageError, ProtocolError
from onlooker.privacy.channel import Channel
from onlooker.privacy.shares import Ring
from onlooker.secagg import protocol
from onlooker.secagg.agreement import Context, Task
from onlooker.secagg.envelope import EnvelopeKey
from onlooker.secagg.memory import Memory, another, no_share, spoken_in
from onlooker.secagg.messages import (
    Delivery,
    Ended,
    Freeze,
    Message,
    NoisyShare,
    Received,
)
from onlooker.secagg.protocol import Phase, Round
from onlooker.secagg.replay import context_of, replayed
from onlooker.secagg.reports import opened, received, to_bytes
from onlooker.secagg.running import Running
from onlooker.secagg.secret import Secret
from onlooker.secagg.store import Store
from onlooker.secagg.wire import Signed, packed, unpacked
from onlooker.types import Integers


class Aggregator:
    """One server in one task.

    Args:
        task: what all parties have agreed on.
        server: which of the servers.
        signing_key: its long-term key, which signs and does nothing else.
        envelope_key: that of this task, which opens envelopes.
        secret: that of this task, where its noise comes from.
        store: what it must not forget; of one who was started before, what it has not forgotten.
        audited: of how many of the last rounds the share before its noise is kept for the server's own auditor; None
            for all.

    Attributes:
        memory: what it has said, as itself and others remember it. A server that was started does nothing until every
            other party has told it what it heard (`Memory.recall`).

    Guarantee: at most one noisy share leaves for a place (a round and a group), the same bytes however often it is
    asked, whatever it hears, and also if it is ended and started again at any moment, as long as the store keeps what
    it was given. The share is of at least `min-batch` clients of the roster, and has the noise of its channel.
    """

    def __init__(
        self,
        task: Task,
        server: int,
        signing_key: Ed25519PrivateKey,
        envelope_key: EnvelopeKey,
        secret: Secret,
        store: Store,
        audited: int | None = None,
    ) -> None:
        self._task, self._server, self._audited = task, server, audited
        self._signing_key, self._envelope_key, self._secret, self._store = signing_key, envelope_key, secret, store
        self._rounds: dict[bytes, Round] = {}
        self._running: dict[bytes, Running] = {}
        if not store.claim(packed(secret.announced(task, envelope_key.public))):
            raise ProtocolError(
                f"the store of aux:{server} is of another task, or was made with other secrets; give each task its own."
            )
        for opening in store.openings():
            context = context_of(task, unpacked(Signed.from_bytes(opening).body))
            self._rounds[context.digest] = replayed(context, server, secret, store.entries(context.digest))
        self.memory = Memory(task, server, signing_key, store, self._rounds)

    def announcement(self) -> Signed:
        """Its keys for the task, for everybody."""
        return self._sign(self._secret.announced(self._task, self._envelope_key.public))

    def open(self, message: Signed) -> Signed:
        """Begin a round that the coordinator opens: the commitment, for the other servers.

        Raises:
            MessageError: if the coordinator did not say it.
            ProtocolError: if this round was opened with another model.
            TermsError: if the task has no such round.
        """
        self.memory.require()
        opening = message.opened(self._task.coordinator)
        context = context_of(self._task, opening)
        if not self._store.begin(context.place, context.digest, message.to_bytes()):
            raise ProtocolError(
                f"round {context.round} was opened before with another model, and is opened once; take the next one."
            )
        if context.digest not in self._rounds:
            self._rounds[context.digest] = protocol.begun(context, self._server, self._secret)
        return self._sign(self._rounds[context.digest].commitments[self._server])

    def report(self, body: bytes) -> None:
        """Take a client's report, as the relay brings it.

        Raises:
            MessageError: if it is none, or not for here.
            ProtocolError: if its round does not take it.
        """
        self.memory.require()
        delivery = unpacked(body)
        if not isinstance(delivery, Delivery):
            raise MessageError(f"a {type(delivery).__name__} where a report belongs.")
        round = self._round(delivery.context)
        after = protocol.reported(round, delivery)
        if after is round:
            return
        note = received(delivery, round.context, self._server)
        content = opened(delivery, round.context, self._server, self._envelope_key)
        self._store.append(delivery.context, _note(note), (delivery.client, delivery.envelope))
        self._rounds[delivery.context] = after
        self._running_of(round.context).add(delivery.client, delivery.identity, content)

    def freeze(self, message: Signed) -> tuple[Signed, ...]:
        """Take no more reports; what it says, for the other servers.

        Raises:
            MessageError: if the coordinator did not say it.
            ProtocolError: if it knows of no such round.
        """
        self.memory.require()
        freeze = message.opened(self._task.coordinator)
        if not isinstance(freeze, Freeze):
            raise MessageError(f"a {type(freeze).__name__} where the end of a round's reports belongs.")
        return self._after(freeze.context, message, protocol.frozen)

    def hear(self, message: Signed) -> tuple[Signed, ...]:
        """Listen to another server; what this one says then, for all others.

        Raises:
            MessageError: if that server did not say it.
            ProtocolError: if it may not be said now.
        """
        self.memory.require()
        spoken = spoken_in(unpacked(message.body))
        message.check(another(self._task, self._server, spoken.server))
        return self._after(spoken.context, message, lambda round: protocol.heard(round, spoken))

    def share(self, context: bytes) -> Signed:
        """Its share of the sums with its noise, for the coordinator.

        Raises:
            ProtocolError: if the round is not so far, or has ended without one.
        """
        self.memory.require()
        round = self._round(context)
        kept = self._store.share(context)
        if kept is not None:
            return Signed.from_bytes(kept)
        if round.phase is not Phase.NOISING:
            raise ProtocolError(no_share(round))
        last = self._last_sealed(round.context.group)
        if last > round.context.round and round.context.is_correlated:
            self._put(context, protocol.aborted(round, f"the noise of round {last} was made without it"))
            raise ProtocolError(no_share(self._round(context)))
        totals = self._sums(round)
        share, states = self._noisy_share(round, totals)
        message = self._sign(share)
        whole, sums = message.to_bytes(), b"".join(to_bytes(total) for total in totals)
        note = _note(Ended(context, hashlib.sha256(whole).digest(), ""))
        self._store.seal(context, whole, note, sums, states, self._audited)
        self._rounds[context] = protocol.sealed(round)
        self._running.pop(context, None)
        return message

    def give_up(self, context: bytes, why: str) -> None:
        """End a round that has taken too long; its place is used up. One whose share was sealed stays as it is."""
        self._put(context, protocol.aborted(self._round(context), why))

    def contexts(self) -> tuple[bytes, ...]:
        """The digests of all rounds that were opened here."""
        return tuple(self._rounds)

    def waits(self, context: bytes) -> bool:
        """True if a round takes no more reports, and other servers must say something before its share can be had."""
        round = self._round(context)
        return round.frozen and round.phase not in (Phase.NOISING, Phase.SEALED, Phase.ABORTED)

    def phase(self, context: bytes) -> tuple[Phase, str]:
        """How far a round is, and why it ended if it was aborted."""
        round = self._round(context)
        return round.phase, round.why

    def _after(self, context: bytes, message: Signed, change: Callable[[Round], Round]) -> tuple[Signed, ...]:
        """Hear something, keep it, and say what follows."""
        round = self._round(context)
        after = change(round)
        if after is round:
            return ()
        self._store.append(context, message.to_bytes())
        advanced, said = protocol.advanced(after, self._secret)
        self._put(context, advanced)
        return tuple(self._sign(word) for word in said)

    def _put(self, context: bytes, round: Round) -> None:
        if round.phase is Phase.ABORTED and self._rounds[context].phase is not Phase.ABORTED:
            self._store.end(context, _note(Ended(context, b"", round.why)))
            self._running.pop(context, None)
        self._rounds[context] = round

    def _noisy_share(self, round: Round, totals: Sequence[Ring]) -> tuple[NoisyShare, dict[str, bytes]]:
        context, party = round.context, f"aux:{self._server}"
        noise = self._secret.noise(context, round.batch_digest, round.coins)
        before = self._store.states(channel.name for channel in context.channels)
        missed = range(self._last_sealed(context.group) + 1, context.round)
        shares: list[bytes] = []
        states: dict[str, bytes] = {}
        for channel, total in zip(context.channels, totals, strict=True):
            state = channel.passed(_state(before.get(channel.name), channel), missed)
            noisy, after = channel.noised(total, party, context.round, noise, state)
            shares.append(to_bytes(noisy))
            if after is not None:
                states[channel.name] = after.astype("<i8").tobytes()
        return NoisyShare(context.digest, self._server, round.batch_digest, tuple(shares)), states

    def _last_sealed(self, group: int) -> int:
        """The last round of a group whose share is sealed; 0 before the first."""
        sealed = (one.context for one in self._rounds.values() if one.phase is Phase.SEALED)
        return max((one.round for one in sealed if one.group == group), default=0)

    def _sums(self, round: Round) -> Sequence[Ring]:
        """The sum of this server's shares of each channel.

        Most reports were added as they came; what came before the server was started is added now, and what not all
        servers hold is taken away again.
        """
        context = round.context
        running = self._running_of(context)
        for client in sorted(running.clients ^ set(round.batch)):
            identity = round.reports[client]
            delivery = Delivery(context.digest, client, identity, self._store.envelope(context.digest, client))
            content = opened(delivery, context, self._server, self._envelope_key)
            move = running.remove if client in running.clients else running.add
            move(client, identity, content)
        return running.totals

    def _running_of(self, context: Context) -> Running:
        """The sums of a context as they grow; those of one round at a time, however many are opened."""
        if any(one.context.round != context.round for one in self._running.values()):
            self._running.clear()
        if context.digest not in self._running:
            self._running[context.digest] = Running.nothing(context, self._server)
        return self._running[context.digest]

    def _round(self, context: bytes) -> Round:
        if context not in self._rounds:
            raise ProtocolError("a message of a round that was not opened here.")
        return self._rounds[context]

    def _sign(self, message: Message) -> Signed:
        return Signed.by(self._signing_key, message)


def _note(message: Received | Ended) -> bytes:
    """An entry of one's own, which nobody signs."""
    return Signed(packed(message), b"").to_bytes()


def _state(kept: bytes | None, channel: Channel) -> Integers | None:
    return None if kept is None else np.frombuffer(kept, dtype="<i8").astype(np.int64).reshape(-1, channel.size)
