"""What a file leaves out is what its page says, for a default decides an epsilon as much as a value that is written."""

from pathlib import Path

import pytest

from onlooker import config
from onlooker.config.build import source_of
from onlooker.privacy.random import Seeded, System
from onlooker.privacy.sampling import Everyone, Poisson, PoissonRecords
from onlooker.privacy.summation import Plain, Shared
from onlooker.privacy.training import Training


def prepared(method, *more):
    needed = {
        "fedavg": (),
        "dp-sgd": ("privacy.noise-multiplier=1.0", "data.expected-records=144"),
    }.get(method, ("privacy.noise-multiplier=1.0",))
    table = [f"task.method={method}", "data.name=digits", "model.name=logistic", *needed, *more]
    return config.prepare(config.parse("", table), Path())


DEFAULTS = {
    "fedavg": (Poisson(0.5), Training(), Plain(), "server", ("public", "coordinator")),
    "dp-fedavg": (Poisson(0.5), Training(), Plain(), "server", ("public", "coordinator")),
    "feddecouple": (
        Poisson(0.5),
        Training(),
        Shared(2, 1, "coordinator", (), 5),
        "servers",
        ("public", "coordinator", "aux:0", "aux:0+aux:1"),
    ),
    "dp-sgd": (
        Everyone(),
        Training("nothing", PoissonRecords(0.01), 144, 288),
        Shared(2, 1, "coordinator", (), 5),
        "servers",
        ("public", "coordinator", "aux:0", "aux:0+aux:1"),
    ),
}


@pytest.mark.parametrize("method", DEFAULTS)
def test_defaults_are_those_that_are_written_down(method):
    agreement = prepared(method).agreement
    (channel,) = agreement.terms.channels
    found = (agreement.terms.sampling, agreement.terms.training, channel.summation, channel.noised_by)
    assert (*found, agreement.observers) == DEFAULTS[method]
    terms = agreement.terms
    assert (terms.rounds, terms.clients, terms.adjacency, terms.delta, terms.weights) == (40, 10, "zero-out", 1e-5, ())
    assert channel.grid is None if method == "fedavg" else channel.bounds == channel.grid.clip == 1.0


def test_a_server_and_its_host_are_in_the_threat_model_without_being_named():
    """Rule 7b."""
    agreement = prepared("feddecouple", 'servers.hosted-by=["client:3", "client:7"]').agreement
    assert agreement.observers == (
        "public",
        "coordinator",
        "aux:0",
        "aux:0+client:3",
        "aux:1+client:7",
        "aux:0+aux:1",
    )


def test_noise_is_secret_where_the_file_says_so_and_a_study_elsewhere():
    """The word "system" is never read as a seed, nor the other way round (rule 9)."""
    assert source_of(prepared("feddecouple").configuration) == Seeded(42)
    assert source_of(prepared("feddecouple", "task.seed=0").configuration) == Seeded(0)
    assert source_of(prepared("feddecouple", "task.seed=system").configuration) == System()
