"""From a target epsilon to the noise of a whole run, for every observer at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from dp_accounting import DpEvent

from onlooker.errors import TermsError
from onlooker.privacy.accounting import price
from onlooker.privacy.calibration import calibrate, least_noise
from onlooker.privacy.pairs import pair_of
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups


def noise_for(epsilon: float, terms_at: Callable[[float], Terms], observers: Sequence[str]) -> float:
    """The least z at which every named observer that can have a guarantee is kept to epsilon, for every subject.

    Args:
        epsilon: the target.
        terms_at: the terms of the run with noise multiplier z.
        observers: the threat model; a client's view of itself is left out.

    Raises:
        TermsError: if no named observer can have a guarantee, or epsilon is impossible.
    """
    start = terms_at(1.0)
    pairs = _different(start, observers)
    if not pairs:
        raise TermsError(
            f"privacy.epsilon = {epsilon} cannot be kept: none of privacy.observers = {', '.join(observers)} can have "
            "a guarantee; name one that can, such as public."
        )

    def events(multiplier: float) -> list[DpEvent]:
        terms = terms_at(multiplier)
        return [terms.event(subject, observer) for subject, observer in pairs]

    def of_pairs(multiplier: float) -> float:
        terms = terms_at(multiplier)
        return max(
            pair_of(terms, subject, observer, terms.rounds, terms.delta).price.epsilon for subject, observer in pairs
        )

    if isinstance(start.topology, Groups):
        return least_noise(of_pairs, epsilon, start.delta)
    multiplier = calibrate(events, epsilon, start.delta, start.priced_adjacency)
    error = terms_at(multiplier).sampler_error()
    if not error:
        return multiplier
    # An error grows with z, which the error makes a little larger: twice as much is more than that.
    return calibrate(events, epsilon, start.delta, start.priced_adjacency, 2 * error)


def largest(terms: Terms, observers: Sequence[str]) -> float:
    """The largest epsilon of a run without groups, over the named observers that have a guarantee; 0 where none has."""
    events = [terms.event(subject, observer) for subject, observer in _different(terms, observers)]
    error = terms.sampler_error()
    return max((price(one, terms.delta, terms.priced_adjacency, error).epsilon for one in events), default=0.0)


def _different(terms: Terms, observers: Sequence[str]) -> list[tuple[int, str]]:
    """A subject and an observer for each different price, those without any guarantee left out."""
    found: dict[Hashable, tuple[int, str]] = {}
    for observer in observers:
        for subject in terms.one_of_each_kind(observer):
            if terms.has_guarantee(subject, observer):
                signature = terms.signature(subject, observer)
                found.setdefault((signature, _way(terms, subject, observer)), (subject, observer))
    return list(found.values())


def _way(terms: Terms, subject: int, observer: str) -> Hashable:
    """What a price in groups depends on beside its event: by which groups it goes."""
    if not isinstance(terms.topology, Groups):
        return None
    return terms.topology.groups_of(subject), terms.observed(observer)
