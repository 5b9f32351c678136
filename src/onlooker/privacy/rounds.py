"""What an event means: rounds of Gaussian noise, each counted, with all conventions about units settled.

An event speaks of z, the noise's standard deviation over C, the L2 bound of one unit's row. A `Round` speaks
of C/sigma, so that what an adjacency does to the sensitivity is done once, in `read`, and no accountant is
ever asked to interpret a noise multiplier (under `REPLACE_ONE`, dp-accounting's two differ in that by a
factor of 2).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    NonPrivateDpEvent,
    NoOpDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from onlooker import _check
from onlooker.errors import TermsError, UnpricedError
from onlooker.types import Adjacency

Kind: TypeAlias = Literal[
    "plain", "poisson", "poisson-replaced", "fixed-size", "fixed-size-replaced", "counted", "counted-replaced"
]

_REPLACED: Mapping[Kind, Kind] = {
    "poisson": "poisson-replaced",
    "fixed-size": "fixed-size-replaced",
    "counted": "counted-replaced",
}
_LEAST_NOISE = 1e-9
"""A smaller noise multiplier counts as none: an epsilon above 10^17 would only be a risk of overflow."""
_MOST_NOISE = 1e6
"""A larger one counts as this in a sampled round, whose curves would else be lost in rounding."""
_LEAST_RATE = 1e-6
"""A lower one counts as this: the library subtracts logarithms of 1/q."""
_LEAST_SAMPLED_NOISE = 1e-3
"""With less, sampling counts as none: an epsilon above 10^5 would only be a risk of overflow in the library."""


@dataclass(frozen=True)
class CountedDpEvent(DpEvent):
    """A Poisson-sampled event whose observers see how many units were drawn (rule 2b).

    Attributes:
        population: how many units flip a coin, the subject among them.
        rate: of each coin.
        event: what is sampled.
    """

    population: int
    rate: float
    event: DpEvent


@dataclass(frozen=True)
class Round:
    """One release of a sum under Gaussian noise, as far as it decides a price.

    Attributes:
        kind: how the unit is drawn, and what stands in its place in the neighbouring data.
        rate: q, the probability that it is drawn.
        shift: without sampling, how far the unit can move the sum, in standard deviations of the noise
            (infinite without noise); in the sampled kinds C/sigma, from which the kind knows what to make.
        population: where the number of drawn units is seen, how many there are.
    """

    kind: Kind
    rate: float
    shift: float
    population: int = 0


Rounds: TypeAlias = tuple[tuple[Round, int], ...]
"""Different rounds, each with how often it happens."""


def read(event: DpEvent, adjacency: Adjacency) -> Rounds:
    """The rounds of an event, whose order does not matter for the price.

    Without sampling, rounds compose exactly to one Gaussian: their squared shifts add up. The population of a
    fixed-size cohort is that of the larger of two neighbours; a cohort of all of it is not sampled. Under
    "add-or-remove" a cohort without the subject is drawn as on D', so P = (1-q) Q + q w1, where w1 is Q with
    the subject's row in place of a drawn one. Those are Gaussians at most 2C apart: a Poisson round with 2C.

    Raises:
        UnpricedError: for an event that no rule prices.
        TermsError: for a rate, a size or a noise multiplier that no run could have.

    >>> read(SelfComposedDpEvent(GaussianDpEvent(2.0), 4), "replace-one")
    ((Round(kind='plain', rate=1.0, shift=2.0, population=0), 1),)
    """
    _check.one_of(get_args(Adjacency), privacy__adjacency=adjacency)
    counts = _count(event, adjacency)
    plain = math.sqrt(sum(count * round.shift**2 for round, count in counts.items() if round.kind == "plain"))
    sampled = [(round, count) for round, count in counts.items() if round.kind != "plain"]
    sampled.sort(key=lambda item: (item[0].kind, item[0].rate, item[0].shift))
    return (*([(Round("plain", 1.0, plain), 1)] if plain > 0 else []), *sampled)


def _count(event: DpEvent, adjacency: Adjacency) -> Counter[Round]:
    match event:
        case NoOpDpEvent():
            return Counter()
        case NonPrivateDpEvent():
            return Counter({Round("plain", 1.0, math.inf): 1})
        case SelfComposedDpEvent(event=repeated, count=count):
            _check.at_least(0, task__rounds=count)
            return Counter({round: count * n for round, n in _count(repeated, adjacency).items() if count})
        case ComposedDpEvent(events=events):
            return sum((_count(part, adjacency) for part in events), Counter[Round]())
        case GaussianDpEvent(noise_multiplier=z):
            _check.non_negative(privacy__noise_multiplier=z)
            row = 2.0 if adjacency == "replace-one" else 1.0
            return Counter({Round("plain", 1.0, row / z if z >= _LEAST_NOISE else math.inf): 1})
        case PoissonSampledDpEvent(sampling_probability=rate, event=inner):
            return _sampled("poisson", rate, inner, adjacency)
        case SampledWithoutReplacementDpEvent(source_dataset_size=units, sample_size=size, event=inner):
            if not 0 <= size <= units:
                raise TermsError(f"a cohort of {size} cannot be drawn from {units}; draw at most {units}.")
            return _sampled("fixed-size", size / max(1, units), inner, adjacency)
        case CountedDpEvent(population=units, rate=rate, event=inner):
            if adjacency == "add-or-remove":
                raise UnpricedError("no rule prices add-or-remove where the number of drawn units is seen.")
            return _sampled("counted", rate, inner, adjacency, units)
        case _:
            raise UnpricedError(f"no rule prices a {type(event).__name__}; choose a sampler and noise with a rule.")


def _sampled(kind: Kind, rate: float, event: DpEvent, adjacency: Adjacency, population: int = 0) -> Counter[Round]:
    """All that is released under one coin is one Gaussian, joined before amplification (rule 10a)."""
    if rate == 0:
        return Counter()
    _check.rate(sampling_rate=rate)
    if rate == 1:
        return _count(event, adjacency)
    joined = read(event, "zero-out")
    if any(round.kind != "plain" for round, _ in joined):
        raise UnpricedError(f"no rule prices sampling twice; one coin of rate {rate:g} decides on noise only.")
    if not joined or math.isinf(joined[0][0].shift):
        return Counter(dict(joined))
    shift = max(joined[0][0].shift, 1 / _MOST_NOISE)
    if kind == "fixed-size" and adjacency == "add-or-remove":
        kind, shift = "poisson", 2 * shift
    elif adjacency == "replace-one":
        kind = _REPLACED[kind]
    if shift > 1 / _LEAST_SAMPLED_NOISE:
        return Counter({Round("plain", 1.0, 2 * shift if adjacency == "replace-one" else shift): 1})
    return Counter({Round(kind, max(rate, _LEAST_RATE), shift, population): 1})
