"""From a target epsilon to the noise of a whole run, for every observer at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from dp_accounting import DpEvent

from onlooker.errors import TermsError
from onlooker.privacy.calibration import calibrate
from onlooker.privacy.terms import Terms


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
    signatures: dict[Hashable, tuple[int, str]] = {}
    for observer in observers:
        for subject in range(start.clients):
            if f"client:{subject}" not in observer.split("+"):
                signatures.setdefault(start.signature(subject, observer), (subject, observer))
    pairs = [pair for pair in signatures.values() if start.has_guarantee(*pair)]
    if not pairs:
        raise TermsError(
            f"privacy.epsilon = {epsilon} cannot be kept: none of privacy.observers = {', '.join(observers)} can have "
            "a guarantee; name one that can, such as public."
        )

    def events(multiplier: float) -> list[DpEvent]:
        terms = terms_at(multiplier)
        return [terms.event(subject, observer) for subject, observer in pairs]

    multiplier = calibrate(events, epsilon, start.delta, start.priced_adjacency)
    error = terms_at(multiplier).sampler_error()
    if not error:
        return multiplier
    # An error grows with z, which the error makes a little larger: twice as much is more than that.
    return calibrate(events, epsilon, start.delta, start.priced_adjacency, 2 * error)
