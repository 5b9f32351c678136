"""Laws of split models: what they reduce to, what stays on a client, and what is never sent."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from test_runs import begun, finished, prepared

from onlooker import config, run
from onlooker.errors import UnpricedError
from onlooker.evaluation import evaluated, personal_model
from onlooker.folder import RunFolder
from onlooker.models import score
from onlooker.privacy import channel as channels
from onlooker.stored import resumed
from playing import Watched, begin, local_of, one_round, rows_of

SPLIT = {"model__name": '"mlp"', "split__ratio": 0.9, "privacy__noise_multiplier": 0.5}


def study_of(method="ms-pafl", **settings):
    return config.study(prepared(method, **SPLIT | settings), torch.device("cpu"))


def test_an_all_public_split_is_dp_fedavg(tmp_path):
    """To the last bit: the split is a setting, and nothing else differs."""
    settings = {"model__name": '"mlp"', "privacy__noise_multiplier": 2.0}
    split = finished(*begun(tmp_path, "ms-pafl", "a", split__public='"*"', **settings))
    ratio = finished(*begun(tmp_path, "ms-pafl", "b", split__ratio=1.0, **settings))
    assert split == ratio == finished(*begun(tmp_path, "dp-fedavg", "c", **settings))


def test_a_client_that_sits_out_keeps_its_private_part_as_it_was():
    study = study_of()
    state, kept = begin(study)
    cohort = study.method.terms.cohort(0, 1, study.source)
    assert 0 < len(cohort) < 6
    after = one_round(study, state, kept=kept).kept
    moved = {client for client in range(6) if not np.array_equal(after.of(client, 0), kept.of(client, 0))}
    assert moved == set(cohort)


def test_training_goes_on_from_the_private_part_that_was_kept():
    """The recombined model (eq. 18) is what is trained: another private part gives another public row."""
    study = study_of(sampling__clients__name='"all"')
    state, kept = begin(study)
    everybody = range(len(kept.private))
    other = replace(kept, private=kept.private.changed(everybody, kept.private.take(everybody) + np.float32(0.1)))
    first, again, changed = (local_of(study, 0, state.models[0], one.of(0, 0)) for one in (kept, kept, other))
    assert np.array_equal(first.rows["model"], again.rows["model"])
    assert not np.array_equal(first.rows["model"], changed.rows["model"])
    assert len(first.rows["model"]) == len(study.method.parts.public) < study.model.size
    assert len(first.kept) == study.model.size - len(first.rows["model"])


IN_GROUPS = {"groups__members": "[[0,1],[1,2,3],[3,4],[4,5]]", "groups__mixing_period": 2}
SPLITS = {
    "a ratio": {"split__ratio": 0.9},
    "public globs": {"split__public": '"head.*"'},
    "a private glob": {"split__private": '"hidden.weight"'},
    "noise by clients": {"split__ratio": 0.5, "privacy__noised_by": '"clients"'},
    "two servers": {"split__ratio": 0.9, "servers__count": 2},
    "groups through two servers": {"split__ratio": 0.9, "servers__count": 2} | IN_GROUPS,
}


def publicly(study, settings):
    """Which places are public, `bool[d]`: by their names here, or those that the mask drew."""
    layout, ratio = study.model.layout, settings.get("split__ratio")
    if ratio:
        drawn = np.isin(np.arange(study.model.size), study.method.parts.public)
        shares = [drawn[one.offset : one.offset + one.size].mean() for one in layout]
        assert all(abs(share - ratio) <= 0.5 / one.size for share, one in zip(shares, layout, strict=True))
        return drawn
    names = np.repeat([one.name for one in layout], [one.size for one in layout])
    if "split__public" in settings:
        return np.char.startswith(names, "head.")
    return names != "hidden.weight"


@pytest.mark.parametrize("split", SPLITS)
def test_a_row_is_how_far_the_public_part_moved_and_nothing_else(monkeypatch, split):
    """Beside a plain descent from the two parts put together here, by name."""
    settings = {"model__name": '"mlp"', "privacy__noise_multiplier": 0.5, **SPLITS[split]}
    study = config.study(
        prepared("ms-pafl", **settings, engine__workers=1, engine__trainer='"plain"'), torch.device("cpu")
    )
    public, method = publicly(study, settings), study.method
    watched = Watched(monkeypatch)
    state, kept = begin(study)
    for round in (1, 2, 3):
        done = one_round(study, state, round, kept=kept)
        state, kept = done.state, done.kept
    assert len(watched.rows) == len(watched.starts) > 5
    for (round, group, client), (received, private) in watched.starts.items():
        grouped = "groups__members" in settings
        start = np.empty(study.model.size, dtype=np.float32)
        start[public], start[~public] = received, private
        stream = study.source.stream(
            "local training", round, f"client:{client}/group:{group}" if grouped else f"client:{client}"
        )
        examples = study.federation.clients[client]
        trained = start + method.descent(study.model, start, examples, stream, torch.device("cpu"))
        row = watched.rows[round, f"model/{group}" if grouped else "model", client]
        assert row.shape == received.shape == (public.sum(),)
        assert np.allclose(row, (trained - start)[public], atol=1e-6)
        assert np.linalg.norm((trained - start)[~public]) > 0.01  # what it must not hold
        assert not np.allclose(row, (trained - start)[: len(row)], atol=1e-3)


def test_nothing_of_a_private_part_is_in_any_byte_that_leaves(tmp_path, monkeypatch):
    """Every report, every sealed sum and every released file is searched for every private weight.

    A weight is looked for as the 32-bit float that it is, and as the integer that a grid would make of it; the same
    search does find the public part in the released file, and the private part in the file of what clients keep.
    """
    sent = []
    gather = channels.Channel.gather

    def watched(self, sums, row, client, round, source, **more):
        sent.append(self.shard(self.encode(row, client), client, round, source))  # what a client of its own would send
        gather(self, sums, row, client, round, source, **more)

    quiet = {"privacy__noise_multiplier": 0.0, "privacy__clip": 50.0, "engine__workers": 1}  # spied on in this process
    monkeypatch.setattr(channels.Channel, "gather", watched)
    study, folder = begun(tmp_path, "ms-pafl", **SPLIT | quiet)
    finished(study, folder)
    kept = private_rows(study, folder)
    trained = np.unique(kept[kept != begin(study)[1].private.start])
    assert len(trained) > 1000 and sent
    grid, public = study.method.terms.channels[0].grid, begin(study)[0].models[0]
    assert np.intersect1d(grid.to_ring(on_grid(public, grid)), grid.to_ring(on_grid(public[:9], grid))).size == 9
    for report in sent:
        for share in report.shares:
            assert len(share) == len(study.method.parts.public)
            assert not found(trained, share.tobytes())
            by_chance = len(share) * len(trained) / 2**21  # integers of either part lie within a few million
            assert np.intersect1d(grid.to_ring(on_grid(trained, grid)), share).size < 5 * by_chance < len(trained) / 10
    for name in ("model.safetensors", "ledger.jsonl", "terms.toml", "env.json", "run.toml"):
        assert not found(trained, (folder.path / name).read_bytes()), name
    public = np.concatenate([value.reshape(-1) for value in folder.commit().tensors.values()])
    assert found(public[:100], (folder.path / "model.safetensors").read_bytes())
    assert found(trained[:100], (folder.path / "private.float32").read_bytes())


def private_rows(study, folder):
    """The private part of every client after the last committed round."""
    private = resumed(study.method, study.model, folder.commit())[1].private
    return private.take(range(len(private)))


def on_grid(weights, grid):
    return np.rint(weights.astype(float) * 2.0**grid.fraction_bits / grid.clip).astype(np.int64)


def found(weights, content):
    """True if one of the weights is among the bytes of little-endian 32-bit floats, wherever these begin."""
    return any(
        np.isin(np.frombuffer(content[start : start + (len(content) - start) // 4 * 4], "<f4"), weights).any()
        for start in range(4)
    )


def test_a_score_that_rests_on_private_parts_is_named_as_such(tmp_path):
    """It stands where every reader looks for it, and no party of a deployment could see it (rule 10)."""
    for method, more, named in (("ms-pafl", SPLIT, ["accuracy", "loss"]), ("dp-ogl", IN_GROUPS, None)):
        study, folder = begun(tmp_path, method, method, **{"privacy__noise_multiplier": 0.5, **more})
        finished(study, folder)
        lines = [json.loads(line) for line in (folder.path / "metrics.jsonl").read_text().splitlines()]
        assert len(lines) == 3
        assert all(line.get("simulation-only") == named and 0 <= line["accuracy"] <= 1 for line in lines)


def test_a_resumed_run_has_the_private_parts_again(tmp_path):
    whole = begun(tmp_path, "ms-pafl", "whole", **SPLIT)
    finished(*whole)
    study, folder = begun(tmp_path, "ms-pafl", "cut", **SPLIT)
    steps = run.simulate(study, folder)
    next(steps)
    steps.close()
    assert finished(study, RunFolder.open(folder.path)) == (whole[1].path / "model.safetensors").read_bytes()
    assert np.array_equal(private_rows(study, folder), private_rows(*whole))
    assert [path.name for path in folder.path.glob("kept.*")] == ["kept.3.safetensors"]


def test_what_is_kept_cancels_record_sampling():
    """Rule 6: with a private part q is worth nothing to a record; without one it is."""
    settings = {
        "privacy__unit": '"record"',
        "data__expected_records": 2000,
        "sampling__records__name": '"without-replacement"',
        "training__batch_size": 8,
        "privacy__noise_multiplier": 4.0,
    }
    split = study_of(**settings).method.terms
    public = study_of(**settings | {"split__ratio": 1.0}).method.terms
    assert not split.amplified(0, "public") and public.amplified(0, "public")
    assert public.training.record_rate == pytest.approx(5 * 8 / 2000)


def test_models_of_their_own_are_measured_for_each_client():
    """Mean, worst and spread over clients; by a client's own distribution its classes weigh as among its records."""
    study = study_of(data__partition='"pathological"', privacy__noise_multiplier=0.0, privacy__clip=5.0)
    state, kept = begin(study)
    for round in (1, 2, 3):
        played = one_round(study, state, round, kept=kept)
        state, kept = played.state, played.kept
    test, each, own = study.federation.test, [], []
    for client in range(6):
        _, right = score(study.model, personal_model(study.method, state, kept, client), test)
        each.append(right.mean())
        labels = study.federation.clients[client].labels
        shares = {label: np.mean(labels == label) for label in np.unique(labels)}
        own.append(sum(share * right[test.labels == label].mean() for label, share in shares.items()))
    measured = evaluated(study, state, kept)
    assert measured.metrics["accuracy"] == pytest.approx(np.mean(each))
    assert measured.simulation["accuracy-worst"] == pytest.approx(min(each))
    assert measured.simulation["accuracy-spread"] == pytest.approx(np.std(each)) and np.std(each) > 0
    assert measured.simulation["own-accuracy"] == pytest.approx(np.mean(own))
    assert measured.simulation["own-accuracy-worst"] == pytest.approx(min(own))
    assert np.mean(own) > np.mean(each) + 0.05  # two classes each: its own are what a client is good at


def test_the_realised_divisor_is_the_count_and_an_empty_round_keeps_the_model():
    """Eq. 17, without noise: the mean is over those who came, and a round of nobody changes nothing."""
    settings = {"split__ratio": 1.0, "privacy__noise_multiplier": 0.0, "privacy__clip": 50.0}
    settings["sampling__clients__rate"] = 0.7
    realised = study_of(privacy__divisor='"realised"', **settings)
    public = study_of(**settings)
    state, _ = begin(realised)
    count = len(realised.method.terms.cohort(0, 1, realised.source))
    assert count and count != public.method.terms.divisor
    step = [one_round(one, state).state.models[0].astype(float) - state.models[0] for one in (realised, public)]
    assert np.allclose(step[0] * count, step[1] * public.method.terms.divisor, atol=1e-5)
    noisy = study_of(privacy__divisor='"realised"', split__ratio=1.0, sampling__clients__rate=1e-9)
    assert np.array_equal(one_round(noisy, state).state.models, state.models)


def test_a_model_that_is_clipped_is_sent_itself():
    """Eq. 13, without noise and with everybody: the next model is the mean of the clipped models."""
    clip = 3.0
    study = study_of(
        privacy__clip_mode='"model"',
        sampling__clients__name='"all"',
        split__ratio=1.0,
        privacy__noise_multiplier=0.0,
        privacy__clip=clip,
    )
    state, kept = begin(study)
    rows = list(rows_of(study, range(6)).values())
    clipped = [row / max(1, np.linalg.norm(row) / clip) for row in rows]
    assert all(np.linalg.norm(row) > clip for row in rows)
    assert np.allclose(one_round(study, state).state.models[0], np.mean(clipped, axis=0), atol=1e-4)


@pytest.mark.parametrize("adjacency", ["zero-out", "replace-one"])
def test_a_realised_count_costs_more_than_a_hidden_one(adjacency):
    """The count that everybody sees is priced: more than coins alone, less than seeing who took part."""
    settings = {"privacy__noise_multiplier": 3.0, "privacy__adjacency": f'"{adjacency}"', "split__ratio": 1.0}
    ledgers = [
        run.Ledger.plan(prepared("ms-pafl", rounds=20, model__name='"mlp"', **settings | more).agreement.terms)
        for more in ({}, {"privacy__divisor": '"realised"'}, {"privacy__noised_by": '"clients"'})
    ]
    hidden, counted, seen = (ledger.epsilon(0, "public") for ledger in ledgers)
    assert hidden < counted * 0.99 < seen * 0.98
    assert ledgers[1].epsilon(0, "client:1") >= counted * 0.98


@pytest.mark.parametrize("known", [{"privacy__divisor": '"realised"'}, {"sampling__clients__name": '"fixed-size"'}])
def test_a_private_part_and_a_known_count_hide_nobody(known):
    """Who was there tells who was not, and the private parts of those who were carry it along (rule 6)."""
    settings = {"model__name": '"mlp"', "privacy__noise_multiplier": 3.0, **known}
    split, whole = (
        prepared("ms-pafl", rounds=20, split__ratio=ratio, **settings).agreement.terms for ratio in (0.5, 1.0)
    )
    assert whole.amplified(0, "public") and not split.amplified(0, "public")
    seen = prepared("ms-pafl", rounds=20, split__ratio=0.5, **settings | {"privacy__noised_by": '"clients"'})
    assert run.Ledger.plan(split).epsilon(0, "public") >= run.Ledger.plan(seen.agreement.terms).epsilon(0, "public")


def test_a_realised_count_and_one_that_goes_are_refused():
    with pytest.raises(UnpricedError, match="realised"):
        prepared("ms-pafl", privacy__divisor='"realised"', privacy__adjacency='"add-or-remove"', **SPLIT)


def test_the_mask_is_the_same_for_every_seed_and_takes_its_share_of_each_layer():
    one, two = (study_of(task__seed=seed).method.parts for seed in (1, 2))
    assert np.array_equal(one.public, two.public)
    for name, public, private in one.sides(study_of().model.layout):
        assert public == round(0.9 * (public + private)), name
    assert json.dumps(one.rule)
