"""What FedDecouple's paper prints, and that it is not taken for a price."""

from __future__ import annotations

import math

import pytest
from dp_accounting import (
    GaussianDpEvent,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
)

from onlooker.errors import TermsError
from onlooker.privacy.accounting import Price, price
from onlooker.privacy.published import LABEL, REASONS, printed_epsilon, printed_noise

# T = 40, q = 0.5, delta = 1e-5, epsilon = 8.
PRINTED = {
    "theorem-7": 1.6792,
    "section-4.4.5": 3.3584,
    "section-4.4.2": 1.0916,
    "table-5": 2.1832,
    "section-3.3": 2.0821,
}


@pytest.mark.parametrize(("formula", "expected"), PRINTED.items())
def test_printed_noise(formula, expected):
    result = printed_noise(8.0, 0.5, 40, 1e-5, formula)
    assert result.noise_multiplier == pytest.approx(expected, rel=2e-4)
    again = printed_epsilon(result.noise_multiplier, 0.5, 40, 1e-5, formula)
    assert again.epsilon == pytest.approx(8.0, rel=1e-9)


@pytest.mark.parametrize("formula", PRINTED)
def test_every_result_says_that_it_is_no_guarantee(formula):
    result = printed_noise(8.0, 0.5, 40, 1e-5, formula)
    assert result.label == LABEL == "as published, not a guarantee"
    assert result.reason == REASONS[formula] and len(result.reason) > 30
    assert not isinstance(result, Price)


@pytest.mark.parametrize("formula", PRINTED)
def test_the_true_price_is_higher_than_printed(formula):
    """For what the paper describes, fixed-size cohorts and a client replaced."""
    z = printed_noise(8.0, 0.5, 40, 1e-5, formula).noise_multiplier
    event = SelfComposedDpEvent(SampledWithoutReplacementDpEvent(10, 5, GaussianDpEvent(z)), 40)
    assert price(event, 1e-5, "replace-one").epsilon > 1.3 * 8.0


def test_the_printed_noise_of_theorem_7_is_too_small_even_for_poisson_cohorts():
    z = printed_noise(8.0, 0.5, 40, 1e-5, "theorem-7").noise_multiplier
    event = SelfComposedDpEvent(PoissonSampledDpEvent(0.5, GaussianDpEvent(z)), 40)
    assert price(event, 1e-5, "zero-out").epsilon == pytest.approx(10.558, rel=1e-3)


@pytest.mark.parametrize("z", [1e-3, 1e-2, 1e4])
@pytest.mark.parametrize("formula", PRINTED)
def test_extreme_noise_gives_a_number(z, formula):
    assert 0 < printed_epsilon(z, 0.5, 40, 1e-5, formula).epsilon < math.inf


def test_impossible_values():
    with pytest.raises(TermsError, match=r"privacy\.epsilon = nan"):
        printed_noise(math.nan, 0.5, 40, 1e-5)
    with pytest.raises(TermsError, match=r"privacy\.noise-multiplier = 0\.0"):
        printed_epsilon(0.0, 0.5, 40, 1e-5)
    with pytest.raises(TermsError, match=r"sampling\.clients\.rate = 1\.5"):
        printed_epsilon(1.0, 1.5, 40, 1e-5)
    with pytest.raises(TermsError, match="formula"):
        printed_epsilon(1.0, 0.5, 40, 1e-5, "theorem-8")  # type: ignore[arg-type]
    with pytest.raises(TermsError, match=r"privacy\.epsilon = 0\.01 is outside .* name one above 0\.0226"):
        printed_noise(0.01, 0.5, 40, 1e-5)
