"""A private evaluation costs what a wider row costs, moves no model, and tells what it says."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from dp_accounting import GaussianDpEvent
from hypothesis import given, settings
from hypothesis import strategies as some
from typer.testing import CliRunner

from onlooker import config, models
from onlooker.cli import app
from onlooker.folder import RunFolder
from onlooker.methods.plain import Plain
from onlooker.methods.trainer import ClippedSum, ClippedSumOfPersons, Descend, Measure, answered
from onlooker.privacy.channel import Channel
from onlooker.privacy.forecast import telling
from onlooker.privacy.grid import Grid
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.matrix import Tree
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.random import Seeded
from onlooker.privacy.sampling import Cyclic, Everyone, FixedSize, Poisson, PoissonRecords, RandomAllocation
from onlooker.privacy.summation import Plain as InTheClear
from onlooker.privacy.summation import Shared
from onlooker.privacy.terms import Terms
from onlooker.privacy.training import Training
from onlooker.types import Examples
from playing import Watched, begin, local_of, one_round
from refusals import assert_refused

OBSERVERS = ["public", "coordinator", "aux:0", "client:3", "aux:0+aux:1"]
SAMPLINGS = [Poisson(0.3), Everyone(), FixedSize(3), RandomAllocation(2, 8), Cyclic(2)]
RECORDS = Training("nothing", PoissonRecords(0.1), 100, 200)


def channel(z, name="model", size=20, records=False, mechanism=RoundedGaussian, summation=Shared()):
    noised_by = "servers" if isinstance(summation, Shared) else "server"
    most = {"sums_records": True, "max_records": 200} if records else {}
    return Channel(size, mechanism(z), Grid(1.0, 16, 32), noised_by, summation, bounds=1.0, name=name, **most)


def terms(*channels, sampling=Poisson(0.3), unit="client", training=Training(), adjacency="zero-out"):
    return Terms(unit, adjacency, 1e-5, 8, 10, sampling, training, channels)


def pairs(z, own, **more):
    """The terms with a channel for measures beside the model's, with one that is wider, and without."""
    built = {key: more.pop(key) for key in ("records", "mechanism", "summation") if key in more}
    joined = (z**-2 + own**-2) ** -0.5
    both = terms(channel(z, **built), channel(own, "evaluation", 3, **built), **more)
    return both, terms(channel(joined, size=23, **built), **more), terms(channel(z, **built), **more)


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
@pytest.mark.parametrize("sampling", SAMPLINGS, ids=lambda one: one.name)
def test_the_joint_price_is_that_of_one_wider_row(sampling, adjacency):
    both, wider, alone = pairs(1.5, 4.5, sampling=sampling, adjacency=adjacency)
    for observer in OBSERVERS:
        paid, expected, model = (Ledger.plan(one).epsilon(0, observer) for one in (both, wider, alone))
        assert paid == pytest.approx(expected, rel=1e-9) and (paid > model or math.isinf(model))


@pytest.mark.parametrize("sampling", [Everyone(), Cyclic(4)], ids=lambda one: one.name)
def test_correlated_noise_is_joined_for_the_whole_run(sampling):
    both, wider, alone = pairs(1.5, 4.5, sampling=sampling, mechanism=Tree, summation=InTheClear())
    paid, expected, model = (Ledger.plan(one).epsilon(0, "public") for one in (both, wider, alone))
    assert model < paid == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("unit", ["record", "person"])
def test_records_and_persons_pay_for_both_under_their_own_coin(unit):
    both, wider, alone = pairs(1.1, 2.2, unit=unit, training=RECORDS, sampling=Everyone(), records=True)
    paid, expected, model = (Ledger.plan(one).epsilon(0, "public") for one in (both, wider, alone))
    assert model < paid == pytest.approx(expected, rel=1e-9)


@settings(max_examples=25, deadline=None)
@given(some.floats(0.5, 20), some.floats(0.5, 200), some.floats(0.05, 1.0))
def test_measures_never_lower_a_price_and_are_one_gaussian(z, own, rate):
    both, _, alone = pairs(z, own, sampling=Poisson(rate))
    event = both.round_event(0, "aux:0")
    assert isinstance(event, GaussianDpEvent) and event.noise_multiplier == pytest.approx((z**-2 + own**-2) ** -0.5)
    assert Ledger.plan(both).epsilon(0, "public") >= Ledger.plan(alone).epsilon(0, "public")


def test_without_noise_on_the_measures_there_is_no_guarantee():
    assert math.isinf(Ledger.plan(pairs(2.0, 1.0)[0]).epsilon(0, "aux:0+aux:1"))
    silent = terms(channel(2.0), channel(0.0, "evaluation", 3))
    assert math.isinf(Ledger.plan(silent).epsilon(0, "public"))


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


TEXT = """
[task]
method = "dp-sgd"
rounds = 12
[data]
name = "digits"
clients = 10
expected-records = 140
[model]
name = "mlp"
[training]
learning-rate = 1.0
[sampling.records]
rate = 0.3
[servers]
count = 2
[privacy]
unit = "record"
epsilon = 8.0
delta = 1e-4
observers = ["public", "coordinator", "aux:0", "aux:0+aux:1"]
[evaluation]
every = 4
private = true
[engine]
name = "loop"
"""


def test_a_run_over_two_servers_tells_how_good_its_model_was_and_stays_within_its_target(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("run.toml").write_text(TEXT)
    result = CliRunner().invoke(app, ["run", "run.toml", "--out", "run"])
    assert result.exit_code == 0, result.output
    folder = RunFolder.open(Path("run"))
    rules, lines = folder.terms(), folder.metrics()
    assert [one.name for one in rules.channels] == ["model", "evaluation"]
    assert max(folder.ledger().epsilon(0, name) for name in ("public", "coordinator", "aux:0")) <= 8.0
    assert folder.ledger() == Ledger.plan(rules)
    for line in lines:
        told = line["released"]
        (low, high), (least, most) = told["accuracy-interval"], told["loss-interval"]
        assert 0 <= low <= told["accuracy"] <= high <= 1 and high - low < 0.25
        assert 0 <= least <= told["loss"] <= most <= 2 * math.log(10) and "released" not in line["simulation"]
    assert [line["round"] for line in lines if "accuracy" in line] == [4, 8, 12]
    said = [one for one in result.stdout.splitlines() if one.startswith("round 5 of 12")]
    low, high = lines[4]["released"]["accuracy-interval"]
    value = lines[4]["released"]["accuracy"]
    assert said[0].endswith(f" after round 4; clients say {value:.1%} ({low:.1%} to {high:.1%}) before it")
    assert "Forecast: private evaluation, at the 420 records" in CliRunner().invoke(app, ["plan", "run.toml"]).output
    plan = CliRunner().invoke(app, ["plan", "run.toml", "--json"])
    noises = json.loads(plan.stdout)["noise-multipliers"]
    assert noises["evaluation"] == pytest.approx(3 * noises["model"])
    other = CliRunner().invoke(app, ["resume", "run", "--set", "evaluation.private=false"])
    assert other.exit_code == 2 and "evaluation.private: true became false" in other.output
