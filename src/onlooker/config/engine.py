"""The [engine] table: who plays the clients of a simulated round."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from onlooker import _check
from onlooker.config.schema import EngineTable
from onlooker.data import Federation
from onlooker.methods.method import Method
from onlooker.types import Examples

if TYPE_CHECKING:  # they need torch, and a plan does not
    import torch

    from onlooker.engines import Settings
    from onlooker.models import Model

_MOST_WORKERS = 1024


def refuse_unable(table: EngineTable, model: Callable[[], Model]) -> None:
    """Refuse a number of workers that no machine has, and a trainer that cannot train the model.

    Raises:
        TermsError: for the number.
        ConfigError: for the trainer.
    """
    _check.at_most(_MOST_WORKERS, engine__workers=table.workers or 1)
    if table.trainer != "auto":
        import torch

        from onlooker.engines import trainer_of

        trainer_of(table.trainer, model(), torch.device("cpu"))


def chosen(table: EngineTable, method: Method, model: Model, federation: Federation, device: torch.device) -> Settings:
    """The engine of a run, with a trainer where the table leaves the choice to a trial."""
    from onlooker.engines import Settings

    trainer = (
        table.trainer if table.name == "loop" else trainer_name(table, method, model, federation.clients[0], device)
    )
    elide = table.shares == "elided"
    return Settings(table.name, trainer, table.workers or 0, table.start_method, elide, table.address)


def trainer_name(table: EngineTable, method: Method, model: Model, rows: Examples, device: torch.device) -> str:
    """Who computes gradients: whom the table names, or the fastest of a trial on some client's rows."""
    from onlooker.engines import cache_file, fastest

    return fastest(method, model, rows, device, cache_file()) if table.trainer == "auto" else table.trainer
