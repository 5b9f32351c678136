"""A SuperNode that dies in the middle of a round: the others go on, and what its client sealed is charged once."""

from __future__ import annotations

import os
import signal
import time

import pytest

from flying import onlooker, prepared, tapped
from onlooker.folder import RunFolder

CLIENTS, ROUNDS = 3, 3


@pytest.mark.deep
def test_the_others_go_on_without_it(tmp_path):
    folder = tmp_path.resolve()
    federation = prepared(folder, CLIENTS, ROUNDS, 2)
    lead = federation.trial / "coordinator.toml"
    lead.write_text("report-patience = 30.0\n" + lead.read_text())
    with tapped(federation, folder / "logs") as (everyone, taps):
        said = []
        for sentence in federation.submit(everyone, "run"):
            said.append(sentence)
            if sentence.startswith("round 1 of"):
                answered, until = len(taps[2].answers), time.monotonic() + 30
                while len(taps[2].answers) == answered and time.monotonic() < until:
                    time.sleep(0.01)
                os.killpg(everyone._running["supernode2"].pid, signal.SIGKILL)  # and with it the app that answers
        assert f"round {ROUNDS} of {ROUNDS}." in said, said
        run = RunFolder.open(federation.trial / "coordinator" / "run")
        assert [one.round for one in run.ledger().releases] == [1, 2, 3]
        for server in range(2):
            checked = onlooker("verify-transcript", federation.trial / f"aux{server}.toml")
            assert "faults: 0" in checked and "round 3: 2 reports" in checked, checked
        last = everyone.said("client2").strip().splitlines()[-1]
        assert "sealed 1 report of round 2" in last, last
