"""Cover traffic is played and not only priced: who stays out sends as much as who takes part, and adds nothing."""

import numpy as np
import pytest
import torch
from test_runs import prepared

from onlooker import config
from onlooker.privacy.channel import Channel
from playing import Watched, begin, one_round

IN_GROUPS = {"groups__members": "[[0,1],[1,2,3],[3,4],[4,5]]", "groups__mixing_period": 2}
METHODS = {
    "feddecouple": {"privacy__noise_multiplier": 2.0},
    "ms-pafl": {"model__name": '"mlp"', "split__ratio": 0.9, "privacy__noise_multiplier": 2.0, "servers__count": 2},
    "dp-ogl": {"privacy__noise_multiplier": 2.0, "servers__count": 2} | IN_GROUPS,
    "dp-ogl-plus": {"privacy__noise_multiplier": 2.0, "servers__count": 2} | IN_GROUPS,
    "dp-sgd": {"data__expected_records": 240, "sampling__records__rate": 0.1, "privacy__noise_multiplier": 1.0},
}


def study_of(method, cover=True, **engine):
    coins = {"sampling__clients__name": '"poisson"', "sampling__clients__rate": 0.5}
    settings = METHODS[method] | coins | {"sampling__clients__cover_traffic": str(cover).lower()} | engine
    return config.study(prepared(method, rounds=4, **settings), torch.device("cpu"))


def played(study, rounds=2):
    state, kept = begin(study)
    sealed = []
    with study.opened() as engine:
        for round in range(1, rounds + 1):
            charge = lambda digest, noise: sealed.append(digest)  # noqa: E731
            done = one_round(study, state, round, charge, kept, engine)
            state, kept = done.state, done.kept
    return sealed, state.models, kept.private.take(range(len(kept.private)))


def same(one, other):
    return one[0] == other[0] and all(np.array_equal(a, b) for a, b in zip(one[1:], other[1:], strict=True))


@pytest.mark.parametrize("method", METHODS)
def test_everybody_reports_in_every_round_and_zeros_where_a_coin_said_no(monkeypatch, method):
    study = study_of(method, engine__name='"loop"')
    terms, watched = study.method.terms, Watched(monkeypatch)
    played(study)
    for round in (1, 2):
        for group in range(terms.groups):
            drawn = set(terms.cohort(group, round, study.source))
            for channel in terms.channels_of(group):
                for client in terms.members(group):
                    row = watched.rows[round, channel.name, client]
                    assert row.shape == (channel.size,) and row.any() == (client in drawn)
            assert len(drawn) < len(terms.members(group)) or terms.groups > 1


@pytest.mark.parametrize("method", METHODS)
def test_cover_changes_nothing_that_comes_out(method):
    """Sealed sums, models and private parts are those without it; whoever stays out keeps its private part."""
    plain = played(study_of(method, cover=False, engine__name='"loop"'))
    assert same(plain, played(study_of(method, engine__name='"loop"')))
    assert not same(plain, played(study_of(method, engine__name='"loop"', task__seed=7)))


@pytest.mark.parametrize("workers", [1, 2])
def test_an_engine_that_cuts_shares_sends_cover_and_one_that_elides_them_does_not(monkeypatch, workers):
    reports = []
    seal = Channel.seal

    def watched(self, sums, *rest):
        reports.append(sums.reports)
        return seal(self, sums, *rest)

    monkeypatch.setattr(Channel, "seal", watched)
    engine = {"engine__trainer": '"plain"', "engine__workers": workers}
    cut, elided, plain = (
        played(study_of("feddecouple", **one, **engine))
        for one in ({"engine__shares": '"cut"'}, {"engine__shares": '"elided"'}, {"cover": False})
    )
    assert same(cut, elided) and same(cut, plain)
    assert reports[:2] == [6, 6] and reports[2:4] == reports[4:] and max(reports[2:]) < 6


def test_shares_of_a_row_of_zeros_are_as_uniform_as_any():
    study = study_of("feddecouple")
    (channel,) = study.method.terms.channels
    shares = channel.shard(channel.encode(np.zeros(channel.size), 3), 3, 1, study.source).shares
    assert len({len(share) for share in shares}) == 1 and all(share.any() for share in shares)
    top = [np.bincount(share >> np.uint32(30), minlength=4) for share in shares]  # two bits of each element
    expected = channel.size / 4
    for counts in top:
        assert ((counts - expected) ** 2 / expected).sum() < 16.3  # chi-square, three degrees, one in a thousand
    assert ((np.bincount(np.zeros(channel.size, int), minlength=4) - expected) ** 2 / expected).sum() > 16.3
