"""What an operator may get wrong in the files of a deployment is said in one sentence, with what would do."""

from __future__ import annotations

import os
import re

import pytest

from onlooker.deployment import state
from onlooker.deployment.files import own, shared, signing_key
from onlooker.deployment.keys import write
from onlooker.errors import ConfigError, FolderError, OnlookerError, TermsError
from secure_rounds import terms_of

IDENTITY = bytes(range(32))


@pytest.fixture
def trial(tmp_path):
    write(tmp_path / "trial", terms_of(), "", ["127.0.0.1", "localhost", "::1"], (9100, 9101), 10.0)
    return tmp_path / "trial"


def changed(path, pattern, replacement):
    before = path.read_text()
    after = re.sub(pattern, replacement, before, count=1)
    assert after != before
    path.write_text(after)


def test_what_is_written_is_what_is_read(trial):
    first, second = (own(trial / f"aux{server}.toml") for server in range(2))
    assert first.shared.task == second.shared.task == shared(trial / "task.toml").task
    assert (first.host, first.port, second.port) == ("127.0.0.1", 9100, 9101)
    assert first.shared.addresses == ("https://127.0.0.1:9100", "https://127.0.0.1:9101")
    assert first.shared.task.terms == terms_of()


def test_two_trials_are_two_tasks(trial, tmp_path):
    write(tmp_path / "other", terms_of(), "", ["::1"], (9100, 9101), 10.0)
    one, other = shared(trial / "task.toml"), shared(tmp_path / "other" / "task.toml")
    assert one.task.digest != other.task.digest
    assert other.addresses[0] == "https://[::1]:9100"
    assert own(tmp_path / "other" / "aux0.toml").host == "[::1]"


def test_a_folder_that_is_there_is_not_written_into(trial):
    with pytest.raises(FolderError, match="name a folder that is not there"):
        write(trial, terms_of(), "", ["localhost"], (9100, 9101), 10.0)


@pytest.mark.parametrize(
    ("file", "pattern", "replacement", "sentence"),
    [
        ("task.toml", 'identity = "', 'identity = "x', "identity = \"x[0-9a-f]+\" must be 64 hexadecimal digits"),
        ("task.toml", 'coordinator = "..', 'coordinator = "', "parties.coordinator = .* must be 64 hexadecimal digits"),
        ("task.toml", "https://127", "http://127", 'addresses has "http://127.0.0.1:9100", which must be "https'),
        ("task.toml", "terms.toml", "nothing.toml", "nothing.toml cannot be read: No such file"),
        ("task.toml", "terms.toml", "task.toml", "task.toml holds no terms of a task"),
        ("task.toml", "identity", "identy", 'line 1: .* "identy" is not known .* "identity"'),
        ("aux0.toml", "server = 0", "server = 2", "server = 2 must be from 0 to 1"),
        ("aux0.toml", "server = 0", "server = 1", "signing-key is not the key of aux:1"),
        ("aux0.toml", "server = 0", 'server = "0"', 'line 2: server = "0" must be a whole number'),
        ("aux0.toml", ":9100", ":port", 'listen = "127.0.0.1:port" must be "host:port"'),
        ("aux0.toml", "127.0.0.1:9100", "127.0.0.1", 'listen = "127.0.0.1" must be "host:port"'),
        ("aux0.toml", "aux0/tls.pem", "aux0/none.pem", "aux0/none.pem is not there; `onlooker keys`"),
        ("aux0.toml", "aux0/signing.pem", "aux0/none.pem", "none.pem cannot be read: No such file"),
        ("aux0.toml", "aux0/signing.pem", "aux0/tls-key.pem", "tls-key.pem is no Ed25519 private key"),
        ("aux0.toml", r"\[tls\]", "audited-rounds = 0\n[tls]", "audited-rounds = 0 must be at least 1"),
    ],
)  # fmt: skip
def test_each_fault_is_one_sentence(trial, file, pattern, replacement, sentence):
    changed(trial / file, pattern, replacement)
    with pytest.raises(OnlookerError, match=sentence) as caught:
        own(trial / "aux0.toml")
    assert str(caught.value).count("\n") == 0 and str(caught.value).endswith(".")


def test_a_roster_that_is_too_short_is_refused(trial):
    text = (trial / "task.toml").read_text()
    head, tail = text.split("clients = [\n")
    (trial / "task.toml").write_text(head + "clients = [\n" + tail.split("\n", 1)[1])
    with pytest.raises(TermsError, match="the roster has 5 keys for data.clients = 6"):
        shared(trial / "task.toml")


def test_a_key_that_others_may_read_is_refused(trial):
    key = trial / "client0" / "signing.pem"
    signing_key(key)
    key.chmod(0o640)
    with pytest.raises(ConfigError, match="may be read by others; `chmod 600` it"):
        signing_key(key)


def test_secrets_are_made_once_and_kept_from_others(tmp_path):
    folder = tmp_path / "state"
    first, again = state.begun(folder, IDENTITY, 0), state.begun(folder, IDENTITY, 0)
    assert first.secret.to_bytes() == again.secret.to_bytes()
    assert first.envelope_key.to_bytes() == again.envelope_key.to_bytes()
    other = state.begun(folder, bytes(32), 0)
    assert other.secret.to_bytes() != first.secret.to_bytes()
    for part in folder.rglob("*"):
        assert part.stat().st_mode & 0o077 == 0
    assert state.kept(folder, IDENTITY, 0)[0].to_bytes() == first.secret.to_bytes()
    (folder / IDENTITY.hex() / "secret").chmod(0o644)
    with pytest.raises(FolderError, match="may be read by others"):
        state.begun(folder, IDENTITY, 0)


def test_a_secret_that_was_not_whole_when_its_server_died_is_made_anew(tmp_path):
    """The secret is written last and replaces nothing: without it nobody was told of the envelope key."""
    folder = tmp_path / "state"
    begun = state.begun(folder, IDENTITY, 0)
    os.remove(folder / IDENTITY.hex() / "secret")
    again = state.begun(folder, IDENTITY, 0)
    assert again.secret.to_bytes() != begun.secret.to_bytes()
    assert again.envelope_key.to_bytes() != begun.envelope_key.to_bytes()


def test_a_task_that_has_ended_stays_ended(tmp_path):
    folder = tmp_path / "state"
    begun = state.begun(folder, IDENTITY, 0)
    state.begun(folder, bytes(32), 0)
    state.end(folder, IDENTITY, "enough.")
    with pytest.raises(FolderError, match=r"this task has ended here: enough\. Begin a new task"):
        state.begun(folder, IDENTITY, 0)
    assert (folder / IDENTITY.hex() / "envelope-key").read_bytes() == b""
    assert state.kept(folder, IDENTITY, 0)[0].to_bytes() == begun.secret.to_bytes()
    assert state.end_all(folder, "restored.") == 2
    with pytest.raises(FolderError, match="this task has ended here: restored"):
        state.begun(folder, bytes(32), 0)
    with pytest.raises(FolderError, match="this task has ended here: enough"):
        state.begun(folder, IDENTITY, 0)
    with pytest.raises(FolderError, match="holds nothing of this task"):
        state.kept(folder, bytes(31) + b"x", 0)
