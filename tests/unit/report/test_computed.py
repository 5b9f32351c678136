"""The page says who computed a run, and what was left out because it changes no sum."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from test_groups import facts_of

from onlooker import config
from onlooker.privacy.sampling import Poisson
from onlooker.report import settings
from run_folders import environment, metrics, terms


@pytest.mark.parametrize("elided", [True, False])
def test_the_page_says_whether_shares_were_cut(tmp_path, elided):
    engine = {"name": "vectorised", "trainer": "dense", "workers": 2, "elided": elided}
    found = dict(settings.settings(facts_of(tmp_path, terms(), metrics(2), environment(engine=engine))))
    assert found["Computed by"] == "2 workers, dense steps"
    assert ("Shares" in found) == elided and "zeros" not in found.get("Shares", "")
    hidden = replace(terms(), sampling=Poisson(0.5, cover_traffic=True))
    found = dict(settings.settings(facts_of(tmp_path / "cover", hidden, metrics(2), environment(engine=engine))))
    assert ("zeros" in found.get("Shares", "")) == elided
    assert "Computed by" not in dict(settings.settings(facts_of(tmp_path / "old", terms(), [], environment())))


@pytest.mark.parametrize(
    "method, more, elided",
    [
        ("feddecouple", [], True),
        ("feddecouple", ['engine.shares="cut"'], False),
        ("feddecouple", ['engine.name="loop"'], False),
        ("dp-fedavg", ['privacy.noised-by="server"'], False),
    ],
)
def test_a_run_records_whether_it_cut_shares(method, more, elided):
    base = [f"task.method={method}", "data.name=digits", "model.name=logistic", "privacy.noise-multiplier=2.0", *more]
    ready = config.prepare(config.parse("", base), Path())
    study = config.study(ready, torch.device("cpu"))
    assert config.environment(ready, study, "x", [])["engine"]["elided"] == elided
