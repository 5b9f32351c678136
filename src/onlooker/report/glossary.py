"""The words of the table, explained to somebody who answers for the data and not for the mathematics."""

from __future__ import annotations

from onlooker.privacy.terms import Terms
from onlooker.report.channels import Labelled
from onlooker.report.facts import Facts, worst_guarded
from onlooker.report.words import best_guess, listed, number, sees, small, unit

_UNIT = {
    "client": "all data of one client. A change to a part of them, such as one record, costs what replace-one costs",
    "person": "all records of one person at one client. A person with records at two clients counts as two",
    "record": "one record. Whoever has several, at one client or more, is covered one record at a time",
    "none": "nothing: no unit is protected",
}
_ADJACENCY = {
    "zero-out": "the unit's contribution is replaced by zero, and the number of clients stays public",
    "add-or-remove": "the unit is there or is not",
    "replace-one": "the unit is exchanged for any other, which takes twice the noise of taking it away",
}


_PRIVATE_PART: Labelled = [
    (
        "Private part",
        "The parameters of the model that stay on each client and are never sent. That is all that is claimed of them: "
        "they hold no noise, and whoever gets them has no guarantee to respect.",
    ),
]
_GROUPS: Labelled = [
    (
        "Group",
        "Clients that train one model together. Who is in several groups links them, and carries what it learns in one "
        "to the others.",
    ),
    (
        "Distance",
        "How many links lie between the groups of the client whose data it is and a group whose releases the observer "
        "sees: 0 within a group.",
    ),
    (
        "Mixing period",
        "How many rounds lie between two in which clients start from the mean of the models of their groups. Nothing "
        "passes from group to group in the others, so a longer period lets less arrive.",
    ),
    (
        "Theorem 1 (delay)",
        "What is sent too late to reach the observer costs nothing; each release that can arrive costs as much as to a "
        "member of the group.",
    ),
    (
        "Theorem 2 (cut)",
        "Everything has to pass through the few clients that link the groups, in the rounds that mix, so no more is "
        "charged than what passes there.",
    ),
    (
        "Theorem 3 (percolation)",
        "What passes a noisy group on the way arrives only with some probability, which shrinks its price.",
    ),
    ("Theorem 4 (both)", "Cut and percolation together, link after link, whichever of them is lower at each."),
]


def glossary(facts: Facts) -> Labelled:
    """The terms of the table, with this run's own values."""
    terms = facts.terms
    return [
        ("Unit", f"What is protected as a whole. Here it is {_UNIT[terms.unit]}."),
        (
            "Adjacency",
            f"The two worlds that an observer tries to tell apart. Here {_ADJACENCY[terms.adjacency]}.",
        ),
        ("Epsilon", _epsilon(facts)),
        (
            "Delta",
            f"A small probability, here {small(terms.delta)}, with which the promise of epsilon may fail. It "
            f"should be far below one over the number of {unit(terms)}s. A part of it may pay for the noise "
            "sampler.",
        ),
        (
            "Observer",
            "Somebody who may be curious about the data. Each sees something else, so each has an epsilon of "
            "its own. Members of a coalition, joined by +, pool what they see.",
        ),
        (
            "Guarantee",
            "Statistical: it holds if the noise cannot be told from chance. Computational: it also needs the "
            "encryption to hold, and is void as soon as the servers pool what they saw, even years later. None: no "
            "number bounds what is learned.",
        ),
        (
            "Amplified",
            "Yes, where the observer does not know which data were drawn in a round, which lowers epsilon.",
        ),
        (
            "Accountant",
            "How epsilon was added up over the rounds: pld (privacy loss distributions, exact up to a small "
            "and safe error) or rdp (Rényi divergences, larger than need be and never too small).",
        ),
        *(_PRIVATE_PART if facts.split else []),
        *(_GROUPS if terms.groups > 1 else []),
    ]


def _epsilon(facts: Facts) -> str:
    start = (
        "The largest difference that the unit can make to what the observer sees: the odds of any conclusion "
        "change by at most a factor of e to the epsilon. 0 is perfect privacy; smaller is better."
    )
    worst = worst_guarded(facts.shown)
    if not worst:
        return start
    price = worst[0].price
    return (
        f"{start} At epsilon {number(price.epsilon)}, an observer who has to guess whether one "
        f"{unit(facts.terms)} was used, and would otherwise be right half of the time, is right "
        f"{best_guess(price.epsilon, price.delta)}."
    )


def cast_of_observers(facts: Facts) -> Labelled:
    """Each observer of the threat model, and the position it is in."""
    positions: dict[str, list[str]] = {}
    for name in facts.observers:
        positions.setdefault(sees(name, facts.terms, facts.group_names), []).append(name)
    return [(listed(names), position) for position, names in positions.items()]


def threat_model(terms: Terms, assumed: bool) -> str:
    """Where the list of observers comes from."""
    if assumed:
        return "The run folder names no threat model, so everybody that its terms know is listed."
    return f"The observers are those that the run's threat model names, for {terms.clients} clients."
