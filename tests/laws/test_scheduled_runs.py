"""Laws of runs whose noise or whose participation is settled for the whole run: they go on, and never draw again."""

import numpy as np
import pytest
import torch
from test_runs import begun, finished, prepared

from onlooker import config, run
from onlooker.errors import TermsError, UnpricedError
from onlooker.folder import RunFolder
from onlooker.privacy.ledger import Ledger
from playing import begin, one_round

FTRL = {
    "tree": {"privacy__mechanism": '"tree"'},
    "banded": {"privacy__mechanism": '"banded"', "privacy__bands": 3},
}
BASE = {"privacy__noise_multiplier": 2.0, "sampling__clients__period": 3}


def ftrl(name, rounds=7, **settings):
    return {"rounds": rounds, **BASE, **FTRL[name], **settings}


def cut(study, folder, after):
    """The same run, stopped after so many rounds and gone on with by another process that knows the folder alone."""
    steps = run.simulate(study, folder)
    for _ in range(after):
        next(steps)
    steps.close()
    return finished(study, RunFolder.open(folder.path))


@pytest.mark.parametrize("name", FTRL)
@pytest.mark.parametrize("servers", [{}, {"servers__count": 2}])
def test_a_restart_goes_on_with_the_same_noise(tmp_path, name, servers):
    whole = finished(*begun(tmp_path, "dp-ftrl", "whole", **ftrl(name, **servers)))
    for after in (1, 3, 4):
        assert cut(*begun(tmp_path, "dp-ftrl", f"cut-{after}", **ftrl(name, **servers)), after) == whole


@pytest.mark.parametrize("name", FTRL)
def test_a_restart_that_lost_its_noise_is_refused(tmp_path, name):
    """Noise that starts anew in the middle of a run would leave what it should have taken back uncovered."""
    study, folder = begun(tmp_path, "dp-ftrl", **ftrl(name))
    steps = run.simulate(study, folder)
    next(steps), next(steps), next(steps)
    steps.close()
    for path in folder.path.glob("noise.*"):
        path.unlink()
    with pytest.raises(TermsError, match="noise"):
        finished(study, folder)


@pytest.mark.parametrize("name", FTRL)
def test_sums_over_rounds_carry_the_noise_that_the_strategy_says(name):
    """Of a run without training: the model's way after T rounds is the noise of a prefix sum, and no other size."""
    rounds, settings = 8, {"training__learning_rate": 1e-30, "privacy__clip": 1.0, "model__name": '"mlp"'}
    study = config.study(prepared("dp-ftrl", **ftrl(name, rounds, **settings)), torch.device("cpu"))
    (channel,) = study.method.terms.channels
    state, kept = begin(study)
    start, found = state.models[0].astype(float), []
    for round in range(1, rounds + 1):
        done = one_round(study, state, round, kept=kept)
        state, kept = done.state, done.kept
        found.append((state.models[0] - start).std() * study.method.terms.divisor / 2.0)
    expected = np.sqrt(channel.mechanism.prefix_variances(rounds))
    assert np.allclose(found, expected, rtol=0.06)  # 4,810 coordinates: a standard error of 1 %
    assert not np.allclose(np.sqrt(np.arange(1, rounds + 1)), expected, rtol=0.2)  # as independent noise would be


@pytest.mark.parametrize("name", FTRL)
def test_the_ledger_of_a_run_is_its_plan_and_no_prefix_costs_more(tmp_path, name):
    study, folder = begun(tmp_path, "dp-ftrl", **ftrl(name))
    spent = [step.ledger.epsilon(0, "public") for step in run.simulate(study, folder)]
    assert folder.ledger() == Ledger.plan(study.method.terms)
    assert spent == sorted(spent) and spent[-1] == Ledger.plan(study.method.terms).epsilon(0, "public")
    assert not study.method.terms.amplified(0, "public")


def test_a_wider_period_costs_less_and_everyone_in_every_round_most():
    def epsilon(**settings):
        ready = prepared("dp-ftrl", rounds=12, **FTRL["tree"], privacy__noise_multiplier=2.0, **settings)
        return Ledger.plan(ready.agreement.terms).epsilon(0, "public")

    spent = [epsilon(sampling__clients__period=period) for period in (12, 6, 3)]
    spent.append(epsilon(sampling__clients__name='"all"'))
    assert spent == sorted(spent) and len(set(spent)) == 4


SCHEDULES = {
    "cyclic": {"sampling__clients__name": '"cyclic"', "sampling__clients__period": 2},
    "fixed-offset": {"sampling__clients__name": '"fixed-offset"', "sampling__clients__period": 2},
    "random-allocation": {"sampling__clients__name": '"random-allocation"', "sampling__clients__participations": 2},
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_nobody_takes_part_more_often_than_is_priced(tmp_path, name):
    study, folder = begun(tmp_path, "feddecouple", rounds=5, privacy__noise_multiplier=2.0, **SCHEDULES[name])
    finished(study, folder)
    terms, draws = study.method.terms, folder.commit().kept.get("draws")
    cohorts = [terms.cohort(0, round, study.source, draws) for round in range(1, 6)]
    counts = [sum(client in cohort for cohort in cohorts) for client in range(6)]
    assert max(counts) == terms.sampling.participations(5)
    assert folder.ledger() == Ledger.plan(terms)
    if name == "random-allocation":
        assert counts == [2] * 6
        assert len({tuple(client in cohort for cohort in cohorts) for client in range(6)}) > 2


@pytest.mark.parametrize("name", ["fixed-offset", "random-allocation"])
def test_a_run_without_a_seed_keeps_what_its_clients_drew(tmp_path, name):
    """A missed pick is never redrawn: the draw is in the folder from the start, and a resumed run goes by it."""
    study, folder = begun(
        tmp_path, "feddecouple", rounds=5, privacy__noise_multiplier=2.0, task__seed='"system"', **SCHEDULES[name]
    )
    drawn = folder.commit().kept["draws"]
    steps = run.simulate(study, folder)
    next(steps)
    steps.close()
    finished(study, RunFolder.open(folder.path))
    assert np.array_equal(folder.commit().kept["draws"], drawn)


def test_random_allocation_is_priced_once_for_the_run():
    """Between the Poisson price of the same rate, or a little above it, and that of its participations in full."""
    settings = {"rounds": 20, "privacy__noise_multiplier": 2.0}
    allocated = prepared(
        "feddecouple",
        sampling__clients__name='"random-allocation"',
        sampling__clients__participations=10,
        **settings,
    )
    poisson = prepared("feddecouple", sampling__clients__rate=0.5, **settings)
    one, other = (Ledger.plan(ready.agreement.terms) for ready in (allocated, poisson))
    assert one.epsilon(0, "public") < other.epsilon(0, "public") * 1.002
    assert one.epsilon(0, "aux:0") < other.epsilon(0, "aux:0")  # ten participations at the most, and not twenty
    prefix = Ledger.plan(allocated.agreement.terms, 3)
    assert prefix.epsilon(0, "public") <= one.epsilon(0, "public")
    assert prefix.epsilon(0, "public") == pytest.approx(prefix.epsilon(0, "aux:0"))


def test_a_state_and_several_picks_are_refused():
    with pytest.raises(UnpricedError, match="random-allocation"):
        prepared(
            "ms-pafl",
            rounds=5,
            model__name='"mlp"',
            split__ratio=0.5,
            privacy__noise_multiplier=2.0,
            **SCHEDULES["random-allocation"],
        )
