"""DP-FTRL: noise that is correlated over rounds, so that sums over many rounds carry less of it."""

from __future__ import annotations

from onlooker.methods.averaging import Averaging, refuse_another_unit
from onlooker.methods.descent import LocalDescent
from onlooker.methods.method import ServerStep
from onlooker.models import Parts
from onlooker.privacy.terms import Terms


def dp_ftrl(terms: Terms, descent: LocalDescent, step: ServerStep, parts: Parts) -> Averaging:
    """DP-FTRL over clipped client updates (Kairouz et al. 2021, Algorithm 1; for bands Choquette-Choo et al. 2023).

    A round's model is the first one plus the sum of all noisy means since, so what counts is the noise of sums over
    rounds. A tree (its nodes' noises) or a banded strategy matrix lets each round's noise take back part of the
    earlier ones. The noise is the server's or each auxiliary server's.

    Guarantee: client level, for the whole run at once: a client's rounds lie a fixed period apart, and the sensitivity
    of the strategy under that schedule decides (rule 14). Nothing is amplified.

    Raises:
        UnpricedError: if the terms guard another unit.
    """
    refuse_another_unit("dp-ftrl", terms)
    return Averaging(terms, descent, step, parts)
