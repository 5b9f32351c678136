"""Every method gives with every engine what the plain loop gives, and the same bits with any number of workers."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_combinations import METHODS, SUMMATIONS, TOPOLOGIES, expected, prepared

from onlooker import config
from playing import begin, one_round

CASES = [
    (method, topology, summation)
    for method in METHODS
    for topology, summation in (
        ("star", "server"),
        ("star", "clients"),
        ("star", "two servers"),
        ("row of groups", "server"),
        ("row of groups", "two servers"),
    )
    if not expected(method, topology, summation)
]
SEVERAL_STARTS = [("dp-fedavg", "star", "two servers"), ("ms-pafl", "row of groups", "server")]


def study_of(method, topology="star", summation="server", **settings):
    table = {
        "task.method": f'"{method}"',
        "task.rounds": 4,
        "data.name": '"digits"',
        "data.clients": 6,
        "model.name": '"mlp"',
        "training.steps": 3,
        **METHODS[method],
        **TOPOLOGIES[topology],
        **SUMMATIONS[summation],
        **settings,
    }
    return config.study(prepared(table), torch.device("cpu"))


def played(study, rounds=2):
    """What two rounds leave: models, private parts, digests and what a simulator sees."""
    (state, kept), digests, seen = begin(study), [], []
    for round in range(1, rounds + 1):
        done = one_round(study, state, round, lambda digest, noise: digests.append(digest), kept)
        state, kept = done.state, done.kept
        seen.append(done.simulation)
    return state.models, kept.private.take(range(len(kept.private))), digests, seen


def with_engine(study, **settings):
    return replace(study, engine=replace(study.engine, name="vectorised", **settings))


@pytest.mark.parametrize("method, topology, summation", CASES)
def test_any_engine_is_the_loop(method, topology, summation):
    loop = study_of(method, topology, summation, **{"engine.name": '"loop"'})
    models, private, _, seen = played(loop)
    assert np.abs(models - begin(loop)[0].models).max() > 1e-4
    found = [played(with_engine(loop, trainer="flat", workers=workers)) for workers in (1, 2, 3)]
    for again, hidden, digests, signals in found:
        assert np.allclose(again, models, rtol=1e-3, atol=2e-4)
        assert np.allclose(hidden, private, rtol=1e-3, atol=2e-4)
        for signal, plain in zip(signals, seen, strict=True):
            assert signal == pytest.approx(plain, rel=1e-3)
        assert digests == found[0][2] and signals == found[0][3]
        assert np.array_equal(again, found[0][0]) and np.array_equal(hidden, found[0][1])


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
@pytest.mark.parametrize("method, topology, summation", SEVERAL_STARTS)
def test_the_bits_do_not_depend_on_how_processes_start(method, topology, summation, start_method):
    study = study_of(method, topology, summation)
    models, private, digests, _ = played(with_engine(study, workers=1))
    again, hidden, other, _ = played(with_engine(study, workers=2, start_method=start_method))
    assert digests == other and np.array_equal(models, again) and np.array_equal(private, hidden)


def test_a_cohort_of_nobody_is_played():
    study = study_of("dp-fedavg", **{"sampling.clients.rate": 1e-9})
    for workers in (1, 2):
        (state, kept) = begin(study)
        done = one_round(with_engine(study, workers=workers), state, 1, kept=kept)
        assert done.simulation["clients"] == 0 and np.abs(done.state.models - state.models).max() > 0


def test_a_cohort_of_many_chunks_has_the_same_bits():
    """More clients than chunks, in sums of floats, whose order counts."""
    study = study_of("fedavg", **{"data.clients": 80, "sampling.clients.name": '"all"', "model.name": '"logistic"'})
    found = [played(with_engine(study, workers=workers))[0] for workers in (1, 2, 5)]
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
    models = played(replace(study, engine=replace(study.engine, name="loop")))[0]
    assert np.allclose(found[0], models, rtol=1e-4, atol=1e-5) and not np.array_equal(found[0], models)
