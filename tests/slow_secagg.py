"""What auxiliary servers and clients compute, written again from docs/decisions/010 and the standards it names.

Nothing here is fast, and nothing here is taken from `onlooker`: hashes are joined, keys derived (RFC 5869), AES-256 in
counter mode is done by its tables (FIPS 197), and an envelope is opened step by step (RFC 9180, with the hybrid key
encapsulation of ML-KEM-768 and X25519 that is called X-Wing). Only the two key exchanges themselves, Ed25519 and the
authenticated cipher come from a library.
"""

import hashlib
import hmac

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

# -- Hashes, each of a use and of parts with their lengths -------------------------------------------------------------


def eight(value):
    return bytes(value >> shift & 255 for shift in range(56, -8, -8))


def joined(use, parts):
    whole = bytearray()
    for part in [b"onlooker/1/" + use.encode(), *parts]:
        whole += eight(len(part)) + part
    return bytes(whole)


def digest(use, *parts):
    return hashlib.sha256(joined(use, parts)).digest()


def keyed(key, use, *parts):
    return hmac.new(key, joined(use, parts), hashlib.sha256).digest()


def expanded(pseudorandom, info, length):
    """HKDF-Expand."""
    found, block, count = b"", b"", 1
    while len(found) < length:
        block = hmac.new(pseudorandom, block + info + bytes([count]), hashlib.sha256).digest()
        found, count = found + block, count + 1
    return found[:length]


def derived(key, use, *parts, salt=bytes(32)):
    return expanded(hmac.new(salt, key, hashlib.sha256).digest(), joined(use, parts), 32)


# -- AES-256 in counter mode -------------------------------------------------------------------------------------------


def doubled(byte):
    return (byte << 1 ^ (0x11B if byte & 0x80 else 0)) & 0xFF


def times(left, right):
    product = 0
    while right:
        product ^= left if right & 1 else 0
        left, right = doubled(left), right >> 1
    return product


def substituted(byte):
    inverse = next((other for other in range(256) if times(byte, other) == 1), 0)
    turned = inverse
    for shift in range(1, 5):
        turned ^= (inverse << shift | inverse >> (8 - shift)) & 0xFF
    return turned ^ 0x63


SUBSTITUTES = [substituted(byte) for byte in range(256)]


def round_keys(key):
    words, constant = [key[start : start + 4] for start in range(0, 32, 4)], 1
    for place in range(8, 60):
        word = words[-1]
        if place % 8 == 0:
            word = bytes(SUBSTITUTES[one] for one in word[1:] + word[:1])
            word, constant = bytes([word[0] ^ constant]) + word[1:], doubled(constant)
        elif place % 8 == 4:
            word = bytes(SUBSTITUTES[one] for one in word)
        words.append(bytes(a ^ b for a, b in zip(words[-8], word, strict=True)))
    return [b"".join(words[start : start + 4]) for start in range(0, 60, 4)]


def encrypted(keys, block):
    state = [a ^ b for a, b in zip(block, keys[0], strict=True)]
    for number, key in enumerate(keys[1:], 1):
        state = [SUBSTITUTES[state[(place + 4 * (place % 4)) % 16]] for place in range(16)]
        if number < len(keys) - 1:
            mixed = []
            for start in range(0, 16, 4):
                column = state[start : start + 4]
                for row in range(4):
                    a, b, c, d = (column[(row + step) % 4] for step in range(4))
                    mixed.append(times(a, 2) ^ times(b, 3) ^ c ^ d)
            state = mixed
        state = [a ^ b for a, b in zip(state, key, strict=True)]
    return bytes(state)


def key_stream(key, length):
    keys, found = round_keys(key), b""
    while len(found) < length:
        found += encrypted(keys, (len(found) // 16).to_bytes(16, "big"))
    return found[:length]


# -- Shares, coins, noise and batches ----------------------------------------------------------------------------------


def mask(key, context, identity, server, channel, size, width):
    stream = key_stream(derived(key, "mask", context, identity, eight(server), channel.encode()), size * width)
    return [int.from_bytes(stream[start : start + width], "little") for start in range(0, size * width, width)]


def shares(values, keys, context, identity, channel, width):
    masks = [mask(key, context, identity, j, channel, len(values), width) for j, key in enumerate(keys, 1)]
    rest = [(value - sum(column)) % 2 ** (8 * width) for value, *column in zip(values, *masks, strict=True)]
    return [rest, *masks]


def coin(key, task, place):
    return keyed(key, "coin", task, place), keyed(key, "nonce", task, place)


def coin_commitment(context, server, shown, nonce):
    return digest("commitment", context, eight(server), shown, nonce)


def secret_commitment(key, task, server):
    return digest("secret", task, eight(server), key, keyed(key, "nonce", task))


def noise_stream(key, context, batch, coins, purpose, round, party, length):
    salt = digest("salt", context, batch, *coins)
    seed = derived(key, "noise", context, batch, salt=salt)
    return key_stream(derived(seed, "noise", purpose.encode(), eight(round), party.encode()), length)


def batch_digest(context, reports):
    return digest("batch", context, *(eight(client) + identity for client, identity in sorted(reports)))


# -- Envelopes ---------------------------------------------------------------------------------------------------------

SUITE = b"HPKE" + bytes.fromhex("647a00010002")  # X-Wing, HKDF-SHA-256, AES-256-GCM
CIPHERTEXT = 1088 + 32


def address(context, server, client, identity):
    return digest("envelope", context, eight(server), eight(client), identity)


def labelled(salt, label, value):
    return hmac.new(salt, b"HPKE-v1" + SUITE + label + value, hashlib.sha256).digest()


def labelled_expanded(pseudorandom, label, info, length):
    return expanded(pseudorandom, length.to_bytes(2, "big") + b"HPKE-v1" + SUITE + label + info, length)


def shared_secret(encapsulated, private):
    """X-Wing: both secrets hashed, with the classical ciphertext and key."""
    lattice = MLKEM768PrivateKey.from_seed_bytes(private[:64]).decapsulate(encapsulated[:1088])
    scalar = X25519PrivateKey.from_private_bytes(private[64:])
    curve = scalar.exchange(X25519PublicKey.from_public_bytes(encapsulated[1088:]))
    public = scalar.public_key().public_bytes_raw()
    return hashlib.sha3_256(lattice + curve + encapsulated[1088:] + public + rb"\.//^\ "[:6]).digest()


def envelope_content(envelope, private, context, server, client, identity, client_key):
    """What is in an envelope; None where it does not open, or its client did not sign it."""
    bound = address(context, server, client, identity)
    try:
        signature, sealed = envelope[:64], envelope[64:]
        signed = digest("report", bound, hashlib.sha256(sealed).digest())
        Ed25519PublicKey.from_public_bytes(client_key).verify(signature, signed)
        secret = shared_secret(sealed[:CIPHERTEXT], private)
        schedule = b"\0" + labelled(b"", b"psk_id_hash", b"") + labelled(b"", b"info_hash", bound)
        base = labelled(secret, b"secret", b"")
        key = labelled_expanded(base, b"key", schedule, 32)
        nonce = labelled_expanded(base, b"base_nonce", schedule, 12)
        content = AESGCM(key).decrypt(nonce, sealed[CIPHERTEXT:], b"")
    except (InvalidTag, InvalidSignature, ValueError):
        return None
    return content
