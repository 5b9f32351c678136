"""The price of an event: the one place where an epsilon is computed.

What is promised comes from the privacy loss distribution (PLD); what is shown during a run from Rényi
divergences (RDP), which are cheap for every prefix and never lower (rule 11).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias, overload

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    get_epsilon_gaussian,
)

from onlooker import _check
from onlooker.errors import UnpricedError
from onlooker.privacy.allocation import RandomAllocationDpEvent, hidden_epsilon
from onlooker.privacy.losses import composed, intervals
from onlooker.privacy.renyi import epsilons
from onlooker.privacy.rounds import CountedDpEvent, Rounds, read
from onlooker.types import Adjacency

Accountant: TypeAlias = Literal["pld", "rdp", "none"]

_TAIL = 1e-6
"""The part of delta that the ends of the grids may cost."""
_ROUNDING = 3e-16
"""What each round loses of delta: up to 2e-16 by which the library's curves are too low, and the Fourier transform."""
_ROUNDING_SHARE = 0.01
_SAMPLER_SHARE = 0.01
_MOST_ROUNDS, _WIDEST = 10**7, 100.0
"""Of what the library is asked to compose: more takes too long, and e to the distance of losses overflows in it."""
_COARSE = 3
"""How many times too wide a grid may be, 0.5 % too large, before Rényi's epsilon is asked as well."""


@dataclass(frozen=True)
class Price:
    """What an event costs a unit: (epsilon, delta)-differential privacy at the adjacency asked about.

    Attributes:
        epsilon: infinite where there is no guarantee.
        delta: all of it, the sampler's part included.
        accountant: "pld" (in closed form where nothing is sampled: the loss of a Gaussian is itself normal);
            "rdp" where delta is too small for it, or the grid would be too long; "none" where there is no
            guarantee.
        delta_sampler: the part of delta that pays for inexact noise (rule 8).
    """

    epsilon: float
    delta: float
    accountant: Accountant
    delta_sampler: float = 0.0


def price(event: DpEvent, delta: float, adjacency: Adjacency, sampler_error: float = 0.0) -> Price:
    """The price of a whole run, as promised.

    Args:
        event: Gaussian events, sampled or not, composed in any way; z is the noise's standard deviation over
            C.
        delta: in (0, 1).
        adjacency: what a neighbouring data set differs in.
        sampler_error: the total variation, over the whole run, between the noise that is drawn and a
            Gaussian. What is so close to an (epsilon, delta) release is (epsilon, delta + (1 + e^epsilon)
            sampler_error).

    Raises:
        UnpricedError: if no rule prices the event, or the sampler costs more than a hundredth of delta.
        TermsError: if delta or a number in the event is impossible.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> round(price(SelfComposedDpEvent(GaussianDpEvent(2.064), 40), 1e-5, "zero-out").epsilon, 2)
    17.14
    """
    _check.probability(privacy__delta=delta)
    _check.non_negative(sampler_error=sampler_error)
    epsilon, accountant = _event_epsilon(event, delta, adjacency)
    if sampler_error == 0 or math.isinf(epsilon):
        return Price(epsilon, delta, accountant)
    # Paying the sampler raises epsilon, which raises what it costs: set aside more and see that it is enough.
    most = _SAMPLER_SHARE * delta
    for aside in (min(most, 1.1 * _sampler_cost(epsilon, sampler_error)), most):
        epsilon, accountant = _event_epsilon(event, delta - aside, adjacency)
        cost = _sampler_cost(epsilon, sampler_error)
        if cost <= aside:
            return Price(epsilon, delta, accountant, cost)
    raise UnpricedError(
        f"privacy.delta = {delta:g} cannot pay for inexact noise: at epsilon {epsilon:.4g} the sampler's "
        f"error of {sampler_error:.2g} costs more than a hundredth of it; raise privacy.delta or add noise."
    )


@overload
def live(event: DpEvent, rounds: int, delta: float, adjacency: Adjacency) -> float: ...
@overload
def live(event: DpEvent, rounds: Sequence[int], delta: float, adjacency: Adjacency) -> list[float]: ...
def live(event: DpEvent, rounds: int | Sequence[int], delta: float, adjacency: Adjacency) -> float | list[float]:
    """The epsilon after so many rounds of one event, by Rényi divergences: cheap, never below the promise.

    Args:
        event: one round.
        rounds: how many so far; one number, or several at once.
        delta: in (0, 1).
        adjacency: what a neighbouring data set differs in.

    Raises:
        UnpricedError: if no rule prices the event.
        TermsError: if delta or a number in the event is impossible.

    >>> from dp_accounting import GaussianDpEvent
    >>> [round(epsilon, 2) for epsilon in live(GaussianDpEvent(2.064), [0, 1, 40], 1e-5, "zero-out")]
    [0.0, 2.09, 18.29]
    """
    _check.probability(privacy__delta=delta)
    prefixes = [rounds] if isinstance(rounds, int) else list(rounds)
    _check.at_least(0, rounds=min(prefixes, default=0))
    once = read(event, adjacency)
    answers = epsilons(once, prefixes, delta, _log_tail(once, delta / max([1, *prefixes])))
    return answers[0] if isinstance(rounds, int) else answers


def so_far(event: DpEvent, delta: float, adjacency: Adjacency) -> float:
    """The epsilon of the rounds up to now, cheaply where `live` can: for rounds that compose.

    A run that is priced once is priced as promised, which is cheap for correlated noise, and for random allocation
    remembered once it was asked for.

    >>> from dp_accounting import GaussianDpEvent, SelfComposedDpEvent
    >>> round(so_far(SelfComposedDpEvent(GaussianDpEvent(2.064), 40), 1e-5, "zero-out"), 2)
    18.29
    """
    if isinstance(event, SelfComposedDpEvent):
        return live(event.event, event.count, delta, adjacency)
    if isinstance(event, ComposedDpEvent):
        return live(event, 1, delta, adjacency)
    return price(event, delta, adjacency).epsilon


def lowered_by_sampling(event: DpEvent, found: Price, adjacency: Adjacency) -> bool:
    """True if the price that was found of an event is below that of the same rounds, all of them counted in full.

    An event may be sampled and nothing be credited for it: allocations under replace-one, and noise so small that
    sampling counts as none.

    >>> from dp_accounting import GaussianDpEvent
    >>> hidden = PoissonSampledDpEvent(0.5, GaussianDpEvent(2.064))
    >>> lowered_by_sampling(hidden, price(hidden, 1e-5, "zero-out"), "zero-out")
    True
    """
    in_full = _in_full(event)
    return in_full != event and found.epsilon < _event_epsilon(in_full, found.delta - found.delta_sampler, adjacency)[0]


def _in_full(event: DpEvent) -> DpEvent:
    """The event without its sampling, as whoever sees participation has it."""
    match event:
        case PoissonSampledDpEvent(event=inner) | SampledWithoutReplacementDpEvent(event=inner):
            return inner
        case CountedDpEvent(event=inner):
            return inner
        case RandomAllocationDpEvent():
            return event.in_full
        case SelfComposedDpEvent(event=inner, count=count):
            return SelfComposedDpEvent(_in_full(inner), count)
        case ComposedDpEvent(events=parts):
            return ComposedDpEvent([_in_full(part) for part in parts])
        case _:
            return event


def _sampler_cost(epsilon: float, error: float) -> float:
    return error * (1 + math.exp(min(epsilon, 700.0)))


def _event_epsilon(event: DpEvent, delta: float, adjacency: Adjacency) -> tuple[float, Accountant]:
    """The least epsilon that is proven for an event, of which there may be two bounds."""
    if not isinstance(event, RandomAllocationDpEvent):
        return _epsilon(read(event, adjacency), delta)
    in_full = _epsilon(read(event.in_full, adjacency), delta)
    once = read(event.event, "zero-out")
    if adjacency == "replace-one" or not 0 < in_full[0] < math.inf or [round.kind for round, _ in once] != ["plain"]:
        return in_full
    near, _ = _epsilon(read(event.as_poisson, "zero-out"), delta)
    hidden = hidden_epsilon(1 / once[0][0].shift, event.selected, event.rounds, delta, near)
    return (hidden, "pld") if hidden < in_full[0] else in_full


@lru_cache(maxsize=4096)
def _epsilon(rounds: Rounds, delta: float) -> tuple[float, Accountant]:
    """The least epsilon that is proven, and by which accountant."""
    if any(math.isinf(round.shift) for round, _ in rounds):
        return math.inf, "none"
    if not rounds:
        return 0.0, "pld"
    if len(rounds) == 1 and rounds[0][0].kind == "plain":
        return _gaussian_epsilon(rounds[0][0].shift, delta), "pld"
    log_tail = _log_tail(rounds, delta)
    fine, interval = intervals(rounds, log_tail)
    epsilon = _distribution_epsilon(rounds, delta, interval, log_tail)
    if interval > _COARSE * fine or math.isinf(epsilon):
        (divergent,) = epsilons(rounds, [1], delta, log_tail)
        if divergent < epsilon:
            return divergent, "rdp"
    return epsilon, "none" if math.isinf(epsilon) else "pld"


def _gaussian_epsilon(shift: float, delta: float) -> float:
    """Of one Gaussian without sampling, exactly (Balle and Wang 2018)."""
    with np.errstate(divide="ignore"):
        return float(get_epsilon_gaussian(1 / shift, delta))


def _distribution_epsilon(rounds: Rounds, delta: float, interval: float, log_tail: int) -> float:
    """By composing the privacy loss distributions of all rounds; infinite where the library cannot."""
    count = sum(count for _, count in rounds)
    lost = _ROUNDING * count
    if lost > _ROUNDING_SHARE * delta or count > _MOST_ROUNDS or interval > _WIDEST:
        return math.inf
    with np.errstate(all="ignore"):  # of overflow, in bounds on tails that are not used, and to an infinite epsilon
        epsilon = float(composed(rounds, interval, log_tail).get_epsilon_for_delta(delta - lost))
    return math.inf if math.isnan(epsilon) else epsilon


def _log_tail(rounds: Rounds, delta: float) -> int:
    """The log of what each grid may cut off; a whole number, so that prefixes share grids."""
    return max(-690, math.floor(math.log(_TAIL * delta / max(1, sum(count for _, count in rounds)))))
