"""A refusal advises nothing that would be refused in turn, and says where its numbers are from."""

from pathlib import Path

import pytest

from onlooker import config
from onlooker.errors import OnlookerError
from refusals import assert_refused

COMMON = ["task.rounds=10", "data.name=digits", "model.name=logistic"]
NOISE = ["privacy.noise-multiplier=2.0"]
GROUPS = ["groups.members=[[0,1,2,3,4,5],[5,6,7,8,9]]"]


def prepared(*settings):
    return config.prepare(config.parse("", [*COMMON, *settings]), Path())


REFUSED = {
    "more picks than rounds": (
        ["sampling.clients.name=random-allocation", "sampling.clients.participations=30"],
        "sampling.clients.participations = 30",
        "at most task.rounds = 10",
    ),
    "more groups than clients": (
        ["groups.structure=grid", "groups.groups=30"],
        "groups.groups = 30",
        "data.clients = 10",
    ),
    "a split of DP-OGL+": (
        ["task.method=dp-ogl-plus", "groups.mixing-period=5", *GROUPS, "split.ratio=0.5"],
        "[split]",
        '"dp-ogl-plus-isolated"',
    ),
    "a split of DP-OGL+ that shares nothing": (
        ["task.method=dp-ogl-plus", *GROUPS, "split.ratio=0.5"],
        "[split]",
        '"dp-ogl-plus-isolated"',
    ),
    "models clipped in groups": (
        ["task.method=ms-pafl", *GROUPS, "privacy.clip-mode=model"],
        "privacy.clip-mode",
        'write "update"',
    ),
    "models clipped with weights": (
        ["task.method=ms-pafl", "privacy.clip-mode=model", f"data.weights={[1.0] * 10}"],
        "privacy.clip-mode",
        'write sampling.clients.name = "all"',
    ),
    "coins of records in MS-PAFL": (
        ["task.method=ms-pafl", "sampling.records.name=poisson"],
        'sampling.records.name = "poisson" is not built for ms-pafl',
        "choose without-replacement or with-replacement",
    ),
    "no way to draw records in MS-PAFL": (
        ["task.method=ms-pafl", "sampling.records.rate=0.1"],
        "sampling.records.name is missing",
        "with-replacement",
    ),
    "a word for a sampler of records": (["sampling.records.name=some"], '"some" is not known', "with-replacement"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_advice_of_a_refusal(name):
    settings, *words = REFUSED[name]
    assert_refused(lambda: prepared("task.method=dp-fedavg", *NOISE, *settings), *words)


FOLLOWED = {
    "a split of intervals": ["task.method=dp-ogl-plus-isolated", "groups.mixing-period=5", *GROUPS, "split.ratio=0.5"],
    "all of a model in DP-OGL+": ["task.method=dp-ogl-plus", "groups.mixing-period=5", *GROUPS, "split.ratio=1.0"],
    "models clipped with weights": [
        *["task.method=ms-pafl", "privacy.clip-mode=model", f"data.weights={[1.0] * 10}"],
        "sampling.clients.name=all",
    ],
    "batches of records": ["task.method=ms-pafl", "sampling.records.name=with-replacement"],
    "as many picks as rounds": ["sampling.clients.name=random-allocation", "sampling.clients.participations=10"],
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_whoever_follows_it_is_not_refused(name):
    assert prepared("task.method=dp-fedavg", *NOISE, *FOLLOWED[name]).agreement.terms.rounds


def test_groups_without_noise_are_told_how():
    with pytest.raises(OnlookerError, match='write "client" and privacy.noise-multiplier = 0'):
        prepared("task.method=dp-ogl", "privacy.unit=none", *GROUPS)
    silent = prepared("task.method=dp-ogl", "privacy.unit=client", "privacy.noise-multiplier=0.0", *GROUPS)
    assert {channel.mechanism.noise_multiplier for channel in silent.agreement.terms.channels} == {0.0}
