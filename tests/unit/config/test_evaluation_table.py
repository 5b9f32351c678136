"""The [evaluation] table: what `private = true` comes to, and what it cannot be with."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from onlooker import config
from onlooker.methods.measuring import Measuring
from onlooker.privacy.ledger import Ledger
from refusals import assert_refused

COMMON = ["task.rounds=10", "data.name=digits", "model.name=logistic"]
PRIVATE = "evaluation.private=true"
CLIENTS = ["task.method=dp-fedavg", "privacy.noise-multiplier=2.0"]
SILOS = ["task.method=dp-sgd", "data.expected-records=140", "privacy.noise-multiplier=2.0"]
GROUPS = ["groups.members=[[0,1,2,3,4,5],[5,6,7,8,9]]"]
REGRESSION = ["data.name=csv", "data.label-column=y", "data.task=regression", "data.clients=2"]


def prepared(*settings, base=Path()):
    return config.prepare(config.parse("", [*COMMON, *settings]), base)


REFUSED = {
    "no guarantee": (
        ["task.method=fedavg", PRIVATE],
        "evaluation.private = true",
        'privacy.unit = "none"',
        "dp-fedavg",
    ),
    "groups": ([*CLIENTS, *GROUPS, PRIVATE], "evaluation.private = true", "[groups]"),
    "batches of records": (
        [
            *("task.method=ms-pafl", "privacy.noise-multiplier=2.0", "privacy.unit=record", PRIVATE),
            *("sampling.records.name=without-replacement", "data.expected-records=100"),
        ],
        "evaluation.private = true",
        'privacy.unit = "record"',
        "dp-sgd",
    ),
    "two noises": (
        [*CLIENTS, PRIVATE, "evaluation.share=0.2", "evaluation.noise-multiplier=3.0"],
        "evaluation.share = 0.2 and evaluation.noise-multiplier = 3.0",
        "name one",
    ),
    "a share of nothing": ([*CLIENTS, PRIVATE, "evaluation.share=0.0"], "evaluation.share = 0.0", "below 1"),
    "a share of all": ([*CLIENTS, PRIVATE, "evaluation.share=1.0"], "evaluation.share = 1.0", "above 0"),
    "no noise": (
        [*CLIENTS, PRIVATE, "evaluation.noise-multiplier=0.0"],
        "evaluation.noise-multiplier = 0.0",
        "above 0",
    ),
    "a bound below nothing": ([*CLIENTS, PRIVATE, "evaluation.loss-bound=-1.0"], "evaluation.loss-bound = -1.0"),
    "noise that costs more than the target": (
        [
            *("task.method=dp-fedavg", "privacy.epsilon=1.0", PRIVATE, "evaluation.noise-multiplier=0.5"),
            'privacy.observers=["public"]',
        ],
        "privacy.epsilon = 1",
        "evaluation.noise-multiplier = 0.5",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_price_or_no_meaning_is_refused(name):
    settings, *words = REFUSED[name]
    assert_refused(lambda: prepared(*settings), *words)


def test_a_regression_names_how_large_a_loss_can_be(tmp_path):
    (tmp_path / "rows.csv").write_text("x,y\n1,2\n2,3\n3,4\n4,5\n")
    settings = [*CLIENTS, *REGRESSION, f'data.root="{tmp_path / "rows.csv"}"', "model.name=linear", PRIVATE]
    assert_refused(lambda: prepared(*settings), "evaluation.loss-bound is missing", "4.0")
    method = prepared(*settings, "evaluation.loss-bound=4.0").method
    assert isinstance(method, Measuring) and (method.measures.score, method.measures.widest) == (
        "mean-absolute-error",
        2.0,
    )


@pytest.mark.parametrize("key", ["share=0.2", "noise-multiplier=3.0", "loss-bound=2.0"])
def test_keys_of_a_private_evaluation_without_one_are_warned_of(key):
    (warning,) = [said for said in config.warnings_of(prepared(*CLIENTS, f"evaluation.{key}")) if "evaluation." in said]
    assert warning.startswith(f"evaluation.{key.replace('=', ' = ')} is not used: ") and "private = true" in warning
    assert not [
        one for one in config.warnings_of(prepared(*CLIENTS, PRIVATE, f"evaluation.{key}")) if "not used" in one
    ]


def test_without_it_the_terms_are_what_they_were():
    plain = prepared(*CLIENTS).agreement.terms
    assert len(plain.channels) == 1 and plain.measured_by is None
    terms = prepared(*CLIENTS, PRIVATE).agreement.terms
    assert terms.channels[:1] == plain.channels == terms.model_channels and terms.hash != plain.hash


@pytest.mark.parametrize("settings", [CLIENTS, SILOS])
def test_the_share_is_that_of_what_a_round_costs(settings):
    for share in (0.01, 0.1, 0.5, 0.9):
        model, measured = prepared(*settings, PRIVATE, f"evaluation.share={share}").agreement.terms.channels
        z, own = model.mechanism.noise_multiplier, measured.mechanism.noise_multiplier
        assert z == 2.0 and own**-2 / (z**-2 + own**-2) == pytest.approx(share)
        assert measured.name == "evaluation" and measured.size == 3
        alike = ("noised_by", "summation", "sums_records", "max_records")
        assert all(getattr(model, name) == getattr(measured, name) for name in alike)
    given = prepared(*settings, PRIVATE, "evaluation.noise-multiplier=7.0").agreement.terms.measured_by
    assert given.mechanism.noise_multiplier == 7.0


def test_losses_are_cut_off_at_twice_what_a_guess_costs_unless_the_file_says_otherwise():
    assert prepared(*CLIENTS, PRIVATE).method.measures.loss_bound == pytest.approx(2 * math.log(10))
    assert prepared(*CLIENTS, PRIVATE, "evaluation.loss-bound=1.5").method.measures.loss_bound == 1.5


@pytest.mark.parametrize("method", [["task.method=dp-fedavg"], [*SILOS[:2], "privacy.delta=1e-4"]])
@pytest.mark.parametrize("noise", [[], ["evaluation.share=0.3"], ["evaluation.noise-multiplier=8.0"]])
def test_a_target_is_kept_for_both_together_and_the_next_smaller_noise_misses_it(method, noise):
    target = ["privacy.epsilon=4.0", 'privacy.observers=["public"]', PRIVATE, *noise]
    terms = prepared(*method, *target).agreement.terms
    assert Ledger.plan(terms).epsilon(0, "public") <= 4.0
    z = terms.channels[0].mechanism.noise_multiplier
    smaller = [f"privacy.noise-multiplier={z * (1 - 2e-6)!r}", PRIVATE, *noise]
    assert Ledger.plan(prepared(*method, *smaller).agreement.terms).epsilon(0, "public") > 4.0
    alone = prepared(*method, *target[:2]).agreement.terms.channels[0].mechanism.noise_multiplier
    assert z > alone


def test_a_resumed_run_measures_as_it_did():
    before = config.parse("", [*COMMON, *CLIENTS, PRIVATE])
    other = config.parse("", [*COMMON, *CLIENTS, PRIVATE, "evaluation.loss-bound=1.5"])
    seldom = config.parse("", [*COMMON, *CLIENTS, PRIVATE, "evaluation.every=5"])
    assert config.changed(before, other) == ["evaluation.loss-bound = 1.5 for None"]
    assert config.changed(before, seldom) == []
