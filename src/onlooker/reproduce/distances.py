"""What clients in overlapping groups give away to each other, by how far apart they are."""

from __future__ import annotations

import math
from collections.abc import Hashable

from onlooker.privacy.overlap import shortest
from onlooker.privacy.pairs import pair_of
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups


def by_distance(terms: Terms) -> dict[float, float]:
    """The epsilon of the worst pair at each distance, in hops between their groups; infinite for no guarantee.

    Distance 0 is a common group, and an infinite one means that no way leads from the one to the other. Clients of the
    same groups are alike, so that two of each are looked at.
    """
    groups = terms.topology
    assert isinstance(groups, Groups)
    alike: dict[Hashable, list[int]] = {}
    for client in range(terms.clients):
        alike.setdefault(terms.kind_of(client), []).append(client)
    found: dict[float, float] = {}
    for subject, *_ in alike.values():
        for observers in alike.values():
            observer = next((one for one in observers[:2] if one != subject), None)
            if observer is None:
                continue
            name = f"client:{observer}"
            path = shortest(groups, subject, terms.observed(name))
            distance = math.inf if path is None else len(path.groups) - 1.0
            epsilon = pair_of(terms, subject, name, terms.rounds, terms.delta).price.epsilon
            found[distance] = max(epsilon, found.get(distance, 0.0))
    return found
