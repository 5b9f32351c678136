"""What holds for the noise of MS-PAFL's figures, by the accountant, for each observer that the paper runs together.

One client, or one record, is replaced by any other; the paper's s = 2 C is the distance of that.

*Records.* Where a client keeps nothing between rounds, a record that a client uses in a round with probability
q, by whatever sampler, costs no more than one that is drawn at rate q into a cohort of a fixed size. Proof: the
client's row lies in the ball of radius C whatever its records are. Given that the record is not used, the
release has one distribution w0, the same for both data sets, since nothing is kept; given that it is, it has w1
or w1'. Each of the three is a mixture of Gaussians about s + r, with the same s from others, and r anywhere in
the ball. Couple the three mixtures with one s and independent r: any two centres are at most 2 C apart, which
is all that the lemma of `fixed_size` asks for, and its bound is the one for replacing a unit at rate q. Where a
client's coin is hidden too, "used" is the coin and the draw together, at rate p q, and r may be 0. This needs
the row to be clipped whole. It does not hold for sums of clipped records (rule 4c), whose rows have no bound.

*Cohorts.* Where the coordinator sees the sum alone but knows who is in it, n_t rows carry their own noise in
round t, and the subject's row moves their sum by 2 / (z sqrt(n_t)) of its deviation. The other clients' coins
do not depend on data, so one may condition on them: the T rounds are then one Gaussian whose squared shift is 4 /
z^2 times the sum S of 1 / n_t. By Chernoff, S is above M with a probability of at most e^(-theta M) E[e^(theta
/ n)]^T for any theta > 0, where n - 1 is binomial; M is the least for which that is a hundredth of delta, which
is taken out of delta.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, SampledWithoutReplacementDpEvent, SelfComposedDpEvent
from scipy import optimize, special, stats

from onlooker import _check
from onlooker.privacy.accounting import price
from onlooker.privacy.published.result import Sound
from onlooker.types import Unit

_TAIL = 0.01
"""The share of delta that pays for runs with fewer noisy rows than are counted on."""
_PARTS = 10**6
"""Of a rate, which is rounded up to one part in so many."""


def each_row(noise_multiplier: float, rounds: int, delta: float) -> Sound:
    """Algorithm 1 as it is written: each noisy row goes to the coordinator, who sees who sent it.

    Nothing is amplified: not by the client's coin, which is seen (rule 4), and not by the record's, whose trace
    stays in the private part (rule 6).
    """
    observer = "the coordinator, which receives each noisy row"
    return _sound(GaussianDpEvent(noise_multiplier), rounds, delta, "client", observer)


def each_row_of_a_record(noise_multiplier: float, rate: float, rounds: int, delta: float) -> Sound:
    """The same observer and one record, if the client kept nothing between rounds."""
    observer = "the coordinator, which receives each noisy row, if clients kept nothing"
    return _sound(_drawn(rate, noise_multiplier), rounds, delta, "record", observer)


def summed_rows(noise_multiplier: float, participation: float, clients: int, rounds: int, delta: float) -> Sound:
    """Behind secure aggregation, which tells the coordinator who takes part and hides all but the sum.

    The noise is that of the rows that happen to be there, and the subject may be there in every round. A sum tells no
    more than its rows, whose price is the smaller where few take part.
    """
    missed = _TAIL * delta
    rows = _noisy_rows(participation, clients, rounds, missed)
    event = SelfComposedDpEvent(GaussianDpEvent(noise_multiplier * math.sqrt(rows)), rounds)
    found = replace(price(event, delta - missed, "replace-one"), delta=delta)
    found = min(found, each_row(noise_multiplier, rounds, delta).price, key=lambda one: one.epsilon)
    return Sound(found, "client", "the coordinator behind secure aggregation, which sees who takes part")


def public_sum(noise_multiplier: float, participation: float, clients: int, rounds: int, delta: float) -> Sound:
    """Whoever sees the released models alone, if servers added the noise that p N clients would.

    With noise by clients this would not hold: the number of rows shows in the noise, and an empty round in the
    model.
    """
    z = noise_multiplier * math.sqrt(participation * clients)
    return _sound(_drawn(participation, z), rounds, delta, "client", "the public, if servers added the noise")


def public_sum_of_a_record(
    noise_multiplier: float, participation: float, rate: float, clients: int, rounds: int, delta: float
) -> Sound:
    """The same observer and one record, if the client kept nothing: the only view in which p and q multiply."""
    z = noise_multiplier * math.sqrt(participation * clients)
    observer = "the public, if servers added the noise and clients kept nothing"
    return _sound(_drawn(participation * rate, z), rounds, delta, "record", observer)


def _sound(once: DpEvent, rounds: int, delta: float, unit: Unit, observer: str) -> Sound:
    return Sound(price(SelfComposedDpEvent(once, rounds), delta, "replace-one"), unit, observer)


def _drawn(rate: float, noise_multiplier: float) -> DpEvent:
    """A unit that is used at some rate; its row, clipped whole, may stand in the place of any other."""
    _check.rate(sampling__rate=rate)
    return SampledWithoutReplacementDpEvent(_PARTS, math.ceil(rate * _PARTS - 1e-6), GaussianDpEvent(noise_multiplier))


def _noisy_rows(participation: float, clients: int, rounds: int, missed: float) -> float:
    """T / M: as many rows in each round would leave the noise that all T rounds leave, but for `missed`."""
    _check.rate(sampling__clients__rate=participation)
    others = np.arange(clients, dtype=np.float64)
    log_masses = cast(Any, stats).binom.logpmf(others, clients - 1, participation)

    def bound(log_theta: float) -> float:
        theta = math.exp(log_theta)
        moment = float(cast(Any, special).logsumexp(log_masses + theta / (1 + others)))
        return (rounds * moment - math.log(missed)) / theta

    found = cast(Any, optimize).minimize_scalar(bound, bounds=(0.0, 25.0), method="bounded")
    return max(1.0, rounds / float(found.fun))
