"""What is charged for what an observer sees: from terms, a subject and observers to ONE event for an accountant.

With groups, a subject n feeds the sum of each of its groups. A release of group m counts against an observer if it can
reach the observer's view in time; all that count are charged together, because coins and noises are independent (see
`overlap` for the proof, and for bounds that are lower where groups mix seldom).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from onlooker.privacy import overlap
from onlooker.privacy.allocation import RandomAllocationDpEvent
from onlooker.privacy.composition import composed
from onlooker.privacy.observers import Coalition, View, see
from onlooker.privacy.rounds import CountedDpEvent
from onlooker.privacy.sampling import ClientSampling, FixedSize, Poisson
from onlooker.privacy.schedules import RandomAllocation
from onlooker.privacy.senders import State
from onlooker.privacy.topology import Groups

if TYPE_CHECKING:
    from onlooker.privacy.terms import Terms


def of_run(terms: Terms, subject: int, observers: str, rounds: int) -> DpEvent:
    """The first `rounds` rounds."""
    if isinstance(terms.topology, Groups):
        return _of_groups(terms, terms.topology, subject, terms.coalition(observers), rounds)
    return composed(of_round(terms, subject, observers), terms.channels[0].mechanism, terms.sampling, rounds)


def of_round(terms: Terms, subject: int, observers: str) -> DpEvent:
    """One round, all of whose channels are under one coin.

    They are one Gaussian, joined before amplification (rule 10a).
    """
    views = terms.views(subject, observers)
    met = [view.noise * channel.multiplier(subject) for view, channel in zip(views, terms.channels, strict=True)]
    if terms.unit == "none" or min(met) <= 0:
        return NonPrivateDpEvent()
    event = terms.channels[0].mechanism.event(joined(met))
    if terms.unit in ("record", "person"):
        # The silo's own coin amplifies nothing at this level: the other units of the silo come and go with it, and
        # so may give it away. What is left is the unit's own coin, seen or unseen silo alike.
        return terms.training.amplified(event)
    if any(view.participation for view in views):
        return event
    return _amplified(terms, terms.sampling, event, subject, max(view.accomplices for view in views))


def joined(multipliers: Sequence[float]) -> float:
    """The noise multiplier of several Gaussian sums under one coin: (sum over c of z_c^-2)^(-1/2) (rule 10a).

    >>> joined([5.0]), round(joined([4.0, 4.0]) ** 2, 6)
    (5.0, 8.0)
    """
    least = min(multipliers)
    return least / math.sqrt(sum((least / multiplier) ** 2 for multiplier in multipliers))


def _amplified(terms: Terms, sampling: ClientSampling, event: DpEvent, subject: int, accomplices: int) -> DpEvent:
    """By the subject's coin, which these observers do not see; with a realised divisor they see how many there were.

    Given the count, coins of one rate leave a uniform cohort of that size (rule 2b). Nothing is claimed where rates
    differ, for then the cohort is not uniform; where bounds differ, for whom the subject displaces may send a longer
    row; where clients pick their rounds for the whole run, for counts then tie one round's cohort to another's; and
    where the count is known and clients keep a private part, for who was drawn tells who was not, and later rows carry
    it along (rule 6).
    """
    stateless = terms.training.keeps == "nothing"
    if sampling.rate_of(subject, terms.clients) >= 1 or (isinstance(sampling, FixedSize) and not stateless):
        return event
    if terms.counted == "public" or not isinstance(sampling, (Poisson, RandomAllocation)):
        return sampling.amplified(event, subject, terms.clients, accomplices)
    bounds = [channel.bounds for channel in terms.channels]
    differ = any(isinstance(some, tuple) and len(set(some)) > 1 for some in bounds)
    if isinstance(sampling, RandomAllocation) or isinstance(sampling.rate, tuple) or differ or not stateless:
        return event
    return CountedDpEvent(terms.clients - accomplices, sampling.rate, event)


def state_of(terms: Terms) -> State:
    """What clients in groups keep between rounds: a private part for each group (rule 6)."""
    return "nothing" if terms.training.keeps == "nothing" else "per-group"


def observed(terms: Terms, groups: Groups, coalition: Coalition) -> frozenset[int]:
    """The groups whose releases a coalition sees.

    Its members' own and the published ones; all of them, where the coordinator or a server, which serve every group,
    is a member.
    """
    hosts = terms.shared.hosted_by if terms.shared else ()
    if coalition.coordinator or coalition.servers or set(hosts) & coalition.clients:
        return frozenset(range(len(groups.members)))
    return groups.observed(coalition.clients)


def _of_groups(terms: Terms, groups: Groups, subject: int, coalition: Coalition, rounds: int) -> DpEvent:
    if terms.unit == "none":
        return NonPrivateDpEvent()
    if subject in coalition.clients or _sees_within(terms, groups, subject, coalition):
        return NonPrivateDpEvent()
    seen = observed(terms, groups, coalition)
    counts = overlap.reach(groups, groups.first_like(subject), seen, rounds, state_of(terms))
    parts: list[DpEvent] = [
        SelfComposedDpEvent(_release(terms, subject, group, coalition), count)
        for group, count in counts.items()
        if count
    ]
    return ComposedDpEvent(parts) if parts else NoOpDpEvent()


def _sees_within(terms: Terms, groups: Groups, subject: int, coalition: Coalition) -> bool:
    """True if the coalition sees the sums without noise that a group of the subject shares, or may see them."""
    if terms.within == "alone" or terms.interval == 1:
        return False
    return bool(observed(terms, groups, coalition) & set(groups.groups_of(subject)))


def _release(terms: Terms, subject: int, group: int, coalition: Coalition) -> DpEvent:
    """One release of a group."""
    (channel,) = terms.channels_of(group)
    view: View = see(channel, terms.sampling, terms.members(group), subject, coalition)
    event = channel.mechanism.event(view.noise * _met(terms, group, subject))
    return event if view.participation else _amplified(terms, terms.sampling_of(group), event, subject, 0)


def _met(terms: Terms, group: int, subject: int) -> float:
    """The noise of a release over how far the subject moves it; more than by its own row where an interval shares sums.

    The others then start from what the subject moved, and each of them may change its total from one end of its ball
    to the other: the sum moves by the subject's bound and by twice that of every other member, which may be larger.
    """
    (channel,) = terms.channels_of(group)
    own = channel.multiplier(subject)
    if terms.within == "alone" or terms.interval == 1 or own <= 0:
        return own
    return 1 / (1 / own + 2 * sum(1 / channel.multiplier(one) for one in terms.members(group) if one != subject))


def amplified(terms: Terms, subject: int, observers: str) -> bool:
    """True if what is charged is sampled; in groups, what would be if anything reached the observers.

    Whether that lowers the price is known once there is one (`accounting.lowered_by_sampling`).
    """
    if not isinstance(terms.topology, Groups):
        return _is_sampled(of_run(terms, subject, observers, terms.rounds))
    coalition = terms.coalition(observers)
    if not is_private(_of_groups(terms, terms.topology, subject, coalition, terms.rounds)):
        return False
    return any(_is_sampled(_release(terms, subject, one, coalition)) for one in terms.topology.groups_of(subject))


def is_private(event: DpEvent) -> bool:
    """True unless a part of the event has no guarantee."""
    match event:
        case NonPrivateDpEvent():
            return False
        case SelfComposedDpEvent(event=inner) | PoissonSampledDpEvent(event=inner):
            return is_private(inner)
        case ComposedDpEvent(events=parts):
            return all(is_private(part) for part in parts)
        case _:
            return True


def _is_sampled(event: DpEvent) -> bool:
    """True if some part of the event is amplified by sampling."""
    match event:
        case (
            PoissonSampledDpEvent() | SampledWithoutReplacementDpEvent() | CountedDpEvent() | RandomAllocationDpEvent()
        ):
            return True
        case SelfComposedDpEvent(event=inner):
            return _is_sampled(inner)
        case ComposedDpEvent(events=parts):
            return any(_is_sampled(part) for part in parts)
        case _:
            return False
