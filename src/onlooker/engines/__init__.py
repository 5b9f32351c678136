"""Who plays the clients of a simulated round, and how fast."""

from onlooker.engines.engine import Engine, Settings, cores, opened, trainer_of
from onlooker.engines.process import play_alone
from onlooker.engines.trial import cache_file, fastest

__all__ = ["Engine", "Settings", "cache_file", "cores", "fastest", "opened", "play_alone", "trainer_of"]
