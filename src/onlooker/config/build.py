"""From a configuration to a study that is ready to run, and what a user should be warned of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import tomli_w

from onlooker import data, models
from onlooker.config import engine, evaluation
from onlooker.config.kinds import kind_of
from onlooker.config.schema import Configuration
from onlooker.config.tables import parts_of
from onlooker.config.terms import Agreement, agree
from onlooker.config.unused import unused
from onlooker.errors import ConfigError, DataError
from onlooker.methods.method import Method
from onlooker.privacy.random import Seeded, Source, System
from onlooker.privacy.terms import Terms
from onlooker.types import Examples, Task

if TYPE_CHECKING:
    import torch

    from onlooker import engines
    from onlooker.round import Study

_LARGEST_RATE = 1e30  # a step of 32-bit floats can still be computed


@dataclass(frozen=True)
class Prepared:
    """A configuration that was found possible and priced; no data were read for it.

    Attributes:
        configuration: the file, its paths made absolute.
        description: the public facts of the data.
        layout: the parameters of what is trained.
        agreement: the terms, and who is to be guarded against.
        method: the method under those terms.
        printed: what the method's paper prints as their price; no guarantee, and empty where it prints none.
    """

    configuration: Configuration
    description: data.Description
    layout: tuple[models.Parameter, ...]
    agreement: Agreement
    method: Method
    printed: str

    @property
    def size(self) -> int:
        """d, the number of parameters."""
        return sum(parameter.size for parameter in self.layout)

    @cached_property
    def model(self) -> models.Model:
        """What is trained, made when it is first asked for: a plan can do without."""
        return models.build(*_asked(self.configuration, self.description))


def prepare(configuration: Configuration, base: Path) -> Prepared:
    """Check a whole configuration and price it.

    Args:
        configuration: as it was read.
        base: the folder that paths in it are relative to.

    Raises:
        OnlookerError: one sentence for the first fault.
    """
    kind = kind_of(configuration.task.method)
    _check_training(configuration)
    configuration = _absolute(configuration, base)
    description = data.describe(data_settings(configuration))
    asked = _asked(configuration, description)
    layout = models.outline(*asked)
    engine.refuse_unable(configuration.engine, lambda: models.build(*asked))
    parts = parts_of(configuration, kind, layout)
    agreement = agree(configuration, kind, parts)
    method = evaluation.measuring(kind.make(agreement.terms, configuration, parts), configuration, description)
    return Prepared(configuration, description, layout, agreement, method, kind.printed(agreement.terms))


def _asked(configuration: Configuration, description: data.Description) -> tuple[str, tuple[int, ...], int, Task, int]:
    """What the models room is asked about."""
    name = configuration.model.name
    return name, description.shape, description.outputs, description.task, description.symbols


def sides_of(prepared: Prepared) -> list[str]:
    """Both sides of a split model, a line each; empty where it is not split."""
    parts = prepared.method.parts
    if not len(parts.private):
        return []
    counts = parts.sides(prepared.layout)
    lines: list[str] = []
    for side, place, total in (("public", 1, len(parts.public)), ("private", 2, len(parts.private))):
        listed = ", ".join(f"{row[0]} {row[place]:,}" for row in counts if row[place])
        lines.append(f"{side.capitalize()} part, {total:,} of {prepared.size:,} parameters: {listed}")
    return lines


def study(prepared: Prepared, device: torch.device, federation: data.Federation | None = None) -> Study:
    """The study itself: this reads the data, unless they were read before for a run on the same.

    Raises:
        DataError: if they cannot be read, or are not what the configuration says.
    """
    from onlooker.round import Study  # with torch, which takes longer to import than most plans to make

    configuration = prepared.configuration
    federation = federation or data.load(data_settings(configuration), _dealer(configuration))
    if len(federation.clients) != configuration.data.clients:
        raise DataError(
            f"data.clients = {configuration.data.clients}, but the data hold {len(federation.clients)} clients; "
            "write that number."
        )
    for client, examples in enumerate(federation.clients):
        refuse_too_many_records(prepared.agreement.terms, client, examples)
    return Study(
        prepared.method,
        prepared.model,
        federation,
        source_of(configuration),
        device,
        configuration.evaluation.every,
        engine.chosen(configuration.engine, prepared.method, prepared.model, federation, device),
    )


def refuse_too_many_records(terms: Terms, client: int, examples: Examples) -> None:
    """Refuse a silo beyond the public cap: it would leave units out, and which ones would depend on which are there.

    Raises:
        DataError: if so.
    """
    units = len(examples.rows_by_person()) if terms.unit == "person" else len(examples)
    cap = terms.training.max_records
    if cap is not None and units > cap:
        raise DataError(
            f"data.max-records = {cap} is less than the {units} {terms.unit}s of client:{client}; raise it."
        )


def source_of(configuration: Configuration) -> Source:
    """Streams from the seed, or from the operating system where the seed is "system"."""
    seed = configuration.task.seed
    return System() if isinstance(seed, str) else Seeded(seed)


def _dealer(configuration: Configuration) -> Source:
    """Who deals rows to simulated clients: repeatable even without a seed, so that a resumed run has the same clients.

    It decides nothing private.
    """
    seed = configuration.task.seed
    return Seeded(0 if isinstance(seed, str) else seed)


def data_settings(configuration: Configuration) -> data.DataSettings:
    """The [data] table as the data room takes it."""
    table = configuration.data
    for name, bounds in table.ranges.items():
        if len(bounds) != 2:
            raise ConfigError(f"data.ranges.{name} = {bounds} must be a pair, such as [0, 100].")
    return data.DataSettings(
        name=table.name,
        root=Path(table.root) if table.root else None,
        clients=table.clients,
        partition=table.partition,
        alpha=table.alpha,
        classes_per_client=table.classes_per_client,
        id_column=table.id_column,
        columns=tuple(table.columns or ()),
        label_column=table.label_column,
        task=table.task,
        classes=tuple(table.classes),
        categories={name: tuple(levels) for name, levels in table.categories.items()},
        ranges={name: (low, high) for name, (low, high) in table.ranges.items()},
        ignore_columns=tuple(table.ignore_columns),
        missing_columns=tuple(table.missing_columns),
        test_file=table.test_file,
        test_fraction=table.test_fraction,
        person_column=table.person_column,
        whole_persons=configuration.privacy.unit == "person",
    )


def as_toml(configuration: Configuration, engine: engines.Settings | None = None) -> str:
    """The configuration as a file again, with what was given and nothing else.

    Args:
        configuration: as it was read.
        engine: what a run takes; its trainer is written down, because the last digits of a resumed run rest on it.
    """
    given = configuration.model_dump(by_alias=True, exclude_unset=True, exclude_none=True)
    if engine is not None and engine.name != "loop":
        given["engine"] = given.get("engine", {}) | {"trainer": engine.trainer}
    return tomli_w.dumps(given)


def without_seed(configuration: Configuration) -> Configuration:
    """The same for a deployment, which has none (rule 9)."""
    return configuration.model_copy(update={"task": configuration.task.model_copy(update={"seed": "system"})})


def changed(recorded: Configuration, asked: Configuration) -> list[str]:
    """The keys beside the terms in which two configurations differ and that make a run another one.

    With other clients behind the same names a guarantee would be about nobody, with another seed `env.json` would lie
    about who can take off the noise (rule 9), and with other training `run.toml` about what ran. Where the data lie,
    how often the model is looked at, and who computes, may change.
    """

    def identity(configuration: Configuration) -> dict[str, object]:
        tables: dict[str, dict[str, object] | None]
        apart = {"evaluation": {"every"}, "engine": True, "data": {"root"}}
        tables = configuration.model_dump(by_alias=True, exclude=apart)
        return {f"{name}.{key}": value for name, table in tables.items() for key, value in (table or {}).items()}

    before, after = identity(recorded), identity(asked)
    keys = dict.fromkeys([*before, *after])
    return [f"{key} = {after.get(key)} for {before.get(key)}" for key in keys if before.get(key) != after.get(key)]


def warnings_of(prepared: Prepared, deployed: bool = False) -> list[str]:
    """What does not stop a run but should not pass unseen, one sentence each.

    Args:
        prepared: what is to run.
        deployed: True for a deployment, which uses what a study does not.
    """
    configuration, terms = prepared.configuration, prepared.agreement.terms
    found = unused(configuration, kind_of(configuration.task.method))
    if deployed:
        found = [one for one in found if not one.startswith("servers.min-batch")]
    if terms.unit == "none":
        return [
            "no guarantee: this method adds no noise, and every party that sees a message sees what is in it.",
            *found,
        ]
    if terms.delta >= 1 / terms.expected_units:
        found.append(
            f"privacy.delta = {terms.delta:g} is not below 1 / {terms.expected_units:g}, one over the expected number "
            f"of units ({terms.unit}s): such a delta would allow to publish one unit whole."
        )
    return found


def _check_training(configuration: Configuration) -> None:
    training = configuration.training
    if training.steps and training.epochs:
        raise ConfigError(
            f"training.steps = {training.steps} and training.epochs = {training.epochs} exclude each other; name one."
        )
    positive = {"learning-rate": training.learning_rate, "server-learning-rate": training.server_learning_rate}
    for key, value in positive.items():
        if not 0 < value <= _LARGEST_RATE:
            raise ConfigError(f"training.{key} = {value} must be above 0 and at most {_LARGEST_RATE:g}.")
    for key, value in {"momentum": training.momentum, "server-momentum": training.server_momentum}.items():
        if not 0 <= value < 1:
            raise ConfigError(f"training.{key} = {value} must be at least 0 and below 1.")
    if not 0 <= training.weight_decay <= _LARGEST_RATE:
        raise ConfigError(f"training.weight-decay = {training.weight_decay} must be from 0 to {_LARGEST_RATE:g}.")


def _absolute(configuration: Configuration, base: Path) -> Configuration:
    """The same with the paths in it made absolute."""
    for name, table, key in (("data", configuration.data, "root"), ("groups", configuration.groups, "path")):
        given = None if table is None else getattr(table, key)
        if table is None or given is None:
            continue
        try:
            absolute = (base / given).resolve()
        except (OSError, RuntimeError, ValueError) as error:
            raise ConfigError(
                f"{name}.{key} = {given!r} is no path that can be followed: {error}; correct it."
            ) from error
        configuration = configuration.model_copy(update={name: table.model_copy(update={key: str(absolute)})})
    return configuration
