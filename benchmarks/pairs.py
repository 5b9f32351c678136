"""How long the price of all pairs of 1,000 clients in 100 groups takes: 40 rounds, a mixing period of 10, one core.

On structures that people design, and where each client is in so many random groups on average. Processor time, which
other work hardly changes; beside it the same for one product of 1024 x 1024 matrices, the machine's own measure.

Usage: OMP_NUM_THREADS=1 python -m benchmarks.pairs
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from onlooker.privacy.overlap_matrix import matrix
from onlooker.privacy.senders import GroupFacts
from onlooker.privacy.structures import BUILDERS, Members
from onlooker.privacy.topology import Groups

_CLIENTS, _GROUPS, _ROUNDS, _PERIOD, _DELTA = 1000, 100, 40, 10, 1e-5


def seconds(act: Callable[[], object]) -> float:
    """Processor time of one call."""
    started = time.process_time()
    act()
    return time.process_time() - started


def at_random(each: float) -> Members:
    """Every client in one random group, and in a second one as often as makes `each` on average."""
    draw = np.random.default_rng(0)
    members: list[set[int]] = [set() for _ in range(_GROUPS)]
    for client in range(_CLIENTS):
        for group in draw.choice(_GROUPS, 1 + int(draw.random() < each - 1), replace=False):
            members[group].add(client)
    return tuple(tuple(sorted(group)) for group in members)


def main() -> None:
    """Print a line for each graph."""
    square = np.ones((1024, 1024))
    product = seconds(lambda: square @ square)
    graphs = {name: BUILDERS[name](_CLIENTS, _GROUPS, 1) for name in ("string", "ring", "grid")}
    graphs |= {f"{each} random groups a client": at_random(each) for each in (1.1, 1.25, 1.5)}
    for name, members in graphs.items():
        groups = Groups(members, mixing_period=_PERIOD)
        kinds = len(set(groups.memberships.values()))
        spent = seconds(
            lambda groups=groups: matrix(groups, GroupFacts.alike(groups, 0.5, 3.0), _CLIENTS, _ROUNDS, _DELTA)
        )
        print(f"{name:28} {kinds:4} kinds of clients {spent:6.2f} s, {spent / product:6.0f} products", flush=True)


if __name__ == "__main__":
    main()
