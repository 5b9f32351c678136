"""Figures that are trained: some configurations, each with several seeds, to curves with their confidence intervals."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, cast

import torch
from scipy import stats

from onlooker import config, data, run
from onlooker.config.kinds import KINDS
from onlooker.folder import RunFolder
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.published import LABEL
from onlooker.privacy.statement import find
from onlooker.reproduce.drawing import Drawing, Panel, Row, Series, Table

_CONFIDENCE = 0.95
_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Arm:
    """One configuration of a figure, run with each seed.

    Attributes:
        name: what the legend calls it.
        colour: arms of one colour belong together.
        configuration: the whole file as tables, without a seed.
        printed: the epsilon that the paper's formula prints for its noise; None where the noise is calibrated soundly.
        reason: why that formula is no guarantee.
        x: where it stands on the horizontal axis, in figures that are not drawn by round.
    """

    name: str
    colour: int
    configuration: Mapping[str, Any]
    printed: float | None = None
    reason: str = ""
    x: float | str = 0.0

    @property
    def built(self) -> bool:
        """False while the method, or the unit, is still to come."""
        return self.configuration["task"]["method"] in KINDS


@dataclass(frozen=True)
class Experiment:
    """A trained figure.

    Attributes:
        name: "figure-3" or "table-12".
        title: what it shows.
        caption: what was chosen where the paper says nothing.
        panels: the arms of each plot, by its title.
        measure: what is measured; "seconds" makes a table.
        across: "round", or what the arms' x means.
        seeds: each arm is run with each.
    """

    paper: str
    name: str
    title: str
    caption: str
    panels: Mapping[str, tuple[Arm, ...]]
    measure: Literal["accuracy", "loss", "seconds"]
    across: str
    seeds: tuple[int, ...]

    @property
    def built(self) -> bool:
        """True if there is anything to train."""
        return any(arm.built for arms in self.panels.values() for arm in arms)


@dataclass(frozen=True)
class Trace:
    """What one run left behind.

    Attributes:
        rounds: those that were evaluated.
        values: accuracy and loss after each of them, None where not finite.
        seconds: of the whole run.
        spent: the sound epsilon of each observer, in words.
    """

    rounds: tuple[int, ...]
    values: Mapping[str, tuple[float | None, ...]]
    seconds: float
    spent: str


def train(configuration: Mapping[str, Any], seed: int) -> Trace:
    """Run one configuration with one seed, in a folder that is gone afterwards.

    Raises:
        OnlookerError: if the configuration cannot be run, or its data are not there.
    """
    table = {**configuration, "task": {**configuration["task"], "seed": seed}}
    return _trained(json.dumps(table, sort_keys=True))


@lru_cache(maxsize=1024)
def _trained(text: str) -> Trace:
    """By the text of a configuration, for figures that show the same runs."""
    table = json.loads(text)
    prepared = config.prepare(config.Configuration.model_validate(table), Path())
    same = json.dumps({"task": {"method": "fedavg", "seed": table["task"]["seed"]}, "data": table["data"]})
    study = config.study(prepared, _CPU, _federation(same, table["model"]["name"]))
    terms = prepared.agreement.terms
    with tempfile.TemporaryDirectory() as parent:
        start = run.starting_tensors(study)
        folder = RunFolder.create(Path(parent) / "run", config.as_toml(prepared.configuration), terms, {}, start)
        lines = [progress.metrics for progress in run.simulate(study, folder) if progress.metrics]
    shown = [line for line in lines if "accuracy" in line or "loss" in line]
    values = {name: tuple(line.get(name) for line in shown) for name in ("accuracy", "loss")}
    seconds = math.fsum(line["seconds"] for line in lines)
    return Trace(tuple(line["round"] for line in shown), values, seconds, _spent(prepared))


@lru_cache(maxsize=1)
def _federation(text: str, model: str) -> data.Federation:
    """The data of a configuration, kept while the next run is on the same: some take long to unpack."""
    table = {**json.loads(text), "model": {"name": model}}
    prepared = config.prepare(config.Configuration.model_validate(table), Path())
    return config.study(prepared, _CPU).federation


def _spent(prepared: config.Prepared) -> str:
    findings = find(Ledger.plan(prepared.agreement.terms), prepared.agreement.observers)
    return ", ".join(
        f"{observer} {finding.price.epsilon:.3g}" if math.isfinite(finding.price.epsilon) else f"{observer} none"
        for finding in findings
        for observer in finding.observers
    )


def carry_out(experiment: Experiment) -> Drawing:
    """Train whatever is built, and draw it; what is not built is named.

    Raises:
        OnlookerError: as `train`.
    """
    left_out = [arm.name for arms in experiment.panels.values() for arm in arms if not arm.built]
    missing = f" Not built yet, and left out: {', '.join(dict.fromkeys(left_out))}." if left_out else ""
    count = len(experiment.seeds)
    seeds = f" Mean of {count} seeds, with its 95 % confidence interval (Student)." if count > 1 else " One seed."
    panels: list[Panel] = []
    rows: list[Row] = []
    for title, arms in experiment.panels.items():
        traced = [(arm, [train(arm.configuration, seed) for seed in experiment.seeds]) for arm in arms if arm.built]
        if experiment.measure == "seconds":
            rows += [_timed(title, arm, traces) for arm, traces in traced]
        elif traced:
            panels.append(_panel(experiment, title, traced))
    columns = ("data and printed epsilon", "run", "seconds", "half width, 95 %")
    tables = (Table(columns, tuple(rows)),) if rows else ()
    caption = f"{experiment.caption}{seeds}{missing}"
    return Drawing(experiment.paper, experiment.name, experiment.title, caption, tuple(panels), tables)


_Traced = Sequence[tuple[Arm, Sequence[Trace]]]


def _panel(experiment: Experiment, title: str, traced: _Traced) -> Panel:
    by_round = experiment.across == "round"
    series = [_by_round(experiment, arm, traces) for arm, traces in traced] if by_round else []
    if not by_round:
        names = dict.fromkeys(arm.name for arm, _ in traced)
        series = [_by_x(experiment, [(arm, traces) for arm, traces in traced if arm.name == name]) for name in names]
    scale = "share" if experiment.measure == "accuracy" else "log"
    return Panel(title, experiment.across, experiment.measure, tuple(series), scale)


def _by_round(experiment: Experiment, arm: Arm, traces: Sequence[Trace]) -> Series:
    each = [trace.values[experiment.measure] for trace in traces]
    found = [interval(values) for values in zip(*each, strict=True)]
    return _series(arm, traces[0].spent, traces[0].rounds, found)


def _by_x(experiment: Experiment, traced: _Traced) -> Series:
    """The last value of each arm against its x."""
    found = [interval([trace.values[experiment.measure][-1] for trace in traces]) for _, traces in traced]
    spent = "; ".join(f"at {arm.x}: {traces[0].spent}" for arm, traces in traced)
    return _series(traced[0][0], spent, cast(Any, [arm.x for arm, _ in traced]), found)


_Interval = tuple[float | None, float | None]


def _series(arm: Arm, spent: str, x: Sequence[float] | Sequence[str], found: Sequence[_Interval]) -> Series:
    means, halves = [mean for mean, _ in found], [half for _, half in found]
    dotted = arm.printed is not None
    return Series(arm.name, "measured", label(arm, spent), arm.colour, x, means, halves, dotted, arm.reason)


def label(arm: Arm, spent: str) -> str:
    """What kind of number a run of this arm is."""
    if arm.printed is None:
        return f"measured; noise calibrated soundly, epsilon: {spent}"
    return f"measured; noise for a printed epsilon of {arm.printed:g}, {LABEL}; sound epsilon: {spent}"


def _timed(title: str, arm: Arm, traces: Sequence[Trace]) -> Row:
    mean, half = interval([trace.seconds for trace in traces])
    return Row((title, arm.name, mean, half), "measured", f"{label(arm, traces[0].spent)}; wall clock of this machine")


def interval(values: Sequence[float | None]) -> _Interval:
    """Mean, and the half width of its 95 % confidence interval by Student's t; no width of a single value.

    >>> mean, half = interval([1.0, 2.0, 3.0])
    >>> mean, round(half, 3)
    (2.0, 2.484)
    """
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None, None
    mean = math.fsum(known) / len(known)
    if len(known) == 1:
        return mean, None
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1))
    quantile = float(cast(Any, stats).t.ppf((1 + _CONFIDENCE) / 2, len(known) - 1))
    return mean, quantile * deviation / math.sqrt(len(known))
