"""Known answers for grid, shares and noise, from a second, slow implementation that shares no code.

It is written in Python's integers and fractions, with mpmath for the normal distribution and AES block by
block.
`python tests/unit/privacy/test_known_answers.py` writes its answers into the file again.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from onlooker.privacy.grid import Grid
from onlooker.privacy.random import Seeded, Stream
from onlooker.privacy.rounding import rounded_gaussian
from onlooker.privacy.shares import combine, split

FILE = Path(__file__).resolve().parents[2] / "vectors" / "grid_and_shares.json"
SIGN = 2**63
Case = dict[str, Any]


def slow_bytes(key: str) -> Iterator[int]:
    """AES-256 of 0, 1, 2, ... as 128-bit numbers, the highest byte first."""
    block_cipher = Cipher(algorithms.AES256(bytes.fromhex(key)), modes.ECB()).encryptor()
    counter = 0
    while True:
        yield from block_cipher.update(counter.to_bytes(16, "big"))
        counter += 1


def slow_integers(key: str, bits: int) -> Iterator[int]:
    drawn = slow_bytes(key)
    while True:
        yield int.from_bytes(bytes(next(drawn) for _ in range(bits // 8)), "little")


def slow_units(case: Case) -> list[Fraction] | None:
    row = [float(value) for value in case["row"]]
    if not all(map(math.isfinite, row)):
        return None
    return [Fraction(value) / Fraction(float(case["clip"])) * 2 ** case["fraction_bits"] for value in row]


def slow_row(case: Case) -> list[int]:
    """A row on the grid: scaled below the bound, rounded, truncated where rounding lifted it above."""
    units = slow_units(case)
    if units is None:
        return [0] * len(case["row"])
    longest = Fraction(float(case["bound"])) / Fraction(float(case["clip"])) * 2 ** case["fraction_bits"]
    goal = longest * (1 - min(Fraction(1, 2), len(units) / (24 * longest**2) + 2 / longest))
    square = sum(unit**2 for unit in units)
    if square > goal**2:
        digits = 10**80
        norm = Fraction(math.isqrt(square.numerator * digits**2 // square.denominator), digits)
        units = [unit * goal / norm for unit in units]
    rounded = [round(unit) for unit in units]
    return rounded if sum(x * x for x in rounded) <= longest**2 else [math.trunc(unit) for unit in units]


def slow_sum(case: Case) -> list[int]:
    units = slow_units(case)
    return [0] * len(case["row"]) if units is None else [round(unit) for unit in units]


def slow_shares(case: Case) -> list[list[int]]:
    modulus = 2 ** case["ring_bits"]
    masks = []
    for key in case["keys"]:
        drawn = slow_integers(key, case["ring_bits"])
        masks.append([next(drawn) for _ in case["values"]])
    difference = [(int(value) - sum(column)) % modulus for value, *column in zip(case["values"], *masks, strict=True)]
    return [difference, *masks]


def slow_magnitude(sigma: float, low_mass: Any, high_mass: Any, context: Any) -> int | None:
    """The bin that holds a whole interval of tail masses, found by bisection; None if it holds an edge."""

    def bin_of(mass: Any) -> int:
        low, high = -1, math.ceil(30 * sigma) + 1
        while high - low > 1:
            middle = (low + high) // 2
            beyond = context.ncdf(-(middle + context.mpf(1) / 2) / context.mpf(sigma))
            low, high = (middle, high) if mass <= beyond else (low, middle)
        return high

    if low_mass == 0:
        return None
    magnitude = bin_of(low_mass)
    return magnitude if magnitude == 0 or bin_of(high_mass) == magnitude else None


def slow_gaussian(sigma: float, count: int, words: Iterator[int]) -> list[int]:
    context = mpmath.MPContext()
    context.prec = 400
    drawn = []
    for word in [next(words) for _ in range(count)]:
        tail, bits = word % SIGN, 64
        while True:
            ends = (context.ldexp(tail, -bits), context.ldexp(tail + 1, -bits))
            magnitude = slow_magnitude(sigma, *ends, context)
            if magnitude is not None:
                break
            tail, bits = tail * 2**64 + next(words), bits + 64
        drawn.append(-magnitude if word >= SIGN else magnitude)
    return drawn


def slow_noise(case: Case) -> list[int]:
    return slow_gaussian(float(case["sigma"]), case["count"], slow_integers(case["key"], 64))


SLOW: dict[str, tuple[str, Callable[[Case], Any]]] = {
    "rows": ("encoded", slow_row),
    "sums": ("encoded", slow_sum),
    "shares": ("shares", slow_shares),
    "rounded_gaussian": ("drawn", slow_noise),
}


def grid_of(case: Case) -> Grid:
    return Grid(float(case["clip"]), case["fraction_bits"], 32)


def fast_shares(case: Case) -> list[list[int]]:
    values = np.array([int(value) for value in case["values"]], dtype=f"u{case['ring_bits'] // 8}")
    streams = [Stream(bytes.fromhex(key)) for key in case["keys"]]
    shares = split(values, len(streams) + 1, streams)
    assert np.array_equal(combine(shares), values)
    return [share.tolist() for share in shares]


def fast_noise(case: Case) -> list[int]:
    return rounded_gaussian(float(case["sigma"]), case["count"], Stream(bytes.fromhex(case["key"]))).tolist()


FAST: dict[str, Callable[[Case], Any]] = {
    "rows": lambda case: grid_of(case).encode_row([float(x) for x in case["row"]], float(case["bound"])).tolist(),
    "sums": lambda case: grid_of(case).encode_sum([float(x) for x in case["row"]]).tolist(),
    "shares": fast_shares,
    "rounded_gaussian": fast_noise,
}


@pytest.mark.parametrize("part", SLOW)
def test_the_known_answers_are_given_by_both_implementations(part: str) -> None:
    cases = json.loads(FILE.read_text())[part]
    answer, slow = SLOW[part]
    assert len(cases) >= 3
    for case in cases:
        assert slow(case) == case[answer]
        assert FAST[part](case) == case[answer]


@pytest.mark.parametrize("sigma", [1e-3, 0.3, 1.0, 1.4e5, 2.0**31, 2.0**38])
def test_words_of_every_size_are_decided_alike(sigma: float) -> None:
    """Small words take the slow way, larger ones the fast; the deepest need more bits at a large sigma."""
    key = Seeded(1).stream("words").bytes(32).hex()
    source = slow_integers(key, 64)
    words = [next(source) >> (shift % 62) for shift in range(0, 124, 3)]
    count = len(words)
    words += [next(source) for _ in range(2 * count)]

    class Replay:
        def integers(self, count: int) -> np.ndarray:
            return np.array([next(left) for _ in range(count)], dtype=np.uint64)

    left = iter(words)
    fast = rounded_gaussian(sigma, count, Replay()).tolist()
    unused = list(left)
    again = iter(words)
    assert fast == slow_gaussian(sigma, count, again)
    assert unused == list(again)
    assert (len(unused) < 2 * count) == (sigma > 1e4)


def main() -> None:
    """Answer every case of the file again, by the slow implementation."""
    parts = json.loads(FILE.read_text())
    for part, (answer, slow) in SLOW.items():
        for case in parts[part]:
            case[answer] = slow(case)
    listed = [
        f'"{part}": [\n  ' + ",\n  ".join(map(json.dumps, cases)) + "\n]"
        for part, cases in parts.items()
        if part in SLOW
    ]
    FILE.write_text("{\n" + ",\n".join([f'"about": {json.dumps(parts["about"])}', *listed]) + "\n}\n")


if __name__ == "__main__":
    main()
