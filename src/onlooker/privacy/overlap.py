"""How many releases of overlapping groups can reach an observer."""

from __future__ import annotations

import math

from onlooker.privacy.topology import Groups


def reach(groups: Groups, subject: int, observed: frozenset[int], rounds: int) -> dict[int, int]:
    """For each group of the subject, how many of its releases can reach a view of the observed groups."""
    intervals = math.ceil(rounds / groups.mixing_period)
    distance = {g: 0 for g in observed}
    frontier = set(observed)
    while frontier:
        new: set[int] = set()
        for m in frontier:
            for b in groups.members[m]:
                if b == subject:
                    continue
                for other in groups.groups_of(b):
                    if other not in distance:
                        distance[other] = distance[m] + 1
                        new.add(other)
        frontier = new
    out: dict[int, int] = {}
    for m in groups.groups_of(subject):
        h = distance.get(m, math.inf)
        out[m] = rounds if h == 0 else 0 if h == math.inf else groups.mixing_period * max(0, intervals - h)
    return out
