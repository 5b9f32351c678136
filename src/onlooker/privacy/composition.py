"""From the price of one round to that of several: most rounds compose, but some runs are priced once (rules 5, 14)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dp_accounting import DpEvent, GaussianDpEvent, SelfComposedDpEvent

from onlooker.errors import TermsError, UnpricedError
from onlooker.privacy.allocation import RandomAllocationDpEvent
from onlooker.privacy.channel import Channel
from onlooker.privacy.matrix import Correlated
from onlooker.privacy.mechanisms import Mechanism
from onlooker.privacy.sampling import ClientSampling, Cyclic, Everyone, FixedOffset, RandomAllocation
from onlooker.privacy.training import Training
from onlooker.types import Unit

_WIDEST_BITS = 40
"""The noise sampler is proved up to a deviation of 2 to this power."""


def composed(once: DpEvent, mechanism: Mechanism, sampling: ClientSampling, rounds: int) -> DpEvent:
    """ONE event for the first `rounds` rounds of a run.

    Args:
        once: the price of one participation, with the amplification that the sampler gives.
        mechanism: the noise. Where it is correlated the first rounds are one Gaussian, whose noise is divided by how
            far they can move C x.
        sampling: how often a client takes part.
        rounds: how many rounds.
    """
    if isinstance(once, RandomAllocationDpEvent):
        return replace(once, elapsed=rounds)
    if isinstance(mechanism, Correlated) and isinstance(once, GaussianDpEvent) and rounds > 0:
        return GaussianDpEvent(once.noise_multiplier / mechanism.sensitivity(_period(sampling), rounds))
    return SelfComposedDpEvent(once, sampling.participations(rounds))


def refuse_unpriced(sampling: ClientSampling, channels: Sequence[Channel], unit: Unit, training: Training) -> None:
    """Refuse combinations of noise and participation that no rule prices.

    Raises:
        UnpricedError: where none does.
        TermsError: where numbers are beyond what the sampler of noise is proved for.
    """
    if unit != "none" and isinstance(sampling, RandomAllocation) and sampling.picks > 1:
        if training.keeps != "nothing":
            raise UnpricedError(
                'sampling.clients.name = "random-allocation" has no price for several participations of a client that '
                'keeps something between rounds; write participations = 1, or name = "poisson".'
            )
    correlated = [channel for channel in channels if isinstance(channel.mechanism, Correlated)]
    if correlated:
        _refuse_schedule(correlated[0].mechanism.name, sampling, unit)
    for channel in correlated:
        _refuse_correlated(channel, channels)


def _refuse_schedule(name: str, sampling: ClientSampling, unit: Unit) -> None:
    if unit != "client":
        raise UnpricedError(f'privacy.mechanism = "{name}" is priced for privacy.unit = "client" alone, not "{unit}".')
    if not isinstance(sampling, Everyone | Cyclic | FixedOffset):
        raise UnpricedError(
            f'privacy.mechanism = "{name}" rests on the rounds between two participations of a client, which '
            f'sampling.clients.name = "{sampling.name}" does not fix; choose cyclic, fixed-offset or all.'
        )


def _refuse_correlated(channel: Channel, channels: Sequence[Channel]) -> None:
    mechanism = channel.mechanism
    assert isinstance(mechanism, Correlated)
    if channel.noised_by == "clients" or channel.claims_several_adders:
        raise UnpricedError(
            f'privacy.mechanism = "{mechanism.name}" is priced where one party\'s noise is claimed: write '
            'privacy.noised-by = "server", or "servers" with all but one corrupt (servers.corrupt = servers.count - 1).'
        )
    if any(
        replace(other.mechanism, noise_multiplier=0) != replace(mechanism, noise_multiplier=0) for other in channels
    ):
        raise UnpricedError(
            f'privacy.mechanism = "{mechanism.name}" is priced where all sums have the same correlation of noise.'
        )
    if channel.adder_deviation > 0 and math.log2(channel.adder_deviation) + mechanism.finer_bits > _WIDEST_BITS:
        raise TermsError(
            f'privacy.mechanism = "{mechanism.name}" draws noise in units of 2^-{mechanism.finer_bits} of the grid, of '
            f"which privacy.noise-multiplier = {mechanism.noise_multiplier:g} makes more than 2^{_WIDEST_BITS}; choose "
            "fewer bands, less noise or servers.ring-bits = 32."
        )


def _period(sampling: ClientSampling) -> int:
    if isinstance(sampling, Everyone | Cyclic | FixedOffset):
        return sampling.period
    raise UnpricedError(f'sampling.clients.name = "{sampling.name}" does not fix the rounds between participations.')
