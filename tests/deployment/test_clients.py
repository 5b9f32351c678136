"""Clients as processes of their own, a coordinator that may die, and whatever may happen between them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import threading
import time
from dataclasses import replace

import pytest

from onlooker.deployment.coordination import coordinated
from onlooker.deployment.coordinator_file import own_coordinator
from onlooker.deployment.files import shared
from onlooker.errors import FolderError, UnreachableError
from onlooker.secagg.wire import packed, unpacked
from trials import Courier, job_of, processes_in, said

JOB = job_of(clients=3, rounds=200, noise=0.05, more="[training]\nlearning-rate = 0.5")
ADDRESSES = ("10.77.0.1", "10.77.0.2")


NETWORKS = [f"olk{os.getpid()}{end}" for end in "bxy"]
"""A bridge and two networks."""


def ip(*words):
    return subprocess.run(["ip", *words], capture_output=True, text=True, check=True)


def can_wire():
    """True where this user may make namespaces and a bridge."""
    try:
        ip("netns", "add", "onlooker-try")
        ip("link", "add", "onlooker-try", "type", "bridge")
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        for words in (("link", "del", "onlooker-try"), ("netns", "del", "onlooker-try")):
            with contextlib.suppress(OSError, subprocess.CalledProcessError):
                ip(*words)
    return True


@contextlib.contextmanager
def wired():
    """Each server in a network of its own, on one bridge with the rest; gives what cuts them from each other."""
    bridge, *names = NETWORKS
    try:
        ip("link", "add", bridge, "type", "bridge")
        ip("addr", "add", "10.77.0.254/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for number, name in enumerate(names):
            ip("netns", "add", name)
            ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            ip("link", "set", name, "master", bridge, "up")
            ip("-n", name, "addr", "add", f"10.77.0.{number + 1}/24", "dev", "eth0")
            for link in ("lo", "eth0"):
                ip("-n", name, "link", "set", link, "up")
        yield lambda isolated: [ip("link", "set", name, "type", "bridge_slave", "isolated", isolated) for name in names]
    finally:
        for words in [("link", "del", bridge), *(("netns", "del", name) for name in names)]:
            with contextlib.suppress(subprocess.CalledProcessError):
                ip(*words)


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """Everybody at work, each server in a network of its own; and what cuts them from each other, where that can be."""
    with contextlib.ExitStack() as stack:
        cut = stack.enter_context(wired()) if can_wire() else None
        names = [f"--name={one}" for one in ADDRESSES] if cut else []
        found = stack.enter_context(processes_in(tmp_path_factory.mktemp("c"), JOB, "--budget", "1e9", *names))
        if cut:
            port = shared(found.folder / "task.toml").addresses[1].rpartition(":")[2]
            for file in ("task.toml", "aux1.toml"):
                text = (found.folder / file).read_text()
                (found.folder / file).write_text(text.replace(f"{ADDRESSES[0]}:{port}", f"{ADDRESSES[1]}:{port}"))
        proxy = {"HTTPS_PROXY": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"}
        for server, name in enumerate(NETWORKS[1:]):
            found.start(f"aux{server}", inside=("ip", "netns", "exec", name) if cut else (), **proxy)
        found.start("client0", "client1", "client2", **proxy)
        yield found, cut


@pytest.fixture
def trial(cut):
    return cut[0]


def charged(trial):
    """The rounds on the coordinator's ledger."""
    lines = (trial.folder / "coordinator" / "run" / "ledger.jsonl").read_text().splitlines()[1:]
    return [json.loads(line)["round"] for line in lines]


def reports(trial, client):
    """The rounds on a client's own ledger."""
    base = sqlite3.connect(f"file:{trial.folder}/client{client}/budget.db?mode=ro", uri=True)
    return [round for (round,) in base.execute("select round from reports order by round")]


def held(trial, round):
    """How many reports were summed in a round, as the transcript of a server says."""
    done = said("verify-transcript", trial.folder / "aux0.toml")
    assert "faults: 0" in done.stdout, done.stdout + done.stderr
    (line,) = [one for one in done.stdout.splitlines() if one.startswith(f"round {round}:")]
    return int(line.split(": ")[1].split()[0])


def test_a_run_goes_through_seven_processes_and_has_the_report_of_any_run(trial):
    steps = trial.coordinate(3)
    assert [one.metrics["round"] for one in steps] == [1, 2, 3]
    assert charged(trial) == [1, 2, 3] == reports(trial, 0)
    assert held(trial, 3) == 3
    done = said("report", trial.folder / "coordinator" / "run")
    assert done.returncode == 0, done.stderr
    page = (trial.folder / "coordinator" / "run" / "report.html").read_text()
    assert "aux:0" in page and "seeded" not in page


class Dying(Courier):
    """Its coordinator dies after the reports came."""

    def ask(self, round, invitations, patience):
        found = super().ask(round, invitations, patience)
        assert found
        raise KeyboardInterrupt


def test_a_coordinator_that_dies_while_reports_come_in_goes_on_and_nobody_is_charged_twice(trial):
    before = charged(trial)
    with pytest.raises(KeyboardInterrupt):
        trial.coordinate(1, Dying(trial))
    assert charged(trial) == before
    (step,) = trial.coordinate(1)
    assert step.metrics["round"] == len(before) + 1
    assert charged(trial) == [*before, len(before) + 1] == reports(trial, 1)


def test_a_coordinator_that_dies_after_its_charge_goes_on_with_the_same_sum(trial, monkeypatch):
    from onlooker.deployment.conductor import Conductor

    before, finish = charged(trial), Conductor.finish

    async def dies(*words):
        await finish(*words)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Conductor, "finish", dies)
        with pytest.raises(KeyboardInterrupt):
            trial.coordinate(1)
    assert charged(trial) == [*before, len(before) + 1]
    (step,) = trial.coordinate(1)
    assert step.metrics["round"] == len(before) + 1
    assert charged(trial) == [*before, len(before) + 1]


class Killing(Courier):
    """A client is killed while it works on its invitation, and is started again while others go on."""

    def ask(self, round, invitations, patience):
        stop = threading.Timer(0.02, lambda: self.processes.kill("client1"))
        stop.start()
        found = super().ask(round, invitations, patience)
        stop.join()
        self.processes.start("client1")
        return found


def test_a_client_that_is_killed_in_a_round_is_there_in_the_next_and_charged_once_a_round(trial):
    (step,) = trial.coordinate(1, Killing(trial))
    round = step.metrics["round"]
    assert held(trial, round) in (2, 3)
    trial.coordinate(1)
    assert held(trial, round + 1) == 3
    own = reports(trial, 1)
    assert len(own) == len(set(own))


class Lying(Courier):
    """Brings everything else beside what clients sent, and twice, and late, and to the wrong round."""

    last = ()

    def ask(self, round, invitations, patience):
        found = super().ask(round, invitations, patience)
        first, second, *others = map(unpacked, found)
        for_other = replace(first, client=second.client, identity=bytes(16))
        broken = replace(second, envelopes=(second.envelopes[0], bytes(len(second.envelopes[1]))), identity=bytes(16))
        swapped = replace(first, envelopes=first.envelopes[::-1], identity=bytes(range(16)))
        wrong = [packed(one) for one in (for_other, broken, swapped)]
        lies = [b"", b"\x93", packed(replace(first, client=999)), *wrong, *self.last]
        self.last = tuple(found)
        return [*lies, *found, *found, *lies]


def test_whatever_a_courier_brings_beside_reports_the_sum_is_of_the_reports(trial):
    courier, sentences = Lying(trial), []
    steps = trial.coordinate(2, courier, sentences.append)
    assert [held(trial, one.metrics["round"]) for one in steps] == [3, 3]
    assert any("is left out" in one for one in sentences) and any("sent no report" in one for one in sentences)


class Twice(Courier):
    """Asks each client again with another model in the same round, and to a round that is over."""

    def ask(self, round, invitations, patience):
        found = super().ask(round, invitations, patience)
        assert super().ask(round, invitations, patience) == found
        for client, body in invitations.items():
            invited = unpacked(body)
            model = bytes(len(invited.models[0]))
            super().ask(round, {client: packed(replace(invited, models=(model,)))}, patience)
            assert "another model" in self.refused[client]
        return found


def test_a_client_that_is_asked_twice_says_the_same_and_never_about_another_model(trial):
    before = len(reports(trial, 0))
    trial.coordinate(1, Twice(trial))
    assert len(reports(trial, 0)) == before + 1


def test_a_client_is_one_process(trial):
    done = said("client", trial.folder / "client0.toml")
    assert done.returncode == 2
    assert "is used by another process" in done.stderr and "Traceback" not in done.stderr
    assert Courier(trial).greeted(0)


def test_too_few_clients_are_waited_for_with_a_limit_and_nothing_is_charged(trial):
    before, sentences = charged(trial), []
    for party in ("client1", "client2"):
        trial.kill(party)
    text = (trial.folder / "coordinator.toml").read_text()
    (trial.folder / "coordinator.toml").write_text("client-patience = 2.0\n" + text)
    try:
        with pytest.raises(UnreachableError, match="needs 2 clients, and 1 came in 2 seconds; nothing was charged"):
            trial.coordinate(1, say=sentences.append)
        assert any("1 are here, and 2 are needed" in one for one in sentences)
        assert charged(trial) == before
    finally:
        (trial.folder / "coordinator.toml").write_text(text)
        trial.start("client1", "client2")
    assert len(trial.coordinate(1)) == 1


def test_a_run_folder_is_coordinated_once_at_a_time(trial):
    own = own_coordinator(trial.folder / "coordinator.toml")
    first = coordinated(own, Courier(trial), print)
    next(first)
    with pytest.raises(FolderError, match="is being written by another process"):
        next(coordinated(own, Courier(trial), print))
    first.close()


def test_a_client_is_stopped_as_one_asks_and_leaves_no_socket_that_hinders(trial):
    out, err = trial.kill("client2", signal.SIGTERM)
    assert "Traceback" not in err, err
    trial.start("client2")


def test_a_budget_that_is_spent_stops_the_client_and_not_the_others(trial):
    file, own = trial.folder / "client2.toml", reports(trial, 2)
    text = file.read_text()
    out, _ = trial.kill("client2")
    file.write_text(text.replace("epsilon = 1000000000.0", "epsilon = 300.0"))
    try:
        trial.start("client2")
        courier = Courier(trial)
        (step,) = trial.coordinate(1, courier)
        assert list(courier.refused) == [2] and "sends no report" in courier.refused[2]
        assert "300" not in courier.refused[2]  # what was spent is for its own eyes (rule 17)
        assert reports(trial, 2) == own
        assert held(trial, step.metrics["round"]) == 2
        said_at_home, _ = trial.kill("client2")
        assert "budget.epsilon = 300 would be passed" in said_at_home
    finally:
        file.write_text(text)
        trial.start("client2")
    (step,) = trial.coordinate(1)
    assert reports(trial, 2) == [*own, step.metrics["round"]]


def test_a_network_that_is_cut_between_the_servers_and_heals_costs_time_alone(cut):
    trial, set_cut = cut
    if set_cut is None:
        pytest.skip("this user may not make network namespaces and a bridge")
    before = charged(trial)
    set_cut("on")
    heal = threading.Timer(4.0, set_cut, ["off"])
    heal.start()
    began = time.monotonic()
    (step,) = trial.coordinate(1)
    heal.join()
    round = step.metrics["round"]
    assert time.monotonic() - began > 3.5
    assert charged(trial) == [*before, round] and held(trial, round) == 3
