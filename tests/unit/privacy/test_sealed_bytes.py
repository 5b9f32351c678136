"""The bytes of a round, from rows to sealed shares, stay what they were when they were first recorded.

A run that was begun by one version and resumed by the next must seal the same bytes, or a round is lost.
`python tests/unit/privacy/test_sealed_bytes.py` records them again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.matrix import Banded, Tree
from onlooker.privacy.mechanisms import NoNoise, RoundedGaussian
from onlooker.privacy.random import Seeded
from onlooker.privacy.summation import Plain, Shared
from onlooker.privacy.sums import Sealed

FILE = Path(__file__).resolve().parents[2] / "vectors" / "sealed_bytes.json"
SIZE = 40_000
SOURCE = Seeded(17)


def channel(mechanism, fraction_bits, ring_bits, noised_by, summation, bounds=0.5, size=SIZE, **more) -> Channel:
    grid = Grid(0.5, fraction_bits, ring_bits)
    return Channel(size, mechanism, grid, noised_by, summation, bounds=bounds, **more)


NOISE = RoundedGaussian(1.5)
CHANNELS: dict[str, Callable[[], Channel]] = {
    "one server": lambda: channel(NOISE, 20, 32, "server", Plain()),
    "two servers, 32 bits": lambda: channel(NOISE, 24, 32, "servers", Shared()),
    "two servers, 64 bits": lambda: channel(NOISE, 30, 64, "servers", Shared()),
    "four servers, three corrupt": lambda: channel(NOISE, 12, 32, "servers", Shared(4, 3)),
    "two servers without noise": lambda: channel(RoundedGaussian(0.0), 24, 64, "servers", Shared()),
    "clients in the clear": lambda: channel(NOISE, 20, 64, "clients", Plain(), bounds=(0.5, 0.1, 0.3, 0.5, 0.2, 0.5)),
    "clients in shares": lambda: channel(NOISE, 20, 32, "clients", Shared(3), size=1000),
    "sums of records": lambda: channel(NOISE, 22, 64, "servers", Shared(), sums_records=True, max_records=9),
    "a tree": lambda: channel(Tree(2.0), 20, 32, "server", Plain(), size=3000),
    "bands": lambda: channel(Banded(2.0, 4), 20, 32, "servers", Shared(), size=3000),
    "no noise and no grid": lambda: Channel(100, NoNoise(), None, "server"),
}


def rows(size: int) -> list[np.ndarray]:
    """Short, long, flat, tiny, huge and broken rows, none of which a generator of numpy had a hand in."""
    drawn = SOURCE.stream("rows").integers(3 * size).astype(np.float64) * 2.0**-63 - 1
    short, long, broken = drawn.reshape(3, size)
    broken = broken.copy()
    broken[size // 2] = np.nan
    return [short / size, long * 1e3, np.full(size, 7.0), short * 1e-300, long * 1e200, broken]


def played(one: Channel) -> list[Sealed]:
    """Two rounds: every client reports in the first, and nobody in the second."""
    sums = one.empty()
    for client, row in enumerate(rows(one.size)):
        one.aggregate(sums, one.shard(one.encode(row, client), client, 1, SOURCE))
    first = one.seal(sums, 1, SOURCE)
    return [first, one.seal(one.empty(), 2, SOURCE, first.states)]


def digest(name: str) -> str:
    one = CHANNELS[name]()
    state = hashlib.sha256()
    for sealed in played(one):
        for array in (*sealed.shares, *sealed.states, one.release(sealed, 3.0)):
            state.update(b"" if array is None else np.ascontiguousarray(array).tobytes())
    return state.hexdigest()


@pytest.mark.parametrize("name", CHANNELS)
def test_the_bytes_of_a_round_are_the_recorded_ones(name: str) -> None:
    assert digest(name) == json.loads(FILE.read_text())[name]


def test_every_recorded_case_is_another() -> None:
    recorded = json.loads(FILE.read_text())
    assert recorded.keys() == CHANNELS.keys() and len(set(recorded.values())) == len(CHANNELS)


if __name__ == "__main__":
    FILE.write_text(json.dumps({name: digest(name) for name in CHANNELS}, indent=2) + "\n")
