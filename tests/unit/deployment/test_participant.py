"""A client's half of a task: what it answers, what it refuses, what it remembers, and what it never does twice."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from onlooker.errors import BudgetError, FolderError, MessageError, ProtocolError
from onlooker.privacy.random import System
from onlooker.privacy.shares import combine
from onlooker.secagg import coordinator
from onlooker.secagg.reports import deliveries, move_by_share, opened
from onlooker.secagg.wire import Signed, packed, unpacked
from participants import federation, total

SMALL = {"privacy.noise-multiplier": 1e-4}
GROUPS = {
    "task.method": '"dp-ogl"',
    "groups.members": [[0, 1, 2, 3], [2, 3, 4, 5]],
    "groups.mixing-period": 2,
    "sampling.clients.name": '"all"',
}
SPLIT = {"task.method": '"ms-pafl"', "model.name": '"mlp"', "split.ratio": 0.9}


def answered(one, many, round, state, **changes):
    return one.answer(many.invitation(one.client, round, state, **changes))


def test_its_report_is_taken_and_summed(tmp_path):
    many = federation(tmp_path, **SMALL)
    state = many.state()
    clients = [many.client(number) for number in range(3)]
    reports = [body for one in clients for body in answered(one, many, 1, state)]
    (sums,) = many.sums(1, state, reports)
    expected = np.zeros(len(state.models[0]))
    for one in clients:
        rows, _ = one._trained(many.contexts(1, state)[0], {0: state.models[0]})
        expected += rows["model"] * min(1.0, 1.0 / np.linalg.norm(rows["model"]))
    assert np.linalg.norm(expected) > 0.5
    assert total(many, sums) == pytest.approx(expected, abs=2e-3)


def test_it_says_the_same_bytes_again_also_after_a_restart(tmp_path):
    many = federation(tmp_path)
    state, one = many.state(), many.client(0)
    first = answered(one, many, 1, state)
    assert answered(one, many, 1, state) == first
    spent = one.budget.price()
    one.memory.close()
    again = many.client(0)
    assert answered(again, many, 1, state) == first
    assert again.budget.price() == spent


def test_it_takes_part_in_a_round_once_whatever_the_model(tmp_path):
    many = federation(tmp_path)
    state, one = many.state(), many.client(0)
    answered(one, many, 1, state)
    other = type(state)(state.models + 1, state.momentum)
    with pytest.raises(ProtocolError, match="came before with another model"):
        answered(one, many, 1, other)


def test_a_round_that_is_over_is_not_gone_back_to(tmp_path):
    many = federation(tmp_path)
    state, one = many.state(), many.client(0)
    third = answered(one, many, 3, state)
    with pytest.raises(ProtocolError, match="round 2 is over for client:0"):
        answered(one, many, 2, state)
    assert answered(one, many, 3, state) == third


def test_two_processes_with_one_key_do_not_share_a_memory(tmp_path):
    many = federation(tmp_path)
    one = many.client(0)
    answered(one, many, 1, many.state())
    with pytest.raises(FolderError, match="is used by another process"):
        many.client(0)


# -- What it is not invited to --------------------------------------------------------------------------------------


def test_nothing_but_an_invitation_of_the_coordinator_counts(tmp_path):
    many, other = federation(tmp_path / "one"), federation(tmp_path / "other")
    state, one = many.state(), many.client(0)
    (context,) = many.contexts(1, state)
    forged = coordinator.opening(context, many.everybody.signing[0]).to_bytes()
    freeze = coordinator.freeze(context, many.everybody.coordinator).to_bytes()
    announcements = tuple(server.announcement().to_bytes() for server in many.everybody.servers)
    foreign = tuple(server.announcement().to_bytes() for server in other.everybody.servers)
    model = state.models[0].tobytes()
    own_key = Signed.by(many.everybody.clients[1], unpacked(Signed.from_bytes(announcements[0]).body)).to_bytes()
    for changes, sentence in [
        ({"openings": (forged,)}, "did not sign"),
        ({"openings": (freeze,)}, "opens no round"),
        ({"models": (model[:-4] + bytes(4),)}, "another model"),
        ({"models": (model + bytes(4),)}, "another model"),
        ({"models": (model, model)}, "2 models for 1 groups"),
        ({"announcements": announcements[::-1]}, "did not sign"),
        ({"announcements": foreign}, "announced no keys for this task"),
        ({"announcements": (own_key, announcements[1])}, "did not sign"),
        ({"announcements": (*announcements, announcements[1])}, "3 messages of 2 servers"),
    ]:
        with pytest.raises(MessageError, match=sentence):
            answered(one, many, 1, state, **changes)
    with pytest.raises(MessageError, match="no round of this task|no keys for this task"):
        one.answer(other.invitation(0, 1, state))
    for body in (b"", b"\x00" * 100, packed(unpacked(Signed.from_bytes(freeze).body))):
        with pytest.raises(MessageError):
            one.answer(body)
    assert one.memory.last() == 0 and one.budget.price().epsilon == 0


def test_an_invitation_to_some_of_its_groups_or_to_others_is_refused(tmp_path):
    many = federation(tmp_path, **GROUPS)
    state, one = many.state(), many.client(2)
    contexts = many.contexts(1, state)
    openings = [coordinator.opening(one, many.everybody.coordinator).to_bytes() for one in contexts]
    models = [model.tobytes() for model in state.models]
    later = coordinator.opening(many.contexts(2, state)[1], many.everybody.coordinator).to_bytes()
    for some, brought in [
        (openings[:1], models[:1]),
        (openings[::-1], models[::-1]),
        ([openings[0]] * 2, [models[0]] * 2),
        ([openings[0], later], models),
    ]:
        with pytest.raises(MessageError, match="not to one round of each group of client:2"):
            answered(one, many, 1, state, openings=tuple(some), models=tuple(brought))
    with pytest.raises(MessageError, match="each group of client:0"):
        many.client(0).answer(many.invitation(2, 1, state))


# -- Its coins ------------------------------------------------------------------------------------------------------


def test_where_its_coin_says_no_it_sends_nothing_and_is_charged_nothing_for_good(tmp_path):
    many = federation(
        tmp_path, **{"sampling.clients.name": '"poisson"', "sampling.clients.rate": 0.5, "task.rounds": 60}
    )
    state, one, sent = many.state(), many.client(0), {}
    for round in range(1, 61):
        spent = one.budget.price()
        reports = answered(one, many, round, state)
        assert answered(one, many, round, state) == reports
        assert (one.budget.price().epsilon > spent.epsilon) == bool(reports)
        sent[round] = bool(reports)
    assert 15 <= sum(sent.values()) <= 45  # beyond, with probability 4e-5
    one.memory.close()
    again = many.client(0)
    assert bool(answered(again, many, 60, state)) == sent[60]


def test_cover_is_a_report_of_zeros_charged_like_any_other(tmp_path):
    settings = {
        **SMALL,
        "sampling.clients.name": '"poisson"',
        "sampling.clients.rate": 1e-9,
        "sampling.clients.cover-traffic": "true",
    }
    many = federation(tmp_path, **settings)
    state, clients = many.state(), [many.client(number) for number in range(3)]
    reports = [answered(one, many, 1, state) for one in clients]
    assert [len(some) for some in reports] == [1, 1, 1]
    assert len({len(body) for some in reports for body in some}) == 1
    (sums,) = many.sums(1, state, [body for some in reports for body in some])
    assert np.abs(total(many, sums)).max() < 2e-3
    assert all(one.budget.price().epsilon > 0 for one in clients)


@pytest.mark.parametrize(
    ("name", "key", "most"), [("random-allocation", "participations", 2), ("fixed-offset", "period", 2)]
)
def test_what_it_picked_for_the_whole_run_is_kept_over_restarts(tmp_path, name, key, most):
    settings = {"sampling.clients.name": f'"{name}"', f"sampling.clients.{key}": 2, "task.rounds": 4}
    many = federation(tmp_path, **settings)
    state, took = many.state(), 0
    for round in range(1, 5):
        one = many.client(3)  # which draws again, and forgets it
        took += len(answered(one, many, round, state))
        one.memory.close()
    assert took == most


# -- Its budget -----------------------------------------------------------------------------------------------------


def test_it_refuses_the_report_that_would_pass_its_limit_whatever_it_is_asked(tmp_path):
    free = federation(tmp_path / "free")
    one, state = free.client(0), free.state()
    for round in (1, 2):
        answered(one, free, round, state)
    limit = one.budget.price().epsilon
    many = federation(tmp_path / "own", epsilon=limit)
    one, state = many.client(0), many.state()
    for round in (1, 2):
        assert answered(one, many, round, state)
    for _ in range(2):
        with pytest.raises(BudgetError, match="no report leaves"):
            answered(one, many, 3, state)
    assert one.budget.price().epsilon == limit


# -- Death at every step --------------------------------------------------------------------------------------------


class Death(Exception):
    """Instead of a kill."""


@pytest.mark.parametrize("step", ["decide", "charge", "train", "keep", "kept"])
def test_a_death_at_any_step_is_followed_by_one_report_charged_once(tmp_path, step, monkeypatch):
    many = federation(tmp_path, **SPLIT)
    state, one = many.state(), many.client(0)
    before = answered(one, many, 1, state)
    places = {
        "decide": (type(one.memory), "decide", False),
        "charge": (type(one.budget), "charge", True),
        "train": (type(one), "_trained", True),
        "keep": (type(one.memory), "keep", False),
        "kept": (type(one.memory), "keep", True),
    }
    kind, name, acts = places[step]
    act = getattr(kind, name)

    def dies(*words, **named):
        if acts:
            act(*words, **named)
        raise Death

    with monkeypatch.context() as patch:
        patch.setattr(kind, name, dies)
        with pytest.raises(Death):
            answered(one, many, 2, state)
    one.memory.close()
    again = many.client(0)
    assert answered(again, many, 1, state) == before
    second = answered(again, many, 2, state)
    assert len(second) == 1 and answered(again, many, 2, state) == second
    clean = federation(tmp_path / "clean", **SPLIT)
    other = clean.client(0)
    for round in (1, 2):
        answered(other, clean, round, clean.state())
    assert again.budget.price() == other.budget.price()


# -- What stays with it ---------------------------------------------------------------------------------------------


def test_its_private_part_goes_on_from_round_to_round_and_never_leaves(tmp_path):
    many = federation(tmp_path, **SPLIT)
    state, one = many.state(), many.client(0)
    first = one.start[one.method.parts.private]
    kept = [one.memory.private(0, first)]
    for round in (1, 2):
        (body,) = answered(one, many, round, state)
        kept.append(one.memory.private(0, first))
        (context,) = many.contexts(round, state)
        ((channel,), totals) = context.channels, []
        for server, delivery in enumerate(deliveries(unpacked(body))):
            totals.append(channel.empty().shares[server])
            content = opened(delivery, context, server, many.everybody.envelope[server])
            move_by_share(np.add, totals[-1:], content, delivery.identity, context, server)
        row = channel.grid.from_ring(combine(totals)) / 2.0**channel.grid.fraction_bits
        assert len(row) == len(one.method.parts.public) and np.any(row)
        assert not {*kept[-1].tolist()} & {*row.astype(np.float32).tolist()} - {0.0}
    assert not np.array_equal(kept[0], kept[1]) and not np.array_equal(kept[1], kept[2])
    one.memory.close()
    assert np.array_equal(many.client(0).memory.private(0, first), kept[2])
    files = list((tmp_path / "client0" / "state").glob("private*"))
    assert len(files) == 1 and files[0].stat().st_mode & 0o077 == 0


def test_in_groups_it_starts_from_the_mean_of_its_own_groups_models(tmp_path):
    many = federation(tmp_path, **GROUPS, **SMALL)
    state = many.state()
    state = type(state)(state.models + np.array([[0.1], [0.3]], dtype=np.float32), state.momentum)
    reports = [body for number in range(6) for body in answered(many.client(number), many, 1, state)]
    assert len(reports) == 8
    after = many.after(1, state, reports)
    assert not np.array_equal(after.models[0], after.models[1])


def test_a_folder_of_another_task_is_refused(tmp_path):
    many, other = federation(tmp_path / "one"), federation(tmp_path / "two")
    many.client(0).memory.close()
    other.folder = many.folder
    with pytest.raises(FolderError, match="of another task"):
        other.client(0)


def test_coins_come_from_the_system(tmp_path):
    assert isinstance(federation(tmp_path).client(0).source, System)


def test_a_folder_of_another_client_is_refused(tmp_path):
    many = federation(tmp_path)
    many.client(0).memory.close()
    (tmp_path / "client0").rename(tmp_path / "client1")
    with pytest.raises(FolderError, match="of another client"):
        many.client(1)


@pytest.mark.parametrize("name", ["state", "state/rounds.db"])
def test_a_folder_that_others_may_read_is_refused(tmp_path, name):
    many = federation(tmp_path)
    many.client(0).memory.close()
    (tmp_path / "client0" / name).chmod(0o755)
    with pytest.raises(FolderError, match="may be read by others"):
        many.client(0)


# -- Files of different times ---------------------------------------------------------------------------------------


def played_twice(tmp_path, lost):
    """A client whose file was saved after round 1 and put back after round 2; or lost."""
    many = federation(tmp_path)
    state, one = many.state(), many.client(0)
    answered(one, many, 1, state)
    one.memory.close()
    one.budget.close()
    place, saved = tmp_path / "client0", tmp_path / "saved"
    shutil.copytree(place, saved)
    one = many.client(0)
    answered(one, many, 2, state)
    one.memory.close()
    one.budget.close()
    for path in place.glob(f"{lost}*"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return many, state, saved


@pytest.mark.parametrize("restored", [False, True])
def test_a_budget_that_was_lost_or_put_back_stops_the_task(tmp_path, restored):
    many, _, saved = played_twice(tmp_path, "budget.db")
    if restored:
        shutil.copy2(saved / "budget.db", tmp_path / "client0" / "budget.db")
    with pytest.raises(FolderError, match=r"budget\.file does not know of [12] reports"):
        many.client(0)


@pytest.mark.parametrize("restored", [False, True])
def test_a_memory_that_was_lost_or_put_back_stops_the_task(tmp_path, restored):
    """Its coins, and what it picked for the whole run, would be drawn again."""
    many, _, saved = played_twice(tmp_path, "state")
    if restored:
        shutil.copytree(saved / "state", tmp_path / "client0" / "state")
    with pytest.raises(FolderError, match="folder has forgotten [12] rounds"):
        many.client(0)


def test_under_cover_its_files_change_in_the_same_way_whatever_its_coin_says(tmp_path):
    settings = {
        **SPLIT,
        "sampling.clients.name": '"poisson"',
        "sampling.clients.rate": 1e-9,
        "sampling.clients.cover-traffic": "true",
        "servers.count": 2,
        "privacy.noised-by": '"servers"',
    }
    many = federation(tmp_path, **settings)
    state, one = many.state(), many.client(0)
    first = one.start[one.method.parts.private]
    answered(one, many, 1, state)
    files = [path.name for path in (tmp_path / "client0" / "state").glob("private*")]
    assert files == ["private.0.1.safetensors"]
    assert np.array_equal(one.memory.private(0, first), first)
