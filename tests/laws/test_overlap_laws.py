"""What must hold of overlapping groups whatever the numbers: who can reach whom, and which way prices go."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special

from onlooker.privacy.overlap import decide, epsilon_of, reach
from onlooker.privacy.overlap_matrix import matrix
from onlooker.privacy.overlap_plus import as_printed
from onlooker.privacy.relays import ORDERS, contraction, relayed, sampled
from onlooker.privacy.senders import GroupFacts
from onlooker.privacy.structures import grid, ring, star, string
from onlooker.privacy.topology import Groups

DELTA = 1e-5
PRIME = 2**31 - 1


@st.composite
def networks(draw, most_groups=5):
    """Any groups over up to eight clients, every client in at least one."""
    count = draw(st.integers(2, most_groups))
    clients = draw(st.integers(2, 8))
    members = [set() for _ in range(count)]
    for client in range(clients):
        for group in draw(st.sets(st.integers(0, count - 1), min_size=1, max_size=3)):
            members[group].add(client)
    members = tuple(tuple(sorted(group)) for group in members if group)
    return Groups(members, draw(st.integers(1, 4))), clients


def simulated(groups, subject, rounds, silent=frozenset(), relays=True, seed=0):
    """The models of all groups after every round, `int64[rounds, groups]`, in a field where no change ever cancels out.

    Each row is a random affine function of what its client starts from. The subject sends nothing in the (group, round)
    pairs of `silent`, and without `relays` its rows do not depend on what it starts from.
    """
    draw = np.random.default_rng(seed)
    models = draw.integers(PRIME, size=len(groups.members))
    history = []
    for round in range(1, rounds + 1):
        after = models.copy()
        for group, members in enumerate(groups.members):
            for client in members:
                slope, constant = draw.integers(1, PRIME, size=2)
                start = sum(models[own] for own in groups.groups_of(client)) if groups.mixes(round) else models[group]
                if client == subject and (group, round) in silent:
                    continue
                row = constant if client == subject and not relays else slope * (start % PRIME) + constant
                after[group] = (after[group] + row) % PRIME
        models = after
        history.append(models)
    return np.array(history)


@settings(max_examples=40, deadline=None)
@given(networks(), st.integers(1, 11), st.data())
def test_exactly_the_counted_releases_reach_the_observers(network, rounds, data):
    """One row of the subject, in any round and group, changes the view if and only if theorem 1 counts its release."""
    groups, clients = network
    subject = data.draw(st.integers(0, clients - 1))
    observed = data.draw(st.frozensets(st.integers(0, len(groups.members) - 1), max_size=2))
    counts = reach(groups, subject, observed, rounds)
    view = simulated(groups, subject, rounds, relays=False)[:, sorted(observed)]
    for group, round in itertools.product(groups.groups_of(subject), range(1, rounds + 1)):
        other = simulated(groups, subject, rounds, frozenset({(group, round)}), relays=False)[:, sorted(observed)]
        assert bool((view != other).any()) == (round <= counts[group])


@settings(max_examples=40, deadline=None)
@given(networks(), st.data())
def test_a_trace_appears_in_the_round_that_delay_names(network, data):
    groups, clients = network
    subject, observer = data.draw(st.permutations(range(clients)))[:2]
    rounds = 1 + groups.mixing_period * len(groups.members)
    silent = frozenset(itertools.product(groups.groups_of(subject), range(1, rounds + 1)))
    seen = sorted(groups.observed((observer,)))
    differs = simulated(groups, subject, rounds) != simulated(groups, subject, rounds, silent)
    changed = differs[:, seen].any(axis=1)
    first = 1 + int(np.argmax(changed)) if changed.any() else math.inf
    assert first == groups.delay(subject, observer)


def test_a_trap_the_count_is_of_intervals_not_of_rounds():
    """With T no multiple of S it is S (ceil(T/S) - h), above T - h S; and J - h, not J - h + 1."""
    groups = Groups(((0, 1), (1, 2)), mixing_period=5)
    assert [reach(groups, 0, frozenset({1}), rounds)[0] for rounds in (5, 6, 10, 11, 12, 15)] == [0, 5, 5, 10, 10, 10]


@pytest.mark.parametrize("rounds", [1, 2, 5])
@pytest.mark.parametrize("rate", [0.1, 1.0])
def test_a_group_apart_from_the_hidden_ones_is_paid_for(rounds, rate):
    """The subject alone links its two groups: who sees the one and a neighbour of the other sees all of the first."""
    groups = Groups(((0, 1), (0, 3), (2, 3)))
    facts = GroupFacts.alike(groups, rate, 3.0)
    alone = decide(groups, facts, 0, frozenset({0}), rounds, DELTA)
    both = decide(groups, facts, 0, frozenset({0, 2}), rounds, DELTA)
    assert alone.releases[0] == rounds and (both.divergences >= rounds * sampled(rate, 3.0) * (1 - 1e-9)).all()
    assert 0 < alone.epsilon <= both.epsilon


@settings(max_examples=300, deadline=None)
@given(networks(), st.integers(1, 12), st.sampled_from([0.1, 0.5, 1.0]), st.sampled_from([0.6, 3.0, 20.0]), st.data())
def test_what_is_seen_itself_is_paid_for_in_full(network, rounds, rate, multiplier, data):
    """A bound from below: of a group that is seen every release tells, so no theorem may give less than all of them."""
    groups, clients = network
    subject = data.draw(st.integers(0, clients - 1))
    seen = data.draw(st.frozensets(st.integers(0, len(groups.members) - 1), max_size=3))
    found = decide(groups, GroupFacts.alike(groups, rate, multiplier), subject, seen, rounds, DELTA)
    own = len(set(groups.groups_of(subject)) & seen)
    assert (found.divergences >= own * rounds * sampled(rate, multiplier) * (1 - 1e-9)).all()


@settings(max_examples=300, deadline=None)
@given(networks(), st.integers(1, 12), st.sampled_from([0.1, 0.5, 1.0]), st.sampled_from([0.6, 3.0, 20.0]), st.data())
def test_epsilon_never_falls_when_an_observer_joins(network, intervals, rate, multiplier, data):
    groups, clients = network
    subject, one, two = data.draw(st.permutations(range(max(clients, 3))))[:3]
    if subject >= clients:
        return
    facts = GroupFacts.alike(groups, rate, multiplier)
    rounds = intervals * groups.mixing_period
    few = decide(groups, facts, subject, groups.observed((one,)), rounds, DELTA)
    more = decide(groups, facts, subject, groups.observed((one, two)), rounds, DELTA)
    assert (few.divergences <= more.divergences * (1 + 1e-9)).all()
    assert few.epsilon <= more.epsilon * (1 + 1e-9) and few.distance >= more.distance


def test_epsilon_does_not_fall_when_an_observer_joins_where_contours_about_observers_would_let_it():
    """A has a cheap way of one relay and a dear one; who joins at B knows what the dear one carries."""
    links = [("A", "B", 5), ("B", "S", 1), ("A", "C", 1), ("C", "D", 5), ("D", "E", 5), ("E", "S", 5)]
    members = {name: [place] for place, name in enumerate("SABCDE")}
    fresh = itertools.count(6)
    for one, other, relays in links:
        for client in itertools.islice(fresh, relays):
            members[one].append(client)
            members[other].append(client)
    groups = Groups(tuple(tuple(group) for group in members.values()), mixing_period=50)
    facts = GroupFacts.alike(groups, 0.5, 3.0)
    few, more = (decide(groups, facts, 0, frozenset(seen), 1000, DELTA).epsilon for seen in ({1}, {1, 2}))
    assert 0 < few <= more


@settings(max_examples=60, deadline=None)
@given(networks(), st.integers(1, 3), st.booleans(), st.data())
def test_the_matrix_is_every_pair(network, intervals, scaled, data):
    groups, clients = network
    facts = GroupFacts(
        tuple(data.draw(st.sampled_from([0.2, 0.7, 1.0])) for _ in groups.members),
        tuple(data.draw(st.sampled_from([1.0, 4.0])) for _ in groups.members),
        data.draw(st.frozensets(st.integers(0, len(groups.members) - 1), max_size=1)),
    )
    groups = Groups(groups.members, groups.mixing_period, data.draw(st.sampled_from([(), (0,)])))
    own = {0: tuple(2 * one for one in facts.multipliers)} if scaled else {}
    rounds = intervals * groups.mixing_period
    whole = matrix(groups, facts, clients, rounds, DELTA, own=own)
    for subject in range(clients):
        public = decide(groups, facts, subject, groups.observed(()), rounds, DELTA, own=own.get(subject))
        assert whole.public[whole.classes[subject]] == public.epsilon
        for observer in range(clients):
            if observer == subject:
                assert whole.epsilon(subject, observer) == whole.dense[subject, observer] == math.inf
                continue
            seen = groups.observed((observer,))
            pair = decide(groups, facts, subject, seen, rounds, DELTA, own=own.get(subject))
            assert whole.epsilon(subject, observer) == whole.dense[subject, observer] == pair.epsilon
            place = whole.classes[subject], whole.classes[observer]
            assert (whole.releases[place], whole.theorems[place]) == (sum(pair.releases.values()), pair.theorem)


def test_the_matrix_tells_a_way_from_the_end_of_a_longer_one():
    """From group 0 one relay and then five lead to group 2, and five at once to group 3, which is dearer."""
    groups = Groups(((0, 1, *range(7, 12)), (1, *range(2, 7)), (*range(2, 7), 12), (*range(7, 12), 13)), 40)
    facts = GroupFacts.alike(groups, 0.5, 6.0)
    whole = matrix(groups, facts, 14, 160, DELTA)
    for observer in range(1, 14):
        pair = decide(groups, facts, 0, groups.observed((observer,)), 160, DELTA)
        assert whole.epsilon(0, observer) == pair.epsilon
    assert whole.epsilon(0, 13) > whole.epsilon(0, 12) > 0 and whole.theorems[0, whole.classes[13]] == 4


def test_the_only_link_between_two_groups_differs_from_a_colleague():
    alone = Groups(((0, 1), (1, 2)))
    facts = GroupFacts.alike(alone, 0.5, 2.0)
    assert reach(alone, 1, frozenset({0}), 10) == {0: 10, 1: 0}
    two = Groups(((0, 1, 3), (1, 2, 3)))
    assert reach(two, 1, frozenset({0}), 10) == {0: 10, 1: 9}
    assert (
        matrix(alone, facts, 3, 10, DELTA).epsilon(1, 0)
        == matrix(Groups(((0, 1),)), GroupFacts.alike(Groups(((0, 1),)), 0.5, 2.0), 2, 10, DELTA).epsilon(1, 0)
        < matrix(two, facts, 4, 10, DELTA).epsilon(1, 0)
    )


@pytest.mark.parametrize("build", [string, ring, star, grid])
@pytest.mark.parametrize(("rate", "multiplier"), [(0.5, 3.0), (1.0, 8.0), (0.1, 1.0)])
def test_epsilon_never_grows_with_the_period_nor_with_state(build, rate, multiplier):
    members = build(24, 6, 1)
    facts = GroupFacts.alike(Groups(members), rate, multiplier)
    for seen in range(6):
        every = []
        for period in (1, 2, 3, 4, 6, 12):
            groups = Groups(members, period)
            states = [
                decide(groups, facts, 0, frozenset({seen}), 12, DELTA, state).epsilon
                for state in ("nothing", "per-group", "shared")
            ]
            assert states == sorted(states)
            every.append(states)
        for one, next in itertools.pairwise(every):
            assert all(later <= earlier * (1 + 1e-9) for earlier, later in zip(one, next, strict=True))
        assert len({shared for _, _, shared in every}) == 1, "state that groups share makes every round mix"


@pytest.mark.parametrize("period", [1, 2, 5, 20])
@pytest.mark.parametrize(("rate", "multiplier"), [(0.5, 3.0), (1.0, 8.0), (0.1, 0.7)])
def test_epsilon_never_grows_with_distance_on_a_string(period, rate, multiplier):
    groups = Groups(string(40, 8, 1), period)
    facts = GroupFacts.alike(groups, rate, multiplier)
    every = [decide(groups, facts, 0, frozenset({seen}), 20, DELTA) for seen in range(8)]
    assert [one.distance for one in every] == list(range(8))
    epsilons = [one.epsilon for one in every]
    assert epsilons == sorted(epsilons, reverse=True) and epsilons[0] > 0
    printed = [as_printed(groups, facts, 0, frozenset({seen}), 20, DELTA).epsilon for seen in range(8)]
    assert printed == sorted(printed, reverse=True)
    for one, late in zip(every, printed, strict=True):
        if one.distance >= 20 / period:
            assert one.epsilon == 0.0 == late and not one.divergences.any(), "nothing arrives: exactly 0"
        else:
            assert one.epsilon > 0 and late > 0


def test_one_group_is_one_sampled_gaussian_a_round():
    groups = Groups((tuple(range(10)),), mixing_period=7)
    alone = decide(groups, GroupFacts.alike(groups, 0.3, 1.5), 4, frozenset({0}), 33, DELTA)
    assert np.allclose(alone.divergences, 33 * sampled(0.3, 1.5), rtol=1e-12) and alone.theorem == 1


def test_percolation_in_random_networks_of_any_probabilities():
    """Theorem 3: no hockey stick and no moment of (U, X) exceeds (1 - eta) that of U + eta that of (U, W)."""
    draw = np.random.default_rng(7)
    tightest = 0.0
    for _ in range(4000):
        seen, hidden, out = draw.integers(1, 4), draw.integers(2, 5), draw.integers(2, 5)
        one, other = (draw.dirichlet(np.full(seen * hidden, 0.4)).reshape(seen, hidden) + 1e-9 for _ in range(2))
        kernel = draw.dirichlet(np.full(out, 0.5), size=(seen, hidden))
        gaps = np.abs(kernel[:, :, None] - kernel[:, None]).sum(axis=-1) / 2
        eta = gaps.max()
        through = [np.einsum("uw,uwx->ux", world, kernel) for world in (one, other)]

        def bounded(divergence, one=one, other=other, through=through, eta=eta):
            most = (1 - eta) * divergence(one.sum(1), other.sum(1)) + eta * divergence(one, other)
            return divergence(*through) / most if most > 1e-12 else 0.0

        for level in (0.3, 1.0, 2.0, 6.0):
            tightest = max(tightest, bounded(lambda p, q, level=level: np.maximum(p - level * q, 0).sum()))
        assert bounded(lambda p, q: (p**3 / np.maximum(q, 1e-300) ** 2).sum()) <= 1 + 1e-9
        assert tightest <= 1 + 1e-9
    assert tightest > 0.99, "and it is attained, so that less than eta would not do"


GRID = np.linspace(-70, 90, 16001)
STEP = GRID[1] - GRID[0]


def mixed(weights_and_means, multiplier):
    """The logarithms of a mixture's density over `GRID`: logarithms, for its tails decide high orders."""
    weights, means = np.array(list(weights_and_means)).T
    logs = -((GRID[:, None] - means) ** 2) / (2 * multiplier**2) - math.log(multiplier * math.sqrt(2 * math.pi))
    return special.logsumexp(logs, b=weights, axis=1)


def divergence(one, other, order):
    """Rényi's, by quadrature."""
    return (special.logsumexp(order * one + (1 - order) * other) + math.log(STEP)) / (order - 1)


def hockey_stick(one, other, level):
    return np.maximum(np.exp(one) - level * np.exp(other), 0).sum() * STEP


def member(rate, shift=1.0):
    return [(1 - rate, 0.0), (rate, shift)]


def sign_relay(rate, relay_rate, multiplier, shift):
    """Round 2 of a group whose relay sends the sign of round 1 of the subject's group, moved by `shift` if sampled."""
    minus = (1 - rate) / 2 + rate * special.ndtr(-shift / multiplier)
    return [(1 - relay_rate, 0.0), (relay_rate * (1 - minus), 1.0), (relay_rate * minus, -1.0)]


def together(one, other):
    return [(p * q, x + y) for p, x in one for q, y in other]


@pytest.mark.parametrize("rate", [0.3, 1.0])
@pytest.mark.parametrize("multiplier", [0.7, 2.0, 5.0])
def test_no_divergence_of_a_relayed_sign_exceeds_its_bounds(rate, multiplier):
    """By quadrature: theorem 1 for every hockey stick and both directions, and the best of all for every order."""
    groups = Groups(((0, 1), (1, 2)))
    bound = decide(groups, GroupFacts.alike(groups, rate, multiplier), 0, frozenset({1}), 2, DELTA).divergences
    worlds = [mixed(sign_relay(rate, rate, multiplier, shift), multiplier) for shift in (1.0, 0.0)]
    alone = [mixed(member(rate), multiplier), mixed([(1.0, 0.0)], multiplier)]
    for one, other in ((0, 1), (1, 0)):
        for order in (2, 3, 8, 32):
            assert divergence(worlds[one], worlds[other], order) <= bound[ORDERS == order][0] * (1 + 1e-6)
        for level in (0.5, 1.0, 1.05, 1.5, 3.0):
            through = hockey_stick(worlds[one], worlds[other], level)
            assert through <= hockey_stick(alone[one], alone[other], level) + 1e-9


@pytest.mark.parametrize("rate", [0.3, 1.0])
@pytest.mark.parametrize("multiplier", [0.7, 2.0, 5.0])
def test_no_divergence_exceeds_its_bound_where_the_subject_and_a_relay_feed_the_observed_group(rate, multiplier):
    """The subject is in a seen group and a hidden one, and a relay brings the sign of the hidden one as well."""
    groups = Groups(((0, 1, 2), (0, 1)))
    decision = decide(groups, GroupFacts.alike(groups, rate, multiplier), 0, frozenset({0}), 2, DELTA)
    assert decision.releases == {0: 2, 1: 1}
    brought = [sign_relay(rate, rate, multiplier, shift) for shift in (1.0, 0.0)]
    second = [mixed(rows, multiplier) for rows in (together(member(rate), brought[0]), brought[1])]
    first = [mixed(member(rate), multiplier), mixed([(1.0, 0.0)], multiplier)]
    for one, other in ((0, 1), (1, 0)):
        for order in (2, 3, 8):
            exact = divergence(first[one], first[other], order) + divergence(second[one], second[other], order)
            assert exact <= decision.divergences[ORDERS == order][0] * (1 + 1e-6)


@pytest.mark.parametrize(("relays", "rate"), [(1, 0.2), (1, 1.0), (2, 0.5), (3, 0.1), (3, 1.0)])
@pytest.mark.parametrize("multiplier", [1.0, 3.0])
def test_a_trap_relays_differ_by_two_bounds_each(relays, rate, multiplier):
    """They are there in both worlds, so one may send +1 for -1; a price at one bound each is below what they do."""
    binomial = [math.comb(relays, k) * rate**k * (1 - rate) ** (relays - k) for k in range(relays + 1)]
    sums = {sign: [(weight, float(sign * k)) for k, weight in enumerate(binomial)] for sign in (1, 0, -1)}
    plus, nothing, minus = (mixed(rows, multiplier) for rows in sums.values())
    with_own = mixed(together(member(rate), sums[1]), multiplier)
    assert 0.7 * contraction(relays, rate, multiplier) < hockey_stick(plus, minus, 1.0)
    assert contraction(relays, rate, multiplier) >= hockey_stick(plus, minus, 1.0) - 1e-9
    for order in (2, 3, 8):
        exact = divergence(plus, minus, order)
        bound = relayed(relays, rate, multiplier)[ORDERS == order][0]
        assert divergence(plus, nothing, order) < 0.999 * exact, "one bound each is too little"
        assert exact <= bound * (1 + 1e-6)
        if rate == 1:
            assert exact == pytest.approx(bound, rel=1e-6)
        both = relayed(relays, rate, multiplier, own=multiplier)[ORDERS == order][0]
        assert max(divergence(with_own, minus, order), divergence(minus, with_own, order)) <= both * (1 + 1e-6)


def test_a_row_beside_relays_is_charged_in_the_worse_direction():
    """Triangle by way of nothing, at order 2: 3/2 D_4 there, by quadrature, and D_3 back, by its moments."""
    rate, multiplier, shift = 0.01, 3.0, 0.125
    nothing, relay = [(1.0, 0.0)], member(rate)
    both = together(relay, member(rate, shift))

    def there(one):
        return divergence(mixed(one, multiplier), mixed(nothing, multiplier), 4)

    def back(one):
        mean = sum(weight * value for weight, value in one)
        variance = sum(weight * (value - mean) ** 2 for weight, value in one)
        return (3 * mean**2 + variance) / (2 * multiplier**2)

    without = 1.5 * there(both) + sampled(rate, multiplier)[ORDERS == 3][0]
    within = 1.5 * there(relay) + back(both)
    assert within > 2 * without
    assert relayed(1, rate, multiplier, own=multiplier / shift)[ORDERS == 2][0] == pytest.approx(within, rel=1e-6)


@pytest.mark.parametrize("watched", [False, True])
def test_an_interval_as_printed_costs_what_members_who_turn_round_can_tell(watched):
    """Others who send -1 turn to +1 where the subject's row was among them: given their coins, 1 + 2k rows of noise z.

    Two of the three intervals can be handed over; the subject's bound is a half and a quarter of the others'.
    """
    groups = Groups(((0, 1, 2), (0, 3, 4, 5, 6), (2, 6, 7)), mixing_period=4)
    facts = GroupFacts((0.3, 0.6, 0.5), (90.0, 200.0, 50.0), frozenset({0} if watched else ()))
    found = as_printed(groups, facts, 0, frozenset({2}), 12, DELTA, own=(180.0, 800.0, 50.0))
    total, assumed = np.zeros(len(ORDERS)), np.zeros(len(ORDERS))
    for rate, coin, noise, own, others in ((0.3, 1.0 if watched else 0.3, 90.0, 0.5, 2), (0.6, 0.6, 200.0, 0.25, 4)):
        turned = [sampled(coin, noise / (own + 2 * k)) for k in range(others + 1)]
        chances = [math.comb(others, k) * rate**k * (1 - rate) ** (others - k) for k in range(others + 1)]
        tilted = special.logsumexp((ORDERS - 1) * np.array(turned), b=np.array(chances)[:, None], axis=0)
        total, assumed = total + 2 * tilted / (ORDERS - 1), assumed + 2 * turned[0]
    assert found.releases == {0: 2, 1: 2}
    assert found.epsilon == pytest.approx(epsilon_of(total, DELTA), rel=1e-9)
    assert found.assumed == pytest.approx(epsilon_of(assumed, DELTA), rel=1e-9) and found.assumed < found.epsilon


def test_as_printed_a_seen_group_voids_the_guarantee_and_intervals_of_one_round_are_dp_ogl():
    groups, own = Groups(((0, 1), (0, 2), (2, 3)), mixing_period=4), (6.0, 9.0, 3.0)
    facts = GroupFacts.alike(groups, 0.5, 3.0)
    for seen in ({0}, {1}, {0, 2}):
        assert as_printed(groups, facts, 0, frozenset(seen), 12, DELTA).epsilon == math.inf
    single = Groups(groups.members)
    for seen in range(3):
        printed = as_printed(single, facts, 0, frozenset({seen}), 12, DELTA, own)
        assert printed.epsilon == decide(single, facts, 0, frozenset({seen}), 12, DELTA, own=own).epsilon


def two_relayed(rates, multipliers, shift):
    """Log density of rounds 2 and 3 of a group whose relay sends +-1, by what the subject's group has added up to.

    In round t it compares the sum of the subject's rows with half of what the subject may have sent by then.
    """
    points = np.linspace(-12, 14, 1301) * max(multipliers[0], 0.2)
    first = np.exp(
        special.logsumexp(
            [
                np.log(max(weight, 1e-300)) - ((points - mean) / multipliers[0]) ** 2 / 2
                for weight, mean in member(rates[0], shift)
            ],
            axis=0,
        )
    )
    first /= first.sum()
    above = sum(weight * special.ndtr((points + mean - 1) / multipliers[0]) for weight, mean in member(rates[0], shift))
    signs = {
        (one, two): float(
            (first * (points > 0.5 if one > 0 else points <= 0.5) * (above if two > 0 else 1 - above)).sum()
        )
        for one, two in itertools.product((1, -1), repeat=2)
    }
    logs = {
        sign: special.logsumexp(
            -((COARSE[:, None] - [0, sign]) ** 2) / (2 * multipliers[1] ** 2), b=[1 - rates[1], rates[1]], axis=1
        )
        - math.log(multipliers[1] * math.sqrt(2 * math.pi))
        for sign in (1, -1)
    }
    return special.logsumexp(
        [logs[one][:, None] + logs[two] + math.log(max(p, 1e-300)) for (one, two), p in signs.items()], axis=0
    )


COARSE = np.linspace(-40, 40, 321)


@pytest.mark.parametrize("rates", [(1.0, 1.0), (0.4, 1.0), (0.4, 0.4)])
@pytest.mark.parametrize("multipliers", [(0.05, 2.0), (1.0, 2.0), (3.0, 1.5)])
def test_no_divergence_of_two_relayed_rounds_exceeds_its_bound(rates, multipliers):
    """By quadrature; where the relay knows for certain, theorem 2 is what comes out, so less would be wrong."""
    groups = Groups(((0, 1), (1, 2)))
    decision = decide(groups, GroupFacts(rates, multipliers), 0, frozenset({1}), 3, DELTA)
    worlds = [two_relayed(rates, multipliers, shift) for shift in (1.0, 0.0)]
    for order in (2, 3, 4):
        bound = decision.divergences[ORDERS == order][0]
        step = 2 * math.log(COARSE[1] - COARSE[0])
        for one, other in (worlds, worlds[::-1]):
            exact = (special.logsumexp(order * one + (1 - order) * other) + step) / (order - 1)
            assert exact <= bound * (1 + 1e-6)
            if rates == (1.0, 1.0) and multipliers == (0.05, 2.0):
                assert exact == pytest.approx(bound, rel=1e-3)


def test_only_rounds_that_mix_and_clients_outside_make_relays_dirty():
    """The bound over a string's link does not grow with colleagues who stay at home."""
    facts = (0.5, 3.0)
    few, many = (
        decide(groups, GroupFacts.alike(groups, *facts), 0, frozenset({1}), 100, DELTA)
        for groups in (Groups(((0, 1), (1, 2)), 50), Groups(((0, 1, *range(3, 20)), (1, 2, *range(20, 40))), 50))
    )
    assert few.epsilon == many.epsilon and few.theorem == 2
    assert np.allclose(few.divergences, relayed(1, *facts)), "one round that mixes and carries anything"
