"""The nouns that every room shares: arrays, rows of data, and the words of the privacy vocabulary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Row: TypeAlias = NDArray[np.float64]
"""`float64[d]`: what one client would send in the clear."""
Vector: TypeAlias = NDArray[np.float32]
"""`float32[d]`: the trainable parameters of a model, or a part of them, as one vector."""
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
        persons: `int64[n]`, whose row each is; None where the data do not say. Within one client, persons are
            numbered 0 to m - 1, and the same number at two clients means nothing.
    """

    features: Array
    labels: Array
    persons: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, indices: Array) -> Examples:
        """The rows at `indices` (`int64[k]`), as a new object."""
        persons = None if self.persons is None else self.persons[indices]
        return Examples(self.features[indices], self.labels[indices], persons)

    def rows_by_person(self) -> tuple[NDArray[np.int64], ...]:
        """The row numbers of each person, in the order of their numbers; none where the rows do not say whose they are.

        >>> rows = Examples(np.zeros((4, 2)), np.zeros(4), np.array([7, 3, 7, 7]))
        >>> [found.tolist() for found in rows.rows_by_person()]
        [[1], [0, 2, 3]]
        """
        if self.persons is None or not len(self):
            return ()
        order = np.argsort(self.persons, kind="stable")
        starts = np.unique(self.persons[order], return_index=True)[1]
        return tuple(np.split(order, starts[1:]))

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.features.shape[1:])) or "scalar"
        persons = "" if self.persons is None else f", {len(np.unique(self.persons))} persons"
        return f"Examples({len(self)} x {shape}{persons})"
