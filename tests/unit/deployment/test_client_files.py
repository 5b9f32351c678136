"""A client's and a coordinator's files: what they are read as, and each fault in one sentence."""

import os

import pytest

from onlooker import config
from onlooker.deployment.client_file import own_client
from onlooker.deployment.coordinator_file import own_coordinator
from onlooker.deployment.keys import write
from onlooker.errors import ConfigError, OnlookerError, UnpricedError
from trials import job_of

JOB = job_of(clients=3, rounds=20, noise=2.0, seed='seed = "system"')
COVERED = 'name = "poisson"\nrate = 0.5\ncover-traffic = true'


def made(folder, job=JOB):
    prepared = config.prepare(config.parse(job), folder)
    write(folder / "t", prepared.agreement.terms, job, ["127.0.0.1"], (9100, 9101), 10.0)
    return folder / "t"


@pytest.fixture
def trial(tmp_path):
    return made(tmp_path)


def change(path, before, after):
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))


def test_what_keys_writes_is_read(trial):
    client, lead = own_client(trial / "client1.toml"), own_coordinator(trial / "coordinator.toml")
    assert client.client == 1 and client.epsilon == 10.0 and client.delta == 1e-5
    assert client.prepared.agreement.terms.hash == lead.prepared.agreement.terms.hash == lead.shared.task.terms.hash
    assert client.rows.own is False and client.rows.root is None
    for path in (trial / "client1", trial / "client1" / "signing.pem"):
        assert path.stat().st_mode & 0o077 == 0


FAULTS = [
    ("client0.toml", "client = 0", "client = 3", "client = 3 must be from 0 to 2"),
    ("client0.toml", "client = 0", "client = 1", "signing-key is not the key of client:1"),
    ("client0.toml", "epsilon = 10.0", "epsilon = -1.0", "epsilon = -1.0"),
    ("client0.toml", "epsilon = 10.0", "epsilom = 10.0", "is not known"),
    ("client0.toml", 'socket = "', 'socket = "' + "x" * 100, "too long a path"),
    ("client0.toml", 'job = "job', 'job = "jab', "jab.toml cannot be read"),
    ("job.toml", "rounds = 20", "rounds = 10", "not what this task has agreed on: task.rounds: 20 became 10"),
    ("job.toml", "delta = 1e-5", "delta = 1e-5\nclip = 2.0", "privacy.clip: 1.0 became 2.0"),
    ("job.toml", 'seed = "system"', "seed = 7", "task.seed = 7 is for studies"),
    ("job.toml", 'name = "logistic"', 'name = "os:getcwd"', 'model.name = "os:getcwd" is code that functions'),
    ("job.toml", 'name = "digits"', 'name = "os:getcwd"', 'data.name = "os:getcwd" is code that functions'),
    (
        "coordinator.toml",
        "coordinator/signing.pem",
        "aux0/signing.pem",
        "is not the key of the coordinator",
    ),
    ("coordinator.toml", "coordinator/tls.pem", "coordinator/no.pem", "no.pem is not there"),
]


@pytest.mark.parametrize(("file", "before", "after", "sentence"), FAULTS)
def test_each_fault_is_one_sentence(trial, file, before, after, sentence):
    change(trial / file, before, after)
    readers = [own_coordinator] if file == "coordinator.toml" else [own_client]
    for read in [*readers, *([own_coordinator] if file == "job.toml" else [])]:
        with pytest.raises(OnlookerError) as caught:
            read(trial / ("coordinator.toml" if read is own_coordinator else "client0.toml"))
        said = str(caught.value)
        assert sentence in said and "\n" not in said and said.endswith("."), said


def test_code_that_a_client_allows_is_run_and_no_other(tmp_path, monkeypatch):
    (tmp_path / "nets_of_mine.py").write_text(
        "from torch import nn\n\ndef net(shape, outputs):\n"
        "    return nn.Sequential(nn.Flatten(), nn.Linear(64, outputs))\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    trial = made(tmp_path, JOB.replace("logistic", "nets_of_mine:net"))
    with pytest.raises(ConfigError, match="functions does not allow here"):
        own_client(trial / "client0.toml")
    change(trial / "client0.toml", "client = 0", 'client = 0\nfunctions = ["nets_of_mine:net"]')
    assert own_client(trial / "client0.toml").prepared.size == 650


def test_cover_traffic_needs_a_time_of_its_own(tmp_path):
    trial = made(tmp_path, JOB.replace('name = "all"', COVERED))
    assert own_client(trial / "client0.toml").reply_after > 0
    change(trial / "client0.toml", "reply-after = 60.0\n", "")
    with pytest.raises(ConfigError, match="reply-after is missing"):
        own_client(trial / "client0.toml")


def test_coins_that_a_smallest_batch_would_show_are_no_ground_for_a_price(tmp_path):
    trial = made(tmp_path, JOB.replace('name = "all"', 'name = "poisson"\nrate = 0.5'))
    for read, file in ((own_client, "client0.toml"), (own_coordinator, "coordinator.toml")):
        with pytest.raises(UnpricedError, match=r"servers\.min-batch = 2 may decide"):
            read(trial / file)


def test_a_key_that_others_may_read_is_refused(trial):
    os.chmod(trial / "client0" / "signing.pem", 0o644)
    with pytest.raises(ConfigError, match="may be read by others"):
        own_client(trial / "client0.toml")


def test_a_count_that_nobody_tells_is_no_divisor(tmp_path):
    realised = JOB.replace("delta = 1e-5", 'delta = 1e-5\ndivisor = "realised"').replace("feddecouple", "ms-pafl")
    realised = realised.replace("[servers]", "[split]\nratio = 0.9\n[servers]")
    trial = made(tmp_path, realised)
    with pytest.raises(ConfigError, match='privacy.divisor = "realised" needs the count'):
        own_client(trial / "client0.toml")
