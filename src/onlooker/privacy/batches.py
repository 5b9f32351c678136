"""What a smallest batch costs: a round that ends without a sum, because too few took part, tells of the subject's coin.

Amplification needs ignorance of who takes part (rule 4). Auxiliary servers sum no fewer than `min-batch` reports. Where
exactly one less than that of the others take part, the subject's own coin decides whether anything is released, and
whoever sees that sees the coin. In every other case its coin decides nothing but its own row, and the price is what it
was. So a run is what was priced, but for the probability of that case, in any round of any of the subject's groups.

A cohort of a fixed size has a coin only together with that of whom the subject displaces. Its coin decides where one
less than `min-batch` of the others that are drawn either way are there, and whom it displaces is not.

Coins of records are another matter: no batch knows of them, and a silo's own coin is credited nothing (rule 4c).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from functools import lru_cache

import numpy as np
from scipy import stats

from onlooker.errors import UnpricedError
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.sampling import FixedSize
from onlooker.privacy.terms import Terms

_SHARE = 1e-6
"""Of delta, that the case may cost: so little that no epsilon that is shown knows of it."""


def telling(terms: Terms, subject: int, group: int = 0, present: Collection[int] | None = None) -> float:
    """The probability that in some round exactly one less than `min-batch` of the others take part.

    0 where traffic covers who takes part, for then a report comes from everybody.

    Args:
        terms: of the run.
        subject: whose coin it is.
        group: of the topology.
        present: the clients that are there at all; None for all of them.

    >>> from onlooker.privacy.example import terms
    >>> telling(terms(), 0) > 0.5
    True
    """
    sampling = terms.sampling_of(group)
    if terms.shared is None or sampling.cover_traffic:
        return 0.0
    least, others = terms.shared.min_batch, [one for one in terms.members(group) if one != subject]
    here = [one for one in others if present is None or one in present]
    if isinstance(sampling, FixedSize):
        if len(here) == len(others):
            return 0.0
        once = float(stats.hypergeom.pmf(least - 1, len(others), len(here), sampling.size - 1))
    else:
        once = _exactly(least - 1, np.array([sampling.rate_of(one, terms.clients) for one in here]))
    return min(1.0, terms.rounds * once)


def refuse_what_batches_tell(terms: Terms) -> None:
    """Refuse a deployment whose price rests on hidden coins that its smallest batch would show.

    Total variation adds (1 + e^epsilon) times its probability to delta, as inexact noise does (rule 8).

    Raises:
        UnpricedError: if that is more than a millionth of delta, with what would do.
    """
    if shows_coins(terms):
        raise UnpricedError(
            f"servers.min-batch = {terms.shared.min_batch if terms.shared else 0} may decide in some round, with "
            f"probability {max(_in_all_groups(terms, one) for one in _most_telling(terms)):.2g}, whether there is a "
            "sum, which shows who took part, and a price rests on that being hidden; set "
            'sampling.clients.cover-traffic = true, or sampling.clients.name = "all", or have more clients.'
        )


def shows_coins(terms: Terms, present: Collection[int] | None = None) -> bool:
    """True if a price rests on hidden coins that the smallest batch may show, if no others than these are there."""
    return any(
        _in_all_groups(terms, _one_there(terms, subject, present), present) > most
        for subject, most in _most_telling(terms).items()
    )


def _one_there(terms: Terms, subject: int, present: Collection[int] | None) -> int:
    """A client of the subject's kind that is there: whoever is there has fewer others than who is not."""
    if present is None or subject in present:
        return subject
    kind = terms.kind_of(subject)
    return next((one for one in sorted(present) if terms.kind_of(one) == kind), subject)


def _in_all_groups(terms: Terms, subject: int, present: Collection[int] | None = None) -> float:
    return sum(telling(terms, subject, group, present) for group in terms.topology.groups_of(subject))


@lru_cache(maxsize=8)
def _most_telling(terms: Terms) -> dict[int, float]:
    """Of one client of each kind whose price rests on its hidden coins, the probability that delta can bear."""
    if terms.unit != "client":
        return {}
    ledger, found = Ledger.plan(terms), dict[int, float]()
    for subject in terms.one_of_each_kind("public"):
        epsilons = [ledger.epsilon(subject, one) for one in _watching(terms, subject) if terms.amplified(subject, one)]
        if epsilons:
            found[subject] = _SHARE * terms.delta / (1 + math.exp(min(max(epsilons), 700.0)))
    return found


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
