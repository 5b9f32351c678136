"""How large a reproduction is: the paper's own size, one that ends within a day, or one that ends within a minute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

PAPERS = ("ms-pafl", "dp-ogl", "feddecouple")
"""What can be reproduced."""
Size: TypeAlias = Literal["quick", "study", "paper"]


@dataclass(frozen=True)
class Scale:
    """The size of every trained figure.

    Attributes:
        size: "paper" for the paper's own networks and local training, which takes days on a CPU; "study" for its
            rounds and clients with shorter local training, and smaller networks where its own take hours; "quick" for
            few rounds, few clients, a small network and one or two seeds.
        root: the folder that has a folder for each data set; without one, the digits of scikit-learn.
    """

    size: Size
    root: Path | None

    @property
    def quick(self) -> bool:
        """True for a minute's work."""
        return self.size == "quick"

    @property
    def seeds(self) -> tuple[int, ...]:
        """Five, or quickly as many as the data leave time for."""
        return (1, 2, 3, 4, 5) if not self.quick else (1, 2) if self.root is None else (1,)

    @property
    def note(self) -> str:
        """What a caption adds where the size is not the paper's."""
        return " Quick: not the paper's size, but few rounds and clients and a small network." if self.quick else ""

    @property
    def options(self) -> str:
        """What the command says to draw at this size."""
        size = "" if self.size == "study" else " --quick" if self.quick else " --paper-size"
        return f"{size}{' --root DATA' if self.root else ''}"

    def rounds(self, full: int) -> int:
        """T."""
        return 4 if self.quick else full

    def clients(self, full: int) -> int:
        """N."""
        return min(full, 20) if self.quick else full

    def every(self, study: int) -> dict[str, Any]:
        """The [evaluation] table: quick runs are evaluated after each of their few rounds."""
        return {"every": 1 if self.quick else study}

    def sets(self, names: Sequence[str]) -> tuple[str, ...]:
        """The data sets of a figure."""
        return tuple(names) if self.root or not self.quick else ("digits",)

    def data(self, name: str, **keys: Any) -> dict[str, Any]:
        """The [data] table of a set; keys are written with hyphens."""
        place = {"root": str(self.root / name)} if self.root else {}
        return {"name": name, **place, **{key.replace("_", "-"): value for key, value in keys.items()}}

    def model(self, paper: str, study: str | None = None) -> str:
        """The network: the paper's own, the study's where one is named, and convolutions only where there is time."""
        full = study if study and self.size == "study" else paper
        return "mlp" if self.quick and full.startswith("cnn") else full

    def training(self, full: dict[str, Any], steps: int) -> dict[str, Any]:
        """Local training: the paper's epochs, or so many steps in their place."""
        if self.size == "paper":
            return full
        local = {key: value for key, value in full.items() if key != "epochs"}
        return {**local, "steps": min(steps, 5) if self.quick else steps}
