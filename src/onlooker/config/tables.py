"""The tables that only some methods know: [split], [groups] and the drawing of records for batches."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from onlooker import _check
from onlooker.config.kinds import Kind
from onlooker.config.schema import Configuration, GroupsTable, SplitTable
from onlooker.errors import ConfigError, TermsError, UnpricedError
from onlooker.models import Parameter, Parts
from onlooker.models.parts import by_names, by_ratio, whole
from onlooker.privacy.records import RecordBatches, WithoutReplacement, WithReplacement
from onlooker.privacy.structures import BUILDERS, Members, regions
from onlooker.privacy.topology import Groups, Star

_BATCHES = {"without-replacement": WithoutReplacement, "with-replacement": WithReplacement}


def parts_of(configuration: Configuration, kind: Kind, layout: Sequence[Parameter]) -> Parts:
    """Which parameters leave a client: all of them without a [split]."""
    split = configuration.split
    if split is None:
        return whole(sum(parameter.size for parameter in layout))
    if not kind.splits:
        raise UnpricedError(
            f"[split] has no meaning for {configuration.task.method}, which sends rows of the whole model; leave it "
            'out, or use "ms-pafl".'
        )
    if split.ratio is not None:
        if split.public is not None or split.private is not None:
            raise ConfigError(f"split.ratio = {split.ratio} and globs of names exclude each other; keep one.")
        return by_ratio(layout, _share(split))
    public, private = _globs(split.public), _globs(split.private)
    if not public and not private:
        raise ConfigError('[split] is empty; name split.public, such as ["head.*"], or split.ratio, such as 0.9.')
    return by_names(layout, public, private)


def _globs(given: str | list[str] | None) -> list[str]:
    return [given] if isinstance(given, str) else given or []


def _share(split: SplitTable) -> float:
    """The public share: a number, or "d_alpha:d_p" as MS-PAFL writes it."""
    if isinstance(split.ratio, str):
        found = re.fullmatch(r"([0-9]+(?:[.][0-9]+)?):([0-9]+(?:[.][0-9]+)?)", split.ratio)
        if not found or not 0 < float(found[2]) < math.inf:
            raise ConfigError(
                f'split.ratio = "{split.ratio}" must be private to public, such as "1:9", or the public share.'
            )
        return float(found[2]) / (float(found[1]) + float(found[2]))
    share = split.ratio or 0.0
    if not 0 < share <= 1:
        raise TermsError(f"split.ratio = {split.ratio}, the public share, must be above 0 and at most 1.")
    return share


def topology_of(configuration: Configuration, kind: Kind) -> tuple[Star | Groups, tuple[str, ...]]:
    """Who feeds which sum, everybody the one sum without [groups]; and the groups' names, empty where they have none.

    Raises:
        ConfigError: if the table names its groups in no way or in several.
        UnpricedError: if the method cannot be priced in groups, or the rounds do not fit its intervals.
    """
    table = configuration.groups
    if table is None:
        if kind.needs_groups:
            raise ConfigError(
                f'task.method = "{configuration.task.method}" is about groups; add a [groups] table, such as '
                "members = [[0, 1, 2], [2, 3, 4]]."
            )
        return Star(), ()
    if not kind.in_groups:
        raise UnpricedError(
            f"[groups] has no price for {configuration.task.method}, whose guarantee is not one of client against "
            'client; leave it out, or use "dp-ogl".'
        )
    members, names = _members(configuration, table)
    groups = Groups(members, table.mixing_period, tuple(table.publish))
    count = len(groups.members)
    for key, given in {"rate": table.rate, "clip": table.clip, "noise-multiplier": table.noise_multiplier}.items():
        if given is not None and len(given) != count:
            raise TermsError(f"groups.{key} names {len(given)} values for {count} groups; name one each.")
    _refuse_meaningless(configuration, table)
    for clip in table.clip or ():
        _check.positive(groups__clip=clip)
    for multiplier in table.noise_multiplier or ():
        _check.positive(groups__noise_multiplier=multiplier)
    if table.rate is not None:
        sampling = configuration.sampling.clients
        if sampling is not None and sampling.name == "all":
            raise TermsError(
                f'groups.rate = {table.rate} means nothing with sampling.clients.name = "all"; leave one of them out.'
            )
        for rate in table.rate:
            _check.rate(groups__rate=rate)
        groups = replace(groups, rates=tuple(table.rate))
    return (replace(groups, mixing_period=1) if kind.intervals else groups), names


def _members(configuration: Configuration, table: GroupsTable) -> tuple[Members, tuple[str, ...]]:
    given = {"members": table.members, "structure": table.structure, "path": table.path}
    named = [key for key, value in given.items() if value is not None]
    if len(named) != 1:
        raise ConfigError(
            "[groups] must say who is in which group in one way: members, or structure with groups and overlap, or "
            f"path; it names {' and '.join(named) or 'none'}."
        )
    if table.members is not None:
        return tuple(tuple(group) for group in table.members), ()
    if table.path is not None:
        return regions(Path(table.path))
    _check.one_of(BUILDERS, groups__structure=table.structure or "")
    if table.groups is None:
        raise ConfigError(f'groups.groups is missing; name how many groups the "{table.structure}" has.')
    clients = configuration.data.clients
    if table.groups > clients + 1:
        raise TermsError(
            f"groups.groups = {table.groups} is more than data.clients = {clients} can be dealt to; choose at most "
            f"{clients} groups."
        )
    return BUILDERS[table.structure or ""](clients, table.groups, table.overlap), ()


def _refuse_meaningless(configuration: Configuration, table: GroupsTable) -> None:
    """Refuse what only a builder of groups takes where they are named, and what a list for each group replaces."""
    if table.structure is None:
        where = "members" if table.members is not None else "path"
        for key, value in {"groups": table.groups, "overlap": table.overlap}.items():
            if table.given(key):
                raise TermsError(
                    f"groups.{key} = {value} means nothing beside groups.{where}, but only with groups.structure; "
                    "leave it out."
                )
    sampling, privacy = configuration.sampling.clients, configuration.privacy
    if table.rate is not None and sampling is not None and sampling.rate is not None:
        raise TermsError(_twice(f"sampling.clients.rate = {sampling.rate}", f"groups.rate = {table.rate}"))
    if table.clip is not None and privacy.given("clip"):
        raise TermsError(_twice(f"privacy.clip = {privacy.clip}", f"groups.clip = {table.clip}"))


def _twice(one: str, other: str) -> str:
    return f"{one} and {other} say the same thing twice; name one of them."


def interval_of(configuration: Configuration, kind: Kind) -> int:
    """S where a round is an interval of S epochs, which T must be a multiple of."""
    if not kind.intervals or configuration.groups is None:
        return 1
    epochs, interval = configuration.task.rounds, configuration.groups.mixing_period
    if epochs % interval:
        raise TermsError(
            f"task.rounds = {epochs} epochs are no whole number of intervals of groups.mixing-period = {interval}; "
            f"{epochs // interval * interval or interval} would be."
        )
    return interval


def batches_of(configuration: Configuration, kind: Kind) -> RecordBatches | None:
    """How a client draws the records of its batches, where the file says."""
    table = configuration.sampling.records
    if kind.by_records or table is None:
        return None
    if not kind.draws_batches:
        return None
    if table.name not in _BATCHES:
        named = f'sampling.records.name = "{table.name}" is not built for {configuration.task.method}'
        missing = named if table.given("name") else "sampling.records.name is missing"
        raise ConfigError(f"{missing}; choose {' or '.join(_BATCHES)}.")
    if table.rate is not None:
        raise ConfigError(
            f"sampling.records.rate = {table.rate} follows from training.steps, training.batch-size and "
            "data.expected-records where batches are drawn; leave it out."
        )
    training = configuration.training
    if training.epochs:
        raise ConfigError(
            f"training.epochs = {training.epochs} are passes over all records; with sampling.records.name = "
            f'"{table.name}" name training.steps.'
        )
    return _BATCHES[table.name](training.steps or 5, training.batch_size)


def scaled(bounds: float | Sequence[float], interval: int) -> float | tuple[float, ...]:
    """The bound of an interval's total: sqrt(S) c."""
    factor = math.sqrt(interval)
    return factor * bounds if isinstance(bounds, (int, float)) else tuple(factor * one for one in bounds)
