"""A client's report for one server: sealed to it, signed by the client, bound to one place in one task.

The envelope is HPKE in base mode (RFC 9180), with the hybrid key encapsulation of X25519 and ML-KEM-768, so that what
is recorded today is not opened by a quantum computer later. Its `info` names the context, the server, the client and
the report: a report that is moved to another round, server or client does not open. Before it stands the client's
signature over the same names and the hash of what is sealed, since whoever knows the server's public key can seal to
it. Nobody else can sign what a client sealed and pass it off as their own: it opens under that client's name alone.

Each server's envelope is signed alone. A signature, or a hash, over all contents would let one server test a guess of
what the others hold; one over what is sealed tells nobody anything.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, MLKEM768X25519PrivateKey, MLKEM768X25519PublicKey, Suite

from onlooker.errors import MessageError
from onlooker.secagg.agreement import Context
from onlooker.secagg.hashing import Use, digest, number

_SUITE = Suite(KEM.MLKEM768_X25519, KDF.HKDF_SHA256, AEAD.AES_256_GCM)
_MLKEM_SEED, _MLKEM_PUBLIC, _X25519 = 64, 1184, 32
_SIGNATURE = 64


@dataclass(frozen=True)
class Address:
    """Where a report goes: one server's envelope of one client's report.

    Attributes:
        context: of which round.
        server: which of the auxiliary servers.
        client: its place in the roster.
        identity: of the report, 16 bytes.
    """

    context: Context
    server: int
    client: int
    identity: bytes

    @property
    def digest(self) -> bytes:
        """What the envelope is bound to."""
        places = (number(self.server), number(self.client), self.identity)
        return digest(Use.ENVELOPE, self.context.digest, *places)


class EnvelopeKey:
    """A server's key pair for the envelopes of one task; it is deleted when the task ends.

    It is never printed.
    """

    def __init__(self, mlkem: MLKEM768PrivateKey, x25519: X25519PrivateKey) -> None:
        self._mlkem, self._x25519 = mlkem, x25519

    def __repr__(self) -> str:
        return "EnvelopeKey(secret)"

    @staticmethod
    def generate() -> EnvelopeKey:
        """A new one, from the operating system."""
        return EnvelopeKey(MLKEM768PrivateKey.generate(), X25519PrivateKey.generate())

    @staticmethod
    def from_bytes(secret: bytes) -> EnvelopeKey:
        """The one that `to_bytes` was asked of."""
        seed, scalar = secret[:_MLKEM_SEED], secret[_MLKEM_SEED:]
        return EnvelopeKey(MLKEM768PrivateKey.from_seed_bytes(seed), X25519PrivateKey.from_private_bytes(scalar))

    def to_bytes(self) -> bytes:
        """The secret, to be kept where nobody else reads."""
        return self._mlkem.private_bytes_raw() + self._x25519.private_bytes_raw()

    @property
    def public(self) -> bytes:
        """What clients seal to."""
        return self._mlkem.public_key().public_bytes_raw() + self._x25519.public_key().public_bytes_raw()

    def open(self, envelope: bytes, address: Address) -> bytes:
        """What is in an envelope that was checked (`check`) to be the client's.

        Raises:
            MessageError: if it was not sealed to this key at this address.
        """
        try:
            private = MLKEM768X25519PrivateKey(self._mlkem, self._x25519)
            return _SUITE.decrypt(memoryview(envelope)[_SIGNATURE:], private, info=address.digest)
        except (InvalidTag, ValueError):
            raise MessageError(
                f"an envelope of client:{address.client} that does not open here and in this round."
            ) from None


@dataclass(frozen=True)
class Checked:
    """That a client signed an envelope, for whoever is told later.

    Attributes:
        sealed: SHA-256 of what it sealed.
        signature: its own, 64 bytes, Ed25519.
    """

    sealed: bytes
    signature: bytes

    def verify(self, address: Address) -> None:
        """Refuse what the client did not sign for this address.

        Raises:
            MessageError: if so.
        """
        try:
            key = Ed25519PublicKey.from_public_bytes(address.context.task.roster[address.client])
            key.verify(self.signature, digest(Use.REPORT, address.digest, self.sealed))
        except (InvalidSignature, ValueError):
            raise MessageError(f"an envelope that client:{address.client} did not sign.") from None


def check(envelope: bytes, address: Address) -> Checked:
    """That the client signed this envelope.

    Raises:
        MessageError: if it did not.
    """
    view = memoryview(envelope)
    checked = Checked(hashlib.sha256(view[_SIGNATURE:]).digest(), bytes(view[:_SIGNATURE]))
    checked.verify(address)
    return checked


def seal(content: bytes, address: Address, envelope_key: bytes, signing_key: Ed25519PrivateKey) -> bytes:
    """An envelope.

    Args:
        content: what only the server is to read.
        address: where it goes.
        envelope_key: the server's public key of this task.
        signing_key: the client's.

    Raises:
        MessageError: if the server's key is none.
    """
    mlkem, x25519 = envelope_key[:_MLKEM_PUBLIC], envelope_key[_MLKEM_PUBLIC:]
    try:
        public = MLKEM768X25519PublicKey(
            MLKEM768PublicKey.from_public_bytes(mlkem), X25519PublicKey.from_public_bytes(x25519)
        )
    except ValueError:
        raise MessageError(f"aux:{address.server} announced a key that envelopes cannot be sealed to.") from None
    sealed = _SUITE.encrypt(content, public, info=address.digest)
    return signing_key.sign(digest(Use.REPORT, address.digest, hashlib.sha256(sealed).digest())) + sealed
