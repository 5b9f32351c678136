"""The least noise that keeps every event within a target epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import ROUND_CEILING, Context, Decimal
from functools import cache
from typing import Any, TypeAlias, cast

from dp_accounting import DpEvent
from scipy import optimize

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy.accounting import price
from onlooker.types import Adjacency

Progress: TypeAlias = Callable[[float, float], None]
"""Told of each noise multiplier that was tried, and of the largest epsilon there."""

_LEAST, _MOST = 1e-6, 1e6
_STEEP = 50.0
_SEVEN_DIGITS = Context(prec=7, rounding=ROUND_CEILING)


def calibrate(
    event_of: Callable[[float], DpEvent | Sequence[DpEvent]],
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    sampler_error: float = 0.0,
    progress: Progress | None = None,
) -> float:
    """The smallest noise multiplier z, in seven digits, at which every event costs at most epsilon.

    Guarantee: `price` was evaluated for each event of the z that is returned, and is at most epsilon; at the
    next smaller number of seven digits one event costs more. So z is never too small, and by at most one part in
    a million too large.

    Args:
        event_of: the event, or the several events, of a run with noise multiplier z; more noise never costs
            more.
        epsilon: the target, above 0.
        delta: in (0, 1).
        adjacency: what a neighbouring data set differs in.
        sampler_error: as in `price`.
        progress: told of every price on the way.

    Raises:
        TermsError: if epsilon or delta is impossible, or no amount of noise reaches epsilon.
        UnpricedError: if an event cannot be priced at all.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> calibrate(lambda z: SelfComposedDpEvent(GaussianDpEvent(z), 40), 8.0, 1e-5, "zero-out")
    3.796182
    """

    def largest(z: float) -> float:
        answer = event_of(z)
        events = [answer] if isinstance(answer, DpEvent) else answer
        spent = max((_spent(event, epsilon, delta, adjacency, sampler_error) for event in events), default=0.0)
        if progress is not None:
            progress(z, spent)
        return spent

    return least_noise(largest, epsilon, delta)


def least_noise(spent: Callable[[float], float], epsilon: float, delta: float) -> float:
    """The smallest noise multiplier z, in seven digits, at which `spent(z)` is at most epsilon.

    Args:
        spent: the largest epsilon of a run with noise multiplier z; more noise never costs more.
        epsilon: the target, above 0.
        delta: in (0, 1), for the message alone.

    Raises:
        TermsError: if epsilon or delta is impossible, or no amount of noise reaches epsilon.
    """
    _check.positive(privacy__epsilon=epsilon)
    _check.probability(privacy__delta=delta)

    @cache
    def excess_at(z: Decimal) -> float:
        """The log of the largest epsilon over the target, within bounds: 0 or less where z will do."""
        largest = spent(float(z))
        return max(-_STEEP, min(_STEEP, math.log(largest / epsilon))) if largest > 0 else -_STEEP

    def excess(z: float) -> float:
        """The same at the next number of seven digits: the last steps of a search meet one that was priced before."""
        return excess_at(_SEVEN_DIGITS.create_decimal_from_float(z))

    z = _SEVEN_DIGITS.create_decimal_from_float(_root(excess, *_bracket(excess, epsilon, delta)))
    while excess_at(z) > 0:
        z = _SEVEN_DIGITS.next_plus(z)
    while excess_at(before := _SEVEN_DIGITS.next_minus(z)) <= 0:
        z = before
    return float(z)


def _spent(event: DpEvent, target: float, delta: float, adjacency: Adjacency, sampler_error: float) -> float:
    """Without the sampler's part where that is too much already: there it may be more than delta can pay."""
    epsilon = price(event, delta, adjacency).epsilon
    if epsilon > target or sampler_error == 0:
        return epsilon
    return price(event, delta, adjacency, sampler_error).epsilon


def _bracket(excess: Callable[[float], float], epsilon: float, delta: float) -> tuple[float, float]:
    """A noise multiplier that is too small and one that will do: epsilon falls about as fast as z grows."""
    z = 1.0
    value = excess(z)
    grows = value > 0
    while _LEAST <= z <= _MOST:
        step = min(32.0, max(2.0, 1.1 * math.exp(abs(value))))
        before, z = z, z * step if grows else z / step
        value = excess(z)
        if (value > 0) != grows:
            return (before, z) if grows else (z, before)
    if grows:
        raise TermsError(
            f"privacy.epsilon = {epsilon:g} cannot be reached at privacy.delta = {delta:g} by any noise up "
            f"to a multiplier of {_MOST:g}: part of what is released costs more by itself; raise "
            "privacy.epsilon."
        )
    raise TermsError(f"privacy.epsilon = {epsilon:g} asks for no noise to speak of; name a smaller one.")


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """About where the function changes sign, found on a logarithmic scale.

    The tolerance is a few steps of the last of seven digits: within fewer the function is flat, and a search would
    halve what it cannot tell apart.
    """

    def of_log(log_z: float) -> float:
        return function(math.exp(log_z))

    return math.exp(cast(Any, optimize).brentq(of_log, math.log(low), math.log(high), xtol=4e-6))
