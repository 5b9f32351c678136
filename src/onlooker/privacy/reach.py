"""What of a subject reaches an observer in overlapping groups, in words."""

from __future__ import annotations

from onlooker.privacy import overlap
from onlooker.privacy.events import observed
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups


def because(terms: Terms, groups: Groups, subject: int, observer: str, seen: str) -> str:
    """The reason of a finding: how far away the observer is, and how many releases reach it."""
    if not terms.has_guarantee(subject, observer):
        return f"no guarantee: {seen}"
    coalition = terms.coalition(observer)
    counts = overlap.reach(groups, subject, observed(terms, groups, coalition), terms.rounds)
    total = sum(counts.values())
    return f"{seen}; {total} releases reach it"
