"""The facts of the networks against torch, which counts by itself."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.configuration import PATHS, text_of
from benchmarks.job import Job, records_of
from benchmarks.networks import CIFAR, CNN, MLP, NETWORKS
from benchmarks.torch_networks import build
from onlooker import config


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_torch_builds_as_many_parameters_as_the_facts_say(network):
    assert sum(one.numel() for one in build(network).parameters()) == network.parameters


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_operations_of_a_step_are_those_that_torch_counts(network):
    module, batch = build(network), 4
    records = torch.randn(batch, *network.shape)
    with FlopCounterMode(display=False) as counted:
        module(records).sum().backward()
    assert network.operations(batch) == counted.get_total_flops()


def test_parameters_are_those_of_the_papers_networks():
    assert (MLP.parameters, CNN.parameters, CIFAR.parameters) == (50_890, 20_522, 586_250)


def test_a_client_has_the_same_records_in_every_process_and_others_than_its_neighbour():
    features, labels = records_of("cnn", 3, 8)
    again, same = records_of.__wrapped__("cnn", 3, 8)
    np.testing.assert_array_equal(features, again)
    np.testing.assert_array_equal(labels, same)
    assert features.shape == (8, 1, 28, 28) and features.dtype == np.float32
    assert not np.array_equal(features, records_of("cnn", 4, 8)[0])


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("cohort", [10, 20])
def test_every_path_is_a_configuration_that_can_be_priced(path, cohort, tmp_path):
    job = Job("logistic", cohort, 3, clients=20, records=8, batch=4)
    prepared = config.prepare(config.parse(text_of(job, path)), tmp_path)
    terms = prepared.agreement.terms
    assert prepared.model.size == job.network.parameters
    expected = terms.clients if terms.sampling.name == "all" else terms.sampling.size
    assert (expected, terms.rounds) == (cohort, 3)
