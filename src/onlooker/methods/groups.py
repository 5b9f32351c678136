"""DP-OGL and DP-OGL+: clients in overlapping groups, each of which trains its own model.

Symbols: worker n is a client, M_n its groups, N_m the clients of group m, theta_m the model of group m, phi the model
of a worker, pi_m the rate of its coins, c_m the clip, S the mixing period, T the epochs.
"""

from __future__ import annotations

import numpy as np

from onlooker.errors import UnpricedError
from onlooker.methods.averaging import Averaging, refuse_another_unit
from onlooker.methods.descent import LocalDescent
from onlooker.methods.method import ServerStep, State
from onlooker.models import Parts
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups
from onlooker.types import Vector


def broadcast(terms: Terms, state: State, client: int, group: int, round: int) -> Vector:
    """The public part that a client starts from in a group, `float32[p]`: phi_{n,m}^{t,0}.

    In the first round of each S the mean of the models of all its groups, else the model of this group. A group's
    model never jumps to such a mean: what came from elsewhere reaches it only as a clipped and noised update.
    """
    topology = terms.topology
    if not isinstance(topology, Groups) or not topology.mixes(round):
        return state.models[group]
    return personal(terms, state, client)


def personal(terms: Terms, state: State, client: int) -> Vector:
    """The mean of the models of all groups of a client, `float32[p]`: what it uses in the end."""
    places = list(terms.topology.groups_of(client))
    if len(places) == 1:
        return state.models[places[0]]
    return state.models[places].mean(axis=0, dtype=np.float64).astype(np.float32)


def dp_ogl(terms: Terms, descent: LocalDescent, step: ServerStep, parts: Parts) -> Averaging:
    """DP-OGL: every group sums the clipped updates of its workers under noise in every epoch.

    Coins and noises are independent for each worker, group and epoch; the divisor pi_m |N_m| is public; noise is added
    to an empty sum as well.

    Guarantee: one epsilon for each pair of clients (see `onlooker.privacy.overlap`). The groups' masters are trusted,
    unless their sums go through auxiliary servers.

    Raises:
        UnpricedError: if the terms guard another unit or have no groups.
    """
    _refuse_without_groups("dp-ogl", terms)
    return Averaging(terms, descent, step, parts)


def dp_ogl_plus(terms: Terms, descent: LocalDescent, step: ServerStep, parts: Parts) -> Averaging:
    """DP-OGL+ as printed: a round is an interval of S epochs, and all but the last share without noise in the group.

    The workers of an interval are drawn once; each adds up its updates, and at the end the sum of the clipped totals
    (clip sqrt(S) c_m) under noise moves the model from where the interval began.

    Guarantee: outside the group alone, and there only by the count of rounds that can reach an observer; within a
    group none where S is above 1, for the members see sums without noise.

    Raises:
        UnpricedError: if the terms guard another unit or have no groups, or a part of the model is private.
    """
    _refuse_without_groups("dp-ogl-plus", terms)
    if len(parts.private):
        raise UnpricedError(
            'task.method = "dp-ogl-plus" has no price for a split model, whose private part would meet sums without '
            'noise; leave out [split], or use "dp-ogl-plus-isolated".'
        )
    return Averaging(terms, descent, step, parts, epochs=terms.interval)


def dp_ogl_plus_isolated(terms: Terms, descent: LocalDescent, step: ServerStep, parts: Parts) -> Averaging:
    """DP-OGL+ repaired: within an interval every worker goes on alone, from its own last model.

    So nothing is shared without noise, the sensitivity of an interval is exactly sqrt(S) c_m, and an interval is a
    round of DP-OGL whose workers train S times in a row and whose groups mix in every round.

    Guarantee: that of DP-OGL with the intervals as its rounds, within groups as well.

    Raises:
        UnpricedError: if the terms guard another unit or have no groups.
    """
    _refuse_without_groups("dp-ogl-plus-isolated", terms)
    return Averaging(terms, descent, step, parts, passes=terms.interval)


def _refuse_without_groups(method: str, terms: Terms) -> None:
    refuse_another_unit(method, terms)
    if not isinstance(terms.topology, Groups):
        raise UnpricedError(f'task.method = "{method}" is about groups; add a [groups] table with members.')
