"""Bytes from anybody: a message, or one sentence, and never anything else."""

from __future__ import annotations

import inspect

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onlooker.errors import MessageError
from onlooker.secagg import messages
from onlooker.secagg.envelope import Address, EnvelopeKey, check, seal
from onlooker.secagg.hashing import Use, derived, digest, keyed
from onlooker.secagg.wire import Signed, packed, unpacked
from secure_rounds import key_of, parties, public

D, NAME = bytes(range(32)), bytes(range(16))
EXAMPLES = [
    messages.Announcement(D, 1, b"key", D),
    messages.Opening(D, 3, 0, D),
    messages.Invitation((b"opening",), (b"model",), (b"one", b"two")),
    messages.Greeting(D, 3),
    messages.Freeze(D),
    messages.Commitment(D, 0, D),
    messages.Holding(D, 1, ((0, NAME), (7, NAME))),
    messages.Agreement(D, 1, D),
    messages.Reveal(D, 1, D, D),
    messages.NoisyShare(D, 1, D, (b"abcd", b"")),
    messages.Report(D, 5, NAME, (b"one", b"two")),
    messages.Delivery(D, 5, NAME, b"one"),
    messages.Received(D, 5, NAME, D, D + D),
    messages.Ended(D, b"", "too few"),
    messages.Closing(D, 1, D),
    messages.Witness(D, 0, 1, D),
    messages.Heard(D, "aux:1", 0, D, (b"one", b"")),
]
NEVER = [
    ("Freeze", [D[:-1]]),
    ("Freeze", [D + b"x"]),
    ("Freeze", [D.hex()]),
    ("Freeze", [D, D]),
    ("Freeze", []),
    ("Opening", [D, 0, 0, D]),
    ("Opening", [D, True, 0, D]),
    ("Opening", [D, 1.0, 0, D]),
    ("Opening", [D, 2**64 - 1, 0, D]),
    ("Commitment", [D, -1, D]),
    ("Commitment", [D, 1000, D]),
    ("Holding", [D, 1, [[3, NAME], [3, NAME]]]),
    ("Holding", [D, 1, [[3, NAME], [2, NAME]]]),
    ("Holding", [D, 1, [[3, NAME[:-1]]]]),
    ("Holding", [D, 1, [[3]]]),
    ("Report", [D, 5, NAME, [b"one"]]),
    ("Report", [D, 5, NAME, b"one"]),
    ("Invitation", [[], [], [b"one", b"two"]]),
    ("Invitation", [[b"opening"], [b"model"], [b"one"]]),
    ("Invitation", [[b"opening"], ["model"], [b"one", b"two"]]),
    ("Greeting", [D, -1]),
    ("Message", [D]),
    ("__class__", [D]),
    (["Freeze"], [D]),
]
PARTIES, KEY = parties(), EnvelopeKey.generate()
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.binary(max_size=40) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda one: type(one).__name__)
def test_every_kind_of_message_travels(message):
    assert unpacked(packed(message)) == message
    key = key_of(5)
    signed = Signed.from_bytes(Signed.by(key, message).to_bytes())
    assert signed.opened(public(key)) == message
    with pytest.raises(MessageError, match="did not sign"):
        signed.opened(public(key_of(6)))
    with pytest.raises(MessageError, match="did not sign"):
        Signed(signed.body + b"\0", signed.signature).opened(public(key))


def test_no_kind_is_left_out():
    kinds = {one for _, one in inspect.getmembers(messages, inspect.isclass) if hasattr(one, "__pydantic_config__")}
    assert {type(one) for one in EXAMPLES} == kinds


@pytest.mark.parametrize("kind, values", NEVER)
def test_what_is_no_message_is_refused(kind, values):
    with pytest.raises(MessageError, match="no message of Onlooker"):
        unpacked(msgpack.packb([kind, *values]))


@settings(max_examples=300, deadline=None)
@given(
    body=st.binary(max_size=200) | ANY.map(msgpack.packb),
    kind=st.sampled_from(EXAMPLES),
    rest=st.lists(ANY, max_size=4),
)
def test_any_bytes_are_a_message_or_refused(body, kind, rest):
    for given_bytes in (body, msgpack.packb([type(kind).__name__, *rest])):
        for read in (unpacked, Signed.from_bytes):
            try:
                read(given_bytes)
            except MessageError as error:
                assert len(str(error)) < 200


@settings(max_examples=200, deadline=None)
@given(place=st.integers(0, 10**4), change=st.integers(1, 255), message=st.sampled_from(EXAMPLES))
def test_a_changed_byte_is_never_signed(place, change, message):
    key = key_of(5)
    signed = bytearray(Signed.by(key, message).to_bytes())
    signed[place % len(signed)] ^= change
    with pytest.raises(MessageError):
        Signed.from_bytes(bytes(signed)).opened(public(key))


@settings(max_examples=30, deadline=None)
@given(
    content=st.binary(max_size=100), place=st.integers(0, 10**4), change=st.integers(1, 255), cut=st.integers(0, 3000)
)
def test_an_envelope_opens_as_it_was_sealed_or_not_at_all(content, place, change, cut):
    address = Address(PARTIES.context(), 1, 2, NAME)
    envelope = seal(content, address, KEY.public, PARTIES.clients[2])
    check(envelope, address)
    assert KEY.open(envelope, address) == content
    changed = bytearray(envelope)
    changed[place % len(changed)] ^= change
    for other in (bytes(changed), envelope[:cut][: len(envelope) - 1], b""):
        with pytest.raises(MessageError, match="did not sign"):
            check(other, address)
        if other[64:] != envelope[64:]:
            with pytest.raises(MessageError, match="does not open here"):
                KEY.open(other, address)
    with pytest.raises(MessageError, match="does not open here"):
        EnvelopeKey.generate().open(envelope, address)


def test_a_key_that_is_none_is_refused():
    address = Address(PARTIES.context(), 1, 2, NAME)
    for key in (b"", bytes(1215), bytes(1217)):
        with pytest.raises(MessageError, match="aux:1 announced a key"):
            seal(b"x", address, key, PARTIES.clients[2])


def test_a_hash_knows_its_use_and_where_its_parts_end():
    assert len({use.value for use in Use}) == len(Use)
    key = bytes(32)
    for one in (digest, lambda use, *parts: keyed(key, use, *parts), lambda use, *parts: derived(key, use, *parts)):
        values = [
            one(Use.COIN, b"ab", b"c"), one(Use.COIN, b"a", b"bc"), one(Use.COIN, b"abc"), one(Use.NONCE, b"ab", b"c"),
            one(Use.COIN, b"ab", b"c", b""),
        ]  # fmt: skip
        assert len(set(values)) == len(values) and {len(value) for value in values} == {32}
