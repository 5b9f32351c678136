"""Networks, and the adapter that makes each of them one flat vector of weights."""

from importlib import import_module
from typing import TYPE_CHECKING

from onlooker.models.architectures import NAMES
from onlooker.models.layers import Parameter
from onlooker.models.outline import outline
from onlooker.models.parts import Parts

if TYPE_CHECKING:
    from onlooker.models.builder import build
    from onlooker.models.model import Model, evaluate, score, score_name

__all__ = ["NAMES", "Model", "Parameter", "Parts", "build", "evaluate", "outline", "score", "score_name"]


def __getattr__(name: str) -> object:
    """What needs torch is imported when it is first asked for: a plan needs none of it, and torch takes long."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'builder' if name == 'build' else 'model'}"), name)
