"""Rounds as privacy loss distributions of dp-accounting, which composes them too; ours is the choice of their grid.

All kinds are put on one grid from above ("Connect the Dots", Doroshenko et al. 2022), so that no mixture is priced too
low. `log_tail` is the log of the probability that the loss of one round may be taken for infinite.
"""

from __future__ import annotations

import math
from functools import lru_cache, reduce
from typing import Any, cast

import numpy as np
from dp_accounting import NeighboringRelation as Relation
from dp_accounting.pld.pld_pmf import DensePLDPmf
from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution, from_gaussian_mechanism
from scipy import special

from onlooker.privacy import curves, fixed_size
from onlooker.privacy.rounds import Round, Rounds

_FINENESS = 20
"""Points of the grid for each standard deviation of a round's loss: epsilon is less than 0.1 % too large."""
_NARROWEST, _WIDEST = 1e-8, 0.02
"""Bounds on their distance: rounding errors, and losses rounded up, would count as losses beyond."""
_MOST_POINTS = 2**16
"""Of one round's grid above a loss of 0; that of a whole run may be four times as long. About a second's work."""


@lru_cache(maxsize=8)
def composed(rounds: Rounds, interval: float, log_tail: int) -> PrivacyLossDistribution:
    """The privacy loss distribution of all rounds together, on multiples of `interval`."""
    tail = math.exp(log_tail)
    once = [(PrivacyLossDistribution(*directions(round, interval, log_tail)), count) for round, count in rounds]
    return reduce(lambda whole, part: whole.compose(part, tail), [part.self_compose(n, tail) for part, n in once])


def directions(round: Round, interval: float, log_tail: int) -> list[DensePLDPmf]:
    """The losses of one round: with the unit's row against without it, and the reverse unless that is the same.

    The library cannot be asked for them, and would compute size ** count for short ones, which it keeps sparse: a
    second for 10^6 rounds, half a minute for 10^7. So they are taken out here, and made dense.
    """
    made = cast(Any, _distribution(round, interval, log_tail))
    both = [made._pmf_remove] if made._symmetric else [made._pmf_remove, made._pmf_add]
    return [one.to_dense_pmf() for one in both]


def intervals(rounds: Rounds, log_tail: int) -> tuple[float, float]:
    """The distance between losses that costs next to nothing, and the one that also fits the longest grids."""
    variance, count = sum(n * _variance(round) for round, n in rounds), sum(n for _, n in rounds)
    fine = min(_WIDEST, max(_NARROWEST, math.sqrt(variance / count) / _FINENESS))
    spread = -float(special.ndtri_exp(log_tail))
    reach = max(_loss(_most(r), r.shift * (1 if r.kind in ("plain", "poisson") else 2), spread) for r, _ in rounds)
    return fine, max(fine, reach / _MOST_POINTS, 20 * math.sqrt(variance) / (4 * _MOST_POINTS))


def _distribution(round: Round, interval: float, log_tail: int) -> PrivacyLossDistribution:
    if round.kind in ("fixed-size", "fixed-size-replaced"):
        made = fixed_size.zeroed if round.kind == "fixed-size" else fixed_size.replaced
        return made(round.rate, round.shift, interval, log_tail)
    if round.kind in ("counted", "counted-replaced"):
        opposed = round.kind == "counted"
        return fixed_size.counted(round.population, round.rate, round.shift, opposed, interval, log_tail)
    if round.kind == "poisson":
        return curves.poisson(round.rate, round.shift, interval, log_tail)
    return from_gaussian_mechanism(
        1 / round.shift,
        value_discretization_interval=interval,
        log_mass_truncation_bound=log_tail,
        sampling_prob=round.rate,
        neighboring_relation=Relation.REPLACE_ONE if round.kind == "poisson-replaced" else Relation.ADD_OR_REMOVE_ONE,
    )


def _most(round: Round) -> float:
    """The largest rate that an output can tell: where the number of drawn units is seen, it may be all of them."""
    return 1.0 if round.population else round.rate


def _variance(round: Round) -> float:
    """About that of the loss: of the likelihood ratio or of the noise, and of whether the unit is drawn."""
    noise = min(round.shift, round.rate * math.sqrt(math.expm1(min(round.shift**2, 600.0))))
    return noise**2 + round.rate * (1 - round.rate) * _loss(round.rate, round.shift, 0.0) ** 2


def _loss(rate: float, shift: float, spread: float) -> float:
    """Of an output that lies so many standard deviations of noise beyond the mean of a row `shift` away."""
    with np.errstate(divide="ignore"):
        return float(np.logaddexp(np.log1p(-rate), math.log(rate) + shift**2 / 2 + spread * shift))
