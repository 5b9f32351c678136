"""Who plays the clients of a simulated round, and how fast."""

from onlooker.engines.engine import Engine, Settings, cores, opened, require_able
from onlooker.engines.trial import cache_file, fastest

__all__ = ["Engine", "Settings", "cache_file", "cores", "fastest", "opened", "require_able"]
