"""How large a reproduction is: the paper's own size, or one that ends within a minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Scale:
    """The size of every trained figure.

    Attributes:
        quick: True for few rounds, few clients, a small network and one or two seeds.
        root: the folder that has a folder for each data set; without one, the digits of scikit-learn.
    """

    quick: bool
    root: Path | None

    @property
    def seeds(self) -> tuple[int, ...]:
        """Five, or quickly as many as the data leave time for."""
        return (1, 2, 3, 4, 5) if not self.quick else (1, 2) if self.root is None else (1,)

    @property
    def note(self) -> str:
        """What a caption adds where the size is not the paper's."""
        return " Quick: not the paper's size, but few rounds and clients and a small network." if self.quick else ""

    def rounds(self, full: int) -> int:
        """T."""
        return 4 if self.quick else full

    def clients(self, full: int) -> int:
        """N."""
        return min(full, 20) if self.quick else full

    def sets(self, names: Sequence[str]) -> tuple[str, ...]:
        """The data sets of a figure."""
        return tuple(names) if self.root or not self.quick else ("digits",)

    def data(self, name: str, **keys: Any) -> dict[str, Any]:
        """The [data] table of a set; keys are written with hyphens."""
        place = {"root": str(self.root / name)} if self.root else {}
        return {"name": name, **place, **{key.replace("_", "-"): value for key, value in keys.items()}}

    def model(self, full: str) -> str:
        """The network: convolutions only where there is time."""
        return "mlp" if self.quick and full.startswith("cnn") else full

    def training(self, full: dict[str, Any], steps: int = 5) -> dict[str, Any]:
        """Local training."""
        return (
            {**{key: value for key, value in full.items() if key != "epochs"}, "steps": steps} if self.quick else full
        )
