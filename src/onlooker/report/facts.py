"""What a page is made from: a run folder, read once, with every epsilon computed anew from its ledger."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from onlooker.folder import RunFolder
from onlooker.privacy.accounting import Price
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.statement import Finding, find, worst
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import recorded_names
from onlooker.report.between import Between, between

MOST_POINTS = 25
"""The most rounds at which a curve is priced: each takes an accountant's whole work."""


@dataclass(frozen=True)
class Curve:
    """The epsilon spent so far, round by round, against observers with one price.

    Attributes:
        observers: who they are.
        subject: the client it is about: the one who has spent most by the last round.
        rounds: the last round that is charged at each point.
        prices: what all rounds up to it cost.
    """

    observers: tuple[str, ...]
    subject: int
    rounds: tuple[int, ...]
    prices: tuple[Price, ...]


@dataclass(frozen=True)
class Facts:
    """All that a page says of a run, as far as it is not words.

    Attributes:
        name: what the run is called.
        configuration: `run.toml`, in full.
        environment: `env.json`, every number in it finite.
        ledger: what was charged.
        metrics: one object for each committed round.
        observers: the threat model.
        assumed: True if the folder names no threat model, so that everybody known stands for it.
        findings: what each observer can learn from what was charged.
        planned: the same once all T rounds are charged.
        curves: the way there, for each finding with a guarantee.
        between: what clients in groups learn of each other; None without groups.
        group_names: what the user calls each group; empty where groups go by numbers.
    """

    name: str
    configuration: str
    environment: Mapping[str, Any]
    ledger: Ledger
    metrics: tuple[Mapping[str, Any], ...]
    observers: tuple[str, ...]
    assumed: bool
    findings: tuple[Finding, ...]
    planned: tuple[Finding, ...]
    curves: tuple[Curve, ...]
    between: Between | None = None
    group_names: tuple[str, ...] = ()

    @property
    def terms(self) -> Terms:
        """The terms of the run."""
        return self.ledger.terms

    @property
    def charged(self) -> int:
        """How many rounds were charged."""
        return len(self.ledger.releases)

    @property
    def committed(self) -> int:
        """How many rounds are in the model; a round that was given up is charged and not among them."""
        return len(self.metrics)

    @property
    def finished(self) -> bool:
        """True if every round was charged, so that nothing more can be."""
        return self.charged >= self.terms.rounds

    @property
    def split(self) -> bool:
        """True if a part of the model stays on each client."""
        return any(channel.part != "*" for channel in self.terms.channels)

    @property
    def personal(self) -> bool:
        """True if clients end with models of their own, so that only a simulator can score them."""
        return self.split or self.terms.groups > 1

    @property
    def shown(self) -> tuple[Finding, ...]:
        """What the tables show: what was charged, or the plan where nothing was charged yet."""
        return self.findings if self.charged else self.planned


def read(folder: RunFolder) -> Facts:
    """The facts of a run, finished or not.

    Raises:
        OnlookerError: if the folder is damaged, or names an observer that its terms do not know.
    """
    ledger = folder.ledger()
    environment = cast("dict[str, Any]", plain(folder.environment()))
    configuration = folder.configuration()
    named = sentences(environment.get("observers")) or _configured(configuration)
    observers = named or everybody(ledger.terms)
    names = recorded_names(environment.get("groups"), ledger.terms.groups)
    planned = tuple(find(Ledger.plan(ledger.terms), observers, names=names))
    finished = len(ledger.releases) == ledger.terms.rounds
    findings = planned if finished else tuple(find(ledger, observers, names=names))
    return Facts(
        name=str(environment.get("name") or folder.path.resolve().name),
        configuration=configuration,
        environment=environment,
        ledger=ledger,
        metrics=tuple(cast("list[dict[str, Any]]", plain(folder.metrics()))),
        observers=observers,
        assumed=not named,
        findings=findings,
        planned=planned,
        curves=curves(ledger, observers, findings),
        between=between(ledger),
        group_names=names,
    )


def everybody(terms: Terms) -> tuple[str, ...]:
    """Every observer by role, and all auxiliary servers together."""
    servers = tuple(f"aux:{server}" for server in range(terms.shared.count if terms.shared else 0))
    together = ("+".join(servers),) if servers else ()
    return ("public", "coordinator", *servers, *together)


def has_guarantee(finding: Finding) -> bool:
    """True if some finite epsilon holds."""
    return math.isfinite(finding.price.epsilon)


def unguarded(findings: Iterable[Finding]) -> list[Finding]:
    """The findings without any guarantee."""
    return [finding for finding in findings if not has_guarantee(finding)]


def worst_guarded(findings: Iterable[Finding]) -> list[Finding]:
    """The findings with the largest epsilon that holds; empty if none does."""
    guarded = [finding for finding in findings if has_guarantee(finding)]
    largest = worst(guarded)
    return [finding for finding in guarded if largest and finding.price.epsilon == largest.price.epsilon]


def curves(ledger: Ledger, observers: Sequence[str], findings: Sequence[Finding]) -> tuple[Curve, ...]:
    """One curve for each different price with a guarantee, from the prefixes of the ledger.

    An observer that has several prices, against several clients, gets the curve of the worst.
    """
    seen: dict[object, tuple[int, list[str]]] = {}
    for observer in observers:
        largest = worst(one for one in findings if observer in one.observers and has_guarantee(one))
        if largest is not None and ledger.releases:
            subject = largest.subjects[0]
            key = ledger.terms.signature(subject, observer)
            seen.setdefault(key, (subject, []))[1].append(observer)
    return tuple(_curve(ledger, subject, tuple(names)) for subject, names in seen.values())


def _curve(ledger: Ledger, subject: int, observers: tuple[str, ...]) -> Curve:
    prefixes = [replace(ledger, releases=ledger.releases[:count]) for count in spread(len(ledger.releases))]
    return Curve(
        observers,
        subject,
        tuple(prefix.releases[-1].round for prefix in prefixes),
        tuple(prefix.price(subject, observers[0]) for prefix in prefixes),
    )


def spread(count: int) -> list[int]:
    """From 1 to `count`, evenly, both ends and no more than `MOST_POINTS` numbers.

    >>> spread(4), spread(100)[:3], len(spread(100)), spread(0)
    ([1, 2, 3, 4], [1, 5, 9], 25, [])
    """
    points = min(count, MOST_POINTS)
    return [1 + round(place * (count - 1) / max(1, points - 1)) for place in range(points)]


def plain(value: Any) -> Any:
    """The value as strict JSON can hold it: null for every number that is not finite.

    >>> plain({"loss": float("nan"), "accuracy": [0.5, float("inf")]})
    {'loss': None, 'accuracy': [0.5, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in cast("Mapping[Any, Any]", value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in cast("Sequence[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(value: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The table of this name, empty where there is none."""
    found = value.get(name)
    return cast("Mapping[str, Any]", found) if isinstance(found, Mapping) else {}


def sentences(value: Any) -> tuple[str, ...]:
    """A list of texts, empty where there is none."""
    return tuple(str(one) for one in cast("list[Any]", value)) if isinstance(value, list) else ()


def _configured(configuration: str) -> tuple[str, ...]:
    """The threat model as the configuration names it, for a folder without `env.json`."""
    try:
        return sentences(table(tomllib.loads(configuration), "privacy").get("observers"))
    except tomllib.TOMLDecodeError:
        return ()
