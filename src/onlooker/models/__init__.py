"""Networks, and the adapter that makes each of them one flat vector of weights."""

from onlooker.models.build import NAMES, build
from onlooker.models.model import Model, Parameter, evaluate

__all__ = ["NAMES", "Model", "Parameter", "build", "evaluate"]
