"""Noises that several parties round apart add up to one Gaussian that was processed, if each is wide."""

import numpy as np
import pytest
from scipy.stats import norm

REACH, FINENESS = 80, 64


def distance(sigma, adders):
    """The total variation between the sum of rounded noises and a wider Gaussian, smeared and then rounded."""
    probabilities = np.diff(norm.cdf(np.arange(-REACH, REACH + 2) - 0.5, scale=sigma))
    points = np.arange(-REACH * FINENESS, REACH * FINENESS + 1) / FINENESS
    density = norm.cdf((points + 0.5) / sigma) - norm.cdf((points - 0.5) / sigma)
    summed, smeared = probabilities, density
    for _ in range(adders - 1):
        summed = np.convolve(summed, probabilities, "same")
        smeared = np.convolve(smeared, density, "same") / FINENESS
    return np.abs(summed - smeared[::FINENESS]).sum() / 2


@pytest.mark.parametrize("adders", [2, 3, 5])
@pytest.mark.parametrize("sigma", [0.5, 0.7, 1.0, 1.5])
def test_the_bound_of_the_proof_holds(sigma, adders):
    assert distance(sigma, adders) < 12 * adders**1.5 * sigma * np.exp(-((np.pi * sigma) ** 2))


def test_noises_that_are_narrower_than_the_grid_do_not_add_up():
    """Each rounds to zero, and so does their sum, whatever a Gaussian of the summed variance would be."""
    assert distance(0.3, 2) > 0.1
