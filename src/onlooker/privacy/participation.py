"""One client's own decision whether to take part, made at home and told to nobody (rule 4).

It is the sampler that is priced: what a simulator draws for all clients at once, each deployed client draws alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from onlooker.privacy.random import Source
from onlooker.privacy.sampling import Poisson
from onlooker.privacy.schedules import Cyclic, FixedOffset, RandomAllocation
from onlooker.privacy.terms import Terms


def picked(terms: Terms, client: int, source: Source) -> tuple[int, ...]:
    """What a client draws before round 1 for the whole run, to be kept; empty where it draws in each round anew."""
    if isinstance(terms.sampling, (FixedOffset, RandomAllocation)):
        return terms.sampling.pick(client, source)
    return ()


def takes_part(terms: Terms, client: int, group: int, round: int, kept: Sequence[int], source: Source) -> bool:
    """True if a client takes part in a round of one of its groups: to be asked once and remembered.

    Where the coordinator draws the cohort, whoever it asks was drawn.

    Args:
        terms: of the run.
        client: who decides.
        group: of the topology.
        round: from 1.
        kept: what `picked` gave it.
        source: where its coins come from.
    """
    match terms.sampling_of(group):
        case Poisson() as sampling:
            stream = source.stream("participation", round, f"client:{client}/group:{group}")
            return bool(stream.coins(sampling.rate_of(client, terms.clients), 1)[0])
        case Cyclic(period=period):
            return round % period == client % period
        case FixedOffset(period=period):
            return (round - kept[0]) % period == 0
        case RandomAllocation():
            return round in kept
        case _:
            return True
