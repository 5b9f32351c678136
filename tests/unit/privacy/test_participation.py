"""A client's own decision to take part is the sampler that the terms price."""

import numpy as np
import pytest

from onlooker.privacy.participation import picked, takes_part
from onlooker.privacy.random import Seeded, System
from secure_rounds import terms_of


def sampled(name, rounds=12, **keys):
    return terms_of(
        **{
            "task.rounds": rounds,
            "sampling.clients.name": f'"{name}"',
            **{f"sampling.clients.{key}": value for key, value in keys.items()},
        }
    )


def alone(terms, client, source):
    """The rounds that a client takes part in, each decided by itself."""
    kept = picked(terms, client, source)
    rounds = range(1, terms.rounds + 1)
    return {round for round in rounds if takes_part(terms, client, 0, round, kept, source)}


@pytest.mark.parametrize(
    "terms",
    [
        sampled("cyclic", period=3),
        sampled("fixed-offset", period=4),
        sampled("random-allocation", participations=5),
        sampled("all"),
    ],
    ids=lambda terms: terms.sampling.name,
)
def test_it_is_the_cohort_of_a_simulation(terms):
    source = Seeded(7)
    draws = terms.sampling.draw(terms.clients, source)
    together = {round: terms.cohort(0, round, source, draws) for round in range(1, terms.rounds + 1)}
    for client in range(terms.clients):
        assert alone(terms, client, source) == {round for round, cohort in together.items() if client in cohort}


@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_coins_come_up_at_the_rate_that_is_priced(rate):
    terms, count, trials = sampled("poisson", 3000, rate=rate), 0, 0
    for client in range(terms.clients):
        count += len(alone(terms, client, System()))
        trials += 3000
    near = 4.5 * np.sqrt(rate * (1 - rate) * trials)  # beyond, with probability 7e-6
    assert abs(count - rate * trials) < near
    for wrong in (0.7 * rate, 1.3 * rate):
        assert abs(count - wrong * trials) > near


def test_each_client_has_a_rate_of_its_own():
    terms = sampled("poisson", 400, rate=[0.0001, 1.0, 0.5, 0.5, 0.5, 0.5])
    assert len(alone(terms, 0, System())) < 5
    assert len(alone(terms, 1, System())) == 400


def test_coins_of_clients_groups_and_rounds_are_independent():
    terms = sampled("poisson", 2000, rate=0.5)
    source = Seeded(1)
    taken = [alone(terms, client, source) for client in (0, 1)]
    found = np.array([[round in some for round in range(1, 2001)] for some in taken])
    for one, other in [(found[0], found[1]), (found[0, 1:], found[0, :-1])]:
        assert abs(np.corrcoef(one, other)[0, 1]) < 4.5 / np.sqrt(len(one))


def test_who_is_asked_by_a_coordinator_that_draws_was_drawn():
    terms = sampled("fixed-size", rate=0.5)
    assert alone(terms, 0, System()) == set(range(1, 13))
