"""What FedDecouple's paper prints as the price of its noise: for comparing figures, never for a promise.

The formulas are those of the paper's sections 3.3 and 4.4. None holds for what the paper describes, cohorts
of a fixed size under replacement of one client's data; what they print is less than an observer can learn.
Every result says so, and why, and no `Price` is ever made of one. Beside them stands what the accountant says
for the same noise: one number for each observer, where the paper has one for all.

With m of K clients in each of T rounds, q = m/K, and z is the noise's standard deviation over the clip C.
"""

from __future__ import annotations

import math
from typing import Any, Literal, TypeAlias, cast

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, SampledWithoutReplacementDpEvent, SelfComposedDpEvent
from numpy.typing import NDArray
from scipy import optimize

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy.accounting import price
from onlooker.privacy.calibration import calibrate
from onlooker.privacy.published.result import Published, PublishedDivergence, Sound

Formula: TypeAlias = Literal["theorem-7", "section-4.4.5", "section-4.4.2", "table-5", "section-3.3"]
"""Where it is printed; section 4.4.2 also prints an approximation, which is what is meant here."""

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


def theorem_5(order: float, divergence: float, rate: float) -> PublishedDivergence:
    """Theorem 5: a mechanism's Rényi divergence of some order, sampled at a rate, as printed.

    It is printed for every order above 1, and for a sampler that the proof does not name. The bound that it is
    taken from holds for whole orders from 2 on, sampling without replacement and one unit replaced, and has a
    term for each power of the rate; here only that of the square is left. At q = 0.5, z = 2.865, order 32 and
    rho = 2 alpha / z^2 it prints 0.43, where neighbours exist with a divergence of 7.08.

    Raises:
        TermsError: if a value is impossible.

    >>> round(theorem_5(32, 2 * 32 / 2.865**2, 0.5).value, 2)
    0.43
    """
    _check.positive(divergence=divergence, order_above_1=order - 1)
    _check.rate(sampling__clients__rate=rate)
    (value,) = _amplified(np.array([order]), np.array([divergence]), rate)
    return PublishedDivergence("theorem-5", order, float(value), _SAMPLING)


def theorem_6(one_round: PublishedDivergence, rounds: int) -> PublishedDivergence:
    """Theorem 6: T rounds have T times the divergence of one. True of divergences; what it multiplies is none.

    Raises:
        TermsError: if `rounds` is below 1.
    """
    _check.at_least(1, task__rounds=rounds)
    return PublishedDivergence("theorem-6", one_round.order, rounds * one_round.value, one_round.reason)


def theorem_7(noise_multiplier: float, rate: float, rounds: int, delta: float) -> Published:
    """Theorem 7: the paper's privacy theorem, which forgets that a replaced client moves the sum by 2 C.

    Raises:
        TermsError: if a value is impossible.
    """
    return printed_epsilon(noise_multiplier, rate, rounds, delta, "theorem-7")


def section_4_4_5(noise_multiplier: float, rate: float, rounds: int, delta: float) -> Published:
    """Section 4.4.5: Theorem 7 with the sensitivity mended, and Theorem 5 still in it.

    Raises:
        TermsError: if a value is impossible.
    """
    return printed_epsilon(noise_multiplier, rate, rounds, delta, "section-4.4.5")


def moments(noise_multiplier: float, rate: float, rounds: int, delta: float) -> Published:
    """Section 3.3: log-moments lambda (lambda - 1) q / (2 z^2), which the paper's experiments rest on.

    The moments of a sampled Gaussian are not linear in the rate, and to divide by lambda is not the tightest
    conversion, as the paper says it is (Canonne, Kamath, Steinke 2020; Balle et al. 2020).

    Raises:
        TermsError: if a value is impossible.
    """
    return printed_epsilon(noise_multiplier, rate, rounds, delta, "section-3.3")


def sound_public(noise_multiplier: float, size: int, clients: int, rounds: int, delta: float) -> Sound:
    """Whoever sees the released models alone, one client replaced: the fixed cohort stays hidden (rule 2b)."""
    event = SelfComposedDpEvent(_hidden(noise_multiplier, size, clients), rounds)
    return Sound(price(event, delta, "replace-one"), "client", "the public, which does not see who takes part")


def sound_seen(noise_multiplier: float, rounds: int, delta: float, observer: str) -> Sound:
    """An observer that sees who takes part, one client replaced: nothing is amplified against it (rule 4).

    That is the coordinator, which draws the cohort, and every auxiliary server, which opens the envelopes.

    Args:
        noise_multiplier: z of the noise that the observer cannot subtract: of n servers that share one noise evenly,
            one leaves sqrt((n - 1) / n) of it (rule 7).
        rounds: T.
        delta: in (0, 1).
        observer: who it is.
    """
    return Sound(
        price(SelfComposedDpEvent(GaussianDpEvent(noise_multiplier), rounds), delta, "replace-one"), "client", observer
    )


def sound_public_noise(epsilon: float, size: int, clients: int, rounds: int, delta: float) -> float:
    """The least z at which `sound_public` is at most epsilon."""
    return calibrate(lambda z: SelfComposedDpEvent(_hidden(z, size, clients), rounds), epsilon, delta, "replace-one")


def sound_seen_noise(epsilon: float, rounds: int, delta: float) -> float:
    """The least z at which `sound_seen` is at most epsilon."""
    return calibrate(lambda z: SelfComposedDpEvent(GaussianDpEvent(z), rounds), epsilon, delta, "replace-one")


def _hidden(noise_multiplier: float, size: int, clients: int) -> DpEvent:
    event = GaussianDpEvent(noise_multiplier)
    return event if size == clients else SampledWithoutReplacementDpEvent(clients, size, event)


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
            return _amplified(_ORDERS, _ORDERS / (2 * z**2), rate)
        case "section-4.4.5":
            return _amplified(_ORDERS, 2 * _ORDERS / z**2, rate)
        case "section-4.4.2":
            return _ORDERS * rate**4 / (2 * z**2)
        case _:
            return _ORDERS * rate**2 / (2 * z**2)


def _amplified(orders: NDArray[np.float64], rho: NDArray[np.float64], rate: float) -> NDArray[np.float64]:
    """Theorem 5 as printed: log(1 + q^2 C(alpha, 2) min(4 (e^rho - 1), 2 e^rho)) / (alpha - 1)."""
    smaller = np.minimum(math.log(4) + np.log(-np.expm1(-rho)), math.log(2))
    term = 2 * math.log(rate) + np.log(orders * (orders - 1) / 2) + rho + smaller
    return np.log1p(np.exp(-np.abs(term))) / (orders - 1) + np.maximum(term, 0.0) / (orders - 1)
