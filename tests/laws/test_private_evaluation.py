"""Clients measure what they received, on the units that a round draws and no others, and move no model by it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from onlooker import config, models
from onlooker.methods.plain import Plain
from onlooker.methods.trainer import ClippedSum, ClippedSumOfPersons, Descend, Measure, answered
from onlooker.privacy.forecast import telling
from onlooker.privacy.random import Seeded
from onlooker.types import Examples
from playing import Watched, begin, local_of, one_round
from refusals import assert_refused

METHODS = {
    "dp-fedavg": {},
    "ms-pafl": {"split.public": '"head.*"'},
    "feddecouple": {},
    "dp-ftrl": {"sampling.clients.period": 2},
    "dp-sgd": {"data.expected-records": 240, "sampling.records.rate": 0.3},
}


def study_of(method, **more):
    named = {
        "task.method": f'"{method}"',
        "task.rounds": 3,
        "data.name": '"digits"',
        "data.clients": 6,
        "model.name": '"mlp"',
        "privacy.noise-multiplier": 1.0,
        "evaluation.private": "true",
        **METHODS[method],
        **more,
    }
    ready = config.prepare(config.parse("", [f"{key}={value}" for key, value in named.items()]), Path())
    return config.study(ready, torch.device("cpu"))


def played(study, rounds=2):
    (state, kept), digests, measured = begin(study), [], []
    for round in range(1, rounds + 1):
        done = one_round(study, state, round, lambda digest, noise: digests.append(digest), kept)
        state, kept = done.state, done.kept
        measured.append(done.measured)
    return state.models, kept.private.take(range(len(kept.private))), digests, measured


@pytest.mark.parametrize("method", METHODS)
def test_the_model_is_to_the_bit_what_it_is_without(method):
    models, private, digests, measured = played(study_of(method))
    again, hidden, other, nothing = played(study_of(method, **{"evaluation.private": "false"}))
    assert np.array_equal(models, again) and np.array_equal(private, hidden)
    assert digests != other and nothing == [{}, {}] and all(set(one) == {"accuracy", "loss"} for one in measured)


@pytest.mark.parametrize("method", ["dp-fedavg", "ms-pafl", "feddecouple", "dp-ftrl"])
def test_a_client_sends_what_its_own_rows_say_of_the_model_that_it_joined(method):
    study = study_of(method)
    method, model, (state, kept) = study.method, study.model, begin(study)
    for client in range(3):
        own = study.federation.clients[client]
        row = local_of(study, client, state.models[0], kept.of(client, 0)).rows["evaluation"]
        losses, scores = models.score(model, method.parts.join(state.models[0], kept.of(client, 0)), own)
        bound = method.measures.loss_bound
        expected = [scores.mean() - 0.5, np.minimum(losses, bound).mean() / bound - 0.5, 11 / 16]
        assert row == pytest.approx(expected)


def drawn_and_measured(study, client, party):
    """What a silo asks its trainer for, in the place of an answer that needs one."""
    asks = []

    class Asked(Plain):
        def answer(self, several):
            asks.extend(several)
            return super().answer(several)

    stream = study.source.stream("local training", 1, party)
    (state, kept) = begin(study)
    examples = study.federation.clients[client]
    asking = study.method.local(state.models[0], kept.of(client, 0), examples, stream)
    (local,) = answered([asking], Asked(study.model))
    return asks, local


def test_a_silo_measures_the_records_that_it_draws_and_no_others():
    study = study_of("dp-sgd")
    (measure, gradients), local = drawn_and_measured(study, 0, "client:0")
    assert isinstance(measure, Measure) and isinstance(gradients, ClippedSum)
    assert 20 < len(gradients.examples) < len(study.federation.clients[0])
    assert [len(one) for one in measure.groups] == [1] * len(gradients.examples)
    assert np.array_equal(np.concatenate([one.features for one in measure.groups]), gradients.examples.features)
    losses, scores = models.score(study.model, gradients.parameters, gradients.examples)
    rows = study.method.measures.rows(losses, scores)
    clip = study.method.channel.record_clip
    assert 0.99 < clip < 1 and local.rows["evaluation"] == pytest.approx(clip * rows.sum(axis=0))


@pytest.mark.parametrize("name", ["mlp", "cnn-ms-pafl"])
def test_to_the_bit_no_record_is_measured_by_the_company_it_keeps(name):
    """In one batch with others it may be: kernels round by the number of rows, and a tie turns over."""
    model = models.build(name, (1, 28, 28), 10, "classification")
    generator = np.random.default_rng(4)
    rows = Examples(generator.normal(size=(9, 1, 28, 28)).astype(np.float32), generator.integers(0, 10, 9))
    singly = [rows.take(np.array([place])) for place in range(9)]
    trainer, start = Plain(model), model.initial(3)
    (whole,) = trainer.answer([Measure(start, singly)])
    for left_out in range(9):
        (rest,) = trainer.answer([Measure(start, singly[:left_out] + singly[left_out + 1 :])])
        assert np.array_equal(rest, np.delete(whole.reshape(2, -1), left_out, axis=1).ravel())


def test_a_silo_that_draws_nobody_measures_nobody():
    study = study_of("dp-sgd", **{"sampling.records.rate": 1e-9})
    asks, local = drawn_and_measured(study, 0, "client:0")
    assert [type(ask) for ask in asks] == [ClippedSum] and not local.rows["evaluation"].any()


def test_a_person_is_measured_alone_and_counts_once():
    people = Examples(np.zeros((6, 2), np.float32), np.array([0, 1, 0, 0, 1, 1]), np.array([0, 0, 0, 1, 1, 2]))
    study = study_of("dp-sgd", **{"sampling.records.rate": 1.0})
    model = models.build("logistic", (2,), 2, "classification")
    ruled = replace(study.method.method.terms, unit="person")
    method = replace(study.method, method=replace(study.method.method, terms=ruled))
    asks = []

    class Asked(Plain):
        def answer(self, several):
            asks.extend(several)
            return super().answer(several)

    start = np.zeros(model.size, np.float32)  # by which every row is of the first class
    asking = method.local(start, start[:0], people, Seeded(1).stream("x"))
    (local,) = answered([asking], Asked(model))
    measure, gradients = asks
    assert isinstance(gradients, ClippedSumOfPersons) and [len(one) for one in measure.groups] == [3, 2, 1]
    clip = method.channel.record_clip
    assert local.rows["evaluation"][0] == pytest.approx(clip * (2 / 3 + 1 / 2 + 0 - 1.5))
    assert local.rows["evaluation"][2] == pytest.approx(clip * 3 * 11 / 16)


@pytest.mark.parametrize("method", ["dp-fedavg", "feddecouple", "dp-sgd", "dp-ftrl"])
def test_with_little_noise_a_round_tells_the_mean_of_who_took_part(method, monkeypatch):
    quiet = {"evaluation.noise-multiplier": 1e-3, "engine.name": '"loop"'}
    study, watched = study_of(method, **quiet), Watched(monkeypatch)
    (state, kept) = begin(study)
    for round in (1, 2, 3):
        done = one_round(study, state, round, kept=kept)
        total = sum(row for (at, name, _), row in watched.rows.items() if (at, name) == (round, "evaluation"))
        mean = 0.5 + 11 / 16 * total[:2] / total[2]
        assert done.measured["accuracy"].value == pytest.approx(mean[0], abs=0.01)
        assert done.measured["loss"].value == pytest.approx(mean[1] * study.method.measures.loss_bound, abs=0.05)
        state, kept = done.state, done.kept


def test_measures_of_all_records_are_refused_where_only_those_drawn_are_priced():
    study = study_of("dp-fedavg")
    method = study.method
    ruled = replace(method.terms, unit="record")
    assert_refused(
        lambda: replace(method, method=replace(method.method, terms=ruled)), "evaluation.private", "as a whole"
    )
    bare = replace(method.terms, channels=method.terms.channels[:1])
    assert_refused(lambda: replace(method, method=replace(method.method, terms=bare)), "channel of their own")


def test_a_client_that_takes_part_measures_before_it_trains():
    study = study_of("dp-fedavg")
    asks, _ = drawn_and_measured(study, 0, "client:0")
    assert [type(ask) for ask in asks] == [Measure, Descend]


def test_weights_weigh_the_measures_as_they_weigh_the_model():
    weights = [1.0, 0.5, 0.5, 0.25, 1.0, 1.0]
    study = study_of("dp-fedavg", **{"data.weights": weights, "sampling.clients.name": '"all"'})
    assert study.method.channel.bounds == tuple(weights)
    quiet = study_of(
        "dp-fedavg",
        **{"data.weights": weights, "sampling.clients.name": '"all"', "privacy.noise-multiplier": 1e-3},
    )
    found = one_round(quiet, begin(quiet)[0]).measured["accuracy"]
    state = begin(quiet)[0].models[0]
    each = [models.score(quiet.model, state, one)[1].mean() for one in quiet.federation.clients]
    assert found.value == pytest.approx(np.average(each, weights=weights), abs=0.01)


def test_where_clients_add_the_noise_and_nobody_came_nothing_is_told():
    study = study_of("dp-fedavg", **{"privacy.noised-by": '"clients"', "sampling.clients.rate": 1e-9})
    assert one_round(study, begin(study)[0]).measured == {"accuracy": None, "loss": None}


@pytest.mark.parametrize("method", ["dp-fedavg", "dp-sgd", "dp-ftrl"])
def test_the_plan_says_how_much_a_round_will_tell(method):
    """As it then does, where everybody is there and right every other time."""
    everybody = {} if method == "dp-ftrl" else {"sampling.clients.name": '"all"'}
    study = study_of(method, **everybody)
    rules, method = study.method.terms, study.method
    expected = telling(rules)
    assert expected.drowned == (rules.unit == "client") and ("tells nothing" in expected.sentence()) == expected.drowned
    units, deviation = rules.divisor, method.channel.deviation(6)
    half = method.measures.estimates(np.array([0.0, 0.0, 11 / 16 * units]), deviation)["accuracy"]
    assert expected.within == (math.inf if half is None else pytest.approx(half.high - 0.5))
    assert telling(study_of("dp-sgd", **{"evaluation.private": "false"}).method.terms) is None
