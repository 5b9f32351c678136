"""Laws of dying where something is kept: noise goes on from what was charged, draws stay, no round is told twice."""

import hashlib
import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from typer.testing import CliRunner

from onlooker import _stored, config, folder, run
from onlooker.cli import app
from onlooker.folder import RunFolder
from onlooker.privacy.channel import Channel
from onlooker.privacy.ledger import Ledger, Release
from onlooker.privacy.matrix import Banded, Tree

ROUNDS = 4
TEXT = f"""
[task]
method = "METHOD"
rounds = {ROUNDS}
seed = "system"
[data]
name = "digits"
clients = 4
[model]
name = "logistic"
[training]
steps = 1
[privacy]
noise-multiplier = 2.0
"""
KEEPING = {
    "tree": (
        "dp-ftrl",
        ["sampling.clients.period=2", "servers.count=2"],
    ),
    "bands": (
        "dp-ftrl",
        ["sampling.clients.period=2", 'privacy.mechanism="banded"', "privacy.bands=3"],
    ),
    "fixed offsets": (
        "dp-ftrl",
        ['sampling.clients.name="fixed-offset"', "sampling.clients.period=2"],
    ),
    "private parts": ("ms-pafl", ["split.ratio=0.5", "sampling.clients.rate=0.9"]),
    "random allocation": (
        "dp-fedavg",
        ['sampling.clients.name="random-allocation"', "sampling.clients.participations=3"],
    ),
}


class Killed(BaseException):
    """The process is gone: nothing that it would have done afterwards happens."""


class Reaper:
    """Kills at the n-th operation on files, before it happens or, torn, in the middle of it."""

    def __init__(self, place):
        self.left = place

    def wrap(self, function):
        def called(*arguments, **named):
            self.left -= 1
            if self.left == 0:
                raise Killed
            return function(*arguments, **named)

        return called


class Witness:
    """Sees every seal and every release of a run, over all its lives."""

    def __init__(self, patched):
        self.round, self.sealed = {}, {}
        self.told = defaultdict(set)
        seal, release = Channel.seal, Channel.release

        def sealing(channel, sums, round, source, states=()):
            found = seal(channel, sums, round, source, states)
            self.round[found.digest] = round
            self.sealed[round, found.digest] = states, found.states
            return found

        def releasing(channel, sealed, divisor):
            self.told[self.round[sealed.digest]].add(sealed.digest)
            return release(channel, sealed, divisor)

        patched.setattr(Channel, "seal", sealing)
        patched.setattr(Channel, "release", releasing)


def lives(path, name, monkeypatch, places):
    """Live through a run that is killed at each of these operations on files in turn, one kill a life."""
    method, settings = KEEPING[name]
    prepared = config.prepare(config.parse(TEXT.replace("METHOD", method), settings), Path())
    study = config.study(prepared, torch.device("cpu"))
    text, terms = config.as_toml(prepared.configuration), prepared.agreement.terms
    RunFolder.create(path, text, terms, {"name": "death"}, run.starting_tensors(study), run.starting_draws(study))
    for place in [*places, 10**9]:
        reaper = Reaper(place)
        with monkeypatch.context() as patched:
            for module, attribute in ((os, "fsync"), (os, "replace"), (Path, "unlink"), (_stored, "write")):
                patched.setattr(module, attribute, reaper.wrap(getattr(module, attribute)))
            patched.setattr(folder, "write", reaper.wrap(folder.write))
            try:
                for _ in run.simulate(study, RunFolder.open(path)):
                    pass
            except Killed:
                continue
        if place == 10**9 or reaper.left > 0:
            return study
    raise AssertionError("the last life has no end")


def check(study, opened, witness):
    ledger = opened.ledger()
    assert ledger == Ledger.plan(study.method.terms)
    charged = {release.round: release.digest for release in ledger.releases}
    assert all(len(digests) <= 1 for digests in witness.told.values())
    before = {}
    for round in range(1, ROUNDS + 1):
        sums = [key for key in witness.sealed if key[0] == round and _on_ledger(key[1]) == charged[round]]
        assert len(sums) == 1 and witness.told[round] <= {sums[0][1]}
        earlier, after = witness.sealed[sums[0]]
        for one, other in zip(earlier, before.get(round - 1, ()), strict=True):
            assert np.array_equal(one, other)
        assert len(earlier) == (len(after) if round > 1 else 0)
        assert bool(after) == isinstance(study.method.terms.channels[0].mechanism, Tree | Banded)
        before[round] = after


def _on_ledger(digest):
    return hashlib.sha256(digest.encode()).hexdigest()


@pytest.mark.parametrize("name", KEEPING)
def test_whenever_it_dies_what_was_charged_is_what_goes_on(tmp_path, monkeypatch, name):
    """A kill at the n-th operation on files, n running through two rounds, and a second one soon after."""
    for place in range(1, 31):
        with monkeypatch.context() as patched:
            witness = Witness(patched)
            path = tmp_path / f"{place}"
            study = lives(path, name, patched, [place, 1 + place % 7])
            check(study, RunFolder.open(path), witness)


def test_a_finished_round_leaves_what_later_charges_rest_on(tmp_path):
    """Other bytes may come out on another machine: then a round is charged before an earlier one is finished."""
    path, tensors = tmp_path / "run", {"weight": np.zeros(1, dtype=np.float32)}
    method, settings = KEEPING["tree"]
    prepared = config.prepare(config.parse(TEXT.replace("METHOD", method), settings), Path())
    opened = RunFolder.create(path, config.as_toml(prepared.configuration), prepared.agreement.terms, {}, tensors)
    for round in (1, 2, 3):
        opened.charge(Release(round, str(round)), {"model#0": np.full((1, 1), round)})
    opened.finish({"round": 2}, tensors)
    assert [bool(opened.noise(round)) for round in (1, 2, 3)] == [False, True, True]


def test_an_export_is_what_a_client_holds_under_the_terms_that_ran(tmp_path):
    """Not under those that somebody wrote into the file afterwards, with the client in every group."""
    settings = ["groups.members=[[0,1],[1,2],[2,3]]"]
    prepared = config.prepare(config.parse(TEXT.replace("METHOD", "dp-ogl"), settings), Path())
    study = config.study(prepared, torch.device("cpu"))
    text, terms = config.as_toml(prepared.configuration), prepared.agreement.terms
    opened = RunFolder.create(tmp_path / "run", text, terms, {}, run.starting_tensors(study))
    export = ["export", str(opened.path), "--to", "client:0", "--out", str(tmp_path / "view")]
    assert CliRunner().invoke(app, export).exit_code == 0
    assert {name.partition("/")[0] for name in load_file(tmp_path / "view")} >= {"group:0"}
    (tmp_path / "view").unlink()
    wider = [settings[0].replace("[1,2]", "[0,1,2]")]
    (opened.path / "run.toml").write_text(config.as_toml(config.parse(TEXT.replace("METHOD", "dp-ogl"), wider)))
    result = CliRunner().invoke(app, export)
    assert result.exit_code == 2 and "topology.members" in result.stderr
    assert not (tmp_path / "view").exists()
