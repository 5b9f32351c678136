"""Which trainer is fastest here: a short trial, whose result is kept for the next run of the same shape."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import platform
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np
import torch

from onlooker.engines.captured import Captured, is_captured
from onlooker.engines.dense import Dense, is_dense
from onlooker.engines.flat import Flat
from onlooker.engines.process import playing_alone
from onlooker.engines.stacked import Stacked
from onlooker.methods.averaging import Averaging
from onlooker.methods.fedavg import FedAvg
from onlooker.methods.measuring import Measuring
from onlooker.methods.method import Method
from onlooker.methods.plain import Plain
from onlooker.methods.trainer import Ask, ClippedSum, Descend, Trainer
from onlooker.models import Model
from onlooker.privacy.random import Seeded
from onlooker.types import Examples, Row

_ROWS = 64
_TRIES = 3
_TOLERANCE = 1e-3  # of the norm; what 32 bits leave of a step's rounding is far below


def candidates(model: Model, device: torch.device) -> dict[str, Trainer]:
    """Every trainer that may do for a model, by name; the first is the oracle."""
    found: dict[str, Trainer] = {"plain": Plain(model, device), "flat": Flat(model, device)}
    if model.channels_last:
        found["flat-channels-last"] = Flat(model, device, channels_last=True)
    if device.type == "cpu" and is_dense(model):
        found["dense"] = Dense(model, found["flat"])
    if device.type != "cpu":
        found["stacked"] = Stacked(model, found["flat"], device)
    if is_captured(model):
        found["captured"] = Captured(model, found["flat-channels-last" if model.channels_last else "flat"], device)
    return found


def fastest(method: Method, model: Model, rows: Examples, device: torch.device, cache: Path) -> str:
    """The name of the fastest trainer that agrees with the plain one; remembered, so that it is the same next time.

    Args:
        method: whose local half is tried, for one step.
        model: what is trained.
        rows: some client's, of which a batch is taken.
        device: where tensors live.
        cache: a file of choices made before; one that cannot be read or written is passed over.
    """
    if isinstance(method, Measuring):  # all trainers measure alike
        method = method.method
    key = _key(method, model, rows, device)
    known = _known(cache)
    tried = candidates(model, device)
    if isinstance(method, Averaging | FedAvg):
        tried.pop("captured", None)  # it trains as another does
    if known.get(key) in tried:
        return known[key]
    ask = _ask(method, model, rows.take(np.arange(min(_ROWS, len(rows)))))
    with playing_alone():
        found = _fastest(tried, ask)
    _remember(cache, known | {key: found})
    return found


def cache_file() -> Path:
    """Where choices are kept for this user."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "onlooker" / "trainers.json"


def agrees(found: Row, expected: Row) -> bool:
    """True if two answers differ by rounding alone."""
    allowed = _TOLERANCE * float(np.linalg.norm(expected))
    return found.shape == expected.shape and float(np.linalg.norm(found - expected)) <= allowed


def _fastest(tried: dict[str, Trainer], ask: Callable[[], Ask]) -> str:
    (expected,) = tried["plain"].answer([ask()])
    fit: dict[str, Trainer] = {}
    for name, one in tried.items():
        with contextlib.suppress(RuntimeError):  # of a module that cannot be laid out, or captured, so
            if all(agrees(row, expected) for row in one.answer(_as_many(ask, one))):
                fit[name] = one
    seconds = dict.fromkeys(fit, math.inf)
    for _ in range(_TRIES):  # in turns, for a machine that others use as well is slow for a while and then fast
        for name, one in fit.items():
            seconds[name] = min(seconds[name], _timed(ask, one))
    return min(seconds, key=seconds.__getitem__, default="plain")


def _timed(ask: Callable[[], Ask], one: Trainer) -> float:
    """Seconds of one client."""
    asks = _as_many(ask, one)
    started = time.perf_counter()
    one.answer(asks)
    return (time.perf_counter() - started) / len(asks)


def _as_many(ask: Callable[[], Ask], one: Trainer) -> list[Ask]:
    return [ask() for _ in range(one.at_once)]


def _ask(method: Method, model: Model, rows: Examples) -> Callable[[], Ask]:
    """One step of what the method's local half asks, as often as it is called."""
    start = model.initial(0)
    if isinstance(method, Averaging | FedAvg):
        descent = replace(method.descent, steps=1, epochs=None, records=None)
        return lambda: Descend(descent, start, rows, Seeded(0).stream("trial"))
    return lambda: ClippedSum(start, rows, 1.0, Seeded(0).stream("trial"))


def _key(method: Method, model: Model, rows: Examples, device: torch.device) -> str:
    """The same for every run whose steps cost the same on this machine."""
    batch = method.descent.batch_size if isinstance(method, Averaging | FedAvg) else 0
    facts = [repr(model.module), rows.features.shape[1:], batch, str(device), platform.node(), torch.__version__]
    return hashlib.sha256(json.dumps([*facts, [one.name for one in model.layout]]).encode()).hexdigest()


def _known(cache: Path) -> dict[str, str]:
    with contextlib.suppress(OSError, ValueError):
        found: object = json.loads(cache.read_text(encoding="utf-8"))
        if isinstance(found, dict):
            return {str(key): str(value) for key, value in cast(dict[object, object], found).items()}
    return {}


def _remember(cache: Path, known: dict[str, str]) -> None:
    with contextlib.suppress(OSError):
        cache.parent.mkdir(parents=True, exist_ok=True)
        part = cache.with_suffix(f".{os.getpid()}")
        part.write_text(json.dumps(known), encoding="utf-8")
        os.replace(part, cache)
