"""Keys that a file gives and nothing looks at: a sentence each, for whoever wrote one believes that it does something.

Keys that contradict others are refused where they are read (`choices`, `tables`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onlooker.config.kinds import Kind
from onlooker.config.schema import Configuration, Table

_OF_CSV = (
    *("id-column", "label-column", "person-column", "columns", "task", "classes", "categories", "ranges"),
    *("ignore-columns", "missing-columns", "test-file", "test-fraction"),
)


def unused(configuration: Configuration, kind: Kind) -> list[str]:
    """One sentence for each such key, in the order of the tables."""
    parts = (_of_data, _of_training, _of_sampling, _of_split, _of_servers, _of_privacy, _of_evaluation, _of_engine)
    return [sentence for part in parts for sentence in part(configuration, kind)]


def _given(name: str, table: Table | None, *keys: str) -> dict[str, Any]:
    """What the file gives of these keys of a table, under their full names."""
    fields = {key: key.replace("-", "_") for key in keys}
    return {f"{name}.{key}": getattr(table, field) for key, field in fields.items() if table and table.given(field)}


def _said(given: Mapping[str, Any], reason: str) -> list[str]:
    return [f"{key} = {_shown(value)} is not used: {reason}." for key, value in given.items()]


def _shown(value: object) -> str:
    return f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)


def _of_data(configuration: Configuration, kind: Kind) -> list[str]:
    data, unit = configuration.data, configuration.privacy.unit or kind.unit
    found: list[str] = []
    if not kind.by_records:
        found += _said(_given("data", data, "max-records"), "only dp-sgd caps the records or persons of a silo")
    if not kind.by_records and unit != "record":
        found += _said(_given("data", data, "expected-records"), f'the unit "{unit}" counts no records')
    if ":" in data.name:  # the function is called with all the rest, and may look at it
        return found
    if data.partition != "dirichlet":
        found += _said(_given("data", data, "alpha"), 'only data.partition = "dirichlet" deals by it')
    if data.partition != "pathological":
        found += _said(_given("data", data, "classes-per-client"), 'only data.partition = "pathological" deals by it')
    if data.name == "digits":
        found += _said(_given("data", data, "root"), 'the set "digits" comes with scikit-learn')
    if data.name != "csv":
        return found + _said(_given("data", data, *_OF_CSV), 'only data.name = "csv" takes it')
    if data.test_file:
        found += _said(_given("data", data, "test-fraction"), "data.test-file holds the rows of the test")
    if data.task == "regression":
        found += _said(_given("data", data, "classes"), "a regression has none")
    if data.person_column and unit != "person":
        found.append(
            f'data.person-column = "{data.person_column}" groups no rows, and only keeps that column from the '
            'features: no person is guarded as a whole unless privacy.unit = "person".'
        )
    return found


def _of_training(configuration: Configuration, kind: Kind) -> list[str]:
    training = configuration.training
    momentum = _given("training", training, "momentum") if training.momentum else {}
    if not kind.by_records:
        return _said(momentum, "adam has rates of decay of its own") if training.optimizer == "adam" else []
    keys = ("epochs", "batch-size") if training.steps == 1 else ("steps", "epochs", "batch-size")
    draws = "dp-sgd takes one step a round, over the records that sampling.records draws"
    found = _said(_given("training", training, *keys), draws)
    if training.optimizer == "adam":
        found += _said(_given("training", training, "optimizer"), "dp-sgd descends, with momentum at the most")
    return found + (_said(momentum, "training.server-momentum is in its place") if training.server_momentum else [])


def _of_sampling(configuration: Configuration, kind: Kind) -> list[str]:
    if kind.by_records or kind.draws_batches:
        return []
    records = configuration.sampling.records
    reason = f"{configuration.task.method} does not draw records as a matter of privacy, as dp-sgd and ms-pafl do"
    return _said(_given("sampling.records", records, "name", "rate"), reason)


def _of_split(configuration: Configuration, kind: Kind) -> list[str]:
    del kind
    split = configuration.split
    by_names = split is not None and split.ratio is None
    return _said(_given("split", split, "rule") if by_names else {}, "names part the model, and no ratio")


def _of_servers(configuration: Configuration, kind: Kind) -> list[str]:
    del kind
    servers = configuration.servers
    found = [
        f"{key} = {value} is not used in a study, which sums every batch, however small; a deployment uses it."
        for key, value in _given("servers", servers, "min-batch").items()
    ]
    if configuration.privacy.noised_by == "clients":
        found += _said(_given("servers", servers, "corrupt"), "clients add the noise, and no server does")
    return found


def _of_privacy(configuration: Configuration, kind: Kind) -> list[str]:
    if (configuration.privacy.unit or kind.unit) != "none":
        return []
    keys = ("adjacency", "mechanism", "noised-by", "clip", "divisor", "delta")
    given = _given("privacy", configuration.privacy, *keys)
    return _said(given, 'with the unit "none" nothing is clipped, noised or priced')


def _of_evaluation(configuration: Configuration, kind: Kind) -> list[str]:
    del kind
    table = configuration.evaluation
    keys = () if table.private else ("share", "noise-multiplier", "loss-bound")
    return _said(_given("evaluation", table, *keys), "only with evaluation.private = true do clients measure the model")


def _of_engine(configuration: Configuration, kind: Kind) -> list[str]:
    engine = configuration.engine
    if engine.name == "loop":
        keys = ("workers", "trainer", "start-method", "shares", "address")
        return _said(_given("engine", engine, *keys), 'the engine "loop" plays one client after another, and plainly')
    found = _said(_given("engine", engine, "address"), 'only the engine "ray" joins a cluster')
    if engine.name == "ray":
        found = []
    if configuration.servers is None and not kind.shares:
        found += _said(_given("engine", engine, "shares"), "no servers sum shares")
    return found
