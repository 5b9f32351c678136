"""Numbers and names as a reader meets them, and the sentences about what they mean."""

from __future__ import annotations

import math
from collections.abc import Sequence

from onlooker.privacy.statement import Finding, ranges
from onlooker.privacy.terms import Terms
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


def sees(observer: str, terms: Terms) -> str:
    """What position an observer is in, for the glossary."""
    if "+" in observer:
        return f"{_capital(who(observer))}: they act as one and pool everything that each of them sees."
    kind = observer.partition(":")[0]
    relay = " and carries the reports" if terms.shared and terms.shared.relay == observer else ""
    return {
        "public": "Whoever holds the released models, and nothing else.",
        "coordinator": f"The party that runs the training and sends the model out{relay}.",
        "aux": f"One of the servers that each get a share of every report{relay}; one share says nothing.",
        "auditor": "Whoever later examines what the auxiliary server of the same number saw.",
        "client": "A participant who is curious about the others.",
    }[kind]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def about(subjects: Sequence[int], terms: Terms) -> str:
    """Whose data a finding is about."""
    if len(subjects) == terms.clients > 1:
        return "every client" if terms.unit in ("client", "none") else f"any {unit(terms)} of any client"
    return ", ".join(ranges(subjects))


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
    if not open_to:
        return []
    names = listed(_observers(open_to))
    whole = all(len(finding.subjects) == facts.terms.clients for finding in open_to)
    subjects = sorted({subject for finding in open_to for subject in finding.subjects})
    for_whom = "" if whole else f" for {listed(ranges(subjects))}"
    return [f"against {names} there is no guarantee{for_whom}"]


def _guarantee(facts: Facts) -> list[str]:
    worst = worst_guarded(facts.findings)
    if not worst:
        return []
    held = [name for name in facts.observers if name not in _names(unguarded(facts.findings))]
    price = worst[0].price
    value = f"epsilon {number(price.epsilon)} at delta {small(price.delta)}"
    bound = f"about one {unit(facts.terms)} is bounded by {value}"
    against = listed([who(name) for name in held]) if held else "they"
    elsewhere = "" if held else " anywhere else"
    return [f"what {against} can learn {bound}{elsewhere}"]


def _observers(findings: Sequence[Finding]) -> list[str]:
    return [who(name) for name in _names(findings)]


def _names(findings: Sequence[Finding]) -> list[str]:
    return list(dict.fromkeys(name for finding in findings for name in finding.observers))
