"""Figures that are trained: some configurations, each with several seeds, to curves with their confidence intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

from scipy import stats

from onlooker.config.kinds import KINDS
from onlooker.privacy.published import LABEL
from onlooker.reproduce import opacus_runs
from onlooker.reproduce.drawing import Drawing, Panel, Row, Series, Table
from onlooker.reproduce.runs import Job, Runs, job_of, mean_seconds
from onlooker.reproduce.trace import Trace

_CONFIDENCE = 0.95
SOUND = "noise calibrated soundly, epsilon"
NO_NOISE = "no noise and no guarantee, epsilon"


@dataclass(frozen=True)
class Arm:
    """One configuration of a figure, run with each seed.

    Attributes:
        name: what the legend calls it.
        colour: arms of one colour belong together.
        configuration: the whole file as tables, without a seed.
        printed: the epsilon that the paper's formula prints for its noise; None where no formula set it.
        reason: why that formula is no guarantee.
        x: where it stands on the horizontal axis, in figures that are not drawn by round.
        how: what the noise is, in words that an epsilon follows.
        lender: a configuration whose calibrated noise this arm takes, where it can have no guarantee of its own.
    """

    name: str
    colour: int
    configuration: Mapping[str, Any]
    printed: float | None = None
    reason: str = ""
    x: float | str = 0.0
    how: str = SOUND
    lender: Mapping[str, Any] | None = None

    @property
    def built(self) -> bool:
        """False where the arm needs a package that is not installed."""
        method = self.configuration["task"]["method"]
        return method in KINDS or (method in opacus_runs.METHODS and opacus_runs.installed())

    def job(self, seed: int) -> Job:
        """Its run with one seed."""
        return job_of(self.configuration, seed, self.lender)


Traced: TypeAlias = Sequence[tuple[Arm, Sequence[Trace]]]
"""Arms with what each of their seeds left behind."""


def _no_tables(traced: Traced) -> tuple[Table, ...]:
    del traced
    return ()


@dataclass(frozen=True)
class Experiment:
    """A trained figure.

    Attributes:
        name: "figure-3" or "table-12".
        title: what it shows.
        caption: what was chosen where the paper says nothing, and where this departs from it.
        panels: the arms of each plot, by its title.
        measure: what is measured; "seconds" makes a table.
        across: "round", or what the arms' x means.
        seeds: each arm is run with each.
        longer: how many times longer a round of the paper's own local training is.
        beside: tables of what was run, drawn below the plots.
        options: what the command says to draw it at this size.
    """

    paper: str
    name: str
    title: str
    caption: str
    panels: Mapping[str, tuple[Arm, ...]]
    measure: Literal["accuracy", "loss", "seconds"]
    across: str
    seeds: tuple[int, ...]
    longer: float = 1.0
    beside: Callable[[Traced], tuple[Table, ...]] = _no_tables
    options: str = ""

    @property
    def built(self) -> tuple[Arm, ...]:
        """All arms that can be run here."""
        return tuple(arm for arms in self.panels.values() for arm in arms if arm.built)

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All runs that it takes."""
        return tuple(arm.job(seed) for arm in self.built for seed in self.seeds)


def carry_out(experiment: Experiment, runs: Runs) -> Drawing:
    """Train what has not been trained yet, and draw it; what cannot be run here is named.

    Raises:
        OnlookerError: as `Runs.of`.
    """
    found = runs.of(experiment.jobs)
    panels: list[Panel] = []
    rows: list[Row] = []
    every: list[tuple[Arm, Sequence[Trace]]] = []
    for title, arms in experiment.panels.items():
        traced = [(arm, [found[arm.job(seed)] for seed in experiment.seeds]) for arm in arms if arm.built]
        every += traced
        if experiment.measure == "seconds":
            rows += [_timed(title, arm, traces) for arm, traces in traced]
        elif traced:
            panels.append(_panel(experiment, title, traced))
    columns = ("data and target epsilon", "run", "seconds", "half width, 95 %")
    tables = (Table(columns, tuple(rows)),) if rows else ()
    tables += experiment.beside(every)
    caption = f"{experiment.caption}{_seeds(experiment)}{_cost(experiment, every)}{_missing(experiment)}"
    return Drawing(
        experiment.paper, experiment.name, experiment.title, caption, tuple(panels), tables, experiment.options
    )


def _seeds(experiment: Experiment) -> str:
    count = len(experiment.seeds)
    if count == 1:
        return " One seed."
    named = ", ".join(map(str, experiment.seeds[:-1])) + f" and {experiment.seeds[-1]}"
    return f" Mean of the seeds {named}, with its 95 % confidence interval (Student)."


def _cost(experiment: Experiment, traced: Traced) -> str:
    """What the paper's size would take, by the rounds that were measured."""
    if experiment.longer <= 1:
        return ""
    count = len(experiment.seeds)
    seconds = math.fsum(mean_seconds(traces) * arm.configuration["task"]["rounds"] * count for arm, traces in traced)
    return (
        f" At the paper's local training a round of these networks takes {experiment.longer:.0f} times as long: by the "
        f"rounds measured here, {experiment.longer * seconds / 3600:.0f} hours of one core for this figure, without "
        "evaluations."
    )


def _missing(experiment: Experiment) -> str:
    names = [arm.name for arms in experiment.panels.values() for arm in arms if not arm.built]
    return f" Left out, for its package is not installed: {', '.join(dict.fromkeys(names))}." if names else ""


def _panel(experiment: Experiment, title: str, traced: Traced) -> Panel:
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


def _by_x(experiment: Experiment, traced: Traced) -> Series:
    """The last value of each arm against its x."""
    found = [interval([trace.values[experiment.measure][-1] for trace in traces]) for _, traces in traced]
    each = [traces[0].spent for _, traces in traced]
    at = "; ".join(f"at {_word(arm.x)}: {spent}" for (arm, _), spent in zip(traced, each, strict=True))
    spent = at if len(set(each)) > 1 else each[0]
    return _series(traced[0][0], spent, cast(Any, [arm.x for arm, _ in traced]), found)


def _word(x: float | str) -> str:
    return f"{x:g}" if isinstance(x, float) else str(x)


_Interval = tuple[float | None, float | None]


def _series(arm: Arm, spent: str, x: Sequence[float] | Sequence[str], found: Sequence[_Interval]) -> Series:
    means, halves = [mean for mean, _ in found], [half for _, half in found]
    dotted = arm.printed is not None
    return Series(arm.name, "measured", label(arm, spent), arm.colour, x, means, halves, dotted, arm.reason)


def label(arm: Arm, spent: str) -> str:
    """What kind of number a run of this arm is."""
    if arm.printed is None:
        return f"measured; {arm.how}: {spent}"
    return f"measured; noise for a printed epsilon of {arm.printed:g}, {LABEL}; sound epsilon: {spent}"


def _timed(title: str, arm: Arm, traces: Sequence[Trace]) -> Row:
    mean, half = interval([trace.seconds for trace in traces])
    return Row(
        (title, arm.name, mean, half), "measured", f"{label(arm, traces[0].spent)}; processor time of this machine"
    )


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
