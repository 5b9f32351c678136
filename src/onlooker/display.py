"""What the command shows: tables of observers, and a run as it goes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import (
    Progress as Bar,
)
from rich.table import Table
from rich.text import Text

from onlooker import config
from onlooker.config import Prepared
from onlooker.folder import RunFolder
from onlooker.privacy.accounting import so_far
from onlooker.privacy.forecast import forecast, telling
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.statement import Finding, Worst, ranges, signatures, worst, worst_first
from onlooker.privacy.terms import Terms

if TYPE_CHECKING:
    from onlooker.run import Progress

_WIDEST_NAME = 26
_MOST_RUNS = 3
"""The most ranges of clients that a line of the table names, or one more."""


def number(epsilon: float) -> str:
    """An epsilon as people read it.

    >>> number(7.9995), number(math.inf)
    ('8.00', 'none')
    """
    return "none" if math.isinf(epsilon) else f"{epsilon:.2f}"


def show_findings(console: Console, ledger: Ledger, findings: Sequence[Finding]) -> None:
    """The table of observers, and under it the worst of them and what all reasons share.

    In groups, where each pair of clients has a price, each observer is shown with those it can learn most of.
    """
    terms = ledger.terms
    grouped = terms.groups > 1
    rows = worst_first(findings) if grouped else [Worst(one.observers, (one.subjects,), one, 0.0) for one in findings]
    reasons = [row.finding.because.partition("; ") for row in rows]
    shared = set[str]() if grouped else {tail for _, _, tail in reasons if tail}
    many = grouped or len({_others(finding, terms.clients) for finding in findings}) > 1
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left", title_style="bold")
    table.title = f"What each observer can learn about one {_unit(terms.unit)}"
    headings = (*(["about"] if many else []), "observer", "epsilon", *(["others"] if grouped else []))
    for heading in (*headings, "guarantee", "because"):
        width = min(_WIDEST_NAME, max(len(name) for row in rows for name in row.observers)) if rows else None
        table.add_column(
            heading,
            justify="right" if heading in ("epsilon", "others") else "left",
            overflow="fold",
            min_width=width if heading == "observer" else None,
        )
    for row, (reason, _, tail) in zip(rows, reasons, strict=True):
        because = f"{reason}; {tail}" if tail and len(shared) != 1 else reason
        value = number(row.finding.price.epsilon)
        others = [_least(row)] if grouped else []
        for names, subjects in _lines(row):
            about = [_runs(subjects)] if many else []
            table.add_row(*about, names, value, *others, row.finding.guarantee, Text(because))  # it may hold names
            because = ""  # said once for observers that share it
    console.print(table)
    common = [f"{tail[0].upper()}{tail[1:]}." for tail in shared] if len(shared) == 1 else []
    for line in (*common, *_summary(ledger, findings)):
        say(console, line)


def say(console: Console, line: str) -> None:
    """One line as it stands: names and paths of a user may hold what rich takes for markup."""
    console.print(Text(line), soft_wrap=True)


def _lines(row: Worst) -> list[tuple[str, Sequence[int]]]:
    """Observers with whom it is about, a line for each where they differ."""
    if len(set(row.subjects)) == 1:
        return [("\n".join(row.observers), row.subjects[0])]
    return list(zip(row.observers, row.subjects, strict=True))


def _runs(subjects: Sequence[int]) -> str:
    """Clients as ranges, a long list cut off."""
    runs = ranges(subjects)
    if len(runs) <= _MOST_RUNS + 1:
        return ", ".join(runs)
    return f"{', '.join(runs[:_MOST_RUNS])}, {len(runs) - _MOST_RUNS} more"


def _least(row: Worst) -> str:
    return "" if row.least == row.finding.price.epsilon else f"from {number(row.least)}"


def _summary(ledger: Ledger, findings: Sequence[Finding]) -> list[str]:
    terms = ledger.terms
    charged = f"{len(ledger.releases)} of {terms.rounds} rounds charged"
    lines = [
        f"Unit {terms.unit}, adjacency {terms.adjacency}, delta {terms.delta:g}; {charged}; terms {terms.hash[:12]}."
    ]
    largest = worst(findings)
    if largest is not None and math.isinf(largest.price.epsilon):
        open_to = [name for one in findings if math.isinf(one.price.epsilon) for name in one.observers]
        lines.append(f"No guarantee against {', '.join(dict.fromkeys(open_to))}.")
    bounded = worst(finding for finding in findings if not math.isinf(finding.price.epsilon))
    if bounded is not None:
        others = " of the others" if bounded is not largest else ""
        value, names = number(bounded.price.epsilon), ", ".join(bounded.observers)
        why = f" about {_runs(bounded.subjects)}: {bounded.because}" if terms.groups > 1 else ""
        lines.append(f"Worst{others} in the threat model: epsilon {value}, to {names}{why}.")
    return lines


def _others(finding: Finding, clients: int) -> tuple[int, ...]:
    """The subjects, as if a client that observes were one of them: nobody needs to be told that it is not."""
    members = {int(name[7:]) for observer in finding.observers for name in observer.split("+") if name[:7] == "client:"}
    return tuple(sorted({*finding.subjects, *(member for member in members if member < clients)}))


def show_plan(console: Console, prepared: Prepared, ledger: Ledger, findings: Sequence[Finding]) -> None:
    """The whole plan: what would run, what each observer would learn, and whether the model would."""
    terms, configuration = ledger.terms, prepared.configuration
    say(
        console,
        f"{configuration.task.method}: {_rounds(terms)}, {terms.clients} clients{_groups(terms)}, "
        f"{prepared.size:,} parameters, noise multiplier {_multipliers(terms)}",
    )
    for line in config.sides_of(prepared):
        say(console, line)
    show_findings(console, ledger, findings)
    show_printed(console, prepared)
    for expected in (forecast(terms), telling(terms)):
        if expected is not None and not expected.drowned:  # else it was a warning already
            say(console, f"Forecast: {expected.sentence()}")
    if prepared.description.unseen:
        say(console, prepared.description.unseen)


def _rounds(terms: Terms) -> str:
    epochs = f" of {terms.interval} epochs" if terms.interval > 1 else ""
    return f"{terms.rounds} round{'' if terms.rounds == 1 else 's'}{epochs}"


def _groups(terms: Terms) -> str:
    return f" in {terms.groups} groups" if terms.groups > 1 else ""


def _multipliers(terms: Terms) -> str:
    values = [channel.mechanism.noise_multiplier for channel in terms.model_channels]
    shown = f"{values[0]:g}" if len(set(values)) == 1 else f"{min(values):g} to {max(values):g}"
    measured = terms.measured_by
    return shown if measured is None else f"{shown} ({measured.mechanism.noise_multiplier:g} on private evaluation)"


def show_printed(console: Console, prepared: Prepared) -> None:
    """What the method's paper prints, where it prints anything."""
    if prepared.printed:
        say(console, prepared.printed)


def show_where(console: Console, folder: RunFolder) -> None:
    """From which round a run goes on."""
    done, rounds = folder.commit().round, folder.terms().rounds
    left = f"goes on from round {done + 1} of {rounds}" if done < rounds else f"has played all its {rounds} rounds"
    say(console, f"{folder.path} {left}.")


def follow(console: Console, prepared: Prepared, folder: RunFolder, progress: Iterable[Progress]) -> None:
    """Show a run as it goes: live on a terminal, else a line for every tenth of it."""
    terms, observers = prepared.agreement.terms, prepared.agreement.observers
    bar = Bar(
        TextColumn("round"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.fields[measured]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console,
    )
    done, latest = folder.commit().round, _last_evaluated(folder.metrics())
    task = bar.add_task("", total=terms.rounds, completed=done, measured="")
    shown = time.monotonic()
    with Live(bar, console=console, refresh_per_second=4, transient=True) as screen:
        for step in progress:
            done += 1
            latest = _last_evaluated([step.metrics or {}]) or latest
            standing = _standing(step, done, latest) + _told(step.metrics or {})
            bar.update(task, completed=done, measured=standing)
            if time.monotonic() - shown > 0.5 or done == terms.rounds:
                shown = time.monotonic()
                screen.update(Group(bar, _live_epsilons(step.ledger, observers)))
            if not console.is_terminal and done % max(1, terms.rounds // 10) == 0:
                console.print(f"round {done} of {terms.rounds}  {standing}", highlight=False, soft_wrap=True)


def _standing(step: Progress, round: int, latest: Mapping[str, Any] | None) -> str:
    """How good the model was when it was last looked at, with the round of that where it is an earlier one."""
    known = _measured(latest) if latest else "not evaluated yet"
    if latest and latest["round"] != round:
        known += f" after round {latest['round']}"
    return known if step.metrics else f"given up, stays charged; {known}"


def _told(metrics: Mapping[str, Any]) -> str:
    """What clients told under noise of the model before the round; nothing where they were not asked."""
    if "released" not in metrics:
        return ""
    released = metrics["released"]
    name = next(name for name in ("accuracy", "mean-absolute-error") if name in released)
    if released[name] is None:
        return "; clients say nothing above the noise"
    low, high = released[f"{name}-interval"]
    form = ".1%" if name == "accuracy" else ".4g"
    return f"; clients say {released[name]:{form}} ({low:{form}} to {high:{form}}) before it"


def _last_evaluated(metrics: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((line for line in reversed(metrics) if _measured(line)), None)


def _measured(metrics: Mapping[str, Any]) -> str:
    """In words; nothing where a round was not evaluated."""
    if "accuracy" in metrics:
        return f"accuracy {metrics['accuracy']:.1%}"
    if "loss" in metrics:
        return "loss not finite" if metrics["loss"] is None else f"loss {metrics['loss']:.4g}"
    return ""


def _live_epsilons(ledger: Ledger, observers: Sequence[str]) -> Table:
    """Epsilon so far, by the cheap accountant; the end of the run shows the exact one."""
    table = Table.grid(padding=(0, 2))
    table.add_row(Text("epsilon so far", style="bold"), *(Text(name) for name in observers))
    terms = ledger.terms
    spent = [
        max(
            so_far(terms.event(subject, observer, len(ledger.releases)), terms.delta, terms.priced_adjacency)
            for subject in signatures(ledger, observer)
        )
        for observer in observers
    ]
    table.add_row("", *(Text(number(epsilon), style="red" if math.isinf(epsilon) else "") for epsilon in spent))
    return table


def _unit(unit: str) -> str:
    return "record" if unit == "none" else unit
