"""Networks, and the adapter that makes each of them one flat vector of weights."""

from onlooker.models.build import NAMES, build
from onlooker.models.model import Model, Parameter, evaluate, score, score_name
from onlooker.models.parts import Parts

__all__ = ["NAMES", "Model", "Parameter", "Parts", "build", "evaluate", "score", "score_name"]
