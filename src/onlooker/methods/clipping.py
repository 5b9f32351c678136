"""Where gradients of single records, or of single persons, are clipped: what their guarantees rest on, once.

**Guarantee** of `add_clipped`: what a record adds to a sum has an L2 norm of at most the clip (rule 1). Norms, factors
and sums are float64, and a record adds its factor times the very gradient whose norm was taken. The factor is a little
below clip / norm, by more than all roundings of the norm and of the product (Abadi et al. 2016, Algorithm 1: g / max(1,
|g| / C)). A record whose gradient is not finite adds nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

_BELOW_ONE = 1 - 2**-40


class Gradients(Protocol):
    """The gradients of n records by some of the weights."""

    def squares(self) -> Tensor:
        """The squared norm of each, `float64[n]`."""
        ...

    def add(self, total: Tensor, factors: Tensor, finite: Tensor | None) -> None:
        """Add to a sum, `float64[d]`, each times its factor (`float64[n]`), without those not finite.

        Args:
            total: the sum.
            factors: of each, 0 where it is not finite.
            finite: `bool[n]`; None where all are, and need not be looked through.
        """
        ...


@dataclass(frozen=True)
class Formed:
    """Gradients as they are.

    Attributes:
        offset: the first of the weights that they are by.
        rows: `float64[n, k]`.
    """

    offset: int
    rows: Tensor

    def squares(self) -> Tensor:
        """As `Gradients.squares`."""
        return self.rows.square().sum(1)

    def add(self, total: Tensor, factors: Tensor, finite: Tensor | None) -> None:
        """As `Gradients.add`."""
        total[self.offset : self.offset + self.rows.shape[1]] += factors @ _finite(self.rows, finite)


@dataclass(frozen=True)
class Factored:
    """Gradients by a linear layer, each the outer product of what came back and what went in, and never formed.

    Attributes:
        weight: the first place of the layer's weights, `[outputs, inputs]`.
        bias: that of its bias, whose input is 1; None where there is none.
        back: `float64[n, outputs]`.
        came_in: `float64[n, inputs]`.
    """

    weight: int
    bias: int | None
    back: Tensor
    came_in: Tensor

    def squares(self) -> Tensor:
        """As `Gradients.squares`: |back|^2 (|in|^2 + 1)."""
        return self.back.square().sum(1) * (self.came_in.square().sum(1) + (0.0 if self.bias is None else 1.0))

    def add(self, total: Tensor, factors: Tensor, finite: Tensor | None) -> None:
        """As `Gradients.add`."""
        scaled = _finite(self.back, finite) * factors[:, None]
        outputs, inputs = scaled.shape[1], self.came_in.shape[1]
        weights = total[self.weight : self.weight + outputs * inputs].view(outputs, inputs)
        weights.addmm_(scaled.t(), _finite(self.came_in, finite))
        if self.bias is not None:
            total[self.bias : self.bias + outputs] += scaled.sum(0)


def add_clipped(total: Tensor, parts: Sequence[Gradients], clip: float) -> None:
    """Add the gradients of n records, each clipped as a whole.

    Args:
        total: `float64[d]`, changed in place.
        parts: the gradients by the weights, which together are all that the records have.
        clip: the L2 bound.
    """
    norms = torch.stack([part.squares() for part in parts]).sum(0).sqrt()
    finite = torch.isfinite(norms)
    factors = torch.where(finite, clip / torch.clamp(norms, min=clip) * _BELOW_ONE, 0.0)
    some = None if bool(finite.all()) else finite
    for part in parts:
        part.add(total, factors, some)


def _finite(rows: Tensor, finite: Tensor | None) -> Tensor:
    """The rows, with zeros in place of those that are not finite: 0 times infinity is not 0."""
    return rows if finite is None else torch.where(finite[:, None], rows, 0.0)
