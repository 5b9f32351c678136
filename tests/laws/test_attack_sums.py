"""Laws of what a release holds: the noises of its own members, and every row that the subject moves or displaces."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent, get_epsilon_gaussian
from scipy.stats import binom, norm
from test_runs import prepared

from onlooker import config
from onlooker.methods.method import Local
from onlooker.privacy.accounting import price
from onlooker.privacy.allocation import RandomAllocationDpEvent
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.losses import intervals
from onlooker.privacy.random import Seeded
from onlooker.privacy.records import WithoutReplacement, WithReplacement
from onlooker.privacy.rounds import CountedDpEvent, Round
from onlooker.privacy.statement import find
from playing import begin, one_round

DELTA = 1e-5


def epsilon_of(method, subject, observer, **settings):
    return Ledger.plan(prepared(method, **settings).agreement.terms).epsilon(subject, observer)


# A group's sum carries the noises of its own members, less those that the coalition subtracts


@pytest.mark.parametrize(
    "observer, left", [("client:2", 2), ("client:1+client:2", 1), ("client:2+client:5", 2), ("coordinator", 1)]
)
def test_the_noises_of_a_group_are_those_of_its_members(observer, left):
    """Three members, and as many clients outside whose noises are in another sum."""
    settings = {"privacy__noised_by": '"clients"', "sampling__clients__name": '"all"'}
    settings |= {"privacy__noise_multiplier": 2.0, "privacy__delta": DELTA}
    found = epsilon_of("dp-ogl", 0, observer, rounds=4, groups__members="[[0,1,2],[3,4,5]]", **settings)
    assert found == pytest.approx(get_epsilon_gaussian(2.0 * math.sqrt(left / 4), DELTA), rel=1e-9)


def test_clients_outside_a_group_do_not_lower_its_price():
    settings = {"privacy__noised_by": '"clients"', "sampling__clients__name": '"all"', "privacy__noise_multiplier": 2.0}
    few, many = (
        epsilon_of("dp-ogl", 0, "client:1", groups__members=members, data__clients=clients, **settings)
        for members, clients in (("[[0,1,2],[3]]", 4), ("[[0,1,2],[3,4,5,6,7,8,9]]", 10))
    )
    assert few == many


# With a realised divisor, whoever the subject displaces may send any row within its own bound


GRID = np.linspace(-14, 14, 280_001)


def divergence(ours, theirs, epsilon):
    """The hockey-stick divergence of densities on GRID."""
    return float(np.maximum(0, ours - math.exp(epsilon) * theirs).sum() * (GRID[1] - GRID[0]))


def delta_of_a_round(clients, rate, bound, sigma, epsilon):
    """Of one round, the count seen, where the subject sends its bound or nothing and all others send -1."""
    ways = [0.0, 0.0]
    for count in range(1, clients + 1):
        share = count / clients
        without = (1 - share) * norm.pdf(GRID, -count, sigma)
        ours = without + share * norm.pdf(GRID, bound + 1 - count, sigma)
        theirs = without + share * norm.pdf(GRID, 1 - count, sigma)
        for way, pair in enumerate([(ours, theirs), (theirs, ours)]):
            ways[way] += binom.pmf(count, clients, rate) * divergence(*pair, epsilon)
    return max(ways)


@pytest.mark.parametrize("clients, bound, sigma", [(2, 0.1, 1.0), (3, 0.1, 0.5), (3, 0.3, 0.5), (2, 1.0, 1.0)])
def test_a_shorter_row_is_priced_against_the_longer_ones_it_displaces(clients, bound, sigma):
    delta, clips = 1e-3, [bound, *[1.0] * (clients - 1)]
    found = epsilon_of(
        "ms-pafl",
        0,
        "public",
        rounds=1,
        data__clients=clients,
        privacy__divisor='"realised"',
        privacy__clip=clips,
        privacy__delta=delta,
        privacy__noise_multiplier=sigma,
    )
    assert delta_of_a_round(clients, 0.5, bound, sigma, found) <= delta
    if bound < 1:  # the price of clients of one bound would be too low
        alike = price(CountedDpEvent(clients, 0.5, GaussianDpEvent(sigma / bound)), delta, "zero-out").epsilon
        assert delta_of_a_round(clients, 0.5, bound, sigma, alike) > 1.1 * delta


def test_picks_for_a_whole_run_are_not_amplified_where_their_number_is_seen():
    """Two clients pick one of two rounds each; the counts say that they differ, and the other one sends -1."""
    axis = np.linspace(-8, 8, 1601)
    first, second = np.meshgrid(axis, axis)

    def density(*means):
        return sum(norm.pdf(first, one) * norm.pdf(second, other) / len(means) for one, other in means)

    def delta_at(epsilon):
        ours, theirs = density((1, -1), (-1, 1)), density((0, -1), (-1, 0))
        area, bound = (axis[1] - axis[0]) ** 2, math.exp(epsilon)
        return 0.5 * area * max(np.maximum(0, ours - bound * theirs).sum(), np.maximum(0, theirs - bound * ours).sum())

    settings = {"sampling__clients__name": '"random-allocation"', "sampling__clients__participations": 1}
    settings |= {"data__clients": 2, "privacy__noise_multiplier": 1.0, "privacy__delta": DELTA}
    seen = epsilon_of("ms-pafl", 0, "public", rounds=2, privacy__divisor='"realised"', **settings)
    unseen = epsilon_of("ms-pafl", 0, "public", rounds=2, **settings)
    assert seen == pytest.approx(get_epsilon_gaussian(1.0, DELTA))
    assert unseen == price(RandomAllocationDpEvent(GaussianDpEvent(1.0), 1, 2, 2), DELTA, "zero-out").epsilon < seen
    assert delta_at(seen) <= DELTA < delta_at(unseen)


# DP-OGL+ as printed: the others start from what the subject moved, and their own bounds say how far they go


@dataclass(frozen=True)
class Followers:
    """Members that send all they can once they see whether the subject moved the model; the second place is a clock."""

    method: object
    subject_moves: bool

    def __getattr__(self, name):
        return getattr(self.method, name)

    def local(self, received, kept, examples, stream):
        yield from ()
        row = np.zeros(len(received))
        if len(examples) == 1:  # the subject
            row[0] = 1000.0 if self.subject_moves else 0.0
        elif received[1] < 20:
            row[1] = 90.0
        else:
            row[0] = 1e6 if received[0] > 100 else -1e6
        return Local({"model": row}, kept)


def test_an_interval_moves_by_the_bounds_of_all_members():
    """The subject's bound is 0.1, the others' 1: on their word alone the sum moves 41 times as far as by its row."""
    settings = {
        "groups__members": "[[0,1,2],[2,3,4,5]]",
        "groups__mixing_period": 2,
        "sampling__clients__name": '"all"',
        "privacy__clip": [0.1, 1.0, 1.0, 1.0, 1.0, 1.0],
        "privacy__delta": DELTA,
    }
    quiet = config.study(prepared("dp-ogl-plus", 2, privacy__noise_multiplier=0.0, **settings), torch.device("cpu"))
    clients = list(quiet.federation.clients)
    clients[0] = clients[0].take(np.array([0]))
    quiet = replace(quiet, federation=replace(quiet.federation, clients=tuple(clients)))
    after = []
    for moves in (True, False):
        study = replace(quiet, method=Followers(quiet.method, moves))
        state, kept = begin(study)
        after.append(one_round(study, state, kept=kept).state.models[0, 0].astype(np.float64))
    interval = math.sqrt(2)  # of two epochs, to which clip and noise are scaled
    moved = abs(after[0] - after[1]) * quiet.method.terms.divisor_of(0) / interval
    assert moved == pytest.approx(4.1, rel=1e-3)
    found = epsilon_of("dp-ogl-plus", 0, "client:5", rounds=8, privacy__noise_multiplier=20.0, **settings)
    assert found >= get_epsilon_gaussian(20.0 / (4.1 * math.sqrt(3)), DELTA) * (1 - 1e-9)


@pytest.mark.parametrize("observers, unknown", [("client:1", 4), ("client:1+client:2", 3), ("client:4", 4)])
def test_whoever_knows_its_own_coin_counts_the_others_alone(observers, unknown):
    settings = {"privacy__divisor": '"realised"', "privacy__noise_multiplier": 1.0, "rounds": 2}
    fewer = epsilon_of("ms-pafl", 0, "public", data__clients=unknown, **settings)
    assert epsilon_of("ms-pafl", 0, observers, data__clients=5, **settings) == fewer
    assert epsilon_of("ms-pafl", 0, "public", data__clients=5, **settings) != fewer


# What is calibrated, and what is drawn, is for everybody who is priced


def test_a_target_is_kept_for_the_twin_of_a_client_that_looks_on():
    """Clients 0 and 1 alone have the longest rows; with 0 among the observers, 1 still counts."""
    settings = {"privacy__epsilon": 3.0, "privacy__observers": '["client:0"]'}
    found = epsilon_of("ms-pafl", 1, "client:0", privacy__clip=[1.0, 1.0, 0.1, 0.1, 0.1, 0.1], **settings)
    assert 2.99 < found <= 3.0


@pytest.mark.parametrize("kind", [WithoutReplacement, WithReplacement])
def test_a_record_of_a_small_client_is_used_no_more_often_than_is_priced(kind):
    """Ten records where the public knows of forty places."""
    batches, rounds = kind(steps=3, batch_size=4), 2000
    stream, used = Seeded(3).stream("records", 1, "client:0"), 0
    for _ in range(rounds):
        used += sum(0 in batch for batch in batches.draw(10, 40, stream)) > 0
    priced = batches.rate(40)
    probability = binom.cdf(used, rounds, priced)
    assert 1e-4 < probability < 1 - 1e-4
    assert binom.cdf(used, rounds, 1.3 * priced) < 1e-4 and binom.sf(used, rounds, 0.7 * priced) < 1e-4


@pytest.mark.parametrize("rate", [1e-9, 1e-3])
def test_rare_coins_whose_number_is_seen_are_priced_on_a_grid_of_few_points(rate):
    wide, tail = intervals(((Round("counted", rate, 0.5, population=6), 20),), -30)[1], 30.0
    assert (2 * 0.5 * math.sqrt(2 * tail) + 0.5) / wide < 2**17


# Who hosts a server sees what it sees, and has no guarantee against it


def test_a_host_is_listed_without_a_guarantee_against_the_server_it_hosts():
    terms = prepared("feddecouple", servers__hosted_by='["client:3", "client:4"]').agreement.terms
    found = {finding.subjects: finding.price.epsilon for finding in find(Ledger.plan(terms), ["aux:0"])}
    assert found.pop((3,)) == math.inf and set(found) == {(0, 1, 2, 4, 5)} and all(map(math.isfinite, found.values()))


def test_a_host_sees_the_releases_of_all_groups():
    settings = {"groups__members": "[[0,1,2],[2,3],[3,4,5]]", "groups__mixing_period": 3}
    settings |= {"servers__hosted_by": '["client:0", "client:1"]', "privacy__noise_multiplier": 2.0}
    terms = prepared("dp-ogl", **settings).agreement.terms
    assert terms.observed("client:0") == terms.observed("aux:1") == frozenset({0, 1, 2})
    assert terms.observed("client:5") == frozenset({2})
    ledger = Ledger.plan(terms)
    assert ledger.epsilon(5, "client:0") == ledger.epsilon(5, "aux:0") > 0 == ledger.epsilon(0, "client:5")
