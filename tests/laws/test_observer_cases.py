"""Whole configurations, and what a plan must say of client 0 to each observer."""

import json
from pathlib import Path

import pytest

from onlooker import config
from onlooker.config.kinds import KINDS
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.statement import find

# What follows must hold everywhere; the whole table of cases is read from the reference folder where that is present.
CASES = [
    (
        {"rate": 0.5},
        {"relay": "coordinator"},
        {"public": 7.9995, "client:1": 7.9995, "coordinator": 17.1397, "aux:0": 17.1397},
    ),
    ({"rate": 0.5}, {"relay": "aux:0"}, {"coordinator": 7.9995, "aux:0": 17.1397, "aux:1": 17.1397}),
    ({"rate": 0.5, "cover-traffic": True}, {}, {"public": 7.9995, "coordinator": 7.9995, "aux:0": 7.9995}),
]


def planned(table: dict) -> Ledger:
    return Ledger.plan(config.prepare(config.Configuration.model_validate(table), Path()).agreement.terms)


@pytest.mark.parametrize(("sampling", "servers", "expected"), CASES)
def test_feddecouple_by_observer(sampling, servers, expected):
    ledger = planned(
        {
            "task": {"method": "feddecouple", "rounds": 40},
            "data": {"name": "digits", "clients": 10},
            "model": {"name": "logistic"},
            "sampling": {"clients": {"name": "poisson", **sampling}},
            "servers": {"count": 2, **servers},
            "privacy": {"delta": 1e-5, "noise-multiplier": 2.064},
        }
    )
    for observer, epsilon in expected.items():
        assert ledger.epsilon(0, observer) == pytest.approx(epsilon, rel=5e-3, abs=0)
        assert ledger.epsilon(0, observer) >= epsilon * (1 - 5e-4)
    assert ledger.epsilon(0, "aux:0+aux:1") == float("inf")


def test_reference_cases(shared):
    cases = json.loads((shared / "reference" / "observer_cases.json").read_text())
    checked = 0
    for case in cases:
        if case["config"]["task"]["method"] not in KINDS:
            continue
        ledger = planned(_filled(case["config"]))
        for row in case["rows"]:
            (finding,) = find(ledger, [row["observer"]], [0])
            where = f"{case['config']} to {row['observer']}"
            assert finding.amplified is row["amplified"], where
            if row["epsilon"] is not None:
                in_groups = case.get("accountant") == "rdp"  # where a loss distribution may prove less
                least, most = (0.8, 1.01) if in_groups and row["epsilon"] else (1 - 5e-4, 1.005)
                assert row["epsilon"] * least <= finding.price.epsilon <= row["epsilon"] * most, where
            elif "at_least" in row:
                assert row["at_least"] <= finding.price.epsilon <= row["at_most"], where
            else:
                assert finding.price.epsilon == float("inf"), where
            checked += 1
    assert checked >= 40


def _filled(tables: dict) -> dict:
    """The case as a whole configuration; a key such as sampling.clients is the table of that name."""
    filled: dict = {"model": {"name": "logistic"}, "training": {"steps": 1}}
    for name, table in tables.items():
        place = filled
        *parents, last = name.split(".")
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = dict(table)
    filled["data"]["name"] = "digits"
    filled["privacy"].setdefault("clip", 1.0)
    if filled["privacy"]["unit"] == "record":
        filled["data"]["expected-records"] = 100
    return filled
