"""A whole Flower federation on loopback: SuperLink, SuperNodes, servers and clients as processes, over TLS."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass, field

import pytest

from federation import Federation
from flying import SERVERS, children_of, onlooker, prepared, tapped
from onlooker.flower.bodies import content_of
from onlooker.folder import RunFolder
from onlooker.privacy.statement import find, to_json

ROUNDS, CLIENTS = 3, 2


@dataclass
class Flown:
    """A task that was played, with its coordinator killed in between."""

    federation: Federation
    everyone: object
    taps: list
    said: list = field(default_factory=list)
    ledgers: list = field(default_factory=list)

    @property
    def run(self):
        return self.federation.trial / "coordinator" / "run"


def play(flown, folder):
    """Kill the ServerApp in the middle of round 2, and start it again."""
    for sentence in flown.federation.submit(flown.everyone, "first"):
        if sentence.startswith("round 1 of"):
            break
    before = sum(len(tap.answers) for tap in flown.taps)
    until = time.monotonic() + 30
    while sum(len(tap.answers) for tap in flown.taps) == before and time.monotonic() < until:
        time.sleep(0.05)
    apps = [one for one, command in children_of(folder).items() if "flwr-serverapp" in command]
    assert len(apps) == 1
    os.kill(apps[0], signal.SIGKILL)
    flown.ledgers.append((flown.run / "ledger.jsonl").read_text())
    flown.said = list(flown.federation.submit(flown.everyone, "again"))
    flown.ledgers.append((flown.run / "ledger.jsonl").read_text())


@pytest.fixture(scope="module")
def flown(tmp_path_factory):
    folder = tmp_path_factory.mktemp("flown").resolve()
    federation = prepared(folder, CLIENTS, ROUNDS, 2)
    with tapped(federation, folder / "logs") as (everyone, taps):
        found = Flown(federation, everyone, taps)
        play(found, folder)
    yield found


def test_every_round_was_released_and_charged_once_though_the_coordinator_was_killed(flown):
    early, late = flown.ledgers
    assert late.startswith(early)
    charged = [release.round for release in RunFolder.open(flown.run).ledger().releases]
    assert charged == list(range(1, ROUNDS + 1)) and late.count('"round"') == ROUNDS
    assert f"round 2 of {ROUNDS}." in flown.said and f"round 1 of {ROUNDS}." not in flown.said
    assert flown.said[-1] == str(flown.run)
    assert RunFolder.open(flown.run).commit().round == ROUNDS


def test_what_was_learned_is_what_was_planned(flown):
    planned = json.loads(onlooker("plan", flown.federation.app / "job.toml", "--json"))
    folder = RunFolder.open(flown.run)
    ledger = folder.ledger()
    assert to_json(ledger, find(ledger, tuple(folder.environment()["observers"]))) == planned
    assert "report.html" in onlooker("report", flown.run)


@pytest.mark.parametrize("server", range(SERVERS))
def test_the_log_of_each_server_holds(flown, server):
    said = onlooker("verify-transcript", flown.federation.trial / f"aux{server}.toml")
    assert said.count("2 reports; this server has sealed its share.") == ROUNDS and "faults: 0" in said, said


def test_a_report_is_as_long_as_the_model_and_little_more(flown):
    parameters = RunFolder.open(flown.run).environment()["model"]["parameters"]
    answers = [one for tap in flown.taps for one in tap.answers]
    assert len(answers) >= ROUNDS * CLIENTS
    carried = {len(content_of(one)["onlooker"].deflate()) for one in answers}
    assert max(carried) <= 4 * parameters + 2700, carried  # two hybrid envelopes and a signature in each


def test_an_answer_is_the_same_bytes_however_often_it_is_asked(flown):
    for tap in flown.taps:
        assert len(set(tap.answers)) == ROUNDS


def test_each_client_has_paid_for_its_reports_once(flown):
    for client in range(CLIENTS):
        last = flown.everyone.said(f"client{client}").strip().splitlines()[-1]
        assert f"round {ROUNDS}; spent so far epsilon 4 of 100" in last, last


def test_no_process_is_left(flown):
    until = time.monotonic() + 10
    while (left := children_of(flown.federation.trial)) and time.monotonic() < until:
        time.sleep(0.2)
    assert not left
