"""What FedDecouple's paper prints as the price of its noise: for comparing figures, never for a promise.

The formulas are those of the paper's sections 3.3 and 4.4. None holds for what the paper describes, cohorts
of a fixed size under replacement of one client's data; what they print is less than an observer can learn.
Every result says so, and why, and no `Price` is ever made of one.

With m of K clients in each of T rounds, q = m/K, and z is the noise's standard deviation over the clip C.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import optimize

from onlooker import _check
from onlooker.errors import TermsError

Formula: TypeAlias = Literal["theorem-7", "section-4.4.5", "section-4.4.2", "table-5", "section-3.3"]
"""Where it is printed; section 4.4.2 also prints an approximation, which is what is meant here."""

LABEL = "as published, not a guarantee"

_SAMPLING = (
    "of the bound for sampling without replacement (Wang, Balle, Kasiviswanathan 2019, Theorem 9) it keeps "
    "only the second-order term, with the divergence of order alpha in place of that of order 2, and then "
    "falls as alpha grows, which no Rényi divergence does"
)
REASONS: dict[Formula, str] = {
    "theorem-7": f"alpha / (2 z^2) belongs to a sensitivity of C, where the paper's is 2 C; and {_SAMPLING}",
    "section-4.4.5": _SAMPLING,
    "section-4.4.2": "it counts the rate twice, as q^4; even q^2 holds only for a small rate and order",
    "table-5": "alpha q^2 / (2 z^2) holds only for a small rate and order, and belongs to a sensitivity of C",
    "section-3.3": "no theorem gives a log-moment that is linear in the rate",
}
"""Why each formula is no guarantee."""

_ORDERS: NDArray[np.float64] = 1 + np.geomspace(1e-3, 509, 20_000)
"""The orders over which a formula is minimised, up to 510."""


@dataclass(frozen=True)
class Published:
    """A printed epsilon and the noise that it belongs to; not a `Price`.

    Attributes:
        formula: where it is printed.
        epsilon: as the formula gives it.
        noise_multiplier: z = sigma / C.
        delta: as printed beside it.
        reason: why it is no guarantee.
        label: what every table and figure says beside it.
    """

    formula: Formula
    epsilon: float
    noise_multiplier: float
    delta: float
    reason: str
    label: str = field(default=LABEL, init=False)


def printed_epsilon(
    noise_multiplier: float, rate: float, rounds: int, delta: float, formula: Formula = "section-4.4.5"
) -> Published:
    """The epsilon that the paper prints for some noise.

    Raises:
        TermsError: if a value is impossible or the formula unknown.

    >>> result = printed_epsilon(3.3584, 0.5, 40, 1e-5)
    >>> round(result.epsilon, 2), result.label
    (8.0, 'as published, not a guarantee')
    """
    _check.positive(privacy__noise_multiplier=noise_multiplier)
    _check_rest(rate, rounds, delta, formula)
    epsilon = _epsilon(noise_multiplier, rate, rounds, delta, formula)
    return Published(formula, epsilon, noise_multiplier, delta, REASONS[formula])


def printed_noise(
    epsilon: float, rate: float, rounds: int, delta: float, formula: Formula = "section-4.4.5"
) -> Published:
    """The noise that the paper's formula asks for at a target epsilon.

    Raises:
        TermsError: if a value is impossible, the formula unknown, or the target outside what it can give.

    >>> round(printed_noise(8.0, 0.5, 40, 1e-5).noise_multiplier, 3)
    3.358
    """
    _check.positive(privacy__epsilon=epsilon)
    _check_rest(rate, rounds, delta, formula)

    def excess(log_z: float) -> float:
        return _epsilon(math.exp(log_z), rate, rounds, delta, formula) - epsilon

    low, high = math.log(1e-6), math.log(1e6)
    if excess(high) > 0 or excess(low) < 0:
        least = _epsilon(1e6, rate, rounds, delta, formula)
        raise TermsError(
            f"privacy.epsilon = {epsilon:g} is outside what the formula of {formula} gives for any noise; "
            f"name one above {least:.3g}."
        )
    z = math.exp(cast(Any, optimize).brentq(excess, low, high, xtol=1e-12))
    return Published(formula, epsilon, z, delta, REASONS[formula])


def _check_rest(rate: float, rounds: int, delta: float, formula: str) -> None:
    _check.rate(sampling__clients__rate=rate)
    _check.at_least(1, task__rounds=rounds)
    _check.probability(privacy__delta=delta)
    _check.one_of(REASONS, formula=formula)


def _epsilon(z: float, rate: float, rounds: int, delta: float, formula: Formula) -> float:
    """The least value of the formula over the orders alpha (lambda in section 3.3)."""
    if formula == "section-3.3":
        moments = rounds * rate * _ORDERS * (_ORDERS - 1) / (2 * z**2)
        return float(np.min((moments - math.log(delta)) / _ORDERS))
    return float(np.min(rounds * _divergence(z, rate, formula) - math.log(delta) / (_ORDERS - 1)))


def _divergence(z: float, rate: float, formula: Formula) -> NDArray[np.float64]:
    """One round's printed rho(alpha)."""
    match formula:
        case "theorem-7":
            return _amplified(_ORDERS / (2 * z**2), rate)
        case "section-4.4.5":
            return _amplified(2 * _ORDERS / z**2, rate)
        case "section-4.4.2":
            return _ORDERS * rate**4 / (2 * z**2)
        case _:
            return _ORDERS * rate**2 / (2 * z**2)


def _amplified(rho: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Theorem 5 as printed: log(1 + q^2 C(alpha, 2) min(4 (e^rho - 1), 2 e^rho)) / (alpha - 1)."""
    smaller = np.minimum(math.log(4) + np.log(-np.expm1(-rho)), math.log(2))
    term = 2 * math.log(rate) + np.log(_ORDERS * (_ORDERS - 1) / 2) + rho + smaller
    return np.log1p(np.exp(-np.abs(term))) / (_ORDERS - 1) + np.maximum(term, 0.0) / (_ORDERS - 1)
