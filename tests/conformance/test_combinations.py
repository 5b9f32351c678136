"""Every method with every topology and every way to sum: it runs and is priced as planned, or is refused."""

import itertools
import math
from pathlib import Path

import pytest
import torch

from onlooker import config
from onlooker.errors import OnlookerError
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.statement import find
from playing import begin, one_round

TOPOLOGIES = {
    "star": {},
    "one group": {"groups.members": "[[0,1,2,3,4,5]]", "groups.mixing-period": 2},
    "row of groups": {"groups.members": "[[0,1,2],[2,3],[3,4,5]]", "groups.mixing-period": 2},
}
SUMMATIONS = {
    "server": {"privacy.noised-by": '"server"'},
    "clients": {"privacy.noised-by": '"clients"'},
    "two servers": {"servers.count": 2},
    "two servers, noise by clients": {"servers.count": 2, "privacy.noised-by": '"clients"'},
    "three servers, one corrupt": {"servers.count": 3},
}
METHODS = {
    "fedavg": {},
    "dp-fedavg": {"privacy.noise-multiplier": 2.0},
    "ms-pafl": {"privacy.noise-multiplier": 2.0, "split.public": '"head.*"'},
    "dp-ogl": {"privacy.noise-multiplier": 2.0},
    "dp-ogl-plus": {"privacy.noise-multiplier": 2.0},
    "dp-ogl-plus-isolated": {"privacy.noise-multiplier": 2.0, "split.public": '"head.*"'},
    "feddecouple": {"privacy.noise-multiplier": 2.0},
    "dp-ftrl": {"privacy.noise-multiplier": 2.0, "sampling.clients.period": 2},
    "dp-sgd": {"privacy.noise-multiplier": 1.0, "data.expected-records": 240, "sampling.records.rate": 0.05},
}
REFUSED = {
    # what has no meaning, or no price: method, topology, summation (None: any), and a word of the sentence
    ("fedavg", "one group", None): "[groups]",
    ("fedavg", "row of groups", None): "[groups]",
    ("fedavg", "star", "two servers"): "[servers]",
    ("fedavg", "star", "two servers, noise by clients"): "[servers]",
    ("fedavg", "star", "three servers, one corrupt"): "[servers]",
    ("dp-ogl", "star", None): "[groups]",
    ("dp-ogl-plus", "star", None): "[groups]",
    ("dp-ogl-plus-isolated", "star", None): "[groups]",
    ("dp-ftrl", "one group", None): "[groups]",
    ("dp-ftrl", "row of groups", None): "[groups]",
    ("dp-ftrl", "star", "clients"): "privacy.mechanism",
    ("dp-ftrl", "star", "two servers, noise by clients"): "privacy.mechanism",
    ("dp-ftrl", "star", "three servers, one corrupt"): "privacy.mechanism",
    ("dp-sgd", "one group", None): "[groups]",
    ("dp-sgd", "row of groups", None): "[groups]",
    ("dp-sgd", "star", "server"): "privacy.noised-by",
    ("feddecouple", None, "server"): "privacy.noised-by",
    ("feddecouple", None, "clients"): "privacy.noised-by",
    ("feddecouple", None, "two servers, noise by clients"): "privacy.noised-by",
}


def expected(method, topology, summation):
    """The word of the sentence that refuses it, or None."""
    keys = itertools.product([method], [topology, None], [summation, None])
    return next((REFUSED[key] for key in keys if key in REFUSED), None)


@pytest.mark.parametrize("summation", SUMMATIONS)
@pytest.mark.parametrize("topology", TOPOLOGIES)
@pytest.mark.parametrize("method", METHODS)
def test_it_runs_as_planned_or_is_refused(method, topology, summation):
    settings = {
        "task.method": f'"{method}"',
        "task.rounds": 4,
        "data.name": '"digits"',
        "data.clients": 6,
        "model.name": '"mlp"',
        "training.steps": 1,
        **METHODS[method],
        **TOPOLOGIES[topology],
        **SUMMATIONS[summation],
    }
    refused = expected(method, topology, summation)
    if refused:
        with pytest.raises(OnlookerError) as caught:
            prepared(settings)
        assert refused in str(caught.value) and "\n" not in str(caught.value)
        return
    ready = prepared(settings)
    study = config.study(ready, torch.device("cpu"))
    (state, kept), charged = begin(study), []
    for round in range(1, study.method.terms.rounds + 1):
        done = one_round(study, state, round, lambda digest, noise: charged.append(digest), kept)
        state, kept = done.state, done.kept
    assert len(charged) == study.method.terms.rounds == len(Ledger.plan(study.method.terms).releases)
    assert state.models.shape == (study.method.terms.groups, len(study.method.parts.public))
    findings = find(Ledger.plan(study.method.terms), ready.agreement.observers)
    assert any(math.isfinite(finding.price.epsilon) for finding in findings) == (method != "fedavg")
    assert all(finding.because for finding in findings)


def prepared(settings):
    return config.prepare(config.parse("", [f"{key}={value}" for key, value in settings.items()]), Path())
