"""Whether the noise will drown the signal, said before any training (rule 15)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from onlooker.privacy.measures import half_width
from onlooker.privacy.terms import Terms

_HOPELESS = 5.0
"""Between 1 and this, small models on easy data still learned something where it was tried."""
_VAGUE = 0.25
"""An accuracy that may be off by more tells little."""


@dataclass(frozen=True)
class Forecast:
    """The size of the noise beside the largest signal that there can be.

    Attributes:
        noise_norm: the expected L2 norm of the noise on one round's released mean, in units of the clip.
        rounds: T.
        advice: what would help, in words; empty where the noise does not drown the signal.
    """

    noise_norm: float
    rounds: int
    advice: str

    @property
    def whole_run(self) -> float:
        """The norm of all rounds' noise over the longest way that clipped means can go: noise_norm / sqrt(T).

        T means of norm at most C add up to at most T C, reached only if all point the same way; independent noises of
        norm r C add up to sqrt(T) r C.
        """
        return self.noise_norm / math.sqrt(self.rounds)

    @property
    def drowned(self) -> bool:
        """True if the noise of the run is longer than any way the model could have gone."""
        return self.whole_run > 1

    def sentence(self) -> str:
        """The forecast in words."""
        size = f"the noise on a round's mean has an expected L2 norm of {self.noise_norm:.3g} times the clip"
        if not self.drowned:
            return f"{size}."
        learned = "nothing" if self.whole_run > _HOPELESS else "little"
        return (
            f"{size}, and over {self.rounds} rounds {self.whole_run:.3g} times the longest way that the model could "
            f"go: {learned} will be learned. What would help: {self.advice}."
        )


def forecast(terms: Terms) -> Forecast:
    """The forecast for a model of d parameters: sqrt(d) times the noise of one coordinate, over the divisor.

    With groups, that of the group whose noise is the largest.
    """
    return max((_of_group(terms, group) for group in range(terms.groups)), key=lambda one: one.noise_norm)


@dataclass(frozen=True)
class Telling:
    """How much a private evaluation will tell in a round in which as many take part as are expected.

    Attributes:
        units: how many that are.
        unit: of what.
        within: how far an interval reaches from an accuracy of one half; infinite where noise hides how many there are.
    """

    units: float
    unit: str
    within: float

    @property
    def drowned(self) -> bool:
        """True if a round tells next to nothing."""
        return self.within > _VAGUE

    def sentence(self) -> str:
        """The same in words."""
        about = f"private evaluation, at the {self.units:.4g} {self.unit}s that a round is expected to have,"
        if not self.drowned:
            return f"{about} tells an accuracy to within {self.within:.1%}, 19 times in 20."
        told = "tells nothing above its noise" if math.isinf(self.within) else f"is off by up to {self.within:.0%}"
        return f"{about} {told}; what would help: more {self.unit}s in a round, or a larger evaluation.share."


def telling(terms: Terms) -> Telling | None:
    """What a private evaluation will tell; None without one, or without noise to drown in."""
    channel = terms.measured_by
    if channel is None or not channel.mechanism.noise_multiplier:
        return None
    units = terms.divisor_of(0)
    cohort = sum(terms.sampling.rate_of(one, terms.clients) for one in range(terms.clients))
    return Telling(units, terms.unit, half_width(units, channel.deviation(cohort)))


def _of_group(terms: Terms, group: int) -> Forecast:
    channel = terms.channels_of(group)[0]
    if channel.grid is None:
        return Forecast(0.0, terms.rounds, "")
    sampling, members = terms.sampling_of(group), terms.members(group)
    cohort = sum(sampling.rate_of(one, terms.clients) for one in members)
    norm = channel.deviation(cohort) * math.sqrt(channel.size) / terms.divisor_of(group) / channel.grid.clip
    return Forecast(norm, terms.rounds, ", ".join(_advice(terms, norm / math.sqrt(terms.rounds))))


def _advice(terms: Terms, times_too_large: float) -> list[str]:
    if terms.unit == "client":
        return [
            f"more clients ({math.ceil(terms.clients * times_too_large):,} at the least, at this rate of sampling)",
            'the record as the unit (method "dp-sgd") if the clients are few and hold many records each',
            "a smaller model, or a smaller public part of it",
            "fewer rounds at the same epsilon",
        ]
    return [f"more {terms.unit}s", "a higher sampling rate", "a smaller model", "fewer rounds at the same epsilon"]
