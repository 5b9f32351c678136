"""The price of an event: the one place where an epsilon is computed.

What is promised comes from the privacy loss distribution (PLD); what is shown during a run from Rényi
divergences (RDP), which are cheap for every prefix and never lower (rule 11).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Literal, TypeAlias, overload

import numpy as np
from dp_accounting import DpEvent, get_epsilon_gaussian
from scipy import special

from onlooker import _check
from onlooker.errors import UnpricedError
from onlooker.privacy.losses import Pair, discretise
from onlooker.privacy.renyi import divergence, epsilons
from onlooker.privacy.rounds import Rounds, read
from onlooker.types import Adjacency

Accountant: TypeAlias = Literal["pld", "rdp", "none"]

_FINENESS = 50
"""Points of the grid for each standard deviation of a round's loss: an epsilon less than 0.01 % too large."""
_WIDEST = 0.05
_MOST_POINTS = 2**18
"""The longest grid of one round; that of a whole run may be twice as long. Well under a second's work."""
_COARSE = 8
"""How many times too wide a grid may be, 0.5 % too large, before Rényi's epsilon is asked as well."""
_TAIL = 1e-6
"""The part of delta that the ends of the grids may cost."""
_ROUNDING = 1e-16
"""What the Fourier transform of a composition loses of delta in each round: several times what is seen."""
_ROUNDING_SHARE = 0.01
_SAMPLER_SHARE = 0.01
_TRUNCATION = 1e-15


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
    rounds = read(event, adjacency)
    epsilon, accountant = _epsilon(rounds, delta)
    if sampler_error == 0 or math.isinf(epsilon):
        return Price(epsilon, delta, accountant)
    # Paying the sampler raises epsilon, which raises what it costs: set aside more and see that it is enough.
    most = _SAMPLER_SHARE * delta
    for aside in (min(most, 1.1 * _sampler_cost(epsilon, sampler_error)), most):
        epsilon, accountant = _epsilon(rounds, delta - aside)
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
    answers = _renyi_epsilons(read(event, adjacency), prefixes, delta)
    return answers[0] if isinstance(rounds, int) else answers


def _sampler_cost(epsilon: float, error: float) -> float:
    return error * (1 + math.exp(min(epsilon, 700.0)))


@lru_cache(maxsize=4096)
def _epsilon(rounds: Rounds, delta: float) -> tuple[float, Accountant]:
    """The least epsilon that is proven, and by which accountant."""
    if any(math.isinf(round.shift) for round, _ in rounds):
        return math.inf, "none"
    if not rounds:
        return 0.0, "pld"
    if len(rounds) == 1 and rounds[0][0].kind == "plain":
        return _gaussian_epsilon(rounds[0][0].shift, delta), "pld"
    lost = _ROUNDING * sum(count for _, count in rounds)
    spread = _spread(rounds, delta)
    fine, interval = _intervals(rounds, spread)
    epsilon = math.inf
    if lost <= _ROUNDING_SHARE * delta:
        epsilon = _distribution_epsilon(rounds, delta - lost, interval, spread)
    if interval > _COARSE * fine or math.isinf(epsilon):
        (divergent,) = _renyi_epsilons(rounds, [1], delta)
        if divergent < epsilon:
            return divergent, "rdp"
    return epsilon, "none" if math.isinf(epsilon) else "pld"


def _gaussian_epsilon(shift: float, delta: float) -> float:
    """Of one Gaussian without sampling, exactly (Balle and Wang 2018)."""
    with np.errstate(divide="ignore"):
        return float(get_epsilon_gaussian(1 / shift, delta))


def _distribution_epsilon(rounds: Rounds, delta: float, interval: float, spread: float) -> float:
    """By composing the privacy loss distributions of all rounds, for each direction."""
    pairs = [(round.pair(), count) for round, count in rounds]
    ways = [pairs]
    if any(pair.forward is not pair.backward for pair, _ in pairs):
        ways.append([(pair.reversed(), count) for pair, count in pairs])
    return max(_composed_epsilon(way, delta, interval, spread) for way in ways)


def _composed_epsilon(pairs: list[tuple[Pair, int]], delta: float, interval: float, spread: float) -> float:
    # Composing warns of overflow in bounds on tails that it then does not use.
    with np.errstate(all="ignore"):
        parts = [
            discretise(pair, interval, spread).composable().self_compose(count, _TRUNCATION) for pair, count in pairs
        ]
        whole = reduce(lambda one, other: one.compose(other, _TRUNCATION), parts)
        epsilon = float(whole.get_epsilon_for_delta(delta))
    return math.inf if math.isnan(epsilon) else epsilon


def _spread(rounds: Rounds, delta: float) -> int:
    """How many standard deviations of noise the grids reach; a whole number, so that prefixes share grids."""
    tail = _TAIL * delta / sum(count for _, count in rounds)
    return math.ceil(-float(special.ndtri(max(tail, 1e-300))))


def _intervals(rounds: Rounds, spread: float) -> tuple[float, float]:
    """The distance between losses that loses next to nothing, and the one that fits the longest grids.

    Spreading a loss over two points adds at most a quarter of the interval's square to its variance.
    """
    pairs = [(round.pair(), count) for round, count in rounds]
    squares = sum(count * pair.deviation**2 for pair, count in pairs)
    fine = min(_WIDEST, math.sqrt(squares / sum(count for _, count in pairs)) / _FINENESS)
    interval = max(fine, max(pair.reach(spread) for pair, _ in pairs) / _MOST_POINTS)
    variance = sum(count * discretise(pair, interval, spread).variance() for pair, count in pairs)
    return fine, max(interval, 20 * math.sqrt(variance) / (2 * _MOST_POINTS))


def _renyi_epsilons(rounds: Rounds, repeats: Sequence[int], delta: float) -> list[float]:
    """Of all rounds together, so many times each."""
    if not rounds or not repeats:
        return [0.0] * len(repeats)
    spread = _spread(rounds, delta / max(1, *repeats))
    parts = [(divergence(round, spread), count) for round, count in rounds]
    once = np.sum([count * part.values for part, count in parts], axis=0)
    outside = sum(count * part.outside for part, count in parts)
    times = np.array([max(1, number) for number in repeats], dtype=np.float64)
    answers = epsilons(once[:, None] * times, delta - outside * times)
    return [float(answer) if number else 0.0 for answer, number in zip(answers, repeats, strict=True)]
