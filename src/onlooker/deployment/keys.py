"""Key pairs and certificates of all parties, and the files that go with them, for a trial on one machine.

In earnest each party makes its own and hands out public keys alone: here one machine has seen everybody's secrets, and
what the servers promise about each other holds for nobody.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Mapping, Sequence
from pathlib import Path

import tomli_w
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import (
    SECP256R1,
    SECP384R1,
    EllipticCurvePrivateKey,
    generate_private_key,
)
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from onlooker._stored import open_private
from onlooker.deployment.parties import Parties, write_task
from onlooker.errors import FolderError
from onlooker.privacy.terms import Terms

_LIFE = datetime.timedelta(days=365)
_EARLIER = datetime.timedelta(hours=2)  # for clocks that do not agree


def write(folder: Path, terms: Terms, job: str, names: Sequence[str], ports: Sequence[int], budget: float) -> None:
    """Make all parties' keys, and the files of a task.

    `task.toml`, `terms.toml` and `job.toml` are for everybody, `aux0.toml` for the first server, with its keys in
    `aux0/`, and in the same way `coordinator.toml` and `client0.toml`, whose `client0/supernode` is the key by which a
    Flower SuperNode shows that it is that client's. Private files are for their owner alone.

    Args:
        folder: made; must not be there yet.
        terms: of the task.
        job: the text of the configuration.
        names: DNS names and IP addresses at which the servers will be asked; the first one is the one used.
        ports: of each server.
        budget: the epsilon that each client allows over all tasks on its data.

    Raises:
        FolderError: if the folder is there, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, mode=0o700)
        _write(folder, terms, job, names, ports, budget)
    except OSError as error:
        raise FolderError(f"{folder} cannot be made: {error.strerror}; name a folder that is not there.") from error


def _write(folder: Path, terms: Terms, job: str, names: Sequence[str], ports: Sequence[int], budget: float) -> None:
    authority = _Authority(names)
    (folder / "authority.pem").write_bytes(authority.certificate.public_bytes(Encoding.PEM))
    servers = [f"aux{server}" for server in range(len(ports))]
    parties = ["coordinator", *servers, *(f"client{client}" for client in range(terms.clients))]
    keys = {party: _signing_key(folder / party) for party in parties}
    for party in ("coordinator", *servers):
        authority.certify(party, folder / party)
    for client in range(terms.clients):
        _supernode_key(folder / f"client{client}")
    host = f"[{names[0]}]" if ":" in names[0] else names[0]
    all_parties = Parties(
        keys["coordinator"],
        tuple(keys[server] for server in servers),
        tuple(keys[f"client{client}"] for client in range(terms.clients)),
        tuple(f"https://{host}:{port}" for port in ports),
    )
    write_task(folder, terms, job, all_parties)
    for number, (server, port) in enumerate(zip(servers, ports, strict=True)):
        listen = f"{host}:{port}"
        own = {"server": number, "listen": listen, "folder": f"{server}/state", "tls": _tls(server)}
        _write_own(folder, server, own)
    lead = {"job": "job.toml", "run": "coordinator/run", "tls": _tls("coordinator")}
    _write_own(folder, "coordinator", lead)
    for number in range(terms.clients):
        client = f"client{number}"
        limit = {"file": f"{client}/budget.db", "epsilon": budget, "delta": terms.delta}
        own = {"job": "job.toml", "client": number, "folder": f"{client}/state", "socket": f"{client}/socket"}
        covered = {"reply-after": 60.0} if terms.sampling.cover_traffic else {}
        _write_own(folder, client, {**own, **covered, "data": {"own": False}, "budget": limit})


def _write_own(folder: Path, party: str, own: Mapping[str, object]) -> None:
    """A party's own file."""
    whole = {"task": "task.toml", **own, "signing-key": f"{party}/signing.pem"}
    (folder / f"{party}.toml").write_text(tomli_w.dumps(whole), encoding="utf-8")


def _tls(party: str) -> dict[str, str]:
    return {"certificate": f"{party}/tls.pem", "key": f"{party}/tls-key.pem", "authority": "authority.pem"}


def _signing_key(folder: Path) -> str:
    """A new signing key in a folder; its public half in hexadecimal digits."""
    folder.mkdir(mode=0o700)
    key = Ed25519PrivateKey.generate()
    _write_key(folder / "signing.pem", key)
    return key.public_key().public_bytes_raw().hex()


def _supernode_key(folder: Path) -> None:
    """A new key pair of a SuperNode, as Flower takes one: of a NIST curve, and written as OpenSSH writes it."""
    key = generate_private_key(SECP384R1())
    with open_private(folder / "supernode") as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()))
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    (folder / "supernode.pub").write_bytes(public + b"\n")


def _write_key(path: Path, key: Ed25519PrivateKey | EllipticCurvePrivateKey) -> None:
    with open_private(path) as file:
        file.write(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))


class _Authority:
    """Who signs all certificates; its key is never written."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [_name(one) for one in names]
        self._key = generate_private_key(SECP256R1())
        self._subject = _subject("Onlooker trial")
        builder = self._builder(self._subject, self._key).add_extension(x509.BasicConstraints(True, 0), critical=True)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        self.certificate = builder.add_extension(usage, critical=True).sign(self._key, SHA256())

    def certify(self, party: str, folder: Path) -> None:
        """A party's certificate, as a server and as who asks one."""
        key = generate_private_key(SECP256R1())
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = self._builder(_subject(party), key).add_extension(x509.BasicConstraints(False, None), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(both), critical=False)
        builder = builder.add_extension(x509.SubjectAlternativeName(self._names), critical=False)
        certificate = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
        ).sign(self._key, SHA256())
        (folder / "tls.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
        _write_key(folder / "tls-key.pem", key)

    def _builder(self, subject: x509.Name, key: EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _EARLIER)
            .not_valid_after(now + _LIFE)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)
