"""Known answers for what parties compute of each other's bytes, by a second implementation that shares no code.

`python tests/unit/secagg/test_vectors.py` writes the file again; its envelopes are drawn anew then.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import slow_secagg as slow
from onlooker.errors import MessageError
from onlooker.privacy.shares import split
from onlooker.secagg.envelope import Address, EnvelopeKey, check, seal
from onlooker.secagg.hashing import Use, derived, digest, keyed
from onlooker.secagg.messages import Commitment, Delivery, Reveal
from onlooker.secagg.protocol import Round
from onlooker.secagg.reports import _ClientSource, move_by_share, opened, to_bytes
from onlooker.secagg.secret import Secret, is_kept
from onlooker.secagg.wire import Signed, packed, unpacked

FILE = Path(__file__).resolve().parents[2] / "vectors" / "secagg.json"


def of(case, *names):
    return [bytes.fromhex(case[name]) for name in names]


def context_of(case):
    """As much of a context as what is computed here asks for."""
    task = SimpleNamespace(digest=bytes.fromhex(case.get("task", "")), roster={})
    if "client-key" in case:
        task.roster[case["client"]] = bytes.fromhex(case["client-key"])
    channels = [channel_of(case)] if "size" in case else []
    place = bytes.fromhex(case.get("place", ""))
    return SimpleNamespace(task=task, digest=bytes.fromhex(case["context"]), place=place, channels=channels)


def channel_of(case):
    return SimpleNamespace(name=case["channel"], size=case["size"], grid=SimpleNamespace(ring_bits=8 * case["width"]))


# -- What is computed, twice -------------------------------------------------------------------------------------------


def slow_hash(case):
    parts = [bytes.fromhex(part) for part in case["parts"]]
    (key,) = of(case, "key")
    return [one.hex() for one in (slow.digest(case["use"], *parts), slow.keyed(key, case["use"], *parts),
                                  slow.derived(key, case["use"], *parts))]  # fmt: skip


def fast_hash(case):
    use, (key,) = Use(f"onlooker/1/{case['use']}"), of(case, "key")
    parts = [bytes.fromhex(part) for part in case["parts"]]
    return [one(*given, *parts).hex() for one, given in ((digest, [use]), (keyed, [key, use]), (derived, [key, use]))]


def slow_coin(case):
    key, task, place, context = of(case, "key", "task", "place", "context")
    shown, nonce = slow.coin(key, task, place)
    commitments = (
        slow.coin_commitment(context, case["server"], shown, nonce),
        slow.secret_commitment(key, task, case["server"]),
    )
    return [one.hex() for one in (shown, nonce, *commitments)]


def fast_coin(case):
    secret, context = Secret(case["server"], bytes.fromhex(case["key"])), context_of(case)
    reveal, announced = secret.reveal(context), secret.announced(context.task, b"")
    return [one.hex() for one in (reveal.coin, reveal.nonce, secret.committed(context).coin, announced.secret)]


def slow_noise(case):
    key, context, batch = of(case, "key", "context", "batch")
    coins = [bytes.fromhex(coin) for coin in case["coins"]]
    stream = slow.noise_stream(key, context, batch, coins, case["purpose"], case["round"], case["party"], 40)
    return stream.hex()


def fast_noise(case):
    coins = [bytes.fromhex(coin) for coin in case["coins"]]
    noise = Secret(0, bytes.fromhex(case["key"])).noise(context_of(case), bytes.fromhex(case["batch"]), coins)
    return noise.stream(case["purpose"], case["round"], case["party"]).bytes(40).hex()


def slow_shares(case):
    context, identity = of(case, "context", "identity")
    keys = [bytes.fromhex(key) for key in case["keys"]]
    return slow.shares(case["values"], keys, context, identity, case["channel"], case["width"])


def fast_shares(case):
    keys = [bytes.fromhex(key) for key in case["keys"]]
    source = _ClientSource(context_of(case), bytes.fromhex(case["identity"]), keys, None)
    streams = [source.stream(f"mask/{case['channel']}", 1, f"client:0/aux:{j}") for j in range(1, len(keys) + 1)]
    values = np.array(case["values"], dtype=f"u{case['width']}")
    return [share.tolist() for share in split(values, len(keys) + 1, streams)]


def slow_batch(case):
    reports = [(client, bytes.fromhex(identity)) for client, identity in case["reports"]]
    return slow.batch_digest(bytes.fromhex(case["context"]), reports).hex()


def fast_batch(case):
    reports = tuple(sorted((client, bytes.fromhex(identity)) for client, identity in case["reports"]))
    holding = SimpleNamespace(reports=reports)
    return Round(context_of(case), 0, holdings={0: holding, 1: holding}).batch_digest.hex()


def slow_envelope(case):
    envelope, private, context, identity, key = of(case, "envelope", "private", "context", "identity", "client-key")
    found = slow.envelope_content(envelope, private, context, case["server"], case["client"], identity, key)
    return None if found is None else found.hex()


def fast_envelope(case):
    envelope, private, identity = of(case, "envelope", "private", "identity")
    address = Address(context_of(case), case["server"], case["client"], identity)
    try:
        check(envelope, address)
        return EnvelopeKey.from_bytes(private).open(envelope, address).hex()
    except MessageError:
        return None


COMPUTED = {
    "hash": (slow_hash, fast_hash),
    "coin": (slow_coin, fast_coin),
    "noise": (slow_noise, fast_noise),
    "shares": (slow_shares, fast_shares),
    "batch": (slow_batch, fast_batch),
    "envelope": (slow_envelope, fast_envelope),
}


def pairs():
    return [(kind, pair) for kind, pairs in json.loads(FILE.read_text()).items() for pair in pairs]


@pytest.mark.parametrize(("kind", "pair"), pairs() if FILE.exists() else [])
def test_both_give_what_is_written(kind, pair):
    slowly, fast = COMPUTED[kind]
    assert slowly(pair["case"]) == pair["expected"]
    assert fast(pair["case"]) == pair["expected"]


def test_every_kind_has_its_answers_and_envelopes_that_must_not_open():
    found = pairs()
    assert {kind for kind, _ in found} == set(COMPUTED)
    opens = [pair["expected"] is not None for kind, pair in found if kind == "envelope"]
    assert opens.count(True) >= 3 and opens.count(False) >= 10


def test_a_mask_that_a_server_expands_is_the_one_that_the_client_took_away():
    (case,) = [pair["case"] for kind, pair in pairs() if kind == "shares" and pair["case"]["width"] == 4][:1]
    keys, shares = [bytes.fromhex(key) for key in case["keys"]], slow_shares(case)
    for server, expected in enumerate(shares):
        content = to_bytes(np.array(shares[0], dtype=np.uint32)) if server == 0 else keys[server - 1]
        key = SimpleNamespace(open=lambda envelope, address, content=content: content)
        delivery = Delivery(bytes.fromhex(case["context"]), 0, bytes.fromhex(case["identity"]), b"")
        whole = {**case, "size": len(case["values"])}
        context, total = context_of(whole), np.zeros(len(expected), dtype=np.uint32)
        given = opened(delivery, context, server, key)
        move_by_share(np.add, (total,), given, delivery.identity, context, server)
        assert total.tolist() == expected
        move_by_share(np.subtract, (total,), given, delivery.identity, context, server)
        assert not total.any()


def test_a_coin_with_one_bit_changed_is_not_the_one_that_was_committed_to():
    case = next(pair["case"] for kind, pair in pairs() if kind == "coin")
    secret, context = Secret(case["server"], bytes.fromhex(case["key"])), context_of(case)
    commitment, reveal = secret.committed(context), secret.reveal(context)
    assert is_kept(commitment, reveal)
    for name in ("coin", "nonce"):
        other = bytearray(getattr(reveal, name))
        other[-1] ^= 1
        assert not is_kept(commitment, Reveal(**{**vars_of(reveal), name: bytes(other)}))
    assert not is_kept(Commitment(bytes(32), case["server"] + 1, commitment.coin), Reveal(
        **{**vars_of(reveal), "server": case["server"] + 1}))  # fmt: skip


def vars_of(message):
    return {name: getattr(message, name) for name in message.__dataclass_fields__}


def test_a_signature_is_over_the_bytes_as_they_are_sent():
    key = Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\7")
    message = Commitment(bytes(32), 1, bytes(range(32)))
    signed = Signed.by(key, message)
    key.public_key().verify(signed.signature, slow.digest("message", packed(message)))
    assert unpacked(signed.body) == message


# -- How the file was made ---------------------------------------------------------------------------------------------


def drawn(seed, length=32):
    return np.random.default_rng(seed).bytes(length).hex()


def written_cases():
    yield "hash", {"use": "task", "key": drawn(1), "parts": []}
    yield "hash", {"use": "context", "key": drawn(2), "parts": [drawn(3), "", drawn(4, 5)]}
    yield "hash", {"use": "context", "key": drawn(2), "parts": [drawn(3), drawn(4, 5), ""]}
    yield "hash", {"use": "transcript", "key": drawn(2), "parts": [drawn(3, 1000)]}
    for server, place in ((0, 1), (1, 1), (999, 40)):
        yield "coin", {"key": drawn(5), "task": drawn(6), "place": f"{place:016x}{0:016x}", "context": drawn(7 + place),
                       "server": server}  # fmt: skip
    for party, coins in (("aux:0", 2), ("aux:1", 2), ("aux:0", 3)):
        yield "noise", {"key": drawn(8), "context": drawn(9), "batch": drawn(10), "party": party, "round": 3,
                        "coins": [drawn(11 + j) for j in range(coins)], "purpose": "noise/model"}  # fmt: skip
    edges = [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 7, 8, 9]
    for width, servers in ((4, 2), (4, 3), (8, 2)):
        values = [value + (2**32 - 1) * 2**32 * (width == 8) for value in edges]
        yield "shares", {"values": values, "width": width, "keys": [drawn(20 + j) for j in range(servers - 1)],
                         "context": drawn(30), "identity": drawn(31, 16), "channel": "model"}  # fmt: skip
    yield "batch", {"context": drawn(40), "reports": []}
    yield "batch", {"context": drawn(40), "reports": [[5, drawn(41, 16)], [0, drawn(42, 16)], [999_999, drawn(43, 16)]]}
    yield from envelopes()


def envelopes():
    signing, other = (Ed25519PrivateKey.from_private_bytes(secrets.token_bytes(32)) for _ in range(2))
    key = EnvelopeKey.generate()
    case = {"context": drawn(50), "server": 1, "client": 3, "identity": drawn(51, 16), "private": key.to_bytes().hex()}
    case["client-key"] = signing.public_key().public_bytes_raw().hex()

    def sealed(content, by=signing, **changed):
        at = {**case, **changed}
        address = Address(context_of(at), at["server"], at["client"], bytes.fromhex(at["identity"]))
        return {**case, "envelope": seal(content, address, key.public, by).hex()}

    for content in (b"", b"a mask's key, 32 bytes of secrets", bytes(range(256))):
        yield "envelope", sealed(content)
    good = sealed(b"content")
    yield "envelope", {**good, "about": "another round", "context": drawn(52)}
    yield "envelope", {**good, "about": "another server", "server": 0}
    yield "envelope", {**good, "about": "another client", "client": 4}
    yield "envelope", {**good, "about": "another report", "identity": drawn(53, 16)}
    yield "envelope", {**good, "about": "another key", "private": EnvelopeKey.generate().to_bytes().hex()}
    yield "envelope", {**good, "about": "another signer", "client-key": drawn(54)}
    yield "envelope", {**sealed(b"content", other), "about": "signed by somebody else"}
    yield "envelope", {**sealed(b"content", context=drawn(52)), "about": "sealed for another round"}
    whole = good["envelope"]
    yield "envelope", {**good, "about": "cut", "envelope": whole[:-2]}
    yield "envelope", {**good, "about": "longer", "envelope": whole + "00"}
    yield "envelope", {**good, "about": "empty", "envelope": ""}
    yield "envelope", {**good, "about": "without its text", "envelope": whole[: 2 * (64 + slow.CIPHERTEXT)]}
    for place in (0, 64, 1150, 1190, len(whole) // 2 - 1):
        turned = bytearray.fromhex(whole)
        turned[place] ^= 1
        yield "envelope", {**good, "about": f"a bit of byte {place}", "envelope": turned.hex()}


if __name__ == "__main__":
    answers: dict[str, list[object]] = {}
    for kind, case in written_cases():
        slowly, fast = COMPUTED[kind]
        expected = slowly(case)
        assert fast(case) == expected, (kind, case)
        answers.setdefault(kind, []).append({"case": case, "expected": expected})
    FILE.write_text(json.dumps(answers, indent=1) + "\n")
