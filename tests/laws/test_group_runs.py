"""Laws of runs in overlapping groups: what they reduce to, how long a trace takes, and what nobody receives."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from test_runs import begun, finished, prepared
from typer.testing import CliRunner

from onlooker import config, run
from onlooker.cli import app
from onlooker.errors import OnlookerError, UnpricedError
from onlooker.methods.groups import broadcast
from onlooker.methods.plain import Plain
from onlooker.methods.trainer import answered
from onlooker.privacy.ledger import Ledger
from onlooker.report.between import between
from playing import Watched, begin, local_of, one_round

LINE = "[[0,1],[1,2,3],[3,4],[4,5]]"
"""Four groups in a row, clients 1, 3 and 4 in two."""
NOISY = {"groups__members": LINE, "groups__mixing_period": 2, "privacy__noise_multiplier": 1.0}


def study_of(method="dp-ogl", rounds=6, **settings):
    return config.study(prepared(method, rounds=rounds, **NOISY | settings), torch.device("cpu"))


def played(study, rounds=None):
    """The models before round 1 and after each round, `float32[rounds + 1, g, p]`."""
    state, kept = begin(study)
    models = [state.models]
    for round in range(1, (rounds or study.method.terms.rounds) + 1):
        done = one_round(study, state, round, kept=kept)
        state, kept = done.state, done.kept
        models.append(state.models)
    return np.stack(models)


def test_one_group_of_all_is_dp_fedavg():
    """Without noise and with all there, for then no coin and no noise has another name."""
    settings = {"privacy__noise_multiplier": 0.0, "sampling__clients__name": '"all"', "privacy__clip": 0.5}
    everyone = study_of(**settings | {"groups__members": "[[0,1,2,3,4,5]]"})
    plain = config.study(prepared("dp-fedavg", **settings), torch.device("cpu"))
    # The streams of local training have other names in groups, so every step is made to take all records.
    models = [played(one, 3) for one in (whole_batches(everyone), whole_batches(plain))]
    assert np.allclose(models[0], models[1], atol=1e-6)
    assert not np.allclose(models[0][0], models[0][3], atol=1e-3)


def whole_batches(study):
    """The same study where every step is on all records of a client, so that no order matters."""
    descent = replace(study.method.descent, batch_size=10**6)
    return replace(study, method=replace(study.method, descent=descent))


def test_with_an_interval_of_one_all_three_are_one_method():
    """S = 1 makes DP-OGL, DP-OGL+ and its isolated form equal, to the bit, and in price."""
    settings = {"groups__mixing_period": 1}
    one, plus, isolated = (study_of(method, **settings) for method in ("dp-ogl", "dp-ogl-plus", "dp-ogl-plus-isolated"))
    assert np.array_equal(played(one), played(plus)) and np.array_equal(played(one), played(isolated))
    assert one.method.terms == plus.method.terms == isolated.method.terms


@pytest.mark.parametrize("method", ["dp-ogl", "dp-ogl-plus", "dp-ogl-plus-isolated"])
@pytest.mark.parametrize("period", [1, 2, 3])
def test_a_trace_arrives_when_the_delay_says_and_no_sooner(method, period):
    """Two worlds, with and without client 0's data, the same coins and noises: what differs first, and when.

    With all there, the model of the group at distance h differs first after round h S + 1; for the intervals of
    DP-OGL+ after interval h + 1.
    """
    rounds = 4 * period if method != "dp-ogl" else 3 * period + 1
    settings = {"groups__mixing_period": period, "sampling__clients__name": '"all"', "training__learning_rate": 0.5}
    study = study_of(method, rounds=rounds, **settings)
    federation = study.federation
    other = replace(federation.clients[0], labels=(federation.clients[0].labels + 1) % 10)
    changed = replace(study, federation=replace(federation, clients=(other, *federation.clients[1:])))
    one, two = played(study), played(changed)
    for group in range(4):
        first = group + 1 if method != "dp-ogl" else group * period + 1
        differs = [not np.array_equal(one[round, group], two[round, group]) for round in range(len(one))]
        assert differs.index(True) == first, group
        terms = study.method.terms
        assert terms.topology.delay(0, [1, 2, 4, 5][group]) == first


def test_a_group_never_jumps_to_the_mean_it_starts_from():
    """Without training and noise every model stays as it is: the mean is only where clients start."""
    study = study_of(privacy__noise_multiplier=0.0, training__learning_rate=1e-30)
    state, kept = begin(study)
    state = replace(state, models=np.arange(4, dtype=np.float32)[:, None] + state.models)
    after = one_round(study, state, kept=kept).state
    assert np.allclose(after.models, state.models, atol=1e-5)
    start = broadcast(study.method.terms, state, 1, 0, 1)
    assert np.allclose(start, state.models[[0, 1]].mean(axis=0)) and not np.allclose(start, state.models[0])
    assert np.array_equal(broadcast(study.method.terms, state, 1, 0, 2), state.models[0])


def test_an_update_is_against_what_the_client_started_from():
    """Not against the group's model: that difference would hold the jump to the mean, and the clip would eat it."""
    settings = {"sampling__clients__name": '"all"', "privacy__noise_multiplier": 0.0, "privacy__clip": 50.0}
    study = whole_batches(study_of(**settings))
    state, kept = begin(study)
    apart = np.linspace(-1, 1, 4, dtype=np.float32)[:, None] + state.models
    state = replace(state, models=apart)
    after = one_round(study, state, kept=kept).state.models[0].astype(float) - apart[0]
    terms, descent, rows = study.method.terms, study.method.descent, []
    for client in (0, 1):
        start = broadcast(terms, state, client, 0, 1)
        stream = study.source.stream("any")
        rows.append(descent(study.model, start, study.federation.clients[client], stream, study.device))
    assert np.allclose(after, np.mean(rows, axis=0), atol=1e-4)
    jump = broadcast(terms, state, 1, 0, 1) - apart[0]
    assert np.linalg.norm(jump) > 5 * np.linalg.norm(rows[1])


def test_a_bridging_client_has_no_side_channel():
    """What it sends to one group is the same whatever it did for the other in the round, and in the round before.

    No optimizer, model object or generator that is used for one group is seen in the other: the sums of group 0 are
    computed with group 1 before it, after it and without it.
    """
    study = study_of(training__momentum=0.9, training__optimizer='"adam"', training__learning_rate=0.01)
    state, kept = begin(study)
    start = broadcast(study.method.terms, state, 1, 0, 1)

    def row(group, round=1):
        return local_of(study, 1, start, kept.of(1, group), round, f"client:1/group:{group}").rows["model"]

    alone = row(0, 2)
    row(1, 1), row(0, 1), row(1, 2)
    assert np.array_equal(row(0, 2), alone)
    assert not np.array_equal(row(1, 2), alone)  # its batches are drawn for each group apart


def test_a_model_that_shares_statistics_between_records_is_refused_in_groups():
    with pytest.raises(OnlookerError, match="model.name"):
        prepared("dp-ogl", model__name='"networks:batch_normalised"', **NOISY)


def test_a_client_flips_a_coin_for_each_of_its_groups():
    """Independent ones: over many rounds a client of two groups is in one, in both and in none (rule 13)."""
    terms, source = study_of().method.terms, study_of().source
    drawn = [[1 in terms.cohort(group, round, source) for group in (0, 1)] for round in range(1, 401)]
    pairs = {pair: drawn.count(list(pair)) / 400 for pair in ((0, 0), (0, 1), (1, 0), (1, 1))}
    assert all(0.17 < share < 0.33 for share in pairs.values())  # 0.25, with a standard deviation of 0.022


def test_the_divisor_is_public_and_an_empty_group_still_moves():
    study = study_of(sampling__clients__rate=1e-9)
    state, kept = begin(study)
    after = one_round(study, state, kept=kept).state
    for group, members in enumerate(study.method.terms.topology.members):
        divisor = study.method.terms.divisor_of(group)
        assert divisor == pytest.approx(1e-9 * len(members))
        (channel,) = study.method.terms.channels_of(group)
        moved = after.models[group].astype(float) - state.models[group]
        assert moved.std() == pytest.approx(channel.deviation(0) / divisor, rel=0.15)


def test_groups_may_differ_in_rate_clip_and_noise():
    settings = {
        "groups__rate": [0.5, 0.25, 1.0, 0.5],
        "groups__clip": [1.0, 2.0, 1.0, 0.5],
        "groups__noise_multiplier": [1.0, 2.0, 3.0, 4.0],
    }
    base = {key: value for key, value in NOISY.items() if key != "privacy__noise_multiplier"}
    terms = prepared("dp-ogl", **base | settings).agreement.terms
    assert [terms.divisor_of(group) for group in range(4)] == [1.0, 0.75, 2.0, 1.0]
    assert [channel.grid.clip for channel in terms.channels] == settings["groups__clip"]
    assert [channel.mechanism.noise_multiplier for channel in terms.channels] == settings["groups__noise_multiplier"]
    same = prepared("dp-ogl", **NOISY | {"groups__rate": [0.5] * 4}).agreement.terms
    plain = prepared("dp-ogl", **NOISY).agreement.terms
    assert Ledger.plan(same).epsilon(0, "client:5") == Ledger.plan(plain).epsilon(0, "client:5")


def test_an_interval_is_clipped_as_a_whole_and_its_noise_grows_with_it():
    """Clip sqrt(S) c and noise sqrt(S) c sigma: the noise multiplier stays sigma."""
    for method in ("dp-ogl-plus", "dp-ogl-plus-isolated"):
        terms = prepared(method, rounds=8, **NOISY | {"groups__mixing_period": 4}).agreement.terms
        assert (terms.rounds, terms.interval, terms.topology.mixing_period) == (2, 4, 1)
        for channel in terms.channels:
            assert channel.grid.clip == 2.0 and channel.mechanism.noise_multiplier == 1.0


def test_an_isolated_worker_goes_on_from_its_own_model():
    """Its total of an interval is that of S trainings in a row, and the other members' change nothing of it."""
    settings = {"groups__mixing_period": 3, "sampling__clients__name": '"all"', "privacy__noise_multiplier": 0.0}
    printed, isolated = (
        whole_batches(study_of(method, **settings)) for method in ("dp-ogl-plus", "dp-ogl-plus-isolated")
    )
    state, kept = begin(isolated)
    rows = {
        which: answered(
            [study.method.local(state.models[0], kept.of(0, 0), study.federation.clients[0], study.source.stream("x"))],
            Plain(study.model),
        )[0].rows["model"]
        for which, study in (("isolated", isolated), ("once", printed))
    }
    descent, model = isolated.method.descent, isolated.model
    trained = state.models[0]
    for _ in range(3):
        moved = descent(model, trained, isolated.federation.clients[0], isolated.source.stream("x"), isolated.device)
        trained = (trained + moved).astype(np.float32)
    assert np.allclose(rows["isolated"], trained - state.models[0], atol=1e-6)
    assert np.linalg.norm(rows["once"]) < 0.7 * np.linalg.norm(rows["isolated"])
    assert not np.allclose(played(printed)[-1], played(isolated)[-1], atol=1e-4)


def test_epsilon_never_grows_with_distance_nor_with_the_mixing_period():
    """On a row of groups, for every pair; and J <= h gives exactly 0."""
    tables = {}
    for period in (1, 2, 4, 8):
        terms = prepared("dp-ogl", rounds=8, **NOISY | {"groups__mixing_period": period}).agreement.terms
        dense = dense_of(terms)
        far = [dense[0, observer] for observer in (1, 2, 4, 5)]
        assert all(near >= further for near, further in zip(far, far[1:], strict=False))
        assert all((epsilon == 0) == (8 / period <= hops) for hops, epsilon in enumerate(far))
        tables[period] = dense
    for shorter, longer in ((1, 2), (2, 4), (4, 8)):
        away = np.isfinite(tables[shorter])
        assert np.all(tables[longer][away] <= tables[shorter][away] * (1 + 1e-9))


def dense_of(terms):
    """Epsilon of every pair as the report draws it; infinite where a client holds the data itself."""
    cells = between(Ledger.plan(terms)).cells
    return np.array([[math.inf if cell.epsilon is None else cell.epsilon for cell in row] for row in cells])


def test_what_the_matrix_says_is_what_the_ledger_says():
    terms = prepared("dp-ogl", **NOISY).agreement.terms
    dense, ledger = dense_of(terms), Ledger.plan(terms)
    for subject in range(6):
        for observer in range(6):
            expected = ledger.epsilon(subject, f"client:{observer}")
            assert dense[subject, observer] == pytest.approx(expected)


def test_without_noise_there_is_no_guarantee_but_where_nothing_arrives():
    """Three rounds that mix every second one are two intervals: what is two hops away gets nothing."""
    ledger = Ledger.plan(prepared("dp-ogl", **NOISY | {"privacy__noise_multiplier": 0.0}).agreement.terms)
    assert [ledger.epsilon(0, f"client:{observer}") for observer in (1, 2, 4, 5)] == [math.inf, math.inf, 0, 0]


def test_the_master_sees_all_unless_two_servers_sum():
    plain = Ledger.plan(prepared("dp-ogl", **NOISY).agreement.terms)
    shared = Ledger.plan(prepared("dp-ogl", **NOISY | {"servers__count": 2}).agreement.terms)
    assert plain.epsilon(0, "coordinator") == float("inf")
    assert shared.epsilon(0, "client:2") == plain.epsilon(0, "client:2")
    for observer in ("coordinator", "aux:0"):
        once, twice = shared.epsilon(0, observer), shared.epsilon(1, observer)
        assert shared.epsilon(0, "client:1") < once < twice < float("inf")
    assert shared.epsilon(0, "aux:0+aux:1") == float("inf")


def test_the_public_sees_what_is_published():
    hidden = Ledger.plan(prepared("dp-ogl", **NOISY).agreement.terms)
    shown = Ledger.plan(prepared("dp-ogl", **NOISY | {"groups__publish": [3]}).agreement.terms)
    assert hidden.epsilon(0, "public") == 0
    assert 0 <= shown.epsilon(0, "public") <= shown.epsilon(2, "public") < shown.epsilon(5, "public")
    assert shown.epsilon(5, "client:0") == shown.epsilon(5, "public") > hidden.epsilon(5, "client:0")


def test_state_leaves_theorem_one():
    """With a private part for each client and group, mixing seldom lowers nothing but the count."""
    free = Ledger.plan(prepared("ms-pafl", rounds=20, **NOISY | {"groups__mixing_period": 10}).agreement.terms)
    kept = Ledger.plan(
        prepared("ms-pafl", rounds=20, **NOISY | {"groups__mixing_period": 10, "split__ratio": 0.5}).agreement.terms
    )
    assert free.epsilon(0, "client:2") < kept.epsilon(0, "client:2") < kept.epsilon(0, "client:1")


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_noise_is_found_for_a_target_in_groups(adjacency):
    settings = {key: value for key, value in NOISY.items() if key != "privacy__noise_multiplier"}
    settings |= {"privacy__epsilon": 3.0, "privacy__observers": '["client:5", "client:2"]'}
    found = prepared("dp-ogl", rounds=8, privacy__adjacency=f'"{adjacency}"', **settings).agreement
    spent = [Ledger.plan(found.terms).epsilon(0, observer) for observer in found.observers]
    worst = max(
        Ledger.plan(found.terms).epsilon(subject, observer)
        for observer in found.observers
        for subject in range(6)
        if observer != f"client:{subject}"
    )
    assert 2.999 < worst <= 3.0 and max(spent) <= worst


def test_an_export_holds_what_the_client_holds_and_nothing_else(tmp_path):
    """Its groups' models and its own private parts; no value of another group's model, or of another's private part."""
    settings = {"model__name": '"mlp"', "split__ratio": 0.9, "training__learning_rate": 0.05}
    study, folder = begun(tmp_path, "ms-pafl", **NOISY | settings)
    finished(study, folder)
    out = tmp_path / "mine.safetensors"
    result = CliRunner().invoke(app, ["export", str(folder.path), "--to", "client:0", "--out", str(out)])
    assert result.exit_code == 0 and result.stdout.strip() == str(out)
    view, state = out.read_bytes(), run.resumed(study.method, study.model, folder.commit())
    models, private = state[0].models, state[1].private.take(range(len(state[1].private)))
    seats = state[1].seats
    assert holds(view, models[0]) and not any(holds(view, models[group]) for group in (1, 2, 3))
    for pair, seat in seats.items():
        assert holds(view, private[seat]) == (pair == (0, 0)), pair
    both = tmp_path / "both.safetensors"
    CliRunner().invoke(app, ["export", str(folder.path), "--to", "client:1", "--out", str(both)])
    assert [holds(both.read_bytes(), models[group]) for group in range(4)] == [True, True, False, False]
    refused = CliRunner().invoke(app, ["export", str(folder.path), "--to", "client:6"])
    assert refused.exit_code == 2 and "--to" in refused.stderr and "client:5" in refused.stderr


def holds(content, weights):
    """True if most of the weights, which are like no others, are among the 32-bit floats of the content."""
    floats = [np.frombuffer(content[start : start + (len(content) - start) // 4 * 4], "<f4") for start in range(4)]
    return max(np.isin(weights, found).mean() for found in floats) > 0.5


SPLIT = {"model__name": '"mlp"', "split__ratio": 0.9, "servers__count": 2}


@pytest.mark.parametrize("method, more", [("dp-ogl", {}), ("ms-pafl", SPLIT)], ids=["whole", "split, two servers"])
@pytest.mark.parametrize("round", [1, 2, 3])
@pytest.mark.parametrize("poisoned", range(4))
def test_a_client_receives_nothing_of_a_group_that_it_is_not_in(monkeypatch, method, more, round, poisoned):
    """One group's model is not a number, in rounds that mix (1 and 3) and one that does not: who starts from it?"""
    everybody = {"sampling__clients__name": '"all"', "engine__workers": 1, **more}
    study = study_of(method, **everybody)
    state, kept = begin(study)
    models = np.random.default_rng(0).normal(size=state.models.shape).astype(np.float32)
    models[poisoned] = np.nan
    watched = Watched(monkeypatch)
    one_round(study, replace(state, models=models), round, kept=kept)
    assert len(watched.starts) == 9
    for (_, group, client), (received, _) in watched.starts.items():
        met = poisoned in study.method.terms.topology.groups_of(client) if round != 2 else poisoned == group
        assert np.isnan(received).any() == met, (group, client)


def test_a_resumed_run_in_groups_ends_as_one_that_was_not_cut(tmp_path):
    whole = begun(tmp_path, "dp-ogl", "whole", rounds=4, **NOISY)
    finished(*whole)
    study, folder = begun(tmp_path, "dp-ogl", "cut", rounds=4, **NOISY)
    steps = run.simulate(study, folder)
    next(steps), next(steps)
    steps.close()
    assert finished(study, folder) == (whole[1].path / "model.safetensors").read_bytes()


def test_a_structure_and_a_file_say_the_same_as_members(tmp_path):
    settings = {key: value for key, value in NOISY.items() if key != "groups__members"}
    built = prepared("dp-ogl", groups__structure='"string"', groups__groups=3, **settings).agreement.terms
    members = json.dumps([list(group) for group in built.topology.members])
    listed = prepared("dp-ogl", **settings, groups__members=members).agreement.terms
    lines = [f"{client},region {group}" for group, few in enumerate(built.topology.members) for client in few]
    (tmp_path / "regions.csv").write_text("client,group\n" + "\n".join(lines))
    read = prepared("dp-ogl", **settings, groups__path=f'"{tmp_path / "regions.csv"}"').agreement.terms
    assert built == listed == read


def test_split_groups_and_servers_are_one_configuration(tmp_path):
    """Planned, run, priced for a peer at each distance, a server, the coordinator and the public, and reported."""
    settings = NOISY | {"model__name": '"mlp"', "split__ratio": 0.9, "servers__count": 2}
    study, folder = begun(tmp_path, "ms-pafl", **settings)
    finished(study, folder)
    ledger = folder.ledger()
    assert ledger == Ledger.plan(study.method.terms)
    peers = [ledger.epsilon(0, f"client:{observer}") for observer in (1, 2, 4, 5)]
    assert peers == sorted(peers, reverse=True) and peers[0] > peers[-1] == 0
    assert peers[0] < ledger.epsilon(0, "coordinator") == ledger.epsilon(0, "aux:1") < float("inf")
    assert ledger.epsilon(0, "public") == 0
    result = CliRunner().invoke(app, ["report", str(folder.path)])
    assert result.exit_code == 0 and Path(result.stdout.strip()).stat().st_size > 10_000


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"privacy__adjacency": '"add-or-remove"'}, "add-or-remove"),
        ({"sampling__clients__rate": [0.5] * 6}, "one rate"),
        ({"sampling__clients__name": '"cyclic"', "sampling__clients__period": 2}, "poisson"),
    ],
)
def test_what_no_theorem_prices_in_groups_is_refused(settings, word):
    with pytest.raises(UnpricedError, match=word):
        prepared("dp-ogl", **NOISY | settings)


def test_one_round_is_charged_before_any_group_is_released():
    study, charged = study_of(), []
    one_round(study, begin(study)[0], charge=lambda digest, noise: charged.append(digest))
    assert len(charged) == 1
