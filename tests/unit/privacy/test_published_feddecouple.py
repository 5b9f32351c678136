"""FedDecouple's theorems by name, and what holds beside them."""

from __future__ import annotations

import json
import math

import pytest
from scipy.special import logsumexp

from onlooker.errors import TermsError
from onlooker.privacy.published import LABEL, feddecouple, printed_epsilon


@pytest.mark.parametrize(
    ("named", "formula"),
    [
        (feddecouple.theorem_7, "theorem-7"),
        (feddecouple.section_4_4_5, "section-4.4.5"),
        (feddecouple.moments, "section-3.3"),
    ],
)
def test_named_formulas(named, formula):
    assert named(2.0, 0.5, 30, 1e-5) == printed_epsilon(2.0, 0.5, 30, 1e-5, formula)


def attained(order, rate, z):
    """The divergence of (1-q) N(0) + q N(2C) from N(0), in closed form: what neighbours attain."""
    steps = range(order + 1)
    terms = [
        math.log(math.comb(order, k)) + k * math.log(rate) + (order - k) * math.log1p(-rate) + k * (k - 1) * 2 / z**2
        for k in steps
    ]
    return float(logsumexp(terms)) / (order - 1)


def test_theorem_5_by_hand_and_below_what_is_attained():
    z, q = 2.865, 0.5
    rho = 2 * 2 / z**2
    by_hand = math.log1p(q**2 * min(4 * math.expm1(rho), 2 * math.exp(rho)))
    assert feddecouple.theorem_5(2, rho, q).value == pytest.approx(by_hand, rel=1e-12)
    assert feddecouple.theorem_5(2, rho, q).value >= attained(2, q, z)
    for order in (10, 32):
        printed = feddecouple.theorem_5(order, 2 * order / z**2, q)
        assert printed.value < 0.5 * attained(order, q, z)
        assert printed.label == LABEL and len(printed.reason) > 30


def test_theorem_6_multiplies():
    once = feddecouple.theorem_5(10, 2.0, 0.5)
    total = feddecouple.theorem_6(once, 30)
    assert total.value == 30 * once.value and total.label == LABEL and total.order == 10
    with pytest.raises(TermsError, match=r"task\.rounds = 0"):
        feddecouple.theorem_6(once, 0)


def test_sound_values_are_those_of_the_reference(shared):
    table = json.loads((shared / "reference" / "reference_values.json").read_text())["feddecouple"]
    for row in table:
        asked = row["target_eps"], row["m"], row["K"], row["T"], row["delta"]
        epsilon, m, clients, rounds, delta = asked
        for formula, key in (("theorem-7", "thm7"), ("section-4.4.5", "sec4.4.5"), ("table-5", "table5")):
            z = row[f"paper[{key}]_sigma_over_C"]
            expected = row[f"paper[{key}]_true_eps_WOR_replace_PLD"]
            found = feddecouple.sound_public(z, m, clients, rounds, delta)
            assert found.epsilon == pytest.approx(expected, rel=5e-3), (formula, asked)
            assert found.epsilon > 1.3 * epsilon
        seen = row["sigma_over_C__no_amplification_all_T_rounds_replace"]
        assert feddecouple.sound_seen_noise(epsilon, rounds, delta) == pytest.approx(seen, rel=2e-3)
        hidden = row["sigma_over_C__WOR_replace_PLD_zhu"]
        assert feddecouple.sound_public_noise(epsilon, m, clients, rounds, delta) == pytest.approx(hidden, rel=5e-3)


def test_a_whole_cohort_hides_nobody():
    seen = feddecouple.sound_seen(4.0, 30, 1e-5, "the coordinator")
    assert feddecouple.sound_public(4.0, 10, 10, 30, 1e-5).epsilon == seen.epsilon
    assert seen.label == "sound, for one client, against the coordinator"
