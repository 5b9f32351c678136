"""What a paper prints, and what stands beside it: two types that cannot be taken for one another."""

from __future__ import annotations

from dataclasses import dataclass, field

from onlooker.privacy.accounting import Price
from onlooker.types import Unit

LABEL = "as published, not a guarantee"


@dataclass(frozen=True)
class Published:
    """A printed epsilon and the noise that it belongs to; not a `Price`.

    Attributes:
        formula: where it is printed.
        epsilon: as the formula gives it.
        noise_multiplier: z = sigma / C of the noise that it is printed for.
        delta: as printed beside it; it may be above 1.
        reason: why it is no guarantee.
        label: what every table and figure says beside it.
    """

    formula: str
    epsilon: float
    noise_multiplier: float
    delta: float
    reason: str
    label: str = field(default=LABEL, init=False)


@dataclass(frozen=True)
class PublishedDivergence:
    """A printed Rényi divergence of one order; what it is made into is no guarantee either."""

    formula: str
    order: float
    value: float
    reason: str
    label: str = field(default=LABEL, init=False)


@dataclass(frozen=True)
class Sound:
    """What the accountant proves for the same noise, and against whom.

    Attributes:
        price: epsilon and delta, as promised.
        unit: what is guarded.
        observer: who looks, and what it sees.
    """

    price: Price
    unit: Unit
    observer: str

    @property
    def epsilon(self) -> float:
        """The epsilon of the price."""
        return self.price.epsilon

    @property
    def label(self) -> str:
        """What every table and figure says beside it."""
        return f"sound, for one {self.unit}, against {self.observer}"
