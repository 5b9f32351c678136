"""A key that nothing looks at never passes in silence: it is refused, or warned of."""

from pathlib import Path

import pytest

from onlooker import config
from refusals import assert_refused

COMMON = ["task.rounds=10", "data.name=digits", "model.name=logistic"]
NOISE = ["privacy.noise-multiplier=2.0"]
GROUPS = ["groups.members=[[0,1,2,3,4,5],[5,6,7,8,9]]"]
SILOS = ["task.method=dp-sgd", "data.expected-records=100", *NOISE]


def prepared(*settings, base=Path()):
    return config.prepare(config.parse("", [*COMMON, *settings]), base)


REFUSED = {
    "a period of coins": (["sampling.clients.period=2"], "sampling.clients.period = 2 means nothing", "goes by rate"),
    "picks of coins": (["sampling.clients.participations=3"], "sampling.clients.participations = 3", '"poisson"'),
    "picks of all": (
        ["sampling.clients.name=all", "sampling.clients.participations=3"],
        "sampling.clients.participations = 3",
        'name = "all"; leave it out',
    ),
    "picks of a cycle": (
        ["sampling.clients.name=cyclic", "sampling.clients.period=2", "sampling.clients.participations=3"],
        "sampling.clients.participations = 3",
        "goes by period",
    ),
    "a period of picks": (
        ["sampling.clients.name=random-allocation", "sampling.clients.period=2", "sampling.clients.participations=3"],
        "sampling.clients.period = 2",
        "goes by participations",
    ),
    "a rate of a cycle": (
        ["sampling.clients.name=cyclic", "sampling.clients.period=2", "sampling.clients.rate=0.5"],
        "sampling.clients.rate = 0.5",
        "goes by period",
    ),
    "a number of named groups": ([*GROUPS, "groups.groups=2"], "groups.groups = 2", "beside groups.members"),
    "an overlap of named groups": ([*GROUPS, "groups.overlap=1"], "groups.overlap = 1", "groups.structure"),
    "clips beside those of groups": (
        [*GROUPS, "groups.clip=[1.0, 2.0]", "privacy.clip=[1.0]"],
        "privacy.clip = [1.0] and groups.clip = [1.0, 2.0]",
        "name one",
    ),
    "a clip beside those of groups": ([*GROUPS, "groups.clip=[1.0, 2.0]", "privacy.clip=1.0"], "privacy.clip", "twice"),
    "a rate beside those of groups": (
        [*GROUPS, "groups.rate=[0.5, 0.2]", "sampling.clients.rate=0.5"],
        "sampling.clients.rate = 0.5 and groups.rate",
        "name one",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_means_nothing_is_refused(name):
    settings, *words = REFUSED[name]
    assert_refused(lambda: prepared("task.method=dp-fedavg", *NOISE, *settings), *words)


FEDAVG, PLAIN = ["task.method=fedavg"], ["task.method=dp-fedavg", *NOISE]
WARNED = {
    "steps of dp-sgd": ([*SILOS, "training.steps=5"], "training.steps = 5"),
    "batches of dp-sgd": ([*SILOS, "training.batch-size=64"], "training.batch-size = 64"),
    "adam in dp-sgd": ([*SILOS, "training.optimizer=adam"], 'training.optimizer = "adam"'),
    "two momenta": ([*SILOS, "training.momentum=0.5", "training.server-momentum=0.9"], "training.momentum = 0.5"),
    "momentum of adam": ([*PLAIN, "training.optimizer=adam", "training.momentum=0.5"], "training.momentum = 0.5"),
    "records of clients": ([*PLAIN, "data.expected-records=9"], "data.expected-records = 9"),
    "a cap of clients": ([*PLAIN, "data.max-records=9"], "data.max-records = 9"),
    "a way to draw": ([*PLAIN, "sampling.records.name=poisson"], 'sampling.records.name = "poisson"'),
    "a rate to draw at": ([*PLAIN, "sampling.records.rate=0.5"], "sampling.records.rate = 0.5"),
    "alpha of iid": ([*PLAIN, "data.alpha=0.1"], "data.alpha = 0.1"),
    "classes of iid": ([*PLAIN, "data.classes-per-client=3"], "data.classes-per-client = 3"),
    "a folder of digits": ([*PLAIN, "data.root=."], "data.root"),
    "a column of digits": ([*PLAIN, "data.id-column=site"], 'data.id-column = "site"'),
    "a task of digits": ([*PLAIN, "data.task=regression"], 'data.task = "regression"'),
    "a rule of names": (
        [*PLAIN, "split.public=head.*", "model.name=mlp", "split.rule=mask-per-layer"],
        'split.rule = "mask-per-layer"',
    ),
    "a batch of servers": (["task.method=feddecouple", *NOISE, "servers.min-batch=9"], "servers.min-batch = 9"),
    "corrupt servers without noise": (
        [*PLAIN, "servers.corrupt=1", "privacy.noised-by=clients"],
        "servers.corrupt = 1",
    ),
    "a clip of fedavg": ([*FEDAVG, "privacy.clip=2.0"], "privacy.clip = 2.0"),
    "neighbours of fedavg": ([*FEDAVG, "privacy.adjacency=zero-out"], 'privacy.adjacency = "zero-out"'),
    "workers of one": ([*PLAIN, "engine.name=loop", "engine.workers=2"], "engine.workers = 2"),
    "a cluster of none": ([*PLAIN, "engine.address=h:1"], 'engine.address = "h:1"'),
    "shares of nobody": ([*PLAIN, "engine.shares=cut"], 'engine.shares = "cut"'),
}


@pytest.mark.parametrize("name", WARNED)
def test_what_is_not_used_is_said(name):
    settings, key = WARNED[name]
    said = [sentence for sentence in config.warnings_of(prepared(*settings)) if "is not used" in sentence]
    assert [sentence.startswith(f"{key}") for sentence in said] == [True], said


USED = {
    "steps of one": [*SILOS, "training.steps=1", "training.momentum=0.5"],
    "batches": [*PLAIN, "training.batch-size=64", "training.steps=5", "training.momentum=0.5"],
    "parts": [*PLAIN, "data.partition=dirichlet", "data.alpha=0.1", "split.ratio=0.5", "split.rule=mask-per-layer"],
    "servers": ["task.method=feddecouple", *NOISE, "servers.corrupt=1", "privacy.clip=1.0", "engine.shares=cut"],
    "groups": [
        *["task.method=dp-ogl", "groups.structure=string", "groups.groups=2", "groups.overlap=1", *NOISE],
        *["groups.rate=[0.5, 0.2]", "groups.clip=[1.0, 2.0]"],
    ],
}


@pytest.mark.parametrize("name", USED)
def test_what_is_used_is_not_warned_of(name):
    assert not [one for one in config.warnings_of(prepared(*USED[name])) if "is not used" in one]


def test_a_table_of_one_s_own_takes_its_keys_but_those_that_exclude_each_other(tmp_path):
    (tmp_path / "rows.csv").write_text("a,y\n" + "1,2\n3,4\n" * 20)
    (tmp_path / "test.csv").write_text("a,y\n1,2\n")
    table = ["data.name=csv", "data.root=.", "data.clients=2", "data.label-column=y", "data.task=regression"]
    more = ["data.test-file=test.csv", "data.test-fraction=0.5", 'data.classes=["2"]']
    found = config.warnings_of(prepared(*PLAIN, *table, *more, base=tmp_path))
    assert [one.split(" = ")[0] for one in found if "is not used" in one] == ["data.test-fraction", "data.classes"]
