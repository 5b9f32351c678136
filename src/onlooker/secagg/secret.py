"""Where a server's noise comes from: a secret that nobody else ever has, bound before anybody knows the batch.

Each round's noise is a function of the server's secret, of one coin from every server, and of the batch. The coins are
committed to before the batch is agreed on and shown afterwards, so that no server can choose its noise, also not its
own; and since the secret is committed to before the task, an auditor who is given it later can draw the noise again.
A server that is started again draws the same coins, commitments and noise: there is one of each for a round.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence

from onlooker.privacy.random import Stream
from onlooker.secagg.agreement import Context, Task
from onlooker.secagg.hashing import Use, derived, digest, keyed, number
from onlooker.secagg.messages import Announcement, Commitment, Reveal


class Secret:
    """A server's secret of one task. It is never printed, and never leaves but for the server's own auditor.

    Args:
        server: whose.
        key: 32 bytes.
    """

    def __init__(self, server: int, key: bytes) -> None:
        if len(key) != 32:
            raise ValueError(f"a secret has 32 bytes, not {len(key)}")
        self._server, self._key = server, key

    def __repr__(self) -> str:
        return f"Secret(aux:{self._server})"

    @staticmethod
    def generate(server: int) -> Secret:
        """A new one, from the operating system."""
        return Secret(server, secrets.token_bytes(32))

    def to_bytes(self) -> bytes:
        """The key, to be kept where nobody else reads."""
        return self._key

    def announced(self, task: Task, envelope_key: bytes) -> Announcement:
        """The server's keys for a task, with a commitment to this."""
        nonce = keyed(self._key, Use.NONCE, task.digest)
        commitment = digest(Use.SECRET, task.digest, number(self._server), self._key, nonce)
        return Announcement(task.digest, self._server, envelope_key, commitment)

    def committed(self, context: Context) -> Commitment:
        """The commitment to the coin of a round."""
        return Commitment(context.digest, self._server, _commitment(self.reveal(context)))

    def reveal(self, context: Context) -> Reveal:
        """The coin of a round, which depends on its place alone, whatever is asked twice."""
        task, place = context.task.digest, context.place
        coin, nonce = keyed(self._key, Use.COIN, task, place), keyed(self._key, Use.NONCE, task, place)
        return Reveal(context.digest, self._server, coin, nonce)

    def noise(self, context: Context, batch: bytes, coins: Sequence[bytes]) -> Noise:
        """The noise of a round.

        Args:
            context: of which round.
            batch: the digest of the reports that are summed.
            coins: one of each server, in their order.
        """
        salt = digest(Use.SALT, context.digest, batch, *coins)
        return Noise(derived(self._key, Use.NOISE, context.digest, batch, salt=salt))


def is_kept(commitment: Commitment, reveal: Reveal) -> bool:
    """True if a server shows the coin that it committed to."""
    return hmac.compare_digest(_commitment(reveal), commitment.coin)


def _commitment(reveal: Reveal) -> bytes:
    return digest(Use.COMMITMENT, reveal.context, number(reveal.server), reveal.coin, reveal.nonce)


class Noise:
    """Where one round's noise of one server comes from: a `Source` whose streams are derived from one seed.

    The same names give the same bits again, and only the server can know the seed.
    """

    repeatable = False  # by nobody but the server itself

    def __init__(self, seed: bytes) -> None:
        self._seed = seed

    def __repr__(self) -> str:
        return "Noise(secret)"

    def stream(self, purpose: str, round: int = 0, party: str = "") -> Stream:
        """The stream for one sum."""
        return Stream(derived(self._seed, Use.NOISE, purpose.encode(), number(round), party.encode()))
