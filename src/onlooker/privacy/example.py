"""Terms to try things with: the setting of FedDecouple that the documents use."""

from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.sampling import Poisson
from onlooker.privacy.summation import Shared
from onlooker.privacy.terms import Terms
from onlooker.privacy.training import Training


def terms(noise_multiplier: float = 2.064, rounds: int = 40) -> Terms:
    """Ten clients, Poisson at 0.5, two auxiliary servers, the coordinator relaying, delta 1e-5."""
    channel = Channel(1000, RoundedGaussian(noise_multiplier), Grid(1.0, 20, 32), "servers", Shared(), bounds=1.0)
    return Terms("client", "zero-out", 1e-5, rounds, 10, Poisson(0.5), Training(), (channel,))
