"""What the command shows: tables of observers, and a run as it goes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bar, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from onlooker.config import Prepared
from onlooker.folder import RunFolder
from onlooker.privacy.accounting import live
from onlooker.privacy.forecast import forecast
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.statement import Finding, ranges, worst
from onlooker.run import Progress


def number(epsilon: float) -> str:
    """An epsilon as people read it.

    >>> number(7.9995), number(math.inf)
    ('8.00', 'none')
    """
    return "none" if math.isinf(epsilon) else f"{epsilon:.2f}"


def show_findings(console: Console, ledger: Ledger, findings: Sequence[Finding]) -> None:
    """The table of observers, and under it the worst of them."""
    terms = ledger.terms
    many = len({finding.subjects for finding in findings}) > 1
    table = Table(title=f"what each observer can learn about one {_unit(terms.unit)}", title_justify="left")
    if many:
        table.add_column("about")
    for heading in ("observer", "epsilon", "guarantee", "because"):
        table.add_column(heading, justify="right" if heading == "epsilon" else "left", overflow="fold")
    for finding in findings:
        about = [", ".join(ranges(finding.subjects))] if many else []
        table.add_row(*about, "\n".join(finding.observers), number(finding.price.epsilon), finding.guarantee, finding.because)
    console.print(table)
    console.print(
        f"unit {terms.unit}, adjacency {terms.adjacency}, delta {terms.delta:g}, {len(ledger.releases)} of "
        f"{terms.rounds} rounds charged, terms {terms.hash[:12]}",
        highlight=False,
    )
    if (largest := worst(findings)) is not None:
        names = ", ".join(largest.observers)
        value = "no guarantee" if math.isinf(largest.price.epsilon) else f"epsilon {number(largest.price.epsilon)}"
        console.print(f"worst in the threat model: {value}, to {names}", highlight=False)


def show_plan(console: Console, prepared: Prepared, ledger: Ledger, findings: Sequence[Finding]) -> None:
    """The whole plan: what would run, what each observer would learn, and whether the model would."""
    terms, configuration = ledger.terms, prepared.configuration
    console.print(
        f"{configuration.task.method}: {terms.rounds} rounds, {terms.clients} clients, {prepared.model.size:,} parameters, "
        f"noise multiplier {terms.channels[0].mechanism.noise_multiplier:g}",
        highlight=False,
    )
    show_findings(console, ledger, findings)
    console.print(f"forecast: {forecast(terms).sentence()}", highlight=False)


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
    done = folder.commit().round
    task = bar.add_task("", total=terms.rounds, completed=done, measured="")
    shown = time.monotonic()
    with Live(bar, console=console, refresh_per_second=4, transient=True) as screen:
        for step in progress:
            done += 1
            bar.update(task, completed=done, measured=_measured(step.metrics))
            if time.monotonic() - shown > 0.5 or done == terms.rounds:
                shown = time.monotonic()
                screen.update(Group(bar, _live_epsilons(step.ledger, observers)))
            if not console.is_terminal and done % max(1, terms.rounds // 10) == 0:
                console.print(f"round {done} of {terms.rounds}  {_measured(step.metrics)}", highlight=False)


def _measured(metrics: Mapping[str, Any] | None) -> str:
    if metrics is None:
        return "given up, stays charged"
    if "accuracy" in metrics:
        return f"accuracy {metrics['accuracy']:.1%}"
    return f"loss {metrics['loss']:.4g}" if "loss" in metrics else ""


def _live_epsilons(ledger: Ledger, observers: Sequence[str]) -> Table:
    """Epsilon so far, by the cheap accountant; the end of the run shows the exact one."""
    table = Table.grid(padding=(0, 2))
    table.add_row(Text("epsilon so far", style="bold"), *(Text(name) for name in observers))
    terms = ledger.terms
    spent = [
        max(
            live(terms.round_event(subject, observer), len(ledger.releases), terms.delta, terms.adjacency)
            for subject in _signatures(ledger, observer)
        )
        for observer in observers
    ]
    table.add_row("", *(Text(number(epsilon), style="red" if math.isinf(epsilon) else "") for epsilon in spent))
    return table


def _signatures(ledger: Ledger, observer: str) -> list[int]:
    """One client for each different price, the observer itself left out."""
    terms = ledger.terms
    members = observer.split("+")
    others = [subject for subject in range(terms.clients) if f"client:{subject}" not in members]
    return list({terms.round_event(subject, observer): subject for subject in others}.values())


def _unit(unit: str) -> str:
    return "record" if unit == "none" else unit
