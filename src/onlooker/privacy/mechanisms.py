"""Noise and its price in one object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, NonPrivateDpEvent
from numpy.typing import NDArray
from scipy.special import ndtri

from onlooker import _check
from onlooker.privacy.matrix import Banded, Tree
from onlooker.privacy.random import Stream
from onlooker.privacy.rounding import rounded_gaussian
from onlooker.types import Integers


@dataclass(frozen=True)
class RoundedGaussian:
    """Exact Gaussian noise, rounded to the integers of the grid: what every private channel adds.

    Attributes:
        noise_multiplier: z, the standard deviation of the noise that is claimed, divided by the clip.

    Guarantee: that of the continuous Gaussian mechanism, because for an integer x, x + round(N) = round(x + N) is
    post-processing of x + N (rule 8). The sampler is exact, so nothing is added to delta.
    """

    noise_multiplier: float
    name: Literal["rounded-gaussian"] = "rounded-gaussian"

    def __post_init__(self) -> None:
        _check.multiplier(privacy__noise_multiplier=self.noise_multiplier)

    def noise(self, deviation: float, count: int, stream: Stream) -> Integers:
        """`int64[count]` of noise with standard deviation `deviation`, in units of the grid, before rounding."""
        return rounded_gaussian(deviation, count, stream)

    def event(self, multiplier: float) -> DpEvent:
        """The price of one sum whose noise is `multiplier` times one unit's bound; 0 is no guarantee."""
        return GaussianDpEvent(multiplier) if multiplier > 0 else NonPrivateDpEvent()

    def sampler_error(self, deviation: float, count: int) -> float:
        """The total variation between what is drawn and what is priced: none."""
        del deviation, count
        return 0.0


@dataclass(frozen=True)
class Gaussian:
    """Gaussian noise by inversion in float64 arithmetic, rounded to the grid: fast, and hardly ever sound.

    Attributes:
        noise_multiplier: z, the standard deviation of the noise that is claimed, divided by the clip.

    Guarantee: that of the Gaussian mechanism at a delta that is larger by (1 + e^epsilon) times `sampler_error`; a plan
    is refused where that exceeds a hundredth of delta, which it does for almost every model (rule 8). It stands here
    as the fast oracle that the exact sampler is compared with.
    """

    noise_multiplier: float
    name: Literal["float-gaussian"] = "float-gaussian"

    def __post_init__(self) -> None:
        _check.multiplier(privacy__noise_multiplier=self.noise_multiplier)

    def noise(self, deviation: float, count: int, stream: Stream) -> Integers:
        """`int64[count]` of noise with standard deviation `deviation`, in units of the grid, before rounding."""
        return np.rint(deviation * gaussian(count, stream)).astype(np.int64)

    def event(self, multiplier: float) -> DpEvent:
        """The price of one sum whose noise is `multiplier` times one unit's bound; 0 is no guarantee."""
        return GaussianDpEvent(multiplier) if multiplier > 0 else NonPrivateDpEvent()

    def sampler_error(self, deviation: float, count: int) -> float:
        """At most 2 sigma 2^-53 of total variation for each coordinate drawn, sigma in units of the grid."""
        return 2 * deviation * 2.0**-53 * count


@dataclass(frozen=True)
class NoNoise:
    """No noise and no bound: the baseline of unit "none", for which every output says "no guarantee"."""

    noise_multiplier: Literal[0] = 0
    name: Literal["none"] = "none"

    def noise(self, deviation: float, count: int, stream: Stream) -> Integers:
        """Zeros."""
        del deviation, stream
        return np.zeros(count, dtype=np.int64)

    def event(self, multiplier: float) -> DpEvent:
        """No guarantee."""
        del multiplier
        return NonPrivateDpEvent()

    def sampler_error(self, deviation: float, count: int) -> float:
        """None: nothing is drawn."""
        del deviation, count
        return 0.0


Mechanism: TypeAlias = RoundedGaussian | Gaussian | NoNoise | Tree | Banded


def gaussian(count: int, stream: Stream) -> NDArray[np.float64]:
    """`float64[count]` of standard Gaussian noise by inversion of 53-bit uniforms, none of them 0 or 1."""
    uniform = ((stream.integers(count) >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return ndtri(uniform)
