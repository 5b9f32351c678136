"""A coordinator whose servers are in the same process, killed and started again at any point."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coordinating import Conductor, Courier, Death, started
from onlooker.folder import RunFolder
from onlooker.secagg.protocol import Phase
from onlooker.secagg.store import Store
from onlooker.stored import state_of
from participants import federation


def test_a_round_given_up_too_early_does_not_stop_a_coordinator_that_is_started_again(tmp_path):
    many, told = federation(tmp_path, **{"privacy.noise-multiplier": 0.05}), []
    conductor, clients = Conductor(many.everybody), {number: many.client(number) for number in range(6)}
    conductor.late = {1}
    with pytest.raises(Death):
        list(started(many, tmp_path, conductor, Courier(clients, dies={2}), told).rounds())
    conductor.late = set()
    again = started(many, tmp_path, conductor, Courier(clients), told)
    steps = [step.metrics["round"] if step.metrics else None for step in again.rounds()]
    assert steps == [1, None, 3, 4, 5]
    assert [release.round for release in again._folder.ledger().releases] == [1, 2, 3, 4, 5]
    assert any("opened before with another model" in sentence for sentence in told)
    assert list(started(many, tmp_path, conductor, Courier(clients), told).rounds()) == []


def test_a_round_that_was_charged_with_another_model_is_given_up(tmp_path):
    many, told = federation(tmp_path, **{"privacy.noise-multiplier": 0.05}), []
    conductor, clients = Conductor(many.everybody), {number: many.client(number) for number in range(6)}

    class Dying(Conductor):
        async def finish(self, context, reports):
            if context.round == 2:
                raise Death
            return await super().finish(context, reports)

    dying = Dying(many.everybody)
    dying.late = {1}
    with pytest.raises(Death):
        list(started(many, tmp_path, dying, Courier(clients), told).rounds())
    again = started(many, tmp_path, conductor, Courier(clients), told)
    assert [step.metrics["round"] if step.metrics else None for step in again.rounds()] == [1, None, 3, 4, 5]
    assert any("was sealed before with other bytes" in sentence for sentence in told)


def test_where_clients_add_the_noise_a_sum_is_used_also_by_whoever_was_started_after_its_charge(tmp_path):
    settings = {"task.method": '"dp-fedavg"', "privacy.noised-by": '"clients"', "task.rounds": 1}
    many, told = federation(tmp_path, **settings), []
    conductor, clients = Conductor(many.everybody), {number: many.client(number) for number in range(6)}

    class Dying(Conductor):
        async def finish(self, context, reports):
            raise Death

    task = started(many, tmp_path, Dying(many.everybody), Courier(clients), told)
    before = task._folder.commit().tensors
    with pytest.raises(Death):
        list(task.rounds())
    (step,) = started(many, tmp_path, conductor, Courier(clients), told).rounds()
    assert step.metrics["round"] == 1
    after = task._folder.commit().tensors
    assert any(not np.array_equal(before[name], after[name]) for name in before)


GROUPS = {"task.method": '"dp-ogl"', "groups.members": [[0, 1, 2, 3], [2, 3, 4, 5]], "groups.mixing-period": 2}
SHORT = {"task.rounds": 2, "privacy.noise-multiplier": 0.05}


class Mortal:
    """Counts what a coordinator does, and kills it at one moment, before or after it was done."""

    def __init__(self, moment):
        self.moment, self.count = moment, 0

    def passes(self):
        self.count += 1
        if self.count == self.moment:
            raise Death

    def __call__(self, act):
        def acts(*words):
            self.passes()
            found = act(*words)
            self.passes()
            return found

        return acts

    def awaited(self, act):
        async def acts(*words):
            self.passes()
            found = await act(*words)
            self.passes()
            return found

        return acts


def sealed_rounds(many):
    """The rounds of which any server has sealed a share."""
    return {
        one.context.round
        for server in many.everybody.servers
        for one in server._rounds.values()
        if one.phase is Phase.SEALED
    }


@pytest.mark.parametrize("table", [SHORT, {**SHORT, **GROUPS}])
def test_a_coordinator_that_dies_at_any_moment_ends_where_one_that_lives_does(tmp_path, table, monkeypatch):
    """Clients say the same again and servers draw the same noise, so every run must come to the same model."""
    many = federation(tmp_path, **table)
    clients = {number: many.client(number) for number in range(6)}
    models, moment, whole = [], 0, False
    while not whole:
        many.everybody = fresh_servers(many)
        mortal, place = Mortal(moment), tmp_path / f"run-{moment}"
        conductor = Conductor(many.everybody)
        with monkeypatch.context() as patch:
            patch.setattr(RunFolder, "charge", mortal(RunFolder.charge))
            patch.setattr(RunFolder, "finish", mortal(RunFolder.finish))
            for name in ("open", "announcements", "deliver", "finish"):
                patch.setattr(conductor, name, mortal.awaited(getattr(conductor, name)))
            try:
                list(started(many, place, conductor, Courier(clients), []).rounds())
                whole = moment > mortal.count
            except Death:
                charged = {one.round for one in RunFolder.open(place / "run").ledger().releases}
                assert sealed_rounds(many) <= charged
                list(started(many, place, conductor, Courier(clients), []).rounds())
        folder = RunFolder.open(place / "run")
        assert [one.round for one in folder.ledger().releases] == [1, 2]
        models.append({name: value.tobytes() for name, value in folder.commit().tensors.items()})
        moment += 1
    assert moment > 35 and all(one == models[0] for one in models)


def fresh_servers(many):
    """The same parties, whose servers know of no round yet."""
    found = replace(many.everybody, stores=[Store(None) for _ in many.everybody.stores], closings={})
    found.servers = [found.start(server) for server in range(len(found.stores))]
    for server in range(len(found.stores)):
        found.remind(server)
    return found


def test_a_group_whose_round_has_too_few_keeps_its_model_and_the_others_move(tmp_path):
    many, told = federation(tmp_path, **{**SHORT, **GROUPS, "task.rounds": 1, "servers.min-batch": 3}), []
    clients = {number: many.client(number) for number in range(6)}

    class Losing(Courier):
        def ask(self, round, invitations, patience):
            return super().ask(round, {client: body for client, body in invitations.items() if client < 3}, patience)

    task = started(many, tmp_path, Conductor(many.everybody), Losing(clients), told)
    before = models_of(many, task)
    (step,) = task.rounds()
    after = models_of(many, task)
    assert step.metrics["round"] == 1 and any("below servers.min-batch = 3" in one for one in told)
    assert [np.array_equal(*pair) for pair in zip(before, after, strict=True)] == [False, True]


def models_of(many, task):
    return state_of(many.prepared.method, many.prepared.model, task._folder.commit()).models
