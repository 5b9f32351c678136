"""What a client of overlapping groups gives away to the members of other groups: theorem 1, and the price of a pair.

In round t group m releases G_m^t, the sum of the clipped rows of those of its members whose coins came up, plus
noise; its model moves by G_m^t over a public constant. In rounds that mix, clients start from the mean of the models
of their groups. Observers see all releases of their groups, and hold their own data and coins. The masters are
trusted.

*Theorem 1 (delay), for any divergence.* Let h(m) be the hops from group m of the subject n to an observed one, over
clients other than n, and L_m = T where m is observed, else S max(0, J - h(m)) (0 out of reach), J = ceil(T/S). The
view is dominated, in the sense of hockey-stick divergences at every level, in both directions, by the independent
composition of L_m releases of group m's sampled Gaussian, over all groups m of n. So *any* accountant that composes
dominating pairs, PLD included, may price the run as that composition.

Proof. A release of round t can depend on earlier ones of its group, and, where t mixes, on earlier ones of groups
that share a client with it. Let L_m for any group m be as above. If a release (m, t), t <= L_m, depends over a client
b != n on (g, u), then u <= s_j - 1 = (j - 1) S for the mixing round s_j = t <= S (J - h(m)), so j <= J - h(m), and u
<= S (J - h(m) - 1) <= L_g: the set E = {(m, t): t <= L_m} is closed under dependence, and contains the view.
Condition on the data, the minibatches and the coins of all clients but n: they have one law in both worlds, and a
divergence that is jointly convex is at most its largest conditional value. Expose E release by release, in order of
time. Given the past, all members of m but n start from exposed models, so the sum of their rows is one number in both
worlds; without n it is all there is, with n it is moved by B u, where the coin B is fresh, so independent of all that
is exposed and of u, and |u| is at most the bound, whatever hidden models (n's other groups included) and whatever
state of n it came from. By joint convexity the pair is dominated by the sampled Gaussian's pair at the worst fixed u;
rotation makes that the same pair in every round. Releases without n cost nothing. Adaptive composition of dominated
pairs is dominated by the composition of their dominating pairs (Zhu, Dong, Wang 2022, theorem 10). n's rows of one
round, in several groups, are exposed one after the other; each has its own coin and noise. The view is a function of
E. QED.

So what is not used is: any loss, any graph, what else n keeps, how rows of a round depend on each other. What is
used: coins and noises fresh and independent for each group and round, public divisors, and no path between groups but
by models. State kept by a client for each group apart adds no path that is not there already: what entered at a round
that mixed is exposed from then on. State that a client shares between its groups makes every round mix: S = 1. Where
observers see who takes part in a group, condition on B too: its releases are Gaussians without sampling. Under
replace-one the row is u in one world and u' in the other, and the same argument gives that release's own pair; what
is computed here, theorems 2 to 4 included, is a row against nothing: zero-out, and add-or-remove.

Theorems 2 to 4 are in `degradation`. Rule 13.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from onlooker import _check
from onlooker.privacy.degradation import Case, bounds, degrade
from onlooker.privacy.fixed_size import Floats
from onlooker.privacy.relays import ORDERS
from onlooker.privacy.senders import GroupFacts, State, sender_of
from onlooker.privacy.topology import Groups


@dataclass(frozen=True)
class Price:
    """What a case costs: `float64[orders]` at `ORDERS`, epsilon, and the simplest theorem that gives it: 1, 2 or 4."""

    divergences: Floats
    epsilon: float
    theorem: int


@dataclass(frozen=True)
class Path:
    """A shortest way from the subject to the observers: groups, and the client that carries over each hop."""

    groups: tuple[int, ...]
    clients: tuple[int, ...]


@dataclass(frozen=True)
class Decision:
    """What a pair costs, and why.

    Attributes:
        releases: for each group of the subject, how many of its releases can reach the observers (theorem 1).
        distance: hops, over clients other than the subject; infinite without a way.
        divergences: `float64[orders]`, Rényi's at `ORDERS`.
        epsilon: at the delta asked about; 0 where nothing arrives.
        theorem: the simplest one that gives the number: 1, 2 or 4.
        path: None without a way.
    """

    releases: Mapping[int, int]
    distance: float
    divergences: Floats
    epsilon: float
    theorem: int
    path: Path | None


@lru_cache(maxsize=65536)
def reach(
    groups: Groups, subject: int, observed: frozenset[int], rounds: int, state: State = "nothing"
) -> Mapping[int, int]:
    """For each group of the subject, how many of its releases can reach who sees the observed groups (theorem 1).

    Guarantee: the view is dominated by the composition of so many of each group's sampled Gaussians, so that any
    accountant of dominating pairs may price it.

    >>> line = Groups(((0, 1), (1, 2), (2, 3)), mixing_period=5)
    >>> [dict(reach(line, 0, frozenset({seen}), rounds=20)) for seen in (0, 1, 2)]
    [{0: 20}, {0: 15}, {0: 10}]
    """
    sender = sender_of(groups, GroupFacts.alike(groups, 1.0, 1.0), groups.groups_of(subject), rounds, state)
    return dict(zip(sender.membership, sender.releases(sender.hops(observed)), strict=True))


def decide(
    groups: Groups,
    facts: GroupFacts,
    subject: int,
    observed: frozenset[int],
    rounds: int,
    delta: float,
    state: State = "nothing",
    own: tuple[float, ...] | None = None,
) -> Decision:
    """What the subject gives away to whoever sees the releases of the observed groups, by the best of all theorems.

    Args:
        groups: who is in which group.
        facts: rates and noise.
        subject: the client whose data it is; not one of the observers.
        observed: the groups whose releases are seen, as from `Groups.observed`.
        rounds: T.
        delta: in (0, 1).
        state: what clients keep between rounds.
        own: the noise over the subject's own bound in each of all groups, where that is not `facts.multipliers`.

    Raises:
        TermsError: if a number is impossible, or there are not as many of them as groups.
    """
    _check.probability(privacy__delta=delta)
    _check.at_least(1, task__rounds=rounds)
    sender = sender_of(groups, facts, groups.groups_of(subject), rounds, state, own)
    hops = sender.hops(observed)
    (cost,) = prices([sender.case(observed)], delta)
    releases = dict(zip(sender.membership, sender.releases(hops), strict=True))
    path = shortest(groups, subject, observed)
    return Decision(releases, min(hops), cost.divergences, cost.epsilon, cost.theorem, path)


def prices(cases: Sequence[Case], delta: float) -> list[Price]:
    """The least that a theorem gives, for each case."""
    degraded = degrade(cases)
    return [_price(bounds(case, degraded), delta) for case in cases]


def _price(every: tuple[tuple[int, Floats], ...], delta: float) -> Price:
    least = np.min([curve for _, curve in every], axis=0)
    epsilon = epsilon_of(least, delta)
    theorem = next(name for name, curve in every if epsilon_of(curve, delta) <= epsilon * (1 + 1e-9))
    return Price(least, epsilon, theorem)


def epsilon_of(divergences: Floats, delta: float) -> float:
    """By Canonne, Kamath, Steinke 2020, proposition 12; exactly 0 for what is the same in both worlds.

    >>> epsilon_of(np.zeros(len(ORDERS)), 1e-5)
    0.0
    """
    if not divergences.any():
        return 0.0
    shift = np.log1p(-1 / ORDERS) - (math.log(delta) + np.log(ORDERS)) / (ORDERS - 1)
    return max(0.0, float(np.min(divergences + shift)))


def shortest(groups: Groups, subject: int, observed: frozenset[int]) -> Path | None:
    """A shortest way from the subject's groups to an observed one; of several, over the lowest numbers."""
    before: dict[int, tuple[int, int] | None] = dict.fromkeys(groups.groups_of(subject))
    edge = list(before)
    while edge and not observed & set(edge):
        further: list[int] = []
        for group in edge:
            for client in sorted(set(groups.members[group]) - {subject}):
                for near in groups.groups_of(client):
                    if near not in before:
                        before[near] = (group, client)
                        further.append(near)
        edge = further
    if not edge:
        return None
    chain, clients = [min(observed & set(edge))], list[int]()
    while (step := before[chain[-1]]) is not None:
        chain.append(step[0])
        clients.append(step[1])
    return Path(tuple(reversed(chain)), tuple(reversed(clients)))
