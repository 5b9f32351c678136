"""The price of a pair of clients in overlapping groups: the least that the theorems and the two accountants prove.

Theorem 1 is an event like any other, priced by the privacy loss distribution; theorems 2 to 4 speak of Rényi
divergences, and lower the price where groups mix seldom (see `overlap`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from dp_accounting import NoOpDpEvent

from onlooker.privacy.accounting import Price, price, so_far
from onlooker.privacy.events import state_of
from onlooker.privacy.overlap import Decision, Path, decide, reach, shortest
from onlooker.privacy.overlap_plus import AsPrinted, as_printed
from onlooker.privacy.senders import GroupFacts, State
from onlooker.privacy.topology import Groups, named

if TYPE_CHECKING:
    from onlooker.privacy.terms import Terms

_COULD_WIN = 0.75
"""A loss distribution has not been seen to prove less than this share of what Rényi's divergences prove."""


@dataclass(frozen=True)
class Pair:
    """What one client gives away to observers, and why.

    Attributes:
        price: epsilon, delta and accountant.
        releases: how many releases of the subject's groups can reach the observers, all groups together.
        theorem: which one decided: 1, 2 or 4; 0 where nothing reaches them or there is no guarantee.
        path: the shortest way for a trace; None without one.
        assumed: for DP-OGL+ as printed, what would hold if the sum of an interval moved by the subject's own clipped
            total alone, by sqrt(S) c or under replace-one by 2 sqrt(S) c, which is not proven; else None.
    """

    price: Price
    releases: int
    theorem: int
    path: Path | None
    assumed: float | None = None


def pair_of(terms: Terms, subject: int, observers: str, rounds: int, delta: float) -> Pair:
    """The least that is proven of the first `rounds` rounds for a subject in groups, against these observers.

    Raises:
        TermsError: if a name is not known.
    """
    groups = terms.topology
    assert isinstance(groups, Groups)
    if not rounds:
        return Pair(Price(0.0, delta, "pld"), 0, 0, None)
    event = terms.event(subject, observers, rounds)
    seen = terms.observed(observers)
    if not terms.has_guarantee(subject, observers):
        return Pair(price(event, delta, terms.priced_adjacency), 0, 0, None)
    path = shortest(groups, subject, seen)
    if isinstance(event, NoOpDpEvent):
        return Pair(Price(0.0, delta, "rdp"), 0, 0, path)
    if not by_theorems(terms) or seen >= set(groups.groups_of(subject)):
        exact = price(event, delta, terms.priced_adjacency, terms.sampler_error())
        releases = sum(reach(groups, groups.first_like(subject), seen, rounds, state_of(terms)).values())
        return Pair(exact, releases, 1, path, _assumed(terms, subject, observers, rounds, delta))
    if terms.within == "shared" and terms.interval > 1:
        printed = _as_printed(terms, groups, subject, seen, rounds, delta)
        exact = price(event, delta, terms.priced_adjacency, terms.sampler_error())
        best = min(exact, Price(printed.epsilon, delta, "rdp"), key=lambda one: one.epsilon)
        return Pair(best, sum(printed.releases.values()), 1, path, printed.assumed)
    found = decided(terms, subject, seen, rounds, delta)
    releases = sum(found.releases.values())
    best = Price(found.epsilon, delta, "rdp")
    if so_far(event, delta, terms.priced_adjacency) * _COULD_WIN < found.epsilon:
        exact = price(event, delta, terms.priced_adjacency, terms.sampler_error())
        if exact.epsilon < best.epsilon:
            return Pair(exact, releases, 1, path)
    return Pair(best, releases, found.theorem, path)


def by_theorems(terms: Terms) -> bool:
    """True where theorems 2 to 4 apply: every sum has noise, Gaussian in all its digits, and rows stand against none.

    What inexact noise costs is paid for out of delta, which only an event's price does (rule 8).
    """
    noisy = all(channel.mechanism.noise_multiplier > 0 for channel in terms.channels)
    return noisy and terms.adjacency == "zero-out" and terms.sampler_error() == 0


def decided(terms: Terms, subject: int, seen: frozenset[int], rounds: int, delta: float) -> Decision:
    """By the theorems alone, from Rényi's divergences."""
    groups = terms.topology
    assert isinstance(groups, Groups)
    own = tuple(channel.multiplier(subject) for channel in terms.channels)
    return _decided(groups, facts_of(terms), groups.first_like(subject), seen, rounds, delta, state_of(terms), own)


@lru_cache(maxsize=65536)
def _decided(
    groups: Groups,
    facts: GroupFacts,
    subject: int,
    seen: frozenset[int],
    rounds: int,
    delta: float,
    state: State,
    own: tuple[float, ...],
) -> Decision:
    return decide(groups, facts, subject, seen, rounds, delta, state, own)


@lru_cache(maxsize=16)
def facts_of(terms: Terms) -> GroupFacts:
    """What the theorems rest on: rates, noise, and where participation is seen, which is where clients add noise."""
    rates = tuple(terms.sampling_of(group).rate_of(0, terms.clients) for group in range(terms.groups))
    multipliers = tuple(channel.mechanism.noise_multiplier for channel in terms.channels)
    by_clients = any(channel.noised_by == "clients" for channel in terms.channels)
    return GroupFacts(rates, multipliers, frozenset(range(terms.groups)) if by_clients else frozenset())


def _as_printed(
    terms: Terms, groups: Groups, subject: int, seen: frozenset[int], rounds: int, delta: float
) -> AsPrinted:
    """DP-OGL+ as printed, whose intervals are the rounds of the terms."""
    own = tuple(channel.multiplier(subject) for channel in terms.channels)
    epochs = replace(groups, mixing_period=terms.interval)
    return as_printed(epochs, facts_of(terms), groups.first_like(subject), seen, rounds * terms.interval, delta, own)


def _assumed(terms: Terms, subject: int, observers: str, rounds: int, delta: float) -> float | None:
    """What is assumed of DP-OGL+ as printed, where loss distributions alone price: intervals that share nothing."""
    if terms.within == "alone" or terms.interval == 1:
        return None
    event = _alone(terms).event(subject, observers, rounds)
    return price(event, delta, terms.priced_adjacency, terms.sampler_error()).epsilon


@lru_cache(maxsize=16)
def _alone(terms: Terms) -> Terms:
    return replace(terms, within="alone")


def because(terms: Terms, subject: int, observers: str, pair: Pair, seen: str, names: Sequence[str] = ()) -> str:
    """The reason of a pair's price in words: how much reaches the observers, by which way, by which theorem.

    Groups go by their names, where they have any.
    """
    if math.isinf(pair.price.epsilon):
        return f"no guarantee: {_why_none(terms, subject, observers, seen)}"
    if not pair.releases:
        return f"{seen}, and no release reaches it in time"
    count = "1 release" if pair.releases == 1 else f"{pair.releases} releases"
    known = f"theorem {pair.theorem}"
    if pair.assumed is not None:
        moved = "2 sqrt(S)" if terms.adjacency == "replace-one" else "sqrt(S)"
        known += f", or {pair.assumed:.2f} if an interval moved by {moved} clips alone, which is assumed and not proven"
    return f"{seen}, {count}{_way(pair, names)} ({known}); {_participation(terms, subject, observers)}"


def _participation(terms: Terms, subject: int, observers: str) -> str:
    if any(view.participation for view in terms.views(subject, observers)):
        return "participation is seen"
    sampled = terms.amplified(subject, observers)
    return "participation is hidden" if sampled else "this client takes part in every round of its groups"


def _way(pair: Pair, names: Sequence[str]) -> str:
    if pair.path is None or not pair.path.clients:
        return ""
    groups = " - ".join(named(group, names) for group in pair.path.groups)
    return f" over groups {groups} by {', '.join(f'client:{client}' for client in pair.path.clients)}"


def _why_none(terms: Terms, subject: int, observers: str, seen: str) -> str:
    if terms.within == "shared" and terms.interval > 1 and min(view.noise for view in terms.views(subject, observers)):
        return "sees sums of the subject's group without noise inside an interval"
    if all(channel.mechanism.noise_multiplier == 0 for channel in terms.channels):
        return f"the noise multiplier is 0 ({seen})"
    return seen
