"""DP-OGL+ as it is printed, where groups exchange models inside an interval of S rounds without noise.

*In group*, S >= 2: members see the models of an interval move without noise or clip, so the event "it moved" has
probability 1 - (1 - pi)^J with the subject and may have 0 without: no finite epsilon at a delta below that.

*Out of group*: what mixes over groups is the model at the end of an interval, clipped and noised. With h hops, J - h
releases of each group of the subject arrive, one for each interval; the proof is that of theorem 1 in `overlap`, with
intervals for rounds (the last one counts also where it is cut short, for its first round mixes).

*What a release costs.* Clip and noise are sqrt(S) c and sqrt(S) c sigma, so one might take each for a sampled
Gaussian of multiplier sigma. That assumes that the sum over an interval moves by one clipped row. But from the second
round on the other members start from a model that already holds the subject's unclipped row, and their own sums,
clipped too, move by up to twice the bound each. With k other members in the round the sum moves by up to 1 + 2k
bounds; given the coins, D_a <= log E_k exp((a - 1) sampled(a; pi, sigma / (1 + 2k))) / (a - 1), k ~ Binomial(|N_m| -
1, pi).

The repair, in which each member trains on its own model until the interval ends, is DP-OGL over floor(T/S) rounds
that all mix, and needs nothing of its own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy import special, stats

from onlooker import _check
from onlooker.privacy.fixed_size import Floats
from onlooker.privacy.overlap import decide, epsilon_of
from onlooker.privacy.relays import ORDERS, sampled
from onlooker.privacy.senders import GroupFacts, sender_of
from onlooker.privacy.topology import Groups


@dataclass(frozen=True)
class AsPrinted:
    """What a pair costs under DP-OGL+ as printed.

    Attributes:
        epsilon: what holds; infinite in group for S >= 2.
        assumed: what would hold if the sum over an interval moved by no more than sqrt(S) c. Not a guarantee.
        releases: for each group of the subject, how many of its noisy releases can reach the observers.
    """

    epsilon: float
    assumed: float
    releases: dict[int, int]


def as_printed(
    groups: Groups,
    facts: GroupFacts,
    subject: int,
    observed: frozenset[int],
    rounds: int,
    delta: float,
    own: tuple[float, ...] | None = None,
) -> AsPrinted:
    """DP-OGL+ as printed, for clients that keep nothing; the arguments are those of `overlap.decide`.

    Raises:
        TermsError: if a number is impossible, or there are not as many of them as groups.
    """
    if groups.mixing_period == 1:  # each interval is one round, clipped and noised: DP-OGL
        same = decide(groups, facts, subject, observed, rounds, delta, own=own)
        return AsPrinted(same.epsilon, same.epsilon, dict(same.releases))
    _check.probability(privacy__delta=delta)
    _check.at_least(1, task__rounds=rounds)
    sender = sender_of(groups, facts, groups.groups_of(subject), rounds, own=own)
    hops = sender.hops(observed)
    counts = [0 if math.isinf(far) else max(0, sender.intervals - int(far)) for far in hops]
    releases = dict(zip(sender.membership, counts, strict=True))
    if min(hops) == 0:
        return AsPrinted(math.inf, math.inf, releases)
    sound, assumed = np.zeros(len(ORDERS)), np.zeros(len(ORDERS))
    for group, multiplier in zip(sender.membership, sender.own, strict=True):
        rate = 1.0 if group in facts.seen else facts.rates[group]
        assumed += releases[group] * sampled(rate, multiplier)
        others = len(groups.members[group]) - 1
        sound += releases[group] * _coupled(others, facts.rates[group], rate, facts.multipliers[group], multiplier)
    return AsPrinted(epsilon_of(sound, delta), epsilon_of(assumed, delta), releases)


def _coupled(others: int, rate: float, own_rate: float, multiplier: float, own: float) -> Floats:
    """One release whose sum moves by the subject's bound and by twice that of each other member that takes part."""
    counts = np.arange(others + 1)
    moved = [(ORDERS - 1) * sampled(own_rate, 1 / (1 / own + 2 * count / multiplier)) for count in counts.tolist()]
    log_weights = np.asarray(stats.binom.logpmf(counts, others, rate))
    total = cast(Floats, special.logsumexp(log_weights[:, None] + np.array(moved), axis=0))
    return total / (ORDERS - 1)
