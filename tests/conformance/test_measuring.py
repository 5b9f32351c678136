"""What clients tell of a model is the same whoever plays them, to the bit where the model is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from test_combinations import METHODS, expected
from test_engines import study_of, with_engine

from playing import begin, one_round

CASES = [
    (method, summation)
    for method in METHODS
    for summation in ("server", "clients", "two servers")
    if method != "fedavg" and not expected(method, "star", summation)
]
PRIVATE = {"evaluation.private": "true", "evaluation.noise-multiplier": 0.05}


def told(study, rounds=2):
    (state, kept), found, digests = begin(study), [], []
    for round in range(1, rounds + 1):
        done = one_round(study, state, round, lambda digest, noise: digests.append(digest), kept)
        state, kept = done.state, done.kept
        found.append({name: one and (one.value, one.low, one.high) for name, one in done.measured.items()})
    return found, digests


@pytest.mark.parametrize("method, summation", CASES)
def test_any_engine_tells_what_the_loop_tells(method, summation):
    loop = replace(study_of(method, summation=summation, **PRIVATE))
    loop = replace(loop, engine=replace(loop.engine, name="loop"))
    (first, second), _ = told(loop)
    assert all(one is not None for one in first.values())
    runs = [told(with_engine(loop, trainer="flat", workers=workers)) for workers in (1, 2, 3)]
    runs.append(told(with_engine(loop, trainer="flat", workers=1, elide=False)))
    for found, digests in runs:
        assert found[0] == first  # of the model that no trainer has touched
        assert all(found[1][name] == pytest.approx(second[name], abs=0.02) for name in second)
        assert (found, digests) == runs[0]


def test_sums_of_three_coordinates_lie_anywhere_in_memory():
    """Three shares of 4 bytes and three coordinates are no whole number of words before the sums of 8 bytes."""
    more = {**PRIVATE, "servers.count": 3, "privacy.noised-by": '"clients"'}
    study = study_of("dp-fedavg", **more)
    runs = [told(with_engine(study, trainer="flat", workers=workers)) for workers in (1, 2)]
    assert runs[0] == runs[1] and runs[0][0][0]["accuracy"] is not None


@pytest.mark.parametrize("trainer", ["flat", "dense", "captured"])
def test_every_trainer_measures_alike(trainer):
    study = study_of("dp-sgd", summation="two servers", **PRIVATE)
    first, _ = told(with_engine(study, trainer="plain", workers=1), rounds=1)
    assert told(with_engine(study, trainer=trainer, workers=1), rounds=1)[0] == first
