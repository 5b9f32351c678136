"""What MS-PAFL's paper prints as the price of its noise: for comparing figures, never for a promise.

A client's public part is clipped to C, so that any change of its data moves it by at most s = 2 C. In a round
it takes part with probability p, uses a record of its own with probability q, and adds noise of deviation
sigma = z C, which Lemma 1 chooses for some (epsilon_l, delta_l). N clients, T rounds. Each formula below is as
printed, with what is wrong with it. What holds for the same noise is in `ms_pafl_sound`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

from scipy import optimize

from onlooker import _check
from onlooker.errors import TermsError
from onlooker.privacy.published.result import Published

SENSITIVITY = 2.0
"""s over C (C.3). It bounds any change of a client's data, so what the paper proves of a record holds of a client."""

REASONS: Mapping[str, str] = {
    "lemma-1": (
        "sufficient, and proven so only for epsilon below 1; not minimal as printed: at epsilon 1 a third of the noise "
        "is too much, at epsilon 8 and delta 1e-4 it is too little"
    ),
    "theorem-1": (
        "holds for a single round with epsilon_l at most 1; rounds of it do not add up while the client keeps its "
        "private part, into which every earlier record went without noise"
    ),
    "theorem-2": (
        "its neighbours lack a client where its definition has another record, and a client that is away changes the "
        "divisor and the noise; who takes part is hidden from nobody who receives the rows or their number"
    ),
    "corollary-1": (
        "Theorem 2 for clients that are all alike, and proven no more than that: whoever receives the rows or their "
        "number sees who takes part; nor is it below either sampling alone, as is said of it: at q = 0.5 it is what "
        "the client's coin alone would print, and at p = 1 above Theorem 1"
    ),
    "equation-22": "e^x - 1 <= x is the wrong way round, so it is below the theorem that it is said to bound",
    "theorem-3": (
        "c_0 is free; its moment divides by the square of the clip, leaves out that Abadi's bound needs a rate below "
        "1 / (16 sigma), and multiplies by p what is no average; a lower bound on epsilon is stated as an equality"
    ),
    "theorem-4": "composes a round that is not proven, and its delta, T delta_c and more, is left out of the figures",
}
"""Why each formula is no guarantee."""

CONSTANT = math.sqrt(math.log(1e4) / math.log(1.25e4)) / 2
"""c_0 = 0.494 of Theorem 3: what (C.8) comes to at C = 1 and delta_l = 1e-4. The paper names none."""


def lemma_1(epsilon: float, delta: float) -> Published:
    """Lemma 1 (6): the classic Gaussian mechanism at sensitivity 2 C, z = 2 sqrt(2 ln(1.25 / delta)) / epsilon.

    Printed as the least noise that will do. It is neither the least (3.19 rather than 4.34 per unit of
    sensitivity at epsilon 1, delta 1e-4) nor enough for a large epsilon (delta is 1.005e-4 at epsilon 8). The
    least is the analytic Gaussian mechanism's (Balle and Wang 2018), which is what a `Price` is made of.

    Raises:
        TermsError: if a value is impossible.

    >>> round(lemma_1(1.0, 1e-4).noise_multiplier, 4)
    8.6872
    """
    _check.positive(privacy__epsilon=epsilon)
    _check.probability(privacy__delta=delta)
    z = SENSITIVITY * math.sqrt(2 * math.log(1.25 / delta)) / epsilon
    return _published("lemma-1", epsilon, delta, z)


def record_rate(steps: int, batch_size: int, records: int, replacement: bool) -> float:
    """Equation (11): q, by Q steps of batch b over the records of one client.

    What amplifies is the probability that a record is used in a round at all. Without replacement Q b / n is
    that only where all Q batches are disjoint; where each step draws its batch anew it is 1 - (1 - b/n)^Q, less.
    With replacement it is as printed. That a record may then be drawn twice is harmless only because the whole
    output is clipped. That q is smaller with replacement says nothing but that fewer records are used.

    Raises:
        TermsError: if a value is impossible.

    >>> record_rate(5, 13, 325, replacement=False), round(record_rate(5, 13, 325, replacement=True), 4)
    (0.2, 0.1815)
    """
    _check.at_least(1, training__steps=steps, training__batch_size=batch_size)
    draws = steps * batch_size
    if replacement:
        _check.at_least(1, records=records)
        return -math.expm1(draws * math.log1p(-1 / records)) if records > 1 else 1.0
    _check.at_least(draws, records=records)
    return draws / records


def theorem_1(local: Published, rate: float) -> Published:
    """Theorem 1: (2 q epsilon_l, q delta_l) for one round; from q = 0.5 on it amplifies nothing.

    For epsilon_l at most 1 it holds, being above log(1 + q (e^epsilon_l - 1)); the paper asks for that and then
    draws other values.

    Raises:
        TermsError: if the rate is impossible.
    """
    _check.rate(sampling__records__rate=rate)
    return _published("theorem-1", 2 * rate * local.epsilon, rate * local.delta, local.noise_multiplier)


def away_from_mean(clients: int, beta: float = 0.25) -> float:
    """delta' of (20): Hoeffding's bound on a cohort that is beta N or more away from its mean.

    It is 7.5e-6 a round for 100 clients and 0.16 for the 20 of the paper's CNN, where T delta' is above 1 and the
    theorem says nothing. It is not needed: with a public divisor no size of cohort is conditioned on.

    Raises:
        TermsError: if a value is impossible, or the bound is 1 or more.
    """
    _check.at_least(1, data__clients=clients)
    _check.positive(beta=beta)
    bound = 2 * math.exp(-2 * beta**2 * clients)
    if bound >= 1:
        raise TermsError(
            f"data.clients = {clients} and beta = {beta:g} make delta' = {bound:.3g}, which is no probability; "
            "take more clients."
        )
    return bound


def theorem_2(
    local: Published, participations: Sequence[float], rates: Sequence[float], beta: float = 0.25
) -> Published:
    """Theorem 2 (19a, 19b): one round of the global model, the worst client of N that differ.

    The proof (A.1, B.4) compares a round with client i to one without it and takes the step between them from a
    guarantee about one record of a client that is there; without the client the mean has another divisor and
    another variance, sigma^2 / (n - 1). Conditioning on absence (B.2) needs a factor 1 / (1 - p), and the window
    for the size of the cohort moves by one (B.5). The size, which the paper makes public, tells of the client:
    its odds of being there are multiplied by n (1 - p) / ((N - n) p), which is 3 at n = 75, N = 100, p = 0.5, and
    has no bound.

    Args:
        local: Lemma 1 for one row.
        participations: p of each client.
        rates: q of each client.
        beta: of `away_from_mean`.

    Raises:
        TermsError: if a value is impossible, or the lists have two lengths.
    """
    if len(participations) != len(rates):
        raise TermsError(
            f"{len(participations)} participations and {len(rates)} rates are no list of clients; name one each."
        )
    stray = away_from_mean(len(rates), beta)
    bounds = [_central(local, p, q, stray) for p, q in zip(participations, rates, strict=True)]
    epsilon, delta = max(epsilon for epsilon, _ in bounds), max(delta for _, delta in bounds)
    return _published("theorem-2", epsilon, delta, local.noise_multiplier)


def corollary_1(local: Published, participation: float, rate: float, clients: int, beta: float = 0.25) -> Published:
    """Corollary 1 (21a, 21b): Theorem 2 for clients that are all alike.

    Said to be tighter than either sampling alone. At q = 0.5 it is what sampling clients alone would print, and at
    p = 1 it is above Theorem 1, because of the 1 - delta' below the line.

    Raises:
        TermsError: if a value is impossible.

    >>> round(corollary_1(lemma_1(1.0, 1e-4), 0.5, 0.2, 100).epsilon, 4)
    0.2199
    """
    epsilon, delta = _central(local, participation, rate, away_from_mean(clients, beta))
    return _published("corollary-1", epsilon, delta, local.noise_multiplier)


def equation_22(local: Published, participation: float, rate: float, clients: int, beta: float = 0.25) -> Published:
    """Equation (22): 2 p q epsilon_l / (1 - delta'), said to be above Corollary 1 and below it nearly always.

    e^x - 1 <= x holds for no x but 0; at p = q = 0.5 and epsilon_l = 1 the corollary is 0.620 and this is 0.500.
    With a factor of e - 1 it would hold up to x = 1.

    Raises:
        TermsError: if a value is impossible.
    """
    round = corollary_1(local, participation, rate, clients, beta)
    epsilon = 2 * rate * local.epsilon * participation / (1 - away_from_mean(clients, beta))
    return _published("equation-22", epsilon, round.delta, local.noise_multiplier)


def theorem_3(
    local: Published, participation: float, rate: float, rounds: int, constant: float = CONSTANT
) -> Published:
    """Theorem 3 (23): c_0 q epsilon_l sqrt(p T / (1 - q)) as the loss of one client over T rounds, at delta_l.

    (C.2) takes a moment that belongs to a sensitivity of 1 and divides it once more by s^2, which makes the loss
    depend on C; at C = 1 the moment is 8 times too small. (C.4) multiplies the logarithm of a moment by p, where
    the logarithm of the average is larger (Jensen), and whoever receives the rows sees who takes part. (C.6) holds
    for epsilon of twice the moment or more, and bounds epsilon from below. Without sampling the formula is
    infinite.

    Args:
        local: Lemma 1 for one row.
        participation: p.
        rate: q, below 1.
        rounds: T.
        constant: c_0, which the paper leaves free.

    Raises:
        TermsError: if a value is impossible.
    """
    _check.rate(sampling__clients__rate=participation, sampling__records__rate=rate)
    _check.at_least(1, task__rounds=rounds)
    _check.positive(constant=constant, one_less_the_rate=1 - rate)
    epsilon = constant * rate * local.epsilon * math.sqrt(participation * rounds / (1 - rate))
    return _published("theorem-3", epsilon, local.delta, local.noise_multiplier)


def theorem_4(round: Published, rounds: int, slack: float = 1e-4) -> Published:
    """Theorem 4 (24a): T rounds of the global model by strong composition, at T delta_c + slack in all.

    As composition of proven rounds it would hold, and loosely. The figures name delta 1e-4; what the theorem gives
    is 1.8e-3 at p = 0.5, q = 0.2, N = 100, T = 100.

    Raises:
        TermsError: if a value is impossible.

    >>> total = theorem_4(corollary_1(lemma_1(1.0, 1e-4), 0.5, 0.2, 100), 100)
    >>> round(total.epsilon, 1), round(total.delta, 4)
    (14.8, 0.0018)
    """
    _check.at_least(1, task__rounds=rounds)
    _check.probability(slack=slack)
    epsilon = _composed(round.epsilon, rounds, slack)
    return _published("theorem-4", epsilon, rounds * round.delta + slack, round.noise_multiplier)


def printed_local(
    total: float, participation: float, rate: float, clients: int, rounds: int, delta: float = 1e-4
) -> Published:
    """Lemma 1 for the row whose T rounds Theorem 4 prints `total` for: how the paper sets its noise.

    Raises:
        TermsError: if a value is impossible.

    >>> local = printed_local(2.0, 0.5, 0.2, 100, 100)
    >>> round(theorem_4(corollary_1(local, 0.5, 0.2, 100), 100).epsilon, 6)
    2.0
    """
    _check.positive(privacy__epsilon=total)
    _check.rate(sampling__clients__rate=participation, sampling__records__rate=rate)
    stray = away_from_mean(clients)

    def excess(log_epsilon: float) -> float:
        return math.log(_composed(math.exp(log_epsilon), rounds, delta) / total)

    one = math.exp(cast(Any, optimize).brentq(excess, math.log(1e-9), math.log(100.0), xtol=1e-13))
    return lemma_1(math.log1p(math.expm1(one) * (1 - stray) / participation) / (2 * rate), delta)


def _central(local: Published, participation: float, rate: float, stray: float) -> tuple[float, float]:
    _check.rate(sampling__clients__rate=participation, sampling__records__rate=rate)
    scale = participation / (1 - stray)
    return math.log1p(scale * math.expm1(2 * rate * local.epsilon)), stray + scale * rate * local.delta


def _composed(epsilon: float, rounds: int, slack: float) -> float:
    return math.sqrt(2 * rounds * math.log(1 / slack)) * epsilon + rounds * epsilon * math.expm1(epsilon)


def _published(formula: str, epsilon: float, delta: float, z: float) -> Published:
    return Published(formula, epsilon, z, delta, REASONS[formula])
