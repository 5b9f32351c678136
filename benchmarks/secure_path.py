"""What each step of the secure path costs, in nanoseconds of one core an element, beside rates of the machine itself.

Two servers, a row of the size of an mlp 784-64-10 and one of 6.5 million, in a ring of 32 bits and in one of 64. The
rates, taken in the same run, are the AES-256-CTR key stream into a buffer that is used again, and a copy. A step stands
beside the least work of its kind: to encode, the copy of a float64; to share, that and one key stream; to aggregate,
the copy of two ring elements; to draw noise, the key stream of 64 bits. Medians of CPU time, which other processes
hardly change.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.random import Seeded
from onlooker.privacy.sampling import FixedSize, Poisson
from onlooker.privacy.summation import Shared

SIZES = (50_890, 6_500_000)
GRIDS = (Grid(1.0, 24, 32), Grid(1.0, 30, 64))
SOURCE = Seeded(1)
LEAST_SECONDS = 0.4


def nanoseconds(step: Callable[[], object], elements: int) -> float:
    """CPU time an element: the median of at least five rounds, and as many as take some tenths of a second."""
    step()
    spent: list[float] = []
    while len(spent) < 5 or sum(spent) < LEAST_SECONDS:
        start = time.process_time()
        step()
        spent.append(time.process_time() - start)
    return 1e9 * statistics.median(spent) / elements


def key_stream(size: int, width: int) -> float:
    """The machine's AES-256-CTR, for words of `width` bytes, 128 KiB at a time."""
    encryptor = Cipher(algorithms.AES256(bytes(32)), modes.CTR(bytes(16))).encryptor()
    zeros, drawn = memoryview(bytes(2**17)), memoryview(bytearray(2**17))
    count = -(-size * width // 2**17)
    return nanoseconds(lambda: [encryptor.update_into(zeros, drawn) for _ in range(count)], count * 2**17 // width)


def copy(size: int, kind: type[np.generic]) -> float:
    """The machine's copy from one array to another that is there."""
    source, target = np.ones(size, dtype=kind), np.zeros(size, dtype=kind)
    return nanoseconds(lambda: np.copyto(target, source), size)


def steps(size: int, grid: Grid) -> dict[str, tuple[float, float]]:
    """Each step: nanoseconds an element, and the machine's own rate beside it."""
    one = Channel(size, RoundedGaussian(1.0), grid, "servers", Shared(), bounds=1.0)
    row = np.random.default_rng(0).standard_normal(size)
    sums, encoded = one.empty(), one.encode(row, 0)
    report = one.shard(encoded, 0, 1, SOURCE)
    kind = np.uint32 if grid.ring_bits == 32 else np.uint64
    aes, doubles, ring = key_stream(size, grid.ring_bits // 8), copy(size, np.float64), copy(size, kind)
    timed: dict[str, tuple[Callable[[], object], float]] = {
        "encode": (lambda: one.encode(row, 0), doubles),
        "encode, shard": (lambda: one.shard(one.encode(row, 0), 0, 1, SOURCE), doubles + aes),
        "aggregate, both servers": (lambda: one.aggregate(sums, report), 2 * ring),
        "gather (all three)": (lambda: one.gather(sums, row, 0, 1, SOURCE), doubles + aes),
        "gather, elided": (lambda: one.gather(sums, row, 0, 1, SOURCE, elide=True), doubles),
        "noise of one server": (
            lambda: one.mechanism.noise(2.0**grid.fraction_bits, size, SOURCE.stream("noise", 1)),
            key_stream(size, 8),
        ),
        "seal, both servers": (lambda: one.seal(sums, 1, SOURCE), 2 * (key_stream(size, 8) + ring)),
    }
    return {name: (nanoseconds(step, size), rate) for name, (step, rate) in timed.items()}


def main() -> None:
    """Print one table for each size and ring, and the time to draw a cohort."""
    for size in SIZES:
        for grid in GRIDS:
            print(f"d = {size:,}, ring of {grid.ring_bits} bits, f = {grid.fraction_bits}")
            for name, (spent, rate) in steps(size, grid).items():
                print(f"  {name:24} {spent:6.2f} ns   machine {rate:5.2f} ns   ratio {spent / rate:5.1f}")
    for sampling in (Poisson(0.01), Poisson((0.01,) * 100_000), FixedSize(1000)):
        drawn = nanoseconds(lambda one=sampling: one.cohort(100_000, 1, SOURCE), 1)
        print(f"about 1,000 of 100,000 clients, {sampling.name}: {drawn / 1e6:.2f} ms")


if __name__ == "__main__":
    main()
