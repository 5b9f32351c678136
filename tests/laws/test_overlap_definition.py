"""Prices of overlapping groups against their definition: theorems 1 to 4 over plain sets of groups, and nothing shared.

What is hidden is any set of the subject's groups that nobody sees; H_s is what can be reached from an observer over
groups at least s hops from them; its relays are the clients with a group outside.
"""

import itertools
import math
import random

import numpy as np
from test_overlap_oracle import scene

from onlooker.privacy.overlap import decide
from onlooker.privacy.relays import ORDERS, contraction, relayed, sampled
from onlooker.privacy.senders import GroupFacts

DELTA = 1e-5


def near(groups, subject, places):
    """The groups that another client than the subject shares with one of these."""
    clients = {client for group in places for client in groups.members[group]} - {subject}
    return {group for client in clients for group in groups.groups_of(client)}


def hops_from(groups, subject, start):
    far, edge = dict.fromkeys(start, 0), set(start)
    for hops in itertools.count(1):
        edge = near(groups, subject, edge) - far.keys()
        if not edge:
            return far
        far |= dict.fromkeys(edge, hops)


def beyond(groups, subject, far, least, observed):
    """H_s: all that can be reached from what is observed over groups at least so far from what is hidden."""
    found = {group for group in observed if far.get(group, -1) >= least}
    while more := {group for group in near(groups, subject, found) if far[group] >= least} - found:
        found |= more
    return found


def relays_into(groups, subject, inside):
    """For each group inside, the clients that are in a group outside as well."""
    return {
        group: sum(bool(set(groups.groups_of(one)) - inside) for one in groups.members[group] if one != subject)
        for group in inside
    }


def defined(groups, facts, subject, observed, rounds, own):
    """Each theorem's divergences, `float64[orders]`, by its number, before the least is taken."""
    period, membership = groups.mixing_period, groups.groups_of(subject)
    intervals = math.ceil(rounds / period)

    def through(group, relays, own=None):
        return relayed(relays, facts.rates[group], facts.multipliers[group], own, group in facts.seen)

    each, counts = {}, {}
    for group in membership:
        far = hops_from(groups, subject, [group])
        hops = min((far[seen] for seen in observed if seen in far), default=math.inf)
        counts[group] = rounds if hops == 0 else 0 if math.isinf(hops) else max(0, intervals - hops) * period
        each[group] = sampled(1.0 if group in facts.seen else facts.rates[group], own[group])
    found = {1: [sum(counts[group] * each[group] for group in membership)], 2: [], 4: []}
    if not any(counts.values()):
        return found
    sizes = range(1, len(membership) + 1) if len(membership) < 4 else [len(membership)]
    for hidden in (set(some) for size in sizes for some in itertools.combinations(membership, size)):
        far = hops_from(groups, subject, hidden)
        hops = min((far[seen] for seen in observed if seen in far), default=0)
        contours = [relays_into(groups, subject, beyond(groups, subject, far, s, observed)) for s in range(1, hops + 1)]
        if hidden & observed or not contours:
            continue
        if hidden == set(membership):
            paid = [sum(through(group, relays) for group, relays in inside.items()) for inside in contours]
            found[2] += [(intervals - hops) * pays for pays in paid]
            found[4] += [percolated(facts, contours, paid, intervals, period * sum(each.values()))]
            continue
        for inside in contours:
            paid = np.zeros(len(ORDERS))
            for group in membership:
                if group not in far or group in inside:
                    paid = paid + counts[group] * each[group]
            for group, relays in inside.items():
                if group in membership:
                    mixing = min(intervals - 1, counts[group])
                    paid = paid + mixing * (through(group, relays, own[group]) - each[group])
                else:
                    paid = paid + (intervals - 1) * through(group, relays)
            found[2].append(paid)
    return found


def percolated(facts, contours, paid, intervals, interval):
    """Theorem 4, as it is written: X_s(j) from X_s(j - 1) and X_(s - 1)(j - 1)."""
    tilt = ORDERS - 1

    def level(s, j):
        if s == 0 or j <= s:
            return tilt * j * interval if s == 0 else np.zeros(len(ORDERS))
        if (s, j) not in known:
            etas = [
                contraction(relays, facts.rates[group], facts.multipliers[group])
                for group, relays in contours[s - 1].items()
            ]
            shut = math.prod(1 - eta for eta in etas)
            with np.errstate(divide="ignore"):
                mixed = np.logaddexp(np.log(shut) + level(s, j - 1), np.log(1 - shut) + level(s - 1, j - 1))
            known[s, j] = np.minimum(mixed, tilt * paid[s - 1] + level(s, j - 1))
        return known[s, j]

    known = {}
    return level(len(contours), intervals) / tilt


def facts_for(draw, groups):
    every = range(len(groups.members))
    rates = tuple(draw.choice([0.1, 0.5, 1.0]) for _ in every)
    multipliers = tuple(draw.choice([0.7, 2.0, 10.0, 100.0]) for _ in every)
    watched = frozenset(group for group in every if draw.random() < 0.15)
    own = tuple(one * draw.choice([1.0, 2.0]) for one in multipliers)
    return GroupFacts(rates, multipliers, watched), own


def test_every_price_is_the_least_that_its_definition_gives():
    draw = random.Random(8)
    decided = {1: 0, 2: 0, 4: 0}
    for _ in range(700):
        groups, _, rounds, subject, observers = scene(draw)
        seen = groups.observed(observers)
        facts, own = facts_for(draw, groups)
        price = decide(groups, facts, subject, seen, rounds, DELTA, own=own)
        every = defined(groups, facts, subject, seen, rounds, own)
        least = np.min([curve for curves in every.values() for curve in curves], axis=0)
        scenario = (groups, facts, subject, sorted(seen), rounds, own)
        assert np.allclose(price.divergences, least, rtol=1e-9, atol=1e-14), scenario
        decided[price.theorem] += 1
    assert min(decided.values()) > 20, "and each theorem decides some of them"
