"""Opacus as one arm of a figure: record-level DP-SGD, which knows no rounds, beside methods that do.

A round stands for as many steps as `training.steps` says, and is evaluated as often as the other arms' rounds are.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from onlooker import models
from onlooker.baselines.opacus import OpacusRun, OpacusSettings, central, one_per_silo
from onlooker.data import Federation
from onlooker.reproduce.trace import Trace

METHODS = ("opacus-pooled", "opacus-silos")
"""On the records of all clients at one curator, or one model for each silo on its own records."""


def installed() -> bool:
    """True if the extra `opacus` is."""
    return find_spec("opacus") is not None


def train(table: Mapping[str, Any], federation: Federation) -> Trace:
    """Train by Opacus as the tables of a configuration say.

    Guarantee: record level, to whoever sees the models; none to the curator, or to the silo whose records they are.

    Raises:
        ModelError: if Opacus is not installed, or cannot train the model.
    """
    task, training, privacy = table["task"], table["training"], table["privacy"]
    pooled = task["method"] == "opacus-pooled"
    sizes = [len(client) for client in federation.clients]
    records = sum(sizes) if pooled else min(sizes)
    steps, every = training["steps"], table["evaluation"]["every"]
    settings = OpacusSettings(
        rate=1 / max(1, round(records / training["batch-size"])),
        steps=task["rounds"] * steps,
        clip=privacy["clip"],
        learning_rate=training["learning-rate"],
        epsilon=privacy["epsilon"],
        delta=privacy["delta"],
        evaluate_every=every * steps,
        seed=task["seed"],
    )
    test = federation.test
    model = models.build(table["model"]["name"], test.features.shape[1:], int(test.labels.max()) + 1, "classification")
    started = time.process_time()
    found = (central(model, federation, settings),) if pooled else one_per_silo(model, federation, settings)
    seconds = time.process_time() - started
    values = {name: _means(found, name) for name in ("accuracy", "loss")}
    rounds = tuple(one.step // steps for one in found[0].measured)
    return Trace(rounds, values, seconds, seconds / task["rounds"], _spent(found), found[0].noise_multiplier)


def _means(found: Sequence[OpacusRun], name: str) -> tuple[float | None, ...]:
    """Over silos, at each evaluation."""
    each = zip(*(run.measured for run in found), strict=True)
    means = [math.fsum(one.metrics[name] for one in silos) / len(silos) for silos in each]
    return tuple(mean if math.isfinite(mean) else None for mean in means)


def _spent(found: Sequence[OpacusRun]) -> str:
    counted, ours = max(run.epsilon for run in found), max(run.price.epsilon for run in found)
    return f"of one record, public {counted:.3g} by Opacus and {ours:.3g} by the ledger here"
