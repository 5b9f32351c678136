"""Laws of rounds and runs that nothing noticed when they were broken."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from onlooker import config, run
from onlooker.errors import DataError
from onlooker.folder import RunFolder
from onlooker.methods.plain import Plain
from onlooker.methods.records import clipped_sum
from onlooker.methods.trainer import answered
from onlooker.models import evaluate
from onlooker.privacy.channel import Channel
from onlooker.privacy.random import Seeded, System
from playing import begin, one_round, rows_of

NOTHING = np.empty(0, dtype=np.float32)
CPU = torch.device("cpu")
DP_SGD = {"data.expected-records": 240, "sampling.records.rate": 0.1}


def prepared(method, **settings):
    table = {"task.method": method, "task.rounds": 3, "data.name": "digits", "data.clients": 6}
    table |= {"model.name": "logistic", "privacy.noise-multiplier": 1.0}
    table |= DP_SGD if method == "dp-sgd" else {}
    table |= {key.replace("__", ".").replace("_", "-"): value for key, value in settings.items()}
    return config.prepare(config.parse("", [f"{key}={value}" for key, value in table.items()]), Path())


def study_of(method, **settings):
    return config.study(prepared(method, **settings), CPU)


@pytest.fixture(scope="module")
def silos():
    return study_of("dp-sgd")


def digest_of(study, state, round=1):
    found = []
    one_round(study, state, round, lambda digest, noise: found.append(digest))
    return found[0]


@pytest.mark.parametrize("method", ["dp-fedavg", "feddecouple", "dp-sgd"])
def test_nothing_is_released_before_it_is_charged(monkeypatch, method):
    """The order of events, and not only that a refused charge ends the round (rule 10b)."""
    study, events = study_of(method), []
    release = Channel.release
    monkeypatch.setattr(Channel, "release", lambda *arguments: events.append("release") or release(*arguments))
    one_round(study, begin(study)[0], 1, lambda digest, noise: events.append("charge"))
    assert events == ["charge", "release"]


def test_what_is_charged_is_what_is_released():
    """Equal bytes have one digest; another round, seed or model has another."""
    study = study_of("feddecouple")
    state = begin(study)[0]
    first = digest_of(study, state)
    assert first == digest_of(study, state)
    moved = replace(state, models=state.models + np.float32(0.1))
    others = [
        digest_of(study, state, 2),
        digest_of(study, moved),
        digest_of(replace(study, source=Seeded(43)), state),
        digest_of(replace(study, source=System()), state),
    ]
    assert len({first, *others}) == 5


@pytest.mark.parametrize("method", ["dp-fedavg", "dp-sgd"])
def test_what_only_a_simulator_sees_stays_under_its_tag(tmp_path, method):
    """No count of private coins, and no norm without noise, stands among what is released (rules 3 and 10)."""
    ready = prepared(method)
    study = config.study(ready, CPU)
    folder = RunFolder.create(
        tmp_path / "run", config.as_toml(ready.configuration), study.method.terms, {}, run.starting_tensors(study)
    )
    list(run.simulate(study, folder))
    for line in folder.metrics():
        assert set(line) == {"round", "seconds", "expected-clients", "accuracy", "loss", "simulation"}
        assert set(line["simulation"]) == {"clients", "signal-norm", "noise-norm"}
        assert line["expected-clients"] == (6 if method == "dp-sgd" else 3)


def local(study, client=0, records=None, round=1):
    """The row of one silo of a study of dp-sgd, and its channel."""
    (channel,) = study.method.terms.channels
    state = begin(study)[0]
    examples = study.federation.clients[client]
    chosen = examples if records is None else examples.take(np.arange(records))
    stream = study.source.stream("local training", round, f"client:{client}")
    (found,) = answered([study.method.local(state.models[0], NOTHING, chosen, stream)], Plain(study.model, CPU))
    return found.rows["model"], channel


def test_a_record_is_clipped_below_the_clip_that_is_booked():
    """By what rounding the sum can add: the method takes C' and not C (rule 8b)."""
    row, channel = local(study_of("dp-sgd", sampling__records__rate=1.0, privacy__clip=0.1), records=1)
    assert channel.record_clip * (1 - 1e-9) < np.linalg.norm(row) <= channel.record_clip < channel.grid.clip


def test_a_silo_draws_its_records_by_their_coins(silos):
    """Every draw is another, none is of all records, and none is of none at this rate."""
    norms = {round: np.linalg.norm(local(silos, round=round)[0]) for round in range(1, 5)}
    every = np.linalg.norm(local(study_of("dp-sgd", sampling__records__rate=1.0))[0])
    assert len(set(norms.values())) == 4
    assert all(0 < norm < 0.5 * every for norm in norms.values())


def test_a_short_gradient_is_not_stretched(silos):
    """Clipping shortens; a record whose gradient is within the clip adds just that."""
    state = begin(silos)[0]
    examples = silos.federation.clients[0].take(np.arange(20))
    stream = Seeded(1).stream("x")
    loose, looser = (
        clipped_sum(silos.model, state.models[0], examples, clip, stream, CPU) for clip in (1000.0, 2000.0)
    )
    assert np.allclose(loose, looser, atol=1e-9) and np.linalg.norm(loose) < 100


def test_a_silo_beyond_the_public_cap_is_refused():
    """Which records it left out would depend on which it has; so no record does."""
    with pytest.raises(DataError, match="data.max-records"):
        study_of("dp-sgd", data__expected_records=100, data__max_records=200)
    most = max(len(client) for client in study_of("dp-sgd").federation.clients)
    assert study_of("dp-sgd", data__expected_records=100, data__max_records=most)


def test_the_method_itself_never_draws_beyond_the_cap(silos):
    terms = silos.method.terms
    (channel,) = terms.channels
    always = replace(terms.training.records, rate=1.0)
    training = replace(terms.training, records=always, expected_records=30, max_records=30)
    capped = replace(terms, training=training, channels=(replace(channel, max_records=30),))
    small = replace(silos, method=replace(silos.method, terms=capped))
    assert np.array_equal(local(small)[0], local(small, records=30)[0])


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_an_optimizer_starts_anew_in_every_round(optimizer):
    """Its moments are state, and state on a client carries every earlier record along (rule 6)."""
    study = study_of("feddecouple", training__momentum=0.9, training__optimizer=optimizer, training__learning_rate=0.01)

    def row(client, round):
        return rows_of(study, [client], round)[client]

    alone = row(0, 5)
    for round in range(1, 5):
        row(0, round), row(1, round)
    assert np.array_equal(row(0, 5), alone)


@pytest.mark.parametrize("method", ["dp-sgd", "feddecouple"])
def test_training_leaves_the_global_generator_alone(method):
    study = study_of(method)
    torch.manual_seed(7)
    expected = torch.rand(4)
    torch.manual_seed(7)
    one_round(study, begin(study)[0])
    assert torch.equal(torch.rand(4), expected)


def test_a_run_without_a_seed_has_the_same_clients_again_and_other_noise():
    """The rows are dealt repeatably, or a resumed run would guard other people; nothing else is repeatable."""
    one, two = (study_of("feddecouple", task__seed="system") for _ in range(2))
    for mine, theirs in zip(one.federation.clients, two.federation.clients, strict=True):
        assert np.array_equal(mine.features, theirs.features)
    assert not one.source.repeatable
    state = begin(one, Seeded(1))[0]
    assert digest_of(one, state) != digest_of(two, state)


def test_descent_goes_down():
    """Without noise the loss falls: the released direction has the right sign, whoever adds it up."""
    for method in ("dp-fedavg", "feddecouple", "dp-sgd"):
        study = study_of(method, privacy__noise_multiplier=0.0, training__learning_rate=0.5)
        state = begin(study)[0]
        before = evaluate(study.model, state.models[0], study.federation.test)["loss"]
        for round in range(1, 4):
            state = one_round(study, state, round).state
        after = evaluate(study.model, state.models[0], study.federation.test)["loss"]
        assert math.isfinite(after) and after < before - 0.1
