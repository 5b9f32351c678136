"""A task from the public keys that its parties hand out, and a socket for a user who has nothing else."""

from __future__ import annotations

import grp
import os
import re
import stat

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_public_key,
)
from typer.testing import CliRunner

from onlooker.cli import app
from onlooker.deployment.client_file import own_client
from onlooker.deployment.files import shared
from onlooker.deployment.http import listening_at
from onlooker.deployment.new import make
from onlooker.errors import ConfigError

PARTIES = ("coordinator", "server0", "server1", "client0", "client1", "client2", "client3")


@pytest.fixture
def handed_out(tmp_path):
    """Everybody's public key in a file, and the job."""
    make(tmp_path / "app")
    for party in PARTIES:
        key = Ed25519PrivateKey.generate().public_key()
        pem = key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
        (tmp_path / f"{party}.pem").write_bytes(pem)
    return tmp_path


def said(folder, servers=2, clients=4, address="https://one.example:9100"):
    words = ["task", folder / "shared", "--job", folder / "app" / "job.toml", "--coordinator", folder / PARTIES[0]]
    words[-1] = f"{words[-1]}.pem"
    for server in range(servers):
        words += ["--server", f"{folder}/server{server}.pem={address}"]
    for client in range(clients):
        words += ["--client", folder / f"client{client}.pem"]
    return CliRunner().invoke(app, list(map(str, words)))


def test_the_file_names_every_key_in_its_place(handed_out):
    done = said(handed_out)
    assert done.exit_code == 0, done.output
    found = shared(handed_out / "shared" / "task.toml")
    keys = [found.task.coordinator, *found.task.servers, *found.task.roster]
    for party, key in zip(PARTIES, keys, strict=True):
        assert key == load_pem_public_key((handed_out / f"{party}.pem").read_bytes()).public_bytes_raw()
    assert found.task.terms.hash.startswith(re.search(r"terms ([0-9a-f]{12}): every party", done.output)[1])
    assert 'seed = "system"' in (handed_out / "shared" / "job.toml").read_text()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"servers": 1}, "--server names 1, and the job has 2"),
        ({"clients": 3}, "--client names 3, and the job has 4"),
        ({"address": "http://one.example:9100"}, '--server names "http://one.example:9100", which must be "https://'),
    ],
)
def test_who_is_missing_is_said(handed_out, given, sentence):
    done = said(handed_out, **given)
    assert done.exit_code == 2 and sentence in done.output and done.output.count("\n") <= 2, done.output


@pytest.mark.parametrize("fault", ["private", "twice", "nothing", "again"])
def test_what_is_no_public_key_of_another_is_refused(handed_out, fault):
    if fault == "private":
        key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (handed_out / "client1.pem").write_bytes(key)
    elif fault == "twice":
        (handed_out / "client1.pem").write_bytes((handed_out / "server0.pem").read_bytes())
    elif fault == "nothing":
        (handed_out / "client1.pem").unlink()
    else:
        assert said(handed_out).exit_code == 0
    expected = {
        "private": "client1.pem holds no public Ed25519 key in PEM",
        "twice": "client1.pem holds the key of .*server0.pem; each party makes its own",
        "nothing": "client1.pem cannot be read: No such file",
        "again": "is there already; a new task needs a folder of its own",
    }
    done = said(handed_out)
    assert done.exit_code == 2 and re.search(expected[fault], done.output), done.output


def test_a_group_may_come_to_the_socket_and_others_may_not(tmp_path):
    alone, together = (listening_at(tmp_path / name, group) for name, group in (("a", None), ("b", os.getgid())))
    try:
        assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o660
        assert (tmp_path / "b").stat().st_gid == os.getgid()
    finally:
        alone.close()
        together.close()


def test_a_group_that_is_none_is_one_sentence(tmp_path):
    make(tmp_path / "app")
    job, trial = tmp_path / "app" / "job.toml", tmp_path / "trial"
    assert CliRunner().invoke(app, ["keys", str(trial), "--job", str(job)]).exit_code == 0
    file = trial / "client0.toml"
    before = file.read_text()
    file.write_text(f'socket-group = "{grp.getgrgid(os.getgid()).gr_name}"\n{before}')
    assert own_client(file).socket_group == os.getgid()
    file.write_text(f'socket-group = "nobody-at-all"\n{before}')
    with pytest.raises(ConfigError, match='socket-group = "nobody-at-all" is no group of this machine; name'):
        own_client(file)
