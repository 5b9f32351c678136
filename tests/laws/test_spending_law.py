"""A client's own ledger over all tasks never says less than what the tasks' own ledgers say, and adds up over them."""

import itertools
import math

import numpy as np
import pytest
from dp_accounting import ComposedDpEvent, GaussianDpEvent, SelfComposedDpEvent, get_epsilon_gaussian

from onlooker.errors import TermsError
from onlooker.privacy.accounting import price
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.spending import Spent, of_report, spent
from secure_rounds import terms_of

DELTA = 1e-5


def epsilon(*tasks):
    return spent(tasks, DELTA).epsilon


def test_nothing_costs_nothing():
    assert epsilon() == 0
    assert epsilon(Spent(terms_of(), 0, {0: 0})) == 0


def test_reports_cost_what_one_gaussian_of_all_of_them_costs():
    terms = terms_of()
    found = epsilon(Spent(terms, 0, {0: 4}))
    assert found == pytest.approx(get_epsilon_gaussian(2.0 / math.sqrt(4), DELTA), rel=1e-6)
    assert found < epsilon(Spent(terms, 0, {0: 5}))


def test_tasks_add_up_as_one_gaussian_and_not_as_numbers():
    one, other = Spent(terms_of(), 0, {0: 3}), Spent(terms_of(**{"privacy.noise-multiplier": 3.0}), 2, {0: 5})
    joint = 1 / math.sqrt(3 / 2.0**2 + 5 / 3.0**2)
    assert epsilon(one, other) == pytest.approx(get_epsilon_gaussian(joint, DELTA), rel=1e-6)
    assert max(epsilon(one), epsilon(other)) < epsilon(one, other) < epsilon(one) + epsilon(other)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"sampling.clients.name": '"poisson"', "sampling.clients.rate": 0.5},
        {"sampling.clients.name": '"random-allocation"', "sampling.clients.participations": 2},
        {"sampling.clients.name": '"cyclic"', "sampling.clients.period": 2},
        {"sampling.clients.name": '"poisson"', "sampling.clients.rate": 0.5, "sampling.clients.cover-traffic": "true"},
        {"servers.count": 3, "servers.corrupt": 2},
        {"servers.count": 3, "servers.corrupt": 1},
        {"privacy.clip": [0.5, 1.0, 1.0, 1.0, 1.0, 2.0]},
    ],
)
def test_it_is_never_below_what_any_observer_within_the_threat_model_is_charged_for(settings):
    terms = terms_of(**settings)
    corrupt = terms.shared.corrupt
    worst = "+".join(["coordinator", *(f"aux:{server}" for server in range(corrupt))])
    ledger = Ledger.plan(terms)
    for client in (0, 5):
        most = terms.sampling.participations(terms.rounds)
        if terms.sampling.cover_traffic:
            most = terms.rounds
        own = epsilon(Spent(terms, client, {0: most}))
        for observers in ("public", "coordinator", "aux:0", worst):
            assert own >= ledger.epsilon(client, observers) * (1 - 1e-9), (client, observers)
        if not terms.sampling.cover_traffic:
            assert own == pytest.approx(ledger.epsilon(client, worst), rel=1e-3)


@pytest.mark.parametrize(
    ("count", "corrupt", "hosts"),
    [(2, 1, (3, 3)), (2, 1, (3, 4)), (2, 0, (3, 4)), (3, 1, (0, 3, 3)), (3, 2, (0, 3, 4)), (3, 0, (3, 3, 4))],
)
def test_whoever_hosts_a_server_is_a_client_that_may_be_corrupt(count, corrupt, hosts):
    named = [f'"client:{host}"' for host in hosts]
    settings = {"servers.count": count, "servers.corrupt": corrupt, "servers.hosted-by": f"[{', '.join(named)}]"}
    terms = terms_of(**settings)
    ledger = Ledger.plan(terms)
    sets = [some for size in range(corrupt + 1) for some in itertools.combinations(range(count), size)]
    observers = ["+".join(["coordinator", *(f"aux:{server}" for server in some)]) for some in sets]
    observers += [f"coordinator+client:{host}" for host in hosts]
    for client in (0, 1, 3):
        own = epsilon(Spent(terms, client, {0: terms.rounds}))
        theirs = [one for one in observers if terms.views(client, one)[0].because != "holds the data itself"]
        assert own >= max(ledger.epsilon(client, one) for one in theirs) * (1 - 1e-9), client


def test_records_keep_their_own_coins():
    settings = {
        "task.method": '"dp-sgd"',
        "sampling.records.rate": 0.1,
        "data.expected-records": 200,
        "data.max-records": 400,
    }
    terms = terms_of(**settings)
    own = epsilon(Spent(terms, 0, {0: terms.rounds}))
    assert own == pytest.approx(Ledger.plan(terms).epsilon(0, "coordinator+aux:0"), rel=1e-3)
    assert own < get_epsilon_gaussian(2.0 / math.sqrt(terms.rounds), DELTA) / 2


def test_in_groups_every_report_counts_whoever_may_see_it():
    groups = {"task.method": '"dp-ogl"', "groups.members": [[0, 1, 2, 3], [2, 3, 4, 5]], "groups.mixing-period": 3}
    terms = terms_of(**groups, **{"servers.count": 2})
    own = epsilon(Spent(terms, 2, {0: 5, 1: 4}))
    assert own == pytest.approx(get_epsilon_gaussian(2.0 / math.sqrt(9), DELTA), rel=1e-3)
    assert own > epsilon(Spent(terms, 0, {0: 5}))


def test_who_trusts_its_coordinator_has_no_price_here():
    terms = terms_of(**{"task.method": '"dp-fedavg"', "servers.min-batch": 2})
    assert math.isfinite(epsilon(Spent(terms, 0, {0: 1})))
    from dataclasses import replace

    from onlooker.privacy.summation import Plain

    (channel,) = terms.channels
    plain = replace(terms, channels=(replace(channel, summation=Plain(), noised_by="server"),))
    assert epsilon(Spent(plain, 0, {0: 1})) == math.inf


def test_units_that_have_no_number_together_are_refused():
    other = terms_of(**{"privacy.adjacency": '"replace-one"'})
    with pytest.raises(TermsError, match="no epsilon together"):
        epsilon(Spent(terms_of(), 0, {0: 1}), Spent(other, 0, {0: 1}))


def test_correlated_noise_is_charged_whole_from_its_first_report_on():
    terms = terms_of(**{"task.method": '"dp-ftrl"', "privacy.mechanism": '"tree"', "task.rounds": 8})
    first, all_of_them = epsilon(Spent(terms, 0, {0: 1})), epsilon(Spent(terms, 0, {0: 8}))
    assert first == all_of_them == pytest.approx(Ledger.plan(terms).epsilon(0, "coordinator+aux:0"), rel=1e-6)


def test_channels_under_one_coin_are_one_gaussian():
    terms = terms_of()
    (channel,) = terms.channels
    from dataclasses import replace

    two = replace(terms, channels=(channel, replace(channel, name="other")))
    event = of_report(two, 0, 0)
    expected = price(ComposedDpEvent([SelfComposedDpEvent(GaussianDpEvent(2.0), 2)]), DELTA, "zero-out").epsilon
    assert price(event, DELTA, "zero-out").epsilon == pytest.approx(expected, rel=1e-6)
    assert np.isfinite(expected)
