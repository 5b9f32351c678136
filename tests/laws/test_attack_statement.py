"""What is said in the end: nobody who was asked about is left out, and the worst comes first."""

import io
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

from onlooker import config, display
from onlooker.errors import TermsError
from onlooker.evaluation import evaluated
from onlooker.models import evaluate
from onlooker.privacy.channel import Channel
from onlooker.privacy.forecast import forecast
from onlooker.privacy.grid import Grid
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.records import WithoutReplacement
from onlooker.privacy.sampling import Cyclic, Everyone, FixedOffset, FixedSize, Poisson, RandomAllocation
from onlooker.privacy.statement import find, to_json, worst
from onlooker.privacy.summation import Shared
from onlooker.privacy.terms import Terms
from onlooker.privacy.training import Training
from onlooker.report import settings
from playing import begin


def ledger_of(clients=3, size=100, rounds=10):
    channel = Channel(size, RoundedGaussian(2.0), Grid(1.0, 16, 32), "servers", Shared(), bounds=1.0)
    return Ledger.plan(
        Terms("client", "zero-out", 1e-5, rounds, clients, Poisson(0.5), Training(), (channel,)),
    )


@pytest.mark.parametrize("observer", ["client:0+client:1+client:2", "client:2+client:1+client:0+aux:0"])
def test_observers_who_are_everybody_are_listed_all_the_same(observer):
    (finding,) = find(ledger_of(), [observer])
    assert finding.subjects == (0, 1, 2) and finding.price.epsilon == math.inf and finding.guarantee == "none"


def test_a_client_is_not_listed_as_its_own_observer():
    (finding,) = find(ledger_of(), ["client:1"])
    assert finding.subjects == (0, 2) and math.isfinite(finding.price.epsilon)
    (alone,) = find(ledger_of(clients=1), ["client:0"])
    assert alone.subjects == (0,) and alone.price.epsilon == math.inf


@pytest.mark.parametrize("name", ["client:01", "client:00", "aux:01", "auditor:00"])
def test_a_name_is_written_in_one_way(name):
    """Otherwise a client would be taken for another than itself."""
    with pytest.raises(TermsError, match="is not known"):
        find(ledger_of(), [name])


def test_every_observer_and_subject_is_in_exactly_one_row():
    observers = ["public", "coordinator", "aux:0", "aux:1", "aux:0+aux:1", "client:1"]
    seen = [(name, one) for found in find(ledger_of(), observers) for name in found.observers for one in found.subjects]
    assert len(seen) == len(set(seen)) == 5 * 3 + 2


def test_the_worst_is_the_largest_and_no_guarantee_is_the_largest_of_all():
    ledger = ledger_of()
    assert worst(find(ledger, ["public", "aux:0"])).observers == ("aux:0",)
    assert worst(find(ledger, ["aux:0+aux:1", "aux:0", "public"])).observers == ("aux:0+aux:1",)
    assert worst([]) is None


def test_a_guarantee_against_whoever_holds_shares_is_computational():
    found = {
        name: one.guarantee for one in find(ledger_of(), ["public", "aux:0", "aux:0+aux:1"]) for name in one.observers
    }
    assert found == {"public": "statistical", "aux:0": "computational", "aux:0+aux:1": "none"}
    rows = to_json(ledger_of(), find(ledger_of(), ["aux:0+aux:1"]))["rows"]
    assert rows[0]["epsilon"] is None and rows[0]["guarantee"] == "none" and "every noise" in rows[0]["because"]


def test_the_forecast_grows_as_noise_does():
    """With the root of the model's size on one mean, and against the way of T rounds with the root of T."""
    small, large, longer = (forecast(ledger_of(**more).terms) for more in ({}, {"size": 400}, {"rounds": 40}))
    assert small.noise_norm == pytest.approx(2.0 * math.sqrt(2) * 10 / 1.5)
    assert large.noise_norm == pytest.approx(2 * small.noise_norm)
    assert longer.whole_run == pytest.approx(small.whole_run / 2)


def test_a_run_is_measured_on_the_test_set():
    """Accuracy on what clients hold would be a release that nothing charges (rule 10)."""
    table = ["task.method=dp-fedavg", "data.name=digits", "model.name=logistic", "privacy.noise-multiplier=1.0"]
    study = config.study(config.prepare(config.parse("", table), Path()), torch.device("cpu"))
    rng = np.random.default_rng(1)
    state, kept = begin(study)
    state = type(state)(rng.normal(size=(1, study.model.size)).astype(np.float32), state.momentum)
    assert evaluated(study, state, kept).metrics == evaluate(study.model, state.models[0], study.federation.test)


def test_all_take_part_says_so():
    channel = Channel(100, RoundedGaussian(2.0), Grid(1.0, 16, 32), "servers", Shared(), bounds=1.0)
    terms = Terms("client", "zero-out", 1e-5, 10, 3, Everyone(), Training(), (channel,))
    (finding,) = find(Ledger.plan(terms), ["public"])
    assert not finding.amplified and "every client takes part in every round" in finding.because


def answer(sampling=Everyone(), observer="public", z=2.0, training=Training(), **more):
    """What is said of client 0: the flag and the words."""
    channel = Channel(100, RoundedGaussian(z), Grid(1.0, 16, 32), "servers", Shared(), bounds=1.0)
    given = {"unit": "client", "adjacency": "zero-out", "delta": 1e-5, "rounds": 10, "clients": 3} | more
    (finding,) = find(
        Ledger.plan(Terms(sampling=sampling, training=training, channels=(channel,), **given)), [observer], [0]
    )
    return finding.amplified, finding.because


NOTHING = "participation is hidden, which is credited nothing: up to {} in full"


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"sampling": RandomAllocation(3, 10), "adjacency": "replace-one"}, NOTHING.format("3 rounds count")),
        ({"sampling": RandomAllocation(1, 10), "adjacency": "replace-one"}, NOTHING.format("1 round counts")),
        ({"sampling": Poisson(0.5), "z": 1e-4}, NOTHING.format("10 rounds count")),
        ({"sampling": FixedOffset(4)}, NOTHING.format("3 rounds count")),
        ({"sampling": FixedOffset(1)}, "every client takes part in every round"),
        ({"sampling": FixedSize(3)}, "every client takes part in every round"),
        ({"sampling": FixedSize(3), "training": Training("state")}, "every client takes part in every round"),
        ({"sampling": Poisson(1.0), "counted": "realised"}, "every client takes part in every round"),
        ({"sampling": Poisson((1.0, 0.5, 0.5))}, "this client takes part in every round"),
        ({"sampling": FixedSize(2), "observer": "client:1"}, "the members know whether they were drawn, which may"),
        ({"sampling": Poisson(0.5), "rounds": 1, "observer": "aux:0"}, "seen, so up to 1 round counts in full"),
    ],
)
def test_what_lowers_no_price_is_not_said_to(asked, words):
    amplified, because = answer(**asked)
    assert not amplified and words in because


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"sampling": RandomAllocation(3, 10)}, "participation is hidden, in 3 of 10 rounds"),
        ({"sampling": Poisson((0.5, 1.0, 1.0))}, "participation is hidden, with probability 0.5 in each round"),
        ({"sampling": FixedSize(2)}, "participation is hidden, 2 being drawn of 3 in each round"),
        ({"sampling": Poisson(0.5), "counted": "realised"}, "but not how many of 3 do"),
    ],
)
def test_what_lowers_a_price_is_said_to(asked, words):
    if isinstance(asked["sampling"], RandomAllocation):
        pytest.importorskip("PLD_accounting")
    amplified, because = answer(**asked)
    assert amplified and words in because


@pytest.mark.parametrize(
    ("records", "keeps", "z", "amplified", "words"),
    [
        (WithoutReplacement(5, 64), "nothing", 2.0, False, "every record may be used in every round"),
        (WithoutReplacement(5, 64), "state", 2.0, False, "every record may be used in every round"),
        (WithoutReplacement(5, 8), "state", 2.0, False, "because the silo keeps something between rounds"),
        (WithoutReplacement(5, 8), "nothing", 2.0, True, "hidden from everybody else, at rate 0.4"),
        (WithoutReplacement(5, 8), "nothing", 1e-4, False, "at rate 0.4, which is credited nothing"),
        (None, "nothing", 2.0, False, "every record may be used in every round"),
    ],
)
def test_why_drawing_records_amplifies_or_not(records, keeps, z, amplified, words):
    """A client of 100 records uses all of them where Q b = 320, whatever it keeps."""
    found = answer(unit="record", training=Training(keeps, records, 100), z=z)
    assert found[0] is amplified and found[1].endswith(words)


def test_one_round_is_one_round():
    assert display._rounds(ledger_of(rounds=1).terms) == "1 round" and display._rounds(ledger_of().terms) == "10 rounds"
    assert settings._drawn(Cyclic(1)) == settings._drawn(Everyone()) == "all take part in every round"
    assert "every 2-th round" in settings._drawn(Cyclic(2))


def test_what_is_shown_live_is_never_below_what_will_be_promised():
    """The cheap epsilon of all rounds so far, for every observer: the exact one does not exceed it."""
    observers = ["public", "aux:0", "client:1", "aux:0+aux:1"]
    whole = ledger_of(rounds=40)
    for count in (1, 7, 40):
        ledger = replace(whole, releases=whole.releases[:count])
        screen = Console(width=200, file=io.StringIO())
        screen.print(display._live_epsilons(ledger, observers))
        *shown, last = screen.file.getvalue().splitlines()[1].split()
        exact = [ledger.epsilon(0, observer) for observer in observers[:3]]
        assert last == "none"
        assert all(one - 0.005 <= float(live) <= 1.2 * one for one, live in zip(exact, shown, strict=True))
