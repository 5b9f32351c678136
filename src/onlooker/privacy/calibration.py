"""The least noise that keeps every event within a target epsilon."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

from dp_accounting import DpEvent
from scipy.optimize import brentq

from onlooker import _check
from onlooker.errors import TermsError, UnpricedError
from onlooker.privacy.accounting import price
from onlooker.types import Adjacency

Progress: TypeAlias = Callable[[float, float], None]
"""Called with each noise multiplier that was tried, and the largest epsilon there."""

_LEAST, _MOST = 1e-6, 1e9
_DIGITS = 5


def calibrate(
    event_of: Callable[[float], DpEvent | Sequence[DpEvent]],
    epsilon: float,
    delta: float,
    adjacency: Adjacency,
    sampler_error: float = 0.0,
    progress: Progress | None = None,
) -> float:
    """The smallest noise multiplier z, in five digits, at which every event costs at most epsilon.

    Guarantee: `price` of each event of the returned z was evaluated and is at most epsilon; at the next smaller number of
    five digits one event costs more. So z is never too small, and too large by at most one part in 10,000.

    Args:
        event_of: the event, or the several events, of a run with noise multiplier z; more noise must not cost more.
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
    3.7961
    """
    _check.positive(privacy__epsilon=epsilon)
    _check.probability(privacy__delta=delta)

    def excess(z: float) -> float:
        """The log of the largest epsilon over the target: 0 or less where z will do."""
        events = event_of(z)
        prices = [price(event, delta, adjacency, sampler_error) for event in _several(events)]
        largest = max((priced.epsilon for priced in prices), default=0.0)
        if progress is not None:
            progress(z, largest)
        return -_STEEP if largest == 0 else min(_STEEP, math.log(largest / epsilon))
    ...
