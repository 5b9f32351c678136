"""Two auxiliary servers as processes of their own, over TLS on loopback, and what may happen to them."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl

import httpx
import pytest

from onlooker.deployment.files import shared, signing_key
from onlooker.errors import MessageError, ProtocolError, UnreachableError
from onlooker.secagg import coordinator
from onlooker.secagg.agreement import Context
from onlooker.secagg.messages import Report
from onlooker.secagg.wire import Signed, packed
from server_trials import MODEL, is_right, trial_in
from trials import said


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    with trial_in(tmp_path_factory.mktemp("servers")) as found:
        for server in range(2):
            found.start(server, HTTPS_PROXY="http://127.0.0.1:9", ALL_PROXY="http://127.0.0.1:9")
        yield found


def test_the_noisy_sum_comes_out_of_two_processes(trial):
    context, sealed = trial.play(1)
    assert is_right(context, sealed)
    assert not is_right(context, sealed, (0, 1, 2))


def test_an_auditor_finds_no_fault_and_all_countersigned(trial):
    trial.play(2)
    for server in range(2):
        for _ in range(50):
            done = said("verify-transcript", trial.folder / f"aux{server}.toml")
            if "not checked" not in done.stdout:  # countersigned a moment after the share
                break
        assert done.returncode == 0 and "faults: 0" in done.stdout and "not checked" not in done.stdout, done
        assert "round 2: 4 reports; this server has sealed its share." in done.stdout


@pytest.mark.parametrize("server", [0, 1])
@pytest.mark.parametrize("down", [False, True], ids=["at once", "while reports end"])
def test_a_server_that_is_killed_and_started_again_loses_nothing(trial, server, down):
    def between():
        trial.kill(server)
        trial.start(server)

    async def slowly(context, conductor):
        await trial.gather(conductor, context, (0, 1, 2, 4))
        trial.kill(server)
        finishing = asyncio.create_task(conductor.finish(context, 4))
        await asyncio.sleep(0.5)
        assert not finishing.done()
        await asyncio.to_thread(trial.start, server)
        return await finishing

    round = 3 + 2 * server + down
    if down:
        context = Context(trial.task, round, 0, MODEL)
        sealed = trial.run(lambda conductor: slowly(context, conductor))
    else:
        context, sealed = trial.play(round, between=between)
    assert is_right(context, sealed)
    with pytest.raises(ProtocolError, match="opened before with another model"):
        other = Context(trial.task, round, 0, bytes(32))
        trial.run(lambda conductor: conductor.open(other), patience=0.3)


def test_what_is_not_a_report_of_a_client_is_refused_in_a_sentence(trial):
    context = Context(trial.task, 10, 0, MODEL)
    stranger = signing_key(trial.folder / "client3" / "signing.pem")

    async def act(conductor):
        announcements = coordinator.announced(trial.task, await conductor.announcements())
        await conductor.open(context)
        good = trial.report(context, 0, announcements)
        await conductor.deliver(good)
        await conductor.deliver(good)  # again, as after a lost reply
        with pytest.raises(ProtocolError, match="client:0 has another report in round 10"):
            await conductor.deliver(trial.report(context, 0, announcements))
        with pytest.raises(MessageError, match="an envelope that client:1 did not sign"):
            await conductor.deliver(trial.report(context, 1, announcements, stranger))
        late = trial.report(Context(trial.task, 11, 0, MODEL), 1, announcements)
        with pytest.raises(ProtocolError, match="a round that was not opened here"):
            await conductor.deliver(late)
        moved = Report(context.digest, 1, late.identity, late.envelopes)
        with pytest.raises(MessageError, match="an envelope that client:1 did not sign"):
            await conductor.deliver(moved)
        await conductor.deliver(trial.report(context, 2, announcements))
        return await conductor.finish(context, 2)

    assert is_right(context, trial.run(act, patience=0.5), (0, 2))


def test_bytes_that_are_nothing_are_refused_in_a_sentence(trial):
    async def act():
        link = trial.links()[0]
        try:
            for word in ("report", "open", "words", "freeze", "heard", "recall", "countersign", "phase", "share"):
                path = f"/1/{word}"
                for body in (b"", b"\x93\x01", bytes(8), bytes(40), os.urandom(200), noise()):
                    with pytest.raises((MessageError, ProtocolError), match="^aux:0: .*[.]$"):
                        await link.ask(path, body)
            with pytest.raises(MessageError, match="a request of more than [0-9]+ bytes"):
                await link.ask("/1/report", bytes(2**20))
            with pytest.raises(MessageError):
                await link.ask("/1/nothing", b"")
        finally:
            await link.close()

    asyncio.run(act())


def noise():
    """A message, and signed by nobody."""
    return packed(Report(bytes(32), 0, bytes(16), (b"a", b"b")))


def test_too_few_reports_end_a_round_with_its_reason(trial):
    context = Context(trial.task, 12, 0, MODEL)

    async def act(conductor):
        await trial.gather(conductor, context, (3,))
        await conductor.finish(context, 1)

    with pytest.raises(ProtocolError, match="round 12 ended without a sum: 1 reports are held by all, below"):
        trial.run(act)


def test_a_round_that_began_at_one_server_alone_keeps_no_other_waiting(trial):
    """As where a coordinator dies between two servers, and goes on with the next round."""
    context = Context(trial.task, 13, 0, MODEL)

    async def act():
        links = trial.links()
        try:
            key = signing_key(trial.folder / "coordinator" / "signing.pem")
            await links[0].ask("/1/open", coordinator.opening(context, key).to_bytes())
            await links[0].ask("/1/freeze", coordinator.freeze(context, key).to_bytes())
        finally:
            for link in links:
                await link.close()

    asyncio.run(act())
    later, sealed = trial.play(14)
    assert is_right(later, sealed)


@pytest.mark.parametrize("party", ["nobody", "a stranger", "without TLS"])
def test_strangers_get_no_connection(trial, party, tmp_path):
    address = shared(trial.folder / "task.toml").addresses[0]
    context = ssl.create_default_context(cafile=trial.folder / "authority.pem")
    if party == "a stranger":
        with trial_in(tmp_path) as other:
            context.load_cert_chain(other.credentials().certificate, other.credentials().key)
    address = address.replace("https", "http") if party == "without TLS" else address
    with httpx.Client(verify=context, trust_env=False) as client, pytest.raises(httpx.HTTPError):
        client.post(f"{address}/1/announcement")


def test_a_port_that_is_taken_is_one_sentence(trial):
    done = said("serve", trial.folder / "aux0.toml")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "Traceback" not in done.stderr, done.stderr
    assert "127.0.0.1" in done.stderr


def test_a_server_that_was_put_back_from_a_backup_ends_its_task(tmp_path):
    with trial_in(tmp_path) as trial:
        for server in range(2):
            trial.start(server)
        trial.play(1)
        trial.kill(0)
        state, copy = trial.folder / "aux0" / "state", trial.folder / "copy"
        shutil.copytree(state, copy)
        trial.start(0)
        context, sealed = trial.play(2)
        assert is_right(context, sealed)
        trial.kill(0)
        shutil.rmtree(state)
        shutil.copytree(copy, state)
        done = said("serve", trial.folder / "aux0.toml")
        assert done.returncode == 2
        assert "aux:0 has forgotten what aux:1 heard from it, so its store is an old copy" in done.stderr
        again = said("serve", trial.folder / "aux0.toml")
        assert again.returncode == 2 and "this task has ended here" in again.stderr and again.stderr.count("\n") == 1
        with pytest.raises(UnreachableError, match="aux:0 at https://127.0.0.1:[0-9]+ does not answer"):
            trial.run(lambda conductor: conductor.open(Context(trial.task, 3, 0, MODEL)), patience=0.5)


def test_an_operator_can_say_that_a_folder_was_restored(tmp_path):
    with trial_in(tmp_path) as trial:
        trial.start(0)
        trial.kill(0)
        done = said("serve", trial.folder / "aux0.toml", "--restored")
        assert done.returncode == 0 and "1 tasks are ended here" in done.stdout
        again = said("serve", trial.folder / "aux0.toml")
        assert again.returncode == 2 and "its server was put back from a backup" in again.stderr


def test_a_round_whose_other_server_is_gone_is_given_up(tmp_path):
    with trial_in(tmp_path) as trial:
        own = trial.folder / "aux0.toml"
        own.write_text("round-patience = 1.0\n" + own.read_text())
        for server in range(2):
            trial.start(server)
        context = Context(trial.task, 1, 0, MODEL)

        async def act(conductor):
            await trial.gather(conductor, context, (0, 1, 2))
            trial.kill(1)
            with pytest.raises(UnreachableError):
                await conductor.finish(context, 3)
            await asyncio.sleep(2.0)
            await asyncio.to_thread(trial.start, 1)
            await conductor.finish(context, 3)

        with pytest.raises(ProtocolError, match="ended without a sum: not over 1 seconds after its last report"):
            trial.run(act, patience=4.0)


def test_private_files_that_others_may_read_are_refused(tmp_path):
    with trial_in(tmp_path) as trial:
        key = trial.folder / "aux0" / "signing.pem"
        assert all(
            one.stat().st_mode & 0o077 == 0
            for one in trial.folder.rglob("*")
            if one.name in ("signing.pem", "tls-key.pem")
        )
        key.chmod(0o644)
        done = said("serve", trial.folder / "aux0.toml")
        assert done.returncode == 2 and f"the key {key} may be read by others" in done.stderr


def test_a_signed_message_is_needed_to_begin(trial):
    async def act():
        link = trial.links()[0]
        try:
            forged = Signed.by(
                signing_key(trial.folder / "client0" / "signing.pem"), Report(bytes(32), 0, bytes(16), (b"", b""))
            )
            with pytest.raises(MessageError, match="did not sign"):
                await link.ask("/1/open", forged.to_bytes())
        finally:
            await link.close()

    asyncio.run(act())
