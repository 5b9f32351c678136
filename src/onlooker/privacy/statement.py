"""What a plan or a run says in the end: one epsilon for every subject and observer, with the reason in words."""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from dp_accounting import PoissonSampledDpEvent, SampledWithoutReplacementDpEvent

from onlooker.privacy.accounting import Price, lowered_by_sampling
from onlooker.privacy.allocation import RandomAllocationDpEvent
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.matrix import Correlated
from onlooker.privacy.pairs import because, pair_of
from onlooker.privacy.rounds import CountedDpEvent
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups


@dataclass(frozen=True)
class Finding:
    """What some observers can learn about some subjects, all pairs of which have this one answer.

    Attributes:
        subjects: the clients whose data, or whose records or persons, it is about.
        observers: coalitions, each alone; members of one are joined by "+".
        price: epsilon (infinity for no guarantee), delta, and the accountant that was used.
        amplified: True if sampling lowers the price, or would lower it, where there is nothing to charge.
        guarantee: "none"; "computational", where it rests on shares and envelopes; or "statistical", where it rests on
            nothing but noise, which is as good as the AES key stream that it is drawn from.
        because: the reason in words.
        assumed: for DP-OGL+ as printed, what would hold under an assumption that is not proven; else None.
    """

    subjects: tuple[int, ...]
    observers: tuple[str, ...]
    price: Price
    amplified: bool
    guarantee: str
    because: str
    assumed: float | None = None


_Answer: TypeAlias = tuple[Price, bool, str, str, float | None]
"""Price, amplified, guarantee, reason, and what is assumed."""


def find(
    ledger: Ledger, observers: Sequence[str], subjects: Iterable[int] | None = None, names: Sequence[str] = ()
) -> list[Finding]:
    """One finding for each different answer, in the order of the observers named.

    A client is not listed as an observer of itself, unless there is nobody else to list. Reasons call groups by their
    `names`, where they have any.

    Raises:
        TermsError: if an observer is not known.
    """
    terms = ledger.terms
    asked = list(range(terms.clients) if subjects is None else subjects)
    kinds = {subject: terms.kind_of(subject) for subject in asked}
    answers: dict[_Answer, dict[str, list[int]]] = {}
    for observer in observers:
        members, known = observer.split("+"), dict[Hashable, _Answer]()
        others = [subject for subject in asked if f"client:{subject}" not in members]
        for subject in others or asked:
            if f"client:{subject}" in members or kinds[subject] not in known:
                known[kinds[subject]] = _answer(ledger, subject, observer, names)
            answers.setdefault(known[kinds[subject]], {}).setdefault(observer, []).append(subject)
    return [finding for key, seen in answers.items() for finding in _rows(key, seen)]


def _answer(ledger: Ledger, subject: int, observer: str, names: Sequence[str]) -> _Answer:
    terms, assumed = ledger.terms, None
    if isinstance(terms.topology, Groups) and terms.unit != "none":
        pair = pair_of(terms, subject, observer, len(ledger.releases), terms.delta)
        seen = _seen(terms, subject, observer)
        price, reason = pair.price, because(terms, subject, observer, pair, seen, names)
        amplified, assumed = _amplified(ledger, subject, observer, price), pair.assumed
    else:
        price = ledger.price(subject, observer)
        amplified = _amplified(ledger, subject, observer, price)
        reason = _because(terms, subject, observer, amplified)
    return price, amplified, _guarantee(terms, subject, observer, price), reason, assumed


def _amplified(ledger: Ledger, subject: int, observer: str, price: Price) -> bool:
    """By the price, where there is one: an event may be sampled without that anything is credited for it."""
    terms = ledger.terms
    if not terms.amplified(subject, observer) or price.epsilon == 0:
        return terms.amplified(subject, observer)
    event = terms.event(subject, observer, len(ledger.releases))
    return lowered_by_sampling(event, price, terms.priced_adjacency)


def _seen(terms: Terms, subject: int, observer: str) -> str:
    return ", ".join(dict.fromkeys(view.because for view in terms.views(subject, observer)))


def signatures(ledger: Ledger, observer: str) -> list[int]:
    """One client for each different price to an observer, the observer itself left out."""
    terms = ledger.terms
    found = {
        terms.signature(subject, observer, len(ledger.releases)): subject
        for subject in terms.one_of_each_kind(observer)
    }
    return list(found.values())


def _rows(key: _Answer, seen: dict[str, list[int]]) -> list[Finding]:
    """Observers that see the same subjects share a row."""
    rows: dict[tuple[int, ...], list[str]] = {}
    for observer, subjects in seen.items():
        rows.setdefault(tuple(subjects), []).append(observer)
    return [Finding(subjects, tuple(names), *key) for subjects, names in rows.items()]


def _guarantee(terms: Terms, subject: int, observer: str, price: Price) -> str:
    if math.isinf(price.epsilon):
        return "none"
    return "computational" if any(view.computational for view in terms.views(subject, observer)) else "statistical"


def _because(terms: Terms, subject: int, observer: str, amplified: bool) -> str:
    views, seen = terms.views(subject, observer), _seen(terms, subject, observer)
    if terms.unit == "none":
        return f'no guarantee: unit = "none" adds no noise ({seen})'
    if min(view.noise for view in views) <= 0:
        return f"no guarantee: {seen}"
    if terms.channels[0].mechanism.noise_multiplier == 0:
        return f"no guarantee: the noise multiplier is 0 ({seen})"
    if terms.unit in ("record", "person"):
        return f"{seen}; {_record_coins(terms, amplified)}"
    most = terms.sampling.participations(terms.rounds)
    if isinstance(terms.channels[0].mechanism, Correlated):
        return f"{seen}; all rounds are priced as one, in {most} of which a client takes part at the most"
    if any(view.participation for view in views):
        return f"{seen}; participation is seen, so {_in_full(most)}"
    return f"{seen}; {_hidden(terms, subject, observer, amplified)}"


def _hidden(terms: Terms, subject: int, observer: str, amplified: bool) -> str:
    """What is credited for a participation that the observers do not see, as the price has it."""
    sampling, in_full = terms.sampling, _in_full(terms.sampling.participations(terms.rounds))
    if sampling.rate_of(subject, terms.clients) >= 1:
        alone = any(sampling.rate_of(client, terms.clients) < 1 for client in range(terms.clients))
        return f"{'this' if alone else 'every'} client takes part in every round"
    if sampling.name == "fixed-offset" or terms.amplified(subject, observer) != amplified:
        return f"participation is hidden, which is credited nothing: {in_full}"
    match terms.round_event(subject, observer):
        case PoissonSampledDpEvent(sampling_probability=rate):
            return f"participation is hidden, with probability {rate:g} in each round"
        case SampledWithoutReplacementDpEvent(source_dataset_size=others, sample_size=drawn):
            return f"participation is hidden, {drawn} being drawn of {others} in each round"
        case RandomAllocationDpEvent(selected=picked, rounds=rounds):
            return f"participation is hidden, in {picked} of {rounds} rounds"
        case CountedDpEvent(population=others, rate=rate):
            return f"who takes part is hidden, with probability {rate:g} in each round, but not how many of {others} do"
        case _ if terms.training.keeps != "nothing":
            return f"clients keep a private part and the size of cohorts is known, so {in_full}"
        case _ if terms.counted == "realised":
            return f"the number that takes part is seen, which may tell who: {in_full}"
        case _:
            return f"the members know whether they were drawn, which may leave nobody but this client: {in_full}"


def _in_full(most: int) -> str:
    return "up to 1 round counts in full" if most == 1 else f"up to {most} rounds count in full"


def _record_coins(terms: Terms, amplified: bool) -> str:
    training, unit = terms.training, terms.unit
    apart = "; whoever is at two clients counts as two persons" if unit == "person" else ""
    if training.record_rate >= 1:
        return f"every {unit} may be used in every round{apart}"
    if training.keeps != "nothing":
        return f"{unit} sampling does not amplify, because the silo keeps something between rounds{apart}"
    credit = "" if amplified else ", which is credited nothing"
    return f"{unit}s are drawn in the silo, hidden from everybody else, at rate {training.record_rate:g}{credit}{apart}"


def to_json(ledger: Ledger, findings: Iterable[Finding], names: Sequence[str] = ()) -> dict[str, Any]:
    """The plan as one object of plain values, ready for strict JSON: no guarantee is null.

    Where groups have names, "groups" lists them in the order of their channels.
    """
    terms = ledger.terms
    return {
        "terms": terms.hash,
        **({"groups": list(names)} if names else {}),
        "noise-multipliers": {channel.name: channel.mechanism.noise_multiplier for channel in terms.channels},
        "rows": [
            {
                "subjects": ranges(finding.subjects),
                "observers": list(finding.observers),
                "unit": terms.unit,
                "adjacency": terms.adjacency,
                "epsilon": None if math.isinf(finding.price.epsilon) else finding.price.epsilon,
                "delta": finding.price.delta,
                "delta-sampler": finding.price.delta_sampler,
                "accountant": finding.price.accountant,
                "amplified": finding.amplified,
                "guarantee": finding.guarantee,
                "because": finding.because,
                "assumed-not-proven": finding.assumed,
            }
            for finding in findings
        ],
    }


def ranges(subjects: Sequence[int]) -> list[str]:
    """Runs of clients as ranges.

    >>> ranges([0, 1, 2, 5])
    ['client:0-2', 'client:5']
    """
    runs: list[list[int]] = []
    for subject in sorted(subjects):
        if runs and subject == runs[-1][1] + 1:
            runs[-1][1] = subject
        else:
            runs.append([subject, subject])
    return [f"client:{first}" if first == last else f"client:{first}-{last}" for first, last in runs]


@dataclass(frozen=True)
class Worst:
    """The largest price that some observers have of anybody, where they share one.

    Attributes:
        observers: those whose largest price, and the reason for it, is this.
        subjects: the clients it is about, for each of them.
        finding: one of the findings.
        least: the smallest price that one of them has of any other client.
    """

    observers: tuple[str, ...]
    subjects: tuple[tuple[int, ...], ...]
    finding: Finding
    least: float


def worst_first(findings: Sequence[Finding]) -> list[Worst]:
    """The dearest finding of each observer, the dearest of all first: in groups an observer may have very many."""
    names = sorted({name for finding in findings for name in finding.observers}, key=_by_number)
    shared: dict[_Answer, list[tuple[str, tuple[int, ...], Finding, float]]] = {}
    for name in names:
        known = [finding for finding in findings if name in finding.observers]
        largest = max(known, key=lambda one: one.price.epsilon)
        alike = [one for one in known if one.price.epsilon == largest.price.epsilon]
        subjects = tuple(sorted(subject for one in alike for subject in one.subjects))
        key = (largest.price, largest.amplified, largest.guarantee, largest.because, largest.assumed)
        least = min(one.price.epsilon for one in known)
        shared.setdefault(key, []).append((name, subjects, largest, least))
    rows = [
        Worst(
            tuple(name for name, *_ in group),
            tuple(subjects for _, subjects, *_ in group),
            group[0][2],
            min(least for *_, least in group),
        )
        for group in shared.values()
    ]
    return sorted(rows, key=lambda row: -row.finding.price.epsilon)


def _by_number(name: str) -> list[str | int]:
    """So that client:9 stands before client:10."""
    return [int(part) if part.isdigit() else part for part in re.split(r"([0-9]+)", name)]


def worst(findings: Iterable[Finding]) -> Finding | None:
    """The finding with the largest epsilon, no guarantee being the largest of all; None if there is none."""
    return max(findings, key=lambda finding: finding.price.epsilon, default=None)
