"""What a server has said, as it remembers it itself and as others do.

A server says the same about a round however often it is asked, as long as its store is the newest. One that was put
back from a backup would say things again that it does not know it has said. So whoever starts asks all others first,
and what they have is signed by itself: nobody can make it stop with something that it never said.

The end of each log is countersigned by all other servers, once, so that a server cannot show its auditor another one.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from onlooker.errors import MessageError, ProtocolError, RestoredError, WaitingError
from onlooker.secagg.agreement import Task
from onlooker.secagg.messages import (
    Agreement,
    Closing,
    Commitment,
    Heard,
    Holding,
    Message,
    Reveal,
    Spoken,
    Witness,
)
from onlooker.secagg.protocol import Phase, Round
from onlooker.secagg.store import Store
from onlooker.secagg.wire import Signed, unpacked

NONCE_BYTES = 32
"""Of what a server draws as it starts."""


class Memory:
    """One server's.

    Args:
        task: of which training.
        server: whose.
        signing_key: its own.
        store: what it must not forget.
        rounds: where it is in each, by the digest of the context; only read.

    Attributes:
        nonce: 32 bytes of this start alone.
    """

    def __init__(
        self, task: Task, server: int, signing_key: Ed25519PrivateKey, store: Store, rounds: Mapping[bytes, Round]
    ) -> None:
        self._task, self._server, self._signing_key, self._store = task, server, signing_key, store
        self._rounds = rounds
        others = (f"aux:{other}" for other in range(len(task.servers)) if other != server)
        self._unheard = {"coordinator", *others}
        self.nonce = secrets.token_bytes(NONCE_BYTES)

    @property
    def waits_for(self) -> frozenset[str]:
        """The parties that have not yet told it what they have heard from it."""
        return frozenset(self._unheard)

    def require(self) -> None:
        """Refuse to go on before all have.

        Raises:
            WaitingError: if one has not.
        """
        if self._unheard:
            raise WaitingError(
                f"aux:{self._server} was started, and waits until {', '.join(sorted(self._unheard))} told it what was "
                "heard from it before."
            )

    def said(self, context: bytes) -> tuple[Signed, ...]:
        """All that it has said to other servers in a round that was opened; nothing of any other."""
        if context not in self._rounds:
            return ()
        round = self._rounds[context]
        kinds = (round.commitments, round.holdings, round.agreements, round.reveals)
        return tuple(Signed.by(self._signing_key, kind[self._server]) for kind in kinds if self._server in kind)

    def heard_from(self, server: int, nonce: bytes) -> Signed:
        """All that it has ever heard from another server, and what both countersigned, for that one to `recall`.

        Args:
            server: which.
            nonce: its own, of this start.

        Raises:
            MessageError: if it is no other server, or this is no nonce.
        """
        another(self._task, self._server, server)
        if len(nonce) != NONCE_BYTES:
            raise MessageError(f"a nonce of {len(nonce)} bytes, which must be {NONCE_BYTES}.")
        logs = [Signed.from_bytes(entry) for context in self._rounds for entry in self._store.entries(context)]
        words = [one for one in logs if isinstance(word := unpacked(one.body), Spoken) and word.server == server]
        kept = [Signed.from_bytes(one) for owner in (server, self._server) for one in self._store.witnesses(owner)]
        words += [one for one in kept if _is_between(unpacked(one.body), server, self._server)]
        return heard(self._task, f"aux:{self._server}", server, nonce, words, self._signing_key)

    def recall(self, message: Signed) -> None:
        """Hear from another party what it has heard from this server, and refuse to go on if some of it is forgotten.

        Raises:
            MessageError: if that party did not say it, or of another start; or one of the words is none of this server.
            RestoredError: if this server has forgotten one: its store was put back from a backup.
        """
        told = unpacked(message.body)
        if not isinstance(told, Heard) or told.task != self._task.digest or told.of != self._server:
            raise MessageError(f"nothing that was heard from aux:{self._server} in this task.")
        message.check(self._key_of(told.party))
        if told.nonce != self.nonce:
            raise MessageError(f"what {told.party} told aux:{self._server} when it was started another time.")
        if not all(self._knows(told.party, Signed.from_bytes(word)) for word in told.words):
            raise RestoredError(
                f"aux:{self._server} has forgotten what {told.party} heard from it, so its store is an old copy; it "
                "needs new secrets and a new task, for this one cannot go on without saying something twice."
            )
        self._unheard.discard(told.party)

    def closing(self, context: bytes) -> Signed:
        """The end of the log of a round whose share is sealed, for the other servers to countersign.

        Raises:
            ProtocolError: if it is not.
        """
        round = self._round(context)
        if round.phase is not Phase.SEALED:
            raise ProtocolError(no_share(round))
        return Signed.by(self._signing_key, Closing(context, self._server, self._store.head(context)))

    def countersign(self, message: Signed) -> Signed:
        """Countersign the end of another server's log; of each round one end, whatever is asked.

        Raises:
            MessageError: if that server did not say it.
            ProtocolError: if another end was countersigned, or the round is not known here.
        """
        self.require()
        closing = unpacked(message.body)
        if not isinstance(closing, Closing):
            raise MessageError(f"a {type(closing).__name__} where the end of a log belongs.")
        message.check(another(self._task, self._server, closing.server))
        self._round(closing.context)
        witness = Signed.by(self._signing_key, Witness(closing.context, self._server, closing.server, closing.head))
        kept = self._store.countersign(closing.context, closing.server, self._server, witness.to_bytes())
        if kept != witness.to_bytes():
            raise ProtocolError(f"aux:{closing.server} ends its log of a round in a second way.")
        return witness

    def keep(self, message: Signed) -> None:
        """Keep another server's countersignature, for one's own auditor.

        Raises:
            MessageError: if that server did not say it, or of another log.
        """
        witness = unpacked(message.body)
        if not isinstance(witness, Witness) or witness.of != self._server:
            raise MessageError("no countersignature of a log of this server.")
        message.check(another(self._task, self._server, witness.server))
        if witness.context not in self._rounds or witness.head != self._store.head(witness.context):
            raise MessageError(f"aux:{witness.server} countersigned another log than this server's.")
        self._store.countersign(witness.context, self._server, witness.server, message.to_bytes())

    def _knows(self, party: str, word: Signed) -> bool:
        """True if what another party has heard from this server is what it remembers to have said."""
        message = unpacked(word.body)
        if isinstance(message, Witness) and message.of == self._server:
            if party != f"aux:{message.server}":
                raise MessageError(f"a countersignature of another than {party}.")
            word.check(another(self._task, self._server, message.server))
            return self._ends(message)
        word.check(self._task.servers[self._server])
        if isinstance(message, Closing):
            return self._ends(message)
        if isinstance(message, Witness):
            return word.to_bytes() in self._store.witnesses(message.of, message.context)
        return word in self.said(spoken_in(message).context)

    def _ends(self, message: Closing | Witness) -> bool:
        """True if the log of a round has come to this end."""
        return self._store.share(message.context) is not None and self._store.head(message.context) == message.head

    def _key_of(self, party: str) -> bytes:
        """The public key of who may tell it something."""
        kind, _, number = party.partition(":")
        if party == "coordinator":
            return self._task.coordinator
        if kind != "aux" or not number.isdecimal():
            raise MessageError("something that was heard by nobody of this task.")
        return another(self._task, self._server, int(number))

    def _round(self, context: bytes) -> Round:
        if context not in self._rounds:
            raise ProtocolError("a log of a round that was not opened here.")
        return self._rounds[context]


def heard(task: Task, party: str, server: int, nonce: bytes, words: Sequence[Signed], key: Ed25519PrivateKey) -> Signed:
    """What a party tells a server that it has heard from it; the coordinator the ends of all its logs."""
    return Signed.by(key, Heard(task.digest, party, server, nonce, tuple(one.to_bytes() for one in words)))


def another(task: Task, server: int, speaker: int) -> bytes:
    """The public key of a server other than this one.

    Raises:
        MessageError: if it is none.
    """
    if not 0 <= speaker < len(task.servers) or speaker == server:
        raise MessageError(f"a message of aux:{speaker}, which is no other server of this task.")
    return task.servers[speaker]


def spoken_in(message: Message) -> Spoken:
    """A word between servers.

    Raises:
        MessageError: if it is something else.
    """
    if not isinstance(message, Commitment | Holding | Agreement | Reveal):
        raise MessageError(f"a {type(message).__name__} where a word between servers belongs.")
    return message


def no_share(round: Round) -> str:
    """Why a round has no share."""
    what = f"round {round.context.round} has no share here: this server {round.phase.value}"
    return f"{what} ({round.why})." if round.why else f"{what}."


def _is_between(message: Message, left: int, right: int) -> bool:
    """True of a countersignature that one of two servers gave the other."""
    return isinstance(message, Witness) and {message.server, message.of} == {left, right}
