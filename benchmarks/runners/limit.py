"""The machine's own limit: the rate of a large matrix product, and of the network's main layer there and back."""

from __future__ import annotations

import importlib.metadata
import statistics
import time
from collections.abc import Callable

import torch

from benchmarks.job import Job
from benchmarks.networks import Convolution
from benchmarks.protocol import asked, say

_SIDE = 1024
_SECONDS = 0.6


def rate(operations: int, timed: Callable[[], object]) -> float:
    """Thousands of millions of operations a second, the median over repeats."""
    seconds: list[float] = []
    end = time.perf_counter() + _SECONDS
    while time.perf_counter() < end or len(seconds) < 7:
        start = time.perf_counter()
        timed()
        seconds.append(time.perf_counter() - start)
    return operations / statistics.median(seconds[2:]) / 1e9


def product() -> float:
    """Of `torch.mm` on square matrices of 32-bit floats."""
    left, right, out = (torch.randn(_SIDE, _SIDE) for _ in range(3))
    return rate(2 * _SIDE**3, lambda: torch.mm(left, right, out=out))


def layer(job: Job) -> float:
    """Of the main layer: forward, and backward to its weights and, unless it is the first, to its input."""
    main = job.network.layers[job.network.main]
    first = job.network.main == 0
    if isinstance(main, Convolution):
        module: torch.nn.Module = torch.nn.Conv2d(main.inputs, main.outputs, main.kernel, padding=main.padding)
        module = module.to(memory_format=torch.channels_last)
        records = torch.randn(job.batch, main.inputs, main.side, main.side)
        records = records.to(memory_format=torch.channels_last)
    else:
        module, records = torch.nn.Linear(main.inputs, main.outputs), torch.randn(job.batch, main.inputs)
    records.requires_grad_(not first)
    ones = torch.ones_like(module(records))
    wanted = [*module.parameters(), *([] if first else [records])]
    passes = 2 if first else 3
    return rate(passes * job.batch * main.operations, lambda: torch.autograd.grad(module(records), wanted, ones))


def main() -> None:
    """Measure both on one thread and on two."""
    job, _ = asked()
    found: dict[str, float] = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        found |= {f"product-{threads}": product(), f"layer-{threads}": layer(job)}
    say({"limit": found, "versions": {"torch": importlib.metadata.version("torch")}})


if __name__ == "__main__":
    main()
