"""What a smallest batch costs: a round that ends without a sum, because too few took part, tells of the subject's coin.

Amplification needs ignorance of who takes part (rule 4). Auxiliary servers sum no fewer than `min-batch` reports. Where
exactly one less than that of the others take part, the subject's own coin decides whether anything is released, and
whoever sees that sees the coin. In every other case its coin decides nothing but its own row, and the price is what it
was. So a run is what was priced, but for the probability of that case.
"""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

from onlooker.errors import UnpricedError
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.terms import Terms

_SHARE = 0.01
"""Of delta, that the case may cost."""


def telling(terms: Terms, subject: int, group: int = 0) -> float:
    """The probability that in some round exactly one less than `min-batch` of the others take part.

    0 where traffic covers who takes part, for then a report comes from everybody.

    >>> from onlooker.privacy.example import terms
    >>> telling(terms(), 0) > 0.5
    True
    """
    sampling = terms.sampling_of(group)
    if terms.shared is None or sampling.cover_traffic:
        return 0.0
    others = [one for one in terms.members(group) if one != subject]
    rates = np.array([sampling.rate_of(one, terms.clients) for one in others])
    return min(1.0, terms.rounds * _exactly(terms.shared.min_batch - 1, rates))


def refuse_what_batches_tell(terms: Terms) -> None:
    """Refuse a deployment whose price rests on hidden coins that its smallest batch would show.

    Total variation adds (1 + e^epsilon) times its probability to delta, as inexact noise does (rule 8).

    Raises:
        UnpricedError: if that is more than a hundredth of delta, with what would do.
    """
    ledger = Ledger.plan(terms)
    for subject in terms.one_of_each_kind("public"):
        epsilons = [ledger.epsilon(subject, one) for one in _watching(terms, subject) if terms.amplified(subject, one)]
        if not epsilons:
            continue
        probability = max(telling(terms, subject, group) for group in terms.topology.groups_of(subject))
        if probability * (1 + math.exp(min(max(epsilons), 700.0))) > _SHARE * terms.delta:
            raise UnpricedError(
                f"servers.min-batch = {terms.shared.min_batch if terms.shared else 0} may decide in some round, with "
                f"probability {probability:.2g}, whether there is a sum, which shows who took part, and a price rests "
                'on that being hidden; set sampling.clients.cover-traffic = true, or sampling.clients.name = "all", or '
                "have more clients."
            )


def _watching(terms: Terms, subject: int) -> list[str]:
    """Who sees which rounds had a sum and is not seen to carry any: everybody, and in groups a peer of each."""
    peers = [min(set(terms.members(group)) - {subject}, default=None) for group in terms.topology.groups_of(subject)]
    grouped = terms.groups > 1
    return ["public", *(f"client:{one}" for one in dict.fromkeys(peers) if grouped and one is not None)]


def _exactly(count: int, rates: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The probability that exactly so many coins come up."""
    if count > len(rates):
        return 0.0
    if not len(rates) or np.all(rates == rates[0]):
        return float(stats.binom.pmf(count, len(rates), rates[0] if len(rates) else 0.0))
    found = np.zeros(count + 1)
    found[0] = 1.0
    for rate in rates:
        found[1:] = found[1:] * (1 - rate) + found[:-1] * rate
        found[0] *= 1 - rate
    return float(found[count])
