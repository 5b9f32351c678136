"""Sums that are added where they lie, so that whoever asks receives one of them and not one of each chunk.

Integers may be added in any order: first those on one machine, there, and then those of the machines, in a tree. Floats
are added in the order of their chunks, the order of `Inline`, and so to its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from onlooker.engines.work import Gathered, add_each
from onlooker.privacy.channel import Channel
from onlooker.types import Array

Reference = Any
"""What stands for an object that lies on some machine."""

Parts = tuple[tuple[Array, ...], ...]
"""For each channel of a group its arrays, as `Gathered.kinds` lists them."""

Add = Callable[[Sequence[Reference], str | None], Reference]
"""Have `added` done to these references in their order, on this machine if it is there."""

_LOT = 8  # references that one task adds: what a machine holds at once, and what one of the tree receives


def parts_of(sums: Sequence[Gathered]) -> Parts:
    """The arrays alone, to be sent: whose they are, both sides know."""
    return tuple(one.arrays for one in sums)


def gathered_of(channels: Sequence[Channel], parts: Parts | None, reports: int) -> list[Gathered]:
    """A group's sums of so many reports; those of nobody where there are no parts."""
    if parts is None:
        return [Gathered.nothing(one) for one in channels]
    sums = [Gathered.over(one, arrays) for one, arrays in zip(channels, parts, strict=True)]
    for one in sums:
        one.sums.reports = reports
    return sums


def added(*several: Parts) -> Parts:
    """The sum of at least one, from left to right; what is given is left as it is.

    >>> import numpy as np
    >>> ones = ((np.ones(2, np.uint32),), (np.full(3, 0.5),))
    >>> [array.tolist() for arrays in added(ones, ones, ones) for array in arrays]
    [[3, 3], [1.5, 1.5, 1.5]]
    """
    first, *others = several
    total = tuple(tuple(array.copy() for array in arrays) for arrays in first)
    for parts in others:
        for sums, arrays in zip(total, parts, strict=True):
            add_each(sums, arrays)
    return total


def in_order(add: Add, parts: Sequence[Reference]) -> Reference:
    """The sum from left to right of at least one part; each is added as soon as all before it are there."""
    total, *others = parts
    for start in range(0, len(others), _LOT - 1):
        total = add([total, *others[start : start + _LOT - 1]], None)
    return total


def in_a_tree(add: Add, parts: Sequence[Reference]) -> Reference:
    """The sum of at least one part in any order, in as many steps as the logarithm of their number."""
    level: list[Reference] = list(parts)
    while len(level) > 1:
        lots = [level[start : start + _LOT] for start in range(0, len(level), _LOT)]
        level = [add(lot, None) if len(lot) > 1 else lot[0] for lot in lots]
    return level[0]


@dataclass(frozen=True)
class Lying:
    """The sums of a round in integers, by the group that they are of and the machine that they lie on.

    Attributes:
        add: adds them.
        parts: fewer than a lot for each group and machine.
    """

    add: Add
    parts: dict[tuple[int, str], list[Reference]] = field(default_factory=dict[tuple[int, str], list[Reference]])

    def put(self, group: int, machine: str, part: Reference) -> None:
        """One more; whole lots are added at once, so that no machine has to hold the sums of all its chunks."""
        parts = self.parts.setdefault((group, machine), [])
        parts.append(part)
        if len(parts) == _LOT:
            parts[:] = [self.add(parts, machine)]

    def totals(self) -> dict[int, Reference]:
        """The sum of each group."""
        of_machines: dict[int, list[Reference]] = {}
        for (group, machine), parts in self.parts.items():
            one = self.add(parts, machine) if len(parts) > 1 else parts[0]
            of_machines.setdefault(group, []).append(one)
        return {group: in_a_tree(self.add, parts) for group, parts in of_machines.items()}
