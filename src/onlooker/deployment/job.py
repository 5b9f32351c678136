"""What a party that trains or evaluates makes of the configuration that all have agreed on, for its own part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onlooker import config, data
from onlooker.config import Configuration, Prepared
from onlooker.config.build import refuse_too_many_records
from onlooker.errors import ConfigError
from onlooker.methods.method import initial_vector
from onlooker.privacy.batches import refuse_what_batches_tell
from onlooker.privacy.random import Seeded
from onlooker.run import difference
from onlooker.secagg.agreement import Task
from onlooker.types import Examples, Vector


@dataclass(frozen=True)
class Rows:
    """Where a party's rows are.

    Attributes:
        root: in the place of `data.root`; None for the same.
        own: True if all of them are this party's; False if they are those of all clients, as in a simulation, and it
            takes its share.
    """

    root: Path | None
    own: bool


def agreed(path: Path, task: Task, functions: Sequence[str]) -> Prepared:
    """A configuration whose terms are those of the task, and that names no code but what this party allows.

    Raises:
        ConfigError: if it is another one's, names a seed, or names a function that is not allowed.
        OnlookerError: as `config.prepare`.
    """
    configuration = config.load(path)
    for key, name in (("data.name", configuration.data.name), ("model.name", configuration.model.name)):
        if ":" in name and name not in functions:
            raise ConfigError(
                f'{path.name}: {key} = "{name}" is code that functions does not allow here; read it, and add it to '
                "functions of this party's own file."
            )
    if configuration.task.given("seed") and configuration.task.seed != "system":
        raise ConfigError(
            f'{path.name}: task.seed = {configuration.task.seed} is for studies; leave it out, or write "system": '
            "whoever knows the seed of a deployment could take off its noise."
        )
    prepared = config.prepare(configuration, path.parent)
    if prepared.agreement.terms.hash != task.terms.hash:
        differing = "; ".join(difference(task.terms, prepared.agreement.terms))
        raise ConfigError(f"{path.name} is not what this task has agreed on: {differing}; use the file of the task.")
    if prepared.method.epochs > 1:
        raise ConfigError(
            f'task.method = "{configuration.task.method}" shares sums without noise within an interval, which servers '
            'do not do; choose "dp-ogl-plus-isolated".'
        )
    if task.terms.counted == "realised":
        raise ConfigError(
            'privacy.divisor = "realised" needs the count of those who took part, which a deployment does not tell; '
            'write "public".'
        )
    refuse_what_batches_tell(task.terms)
    return prepared


def rows_of(prepared: Prepared, rows: Rows, client: int) -> Examples:
    """A client's own rows.

    Raises:
        DataError: if they cannot be read, or are more than the terms allow.
    """
    configuration = prepared.configuration
    if rows.own and configuration.data.name == "csv":
        _require_columns(configuration)
        examples = data.rows(_settings(configuration, rows.root), f"the rows of client:{client}")
    else:
        examples = _federation(configuration, rows).clients[0 if rows.own else client]
    refuse_too_many_records(prepared.agreement.terms, client, examples)
    return examples


def test_rows(prepared: Prepared, root: Path) -> Examples:
    """The public test rows in a folder that holds the set of the task; of a csv all rows there.

    Raises:
        DataError: if they cannot be read.
    """
    if prepared.configuration.data.name == "csv":
        return data.rows(_settings(prepared.configuration, root), "the test set")
    return _federation(prepared.configuration, Rows(root, own=False)).test


def initial(prepared: Prepared, task: Task) -> Vector:
    """The weights that everybody starts from, `float32[d]`: made of the public name of the task alone."""
    return initial_vector(prepared.model, Seeded(int.from_bytes(task.identity, "big")))


def _federation(configuration: Configuration, rows: Rows) -> data.Federation:
    settings = _settings(configuration, rows.root)
    if rows.own:
        settings = replace(settings, clients=1, partition="iid", id_column=None)
    return data.load(settings, Seeded(0))  # who holds which row of a trial; it decides nothing private


def _settings(configuration: Configuration, root: Path | None) -> data.DataSettings:
    settings = config.data_settings(configuration)
    return settings if root is None else replace(settings, root=root)


def _require_columns(configuration: Configuration) -> None:
    """Each party's file could have its columns in another order, and mean other features by the same weights."""
    if not configuration.data.columns:
        raise ConfigError(
            "data.columns is missing in the job: each client has a file of its own, so name all columns there, in the "
            "order in which they become features."
        )
