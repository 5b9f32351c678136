"""The two doors of the room: `describe` says what is public, `load` reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from onlooker._check import at_least, one_of
from onlooker.data import census, csv_files, custom, health, images, partition, text
from onlooker.data.federation import DataSettings, Description, Federation, Pool, checked
from onlooker.errors import DataError
from onlooker.privacy.random import Source
from onlooker.types import Examples

PARTITIONS = ("iid", "dirichlet", "pathological", "natural")

_Reader = Callable[[DataSettings, np.random.Generator], Pool]


@dataclass(frozen=True)
class _NamedSet:
    description: Description
    read: _Reader
    by_persons: Description | None = None  # with the rows of a person kept together, where they say whose they are


_NAMED: Mapping[str, _NamedSet] = {
    found.description.name: found
    for found in (
        _NamedSet(images.DIGITS, images.read_digits),
        _NamedSet(images.MNIST, images.read_idx),
        _NamedSet(images.FASHION_MNIST, images.read_idx),
        _NamedSet(images.CIFAR10, images.read_cifar10),
        _NamedSet(census.ADULT, census.read_adult),
        _NamedSet(health.HEART_DISEASE, health.read_heart_disease),
        _NamedSet(health.PARKINSONS, health.read_parkinsons, health.PARKINSONS_BY_PERSONS),
        _NamedSet(health.TCGA_BRCA, health.read_tcga_brca),
        _NamedSet(text.SHAKESPEARE, text.read_shakespeare),
    )
}
NAMES = (*_NAMED, "csv")
"""The sets that have a reader of their own."""


def describe(settings: DataSettings) -> Description:
    """The public facts about the set that `settings` names.

    No row is read, with two exceptions: for csv the line of column names is, and a function
    "package.module:function" is called, since only what it returns tells its shape.

    Raises:
        TermsError: if the set or the partition is not known.
        DataError: if csv files or a function do not fit the settings, the rows could not be dealt as asked whatever
            they are, or the set does not say whose its rows are where the settings want the rows of a person kept
            together.
    """
    one_of(PARTITIONS, **{"data.partition": settings.partition})
    if ":" in settings.name:
        answer = custom.call(settings)
        return answer.description if isinstance(answer, Federation) else answer[1]
    description = _described(settings)
    _refuse_partition(settings, description, settings.whole_persons)
    return description


def _described(settings: DataSettings) -> Description:
    one_of(NAMES, **{"data.name": settings.name})
    if settings.name == "csv":
        return csv_files.describe_csv(settings)
    named = _NAMED[settings.name]
    if not settings.whole_persons:
        return named.description
    if named.by_persons is None:
        raise DataError(
            f'data.name = "{settings.name}" does not say which rows are of one person, as privacy.unit = "person" '
            'needs; choose the unit "record", or data that name the person, such as csv with data.person-column.'
        )
    return named.by_persons


def load(settings: DataSettings, source: Source) -> Federation:
    """Read the set and deal its training rows to the clients.

    Args:
        settings: the `[data]` table.
        source: gives the streams "test-split" and "partition", which decide who holds which row and nothing
            private; the same seed gives the same federation.

    Raises:
        TermsError: on a value that no run could have.
        DataError: if files are missing or damaged, rows are not what `describe` says, or the rows cannot be
            dealt as asked; one sentence each.
    """
    at_least(1, **{"data.clients": settings.clients})
    one_of(PARTITIONS, **{"data.partition": settings.partition})
    if ":" in settings.name:
        answer = custom.call(settings)
        if isinstance(answer, Federation):
            return answer
        pool, description = answer
    else:
        description = describe(settings)
        read = csv_files.read_csv if settings.name == "csv" else _NAMED[settings.name].read
        pool = read(settings, np.random.default_rng(source.stream("test-split").seed()))
    generator = np.random.default_rng(source.stream("partition").seed())
    return _dealt(settings, pool, description, generator)


def rows(settings: DataSettings, place: str) -> Examples:
    """All rows of one party's csv files, none held out and none dealt.

    Args:
        settings: the `[data]` table, with the party's own `root`.
        place: whose they are, for messages, such as "the rows of client:2".

    Raises:
        DataError: as `load`.
    """
    settings = replace(settings, clients=1, partition="iid", test_file=None)
    return checked(csv_files.read_rows(settings), describe(settings), place)


def _dealt(settings: DataSettings, pool: Pool, description: Description, generator: np.random.Generator) -> Federation:
    def prepared(examples: Examples, place: str) -> Examples:
        rows = Examples(pool.prepare(examples.features), examples.labels, examples.persons)
        return checked(rows, description, f"{place} of {settings.name}")

    if len(pool.train.features) != len(pool.train):
        raise DataError(
            f'data.root: "{settings.name}" has {len(pool.train.features)} rows for training but '
            f"{len(pool.train)} labels; fetch its files again."
        )
    shares = _shares(settings, pool, description, generator)
    clients = (prepared(pool.train.take(rows), f"client {number}") for number, rows in enumerate(shares))
    return Federation(tuple(clients), prepared(pool.test, "the test set"), description)


def _shares(
    settings: DataSettings, pool: Pool, description: Description, generator: np.random.Generator
) -> partition.Shares:
    labels, clients = pool.train.labels, settings.clients
    partition.require_enough(len(labels), clients)
    persons = pool.train.persons if settings.whole_persons else None
    if settings.partition == "iid" and persons is not None:
        return partition.iid_persons(persons, clients, generator)
    if settings.partition == "iid":
        return partition.iid(len(labels), clients, generator)
    if settings.partition == "natural":
        if pool.owners is None:
            raise DataError(
                f'data.partition = "natural": "{settings.name}" does not say whose its rows are; choose iid, dirichlet '
                "or pathological."
            )
        return partition.natural(pool.owners, clients)
    _refuse_partition(settings, description, persons is not None)
    if settings.partition == "dirichlet":
        return partition.dirichlet(labels, clients, settings.alpha, generator)
    return partition.pathological(labels, clients, settings.classes_per_client, generator)


def _refuse_partition(settings: DataSettings, description: Description, by_persons: bool) -> None:
    """Refuse to deal rows by class where they have none, or where those of one person would be parted."""
    if settings.partition in ("iid", "natural"):
        return
    if by_persons:
        raise DataError(
            f'data.partition = "{settings.partition}" deals rows by their class and would part those of one person, '
            'whom privacy.unit = "person" guards as a whole; choose iid or natural.'
        )
    if description.task != "classification":
        raise DataError(
            f'data.partition = "{settings.partition}" needs classes, and the task of "{settings.name}" is '
            "regression; choose iid or natural."
        )
