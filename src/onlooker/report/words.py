"""Numbers and names as a reader meets them, and the sentences about what they mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onlooker.privacy.statement import Finding, Worst, ranges, worst_first
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups, listed_groups
from onlooker.report.facts import Facts, has_guarantee, unguarded, worst_guarded

MOST_NAMES = 4
"""The most names that a sentence lists before it says how many others there are."""

_UNITS = {"client": "client", "person": "person", "record": "record", "none": "client"}


def number(epsilon: float) -> str:
    """An epsilon as people read it.

    >>> number(7.9995), number(0.0123), number(0.0), number(float("inf"))
    ('8.00', '0.012', '0.00', 'no guarantee')
    """
    if not math.isfinite(epsilon):
        return "no guarantee"
    return f"{epsilon:.2g}" if 0 < epsilon < 0.1 else f"{epsilon:,.2f}"


def small(probability: float) -> str:
    """A delta as people write it.

    >>> small(1e-5), small(0.00025), small(0.0)
    ('1e-5', '0.00025', '0')
    """
    return f"{probability:g}".replace("e-0", "e-")


def best_guess(epsilon: float, delta: float) -> str:
    """How often the best guess between two equally likely worlds, with and without a unit, is right.

    At most (e^epsilon + delta) / (1 + e^epsilon) of the time, rounded up (Kairouz, Oh, Viswanath, "The
    Composition Theorem for Differential Privacy", ICML 2015, Theorem 2.1, on the errors of any test).

    >>> best_guess(0.0, 0.0), best_guess(1.0, 1e-5), best_guess(8.0, 1e-5)
    ('at most 50% of the time', 'at most 73.2% of the time', 'at most 99.97% of the time')
    >>> best_guess(17.14, 1e-5)
    'almost always: so large an epsilon rules out very little'
    """
    share = 100 * (1 + delta * math.exp(-epsilon)) / (1 + math.exp(-epsilon))
    digits = 1 if share < 99 else 2
    rounded = math.ceil(share * 10**digits - 1e-9) / 10**digits
    if rounded >= 100:
        return "almost always: so large an epsilon rules out very little"
    return f"at most {rounded:g}% of the time"


def unit(terms: Terms) -> str:
    """One unit in words; a run without any speaks of clients."""
    return _UNITS[terms.unit]


def listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b", "c", "d", "e", "f"])
    ('a', 'a, b and c', 'a, b, c, d and 2 others')
    """
    shown = list(names[:MOST_NAMES])
    rest = len(names) - len(shown)
    if rest:
        shown.append("1 other" if rest == 1 else f"{rest} others")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def who(observer: str) -> str:
    """An observer in words; members of a coalition pool what they see.

    >>> who("public"), who("aux:0"), who("aux:0+client:3")
    ('the public', 'auxiliary server 0', 'auxiliary server 0 and client 3 together')
    """
    members = [_member(name) for name in observer.split("+")]
    return members[0] if len(members) == 1 else f"{listed(members)} together"


def _member(name: str) -> str:
    kind, _, index = name.partition(":")
    kinds = {"aux": "auxiliary server", "auditor": "auditor", "client": "client"}
    return f"{kinds[kind]} {index}" if index else f"the {name}"


def sees(observer: str, terms: Terms, names: Sequence[str] = ()) -> str:
    """What position an observer is in, for the glossary; groups go by their `names`, where they have any."""
    if "+" in observer:
        return f"{_capital(who(observer))}: they act as one and pool everything that each of them sees."
    kind, grouped = observer.partition(":")[0], isinstance(terms.topology, Groups)
    if grouped and kind in ("public", "client"):
        return _sees_in_groups(kind, terms, names)
    relay = " and carries the reports" if terms.shared and terms.shared.relay == observer else ""
    return {
        "public": "Whoever holds the released models, and nothing else.",
        "coordinator": f"The party that runs the training and sends the model out{relay}.",
        "aux": f"One of the servers that each get a share of every report{relay}; one share says nothing.",
        "auditor": "Whoever later examines what the auxiliary server of the same number saw.",
        "client": "A participant who is curious about the others.",
    }[kind]


def _sees_in_groups(kind: str, terms: Terms, names: Sequence[str]) -> str:
    published = terms.topology.publish if isinstance(terms.topology, Groups) else ()
    if kind == "client":
        return "A participant who is curious about the others, and sees the releases of its own groups."
    if not published:
        return "Whoever is in no group: none publishes its model, so nothing is seen."
    return f"Whoever holds the models that group {listed_groups(published, names)} publishes, and nothing else."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def about(subjects: Sequence[int], terms: Terms) -> str:
    """Whose data a finding is about."""
    if len(subjects) == terms.clients > 1:
        return "every client" if terms.unit in ("client", "none") else f"any {unit(terms)} of any client"
    return ", ".join(ranges(subjects))


@dataclass(frozen=True)
class Row:
    """One row of the table of observers.

    Attributes:
        about: whose data it is about, in lines.
        observers: those who share it.
        finding: what they can learn.
        others: what they have of other clients, in words; empty where the row is all there is.
    """

    about: tuple[str, ...]
    observers: tuple[str, ...]
    finding: Finding
    others: str = ""


def rows(facts: Facts) -> list[Row]:
    """A row for each finding; in groups, where there are very many, the worst of each observer, the worst first."""
    terms = facts.terms
    if terms.groups == 1:
        return [Row((about(one.subjects, terms),), one.observers, one) for one in facts.shown]
    return [_row(one, terms) for one in worst_first(facts.shown)]


def _row(worst: Worst, terms: Terms) -> Row:
    whom = [_about_some(subjects, terms) for subjects in worst.subjects]
    if len(set(whom)) > 1:
        whom = [f"{one}, to {name}" for one, name in zip(whom, worst.observers, strict=True)]
    others = "" if worst.least == worst.finding.price.epsilon else f"others from {number(worst.least)}"
    return Row(tuple(dict.fromkeys(whom)), worst.observers, worst.finding, others)


def _about_some(subjects: Sequence[int], terms: Terms) -> str:
    return about(subjects, terms) if len(subjects) == terms.clients else listed(ranges(subjects))


def every_row(facts: Facts) -> str:
    """What holds of the whole table, once."""
    terms = facts.terms
    sampler = max((finding.price.delta_sampler for finding in facts.shown), default=0.0)
    paid = f", of which up to {small(sampler)} pays for the noise sampler" if sampler else ""
    words = f"The unit is one {unit(terms)}, the adjacency {terms.adjacency}, delta {small(terms.delta)}{paid}."
    if terms.unit == "none":
        words = "No unit is protected."
    if terms.groups == 1:
        return words
    return f"{words} Each observer is shown with the clients of whom it can learn most; the map below has every pair."


def reasons(findings: Sequence[Finding], terms: Terms) -> list[tuple[str, str]]:
    """Who learns what they learn for which reason: observers, and if need be about whom, then why."""
    grouped: dict[tuple[str, object], list[Finding]] = {}
    for finding in findings:
        about_whom = None if has_guarantee(finding) else finding.subjects
        grouped.setdefault((finding.because, about_whom), []).append(finding)
    return [(_group(group, terms), because) for (because, _), group in grouped.items()]


def _group(findings: Sequence[Finding], terms: Terms) -> str:
    subjects = {finding.subjects for finding in findings}
    first = findings[0].subjects
    partly = len(subjects) == 1 and len(first) < terms.clients
    return listed(_names(findings)) + (f" about {about(first, terms)}" if partly else "")


def rests_on_encryption(findings: Sequence[Finding]) -> str:
    """The observers against whom a guarantee is only computational; empty if there are none."""
    names = _names([finding for finding in findings if finding.guarantee == "computational"])
    return listed(names) if names else ""


def verdict(facts: Facts) -> str:
    """The whole page in one sentence, the worst first."""
    terms = facts.terms
    if terms.unit == "none":
        return "This run gives no guarantee: it adds no noise, and whoever sees a message sees what is in it."
    if not facts.charged:
        return "Nothing was released yet, so nobody has learned anything; the price of a whole run is below."
    parts = [*_no_guarantee(facts), *_guarantee(facts)]
    sentence = "; ".join(parts)
    if facts.finished:
        return f"{_capital(sentence)}."
    return f"After {facts.charged} of {terms.rounds} rounds, {sentence}."


def _no_guarantee(facts: Facts) -> list[str]:
    open_to = unguarded(facts.findings)
    wholly = [one for one in open_to if len(one.subjects) == facts.terms.clients]
    partly = [one for one in open_to if one not in wholly]
    subjects = sorted({subject for finding in partly for subject in finding.subjects})
    parts = [f"against {listed(_observers(wholly))} there is no guarantee"] if wholly else []
    if partly:
        none = "none" if wholly else "no guarantee"
        parts.append(f"against {listed(_observers(partly))} there is {none} for {listed(ranges(subjects))}")
    return parts


def _guarantee(facts: Facts) -> list[str]:
    """What bounds those against whom a guarantee always holds, then, if it is more, the others where one does."""
    open_to = _names(unguarded(facts.findings))
    held = [name for name in facts.observers if name not in open_to]
    largest = worst_guarded([one for one in facts.findings if set(one.observers) & set(held)])
    others = worst_guarded([one for one in facts.findings if set(one.observers) & set(open_to)])
    kind, parts = unit(facts.terms), list[str]()
    if largest:
        against = listed([who(name) for name in held])
        parts.append(f"what {against} can learn about one {kind} is bounded by {_value(largest[0])}")
    if others and (not largest or others[0].price.epsilon > largest[0].price.epsilon):
        against = listed([who(name) for name in _names(others) if name in open_to])
        parts.append(f"what {against} can learn about one {kind} elsewhere is bounded by {_value(others[0])}")
    return parts


def _value(finding: Finding) -> str:
    return f"epsilon {number(finding.price.epsilon)} at delta {small(finding.price.delta)}"


def _observers(findings: Sequence[Finding]) -> list[str]:
    return [who(name) for name in _names(findings)]


def _names(findings: Sequence[Finding]) -> list[str]:
    return list(dict.fromkeys(name for finding in findings for name in finding.observers))
