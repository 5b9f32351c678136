"""How good the model is, as clients of their own tell it through the servers, under noise and charged."""

import numpy as np
import pytest

from onlooker.methods.measuring import estimated
from onlooker.models import score
from participants import federation

MEASURED = {"evaluation.private": "true", "privacy.noise-multiplier": 1e-4, "evaluation.noise-multiplier": 1e-4}
RECORDS = {
    "task.method": '"dp-sgd"',
    "data.expected-records": 240,
    "data.max-records": 300,
    "sampling.records.rate": 1.0,
}


def told(many, clients):
    """What a round tells of the model that it began with."""
    state = many.state()
    reports = [body for one in clients for body in one.answer(many.invitation(one.client, 1, state))]
    released = many.released(1, state, reports)
    return state, estimated(many.prepared.method, released, len(reports), many.terms.divisor_of(0), 1)


def right(many, state, one):
    """Of each row of a client, whether the model is right."""
    return score(many.prepared.model, state.models[0], one.examples)[1]


def test_a_client_tells_its_mean_and_all_together_the_mean_of_these(tmp_path):
    many = federation(tmp_path, 1e99, **MEASURED)
    clients = [many.client(number) for number in range(6)]
    state, found = told(many, clients)
    expected = np.mean([right(many, state, one).mean() for one in clients])
    assert found["accuracy"].value == pytest.approx(expected, abs=2e-3)
    assert found["accuracy"].low <= found["accuracy"].value <= found["accuracy"].high


def test_of_records_every_one_counts_alike(tmp_path):
    many = federation(tmp_path, 1e99, **MEASURED, **RECORDS)
    clients = [many.client(number) for number in range(6)]
    state, found = told(many, clients)
    expected = np.concatenate([right(many, state, one) for one in clients]).mean()
    assert found["accuracy"].value == pytest.approx(expected, abs=2e-3)


def test_it_is_charged_with_the_model(tmp_path):
    plain, both = federation(tmp_path / "one"), federation(tmp_path / "two", **{"evaluation.private": "true"})
    spent = []
    for many in (plain, both):
        one = many.client(0)
        one.answer(many.invitation(0, 1, many.state()))
        spent.append(one.budget.price().epsilon)
    assert spent[0] < spent[1] < 1.2 * spent[0]


def test_who_is_not_drawn_tells_nothing_also_under_cover(tmp_path):
    settings = {
        **MEASURED,
        "sampling.clients.name": '"poisson"',
        "sampling.clients.rate": 1e-9,
        "sampling.clients.cover-traffic": "true",
    }
    many = federation(tmp_path, 1e99, **settings)
    _, found = told(many, [many.client(number) for number in range(6)])
    assert found["accuracy"] is None
