"""The nouns that every room shares: arrays, rows of data, and the words of the privacy vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Row: TypeAlias = NDArray[np.float64]
"""`float64[d]`: what one client would send in the clear."""
Integers: TypeAlias = NDArray[np.int64]
"""`int64[d]`: integers in units of clip / 2^f."""

Unit: TypeAlias = Literal["client", "person", "record", "none"]
"""What a neighbouring data set differs in."""
Adjacency: TypeAlias = Literal["zero-out", "add-or-remove", "replace-one"]
"""How it differs: the unit's contribution becomes zero, the unit comes or goes, or it becomes any other."""
NoisedBy: TypeAlias = Literal["server", "clients", "servers"]
"""Who adds the noise: the one coordinator, each client to its own row, or each auxiliary server."""
Task: TypeAlias = Literal["classification", "regression"]


@dataclass(frozen=True)
class Examples:
    """Labelled rows: one client's data, or a test set.

    Attributes:
        features: `float32[n, *shape]`, or `int64[n, length]` where the features are symbols.
        labels: `int64[n]` for classification (0 to classes - 1), `float32[n]` for regression.
    """

    features: Array
    labels: Array

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: Array) -> Examples:
        """The rows at `indices` (`int64[k]`), as a new object."""
        return Examples(self.features[indices], self.labels[indices])

    def __repr__(self) -> str:
        return f"Examples({len(self)} x {'x'.join(map(str, self.features.shape[1:])) or 'scalar'})"
