"""The groups that people use: each builder deals clients 0 to N - 1 into groups, and returns their members.

Clients that two neighbouring groups share are dealt first to the links, then what is left evenly to the groups.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from onlooker import _check
from onlooker.errors import DataError, TermsError

Members = tuple[tuple[int, ...], ...]
Link = tuple[int, int]


def string(clients: int, groups: int, overlap: int) -> Members:
    """Groups in a row, each sharing `overlap` clients with the next.

    >>> string(clients=7, groups=3, overlap=1)
    ((0, 1, 2), (2, 3, 4, 5), (5, 6))
    """
    return _deal("string", clients, groups, overlap, [(group, group + 1) for group in range(groups - 1)])


def ring(clients: int, groups: int, overlap: int) -> Members:
    """Groups in a circle, each sharing `overlap` clients with the next; at least three of them.

    >>> ring(clients=6, groups=3, overlap=1)
    ((0, 1, 5), (1, 2, 3), (3, 4, 5))
    """
    if groups < 3:
        raise TermsError(f'groups.structure = "ring" with groups.groups = {groups}; a ring takes at least 3.')
    return _deal("ring", clients, groups, overlap, [(group, (group + 1) % groups) for group in range(groups)])


def star(clients: int, groups: int, overlap: int) -> Members:
    """Group 0 is the hub, which shares `overlap` clients with each other group.

    >>> star(clients=5, groups=3, overlap=1)
    ((0, 1, 2), (1, 3), (2, 4))
    """
    return _deal("star", clients, groups, overlap, [(0, group) for group in range(1, groups)])


def grid(clients: int, groups: int, overlap: int) -> Members:
    """Groups on a rectangle as square as can be, each sharing `overlap` clients with those beside, above and below it.

    >>> grid(clients=8, groups=4, overlap=1)
    ((0, 1, 2), (1, 3, 4), (2, 5, 6), (4, 6, 7))
    """
    _check.at_least(1, groups__groups=groups)
    width = groups // next(rows for rows in range(math.isqrt(groups), 0, -1) if groups % rows == 0)
    beside = [(group, group + 1) for group in range(groups) if (group + 1) % width]
    below = [(group, group + width) for group in range(groups - width)]
    return _deal("grid", clients, groups, overlap, beside + below)


BUILDERS: Mapping[str, Callable[[int, int, int], Members]] = {
    "string": string,
    "ring": ring,
    "star": star,
    "grid": grid,
}
"""By the name that a configuration gives to `groups.structure`."""


_LONGEST_NAME = 40


def regions(path: Path) -> tuple[Members, tuple[str, ...]]:
    """Groups from a file of lines `client,group`, after a header of these words: their members, and their names.

    Groups count in the order in which the file first names them.

    Raises:
        DataError: if the file cannot be read or a line is not such a pair.
    """
    try:
        lines = list(csv.reader(path.read_text(encoding="utf-8-sig").splitlines()))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"groups.path = {path} cannot be read: {_why(error)}.") from error
    if not lines or [word.strip() for word in lines[0]] != ["client", "group"]:
        raise DataError(f'groups.path = {path} must start with the line "client,group".')
    found: dict[str, set[int]] = {}
    for number, line in enumerate(lines[1:], start=2):
        if not line:
            continue
        words = [word.strip() for word in line]
        if len(words) != 2 or not re.fullmatch("[0-9]{1,9}", words[0]) or not words[1]:
            raise DataError(
                f'groups.path = {path}, line {number}: "{",".join(line):.80}" is not a client\'s number and a group.'
            )
        if len(words[1]) > _LONGEST_NAME or not words[1].isprintable():
            raise DataError(
                f"groups.path = {path}, line {number}: the group's name {words[1]!a:.60} must be one line of at most "
                f"{_LONGEST_NAME} characters that can be printed; shorten it."
            )
        client = int(words[0])
        if client in found.setdefault(words[1], set()):
            raise DataError(f"groups.path = {path}, line {number}: client {client} is in group {words[1]} already.")
        found[words[1]].add(client)
    if not found:
        raise DataError(f"groups.path = {path} names no client; write a line for each client of each group.")
    return tuple(tuple(sorted(group)) for group in found.values()), tuple(found)


def _why(error: OSError | UnicodeDecodeError | csv.Error) -> str:
    """Why a file of groups cannot be read, and what would do."""
    match error:
        case FileNotFoundError():
            return (
                'there is no such file; put one of lines "client,group" there, or correct the path, which is relative '
                "to the configuration"
            )
        case OSError():
            return f'{error.strerror or error}; name a file of lines "client,group" that may be read'
        case UnicodeDecodeError():
            return "it is not UTF-8 text; save it as UTF-8"
        case _:
            return f"{error}; write each line as a client's number, a comma and a group's name"


def _deal(name: str, clients: int, groups: int, overlap: int, links: list[Link]) -> Members:
    """Each link takes `overlap` clients, each group an even part of the others; numbers run along the groups."""
    _check.at_least(1, groups__groups=groups)
    _check.at_least(0, groups__overlap=overlap)
    rest = clients - overlap * len(links)
    alone = groups if overlap == 0 or not links else 0
    if rest < alone:
        raise TermsError(
            f'groups.structure = "{name}" with groups.groups = {groups} and groups.overlap = {overlap} needs at least '
            f"{overlap * len(links) + alone} clients, but data.clients = {clients}; take fewer groups or less overlap."
        )
    members: list[list[int]] = [[] for _ in range(groups)]
    dealt = 0
    for group in range(groups):
        own = rest // groups + (group < rest % groups)
        for one, other in [(group, group)] * own + [link for link in links if group == link[0] for _ in range(overlap)]:
            for place in {one, other}:
                members[place].append(dealt)
            dealt += 1
    return tuple(tuple(sorted(group)) for group in members)
