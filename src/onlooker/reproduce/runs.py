"""Runs of a study: trained once for all the figures that show them, kept in a folder, and more than one at a time."""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

import onlooker
from onlooker import config, data, run
from onlooker.engines import play_alone
from onlooker.errors import FolderError
from onlooker.folder import RunFolder
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.statement import Finding, find
from onlooker.privacy.topology import Groups
from onlooker.reproduce import opacus_runs
from onlooker.reproduce.trace import Trace
from onlooker.round import Study

_CPU = torch.device("cpu")


@dataclass(frozen=True)
class Job:
    """One configuration with one seed.

    Attributes:
        text: the configuration as JSON, its seed in it.
        lender: the configuration whose calibrated noise this one takes, as JSON; empty where it has its own.
    """

    text: str
    lender: str = ""

    @property
    def key(self) -> str:
        """A name for what comes of it: other settings, or another version of Onlooker, have another."""
        return hashlib.sha256(f"{onlooker.__version__}\n{self.text}\n{self.lender}".encode()).hexdigest()[:32]


def job_of(configuration: Mapping[str, Any], seed: int, lender: Mapping[str, Any] | None = None) -> Job:
    """The job that runs a configuration with a seed."""
    table = {**configuration, "task": {**configuration["task"], "seed": seed}}
    return Job(json.dumps(table, sort_keys=True), json.dumps(lender, sort_keys=True) if lender else "")


@dataclass(frozen=True)
class Runs:
    """Where runs are kept.

    Attributes:
        store: a folder with one small file for each finished run.
        processes: how many runs go on at a time, each with one thread.
    """

    store: Path
    processes: int = 1

    def of(self, jobs: Iterable[Job]) -> dict[Job, Trace]:
        """What each job left behind; those that are not in the folder are run.

        Raises:
            OnlookerError: if a configuration cannot be run, its data are not there, or the folder cannot be written.
        """
        wanted = list(dict.fromkeys(jobs))
        # Runs on the same data come one after another, because some sets take long to unpack.
        missing = sorted((job for job in wanted if not self._place(job).exists()), key=_data_of)
        if self.processes > 1 and len(missing) > 1:
            context = multiprocessing.get_context("spawn")
            # Two runs side by side, each with threads that wait for each other, are slower than one after the other.
            with ProcessPoolExecutor(self.processes, context, initializer=play_alone) as pool:
                for job, trace in zip(missing, pool.map(train, missing), strict=True):
                    self._keep(job, trace)
        else:
            for job in missing:
                self._keep(job, train(job))
        return {job: Trace.from_json(self._place(job).read_text(encoding="utf-8")) for job in wanted}

    def _place(self, job: Job) -> Path:
        return self.store / f"{job.key}.json"

    def _keep(self, job: Job, trace: Trace) -> None:
        try:
            self.store.mkdir(parents=True, exist_ok=True)
            whole = self._place(job).with_suffix(".part")
            whole.write_text(json.dumps(asdict(trace)), encoding="utf-8")
            os.replace(whole, self._place(job))
        except OSError as error:
            raise FolderError(
                f"the folder {self.store} cannot be written: {error.strerror or error}; name another by --runs."
            ) from error


def _data_of(job: Job) -> str:
    table = json.loads(job.text)
    return json.dumps([table["data"], table["task"]["seed"]], sort_keys=True)


def train(job: Job) -> Trace:
    """Run one job, in a folder that is gone afterwards.

    Raises:
        OnlookerError: if the configuration cannot be run, or its data are not there.
    """
    table = json.loads(job.text)
    same = json.dumps({"task": {"method": "fedavg", "seed": table["task"]["seed"]}, "data": table["data"]})
    federation = _federation(same)
    if table["task"]["method"] in opacus_runs.METHODS:
        return opacus_runs.train(table, federation)
    prepared = prepare(lent(table, json.loads(job.lender)) if job.lender else table)
    study = config.study(prepared, _CPU, federation)
    study = replace(study, engine=replace(study.engine, workers=1))  # runs go on side by side already
    terms = prepared.agreement.terms
    with tempfile.TemporaryDirectory() as parent:
        start = run.starting_tensors(study)
        folder = RunFolder.create(Path(parent) / "run", config.as_toml(prepared.configuration), terms, {}, start)
        lines, seconds = _simulated(study, folder)
    shown = [line for line in lines if "loss" in line]
    apart = [spent for line, spent in zip(lines, seconds, strict=True) if "loss" not in line]
    values = {name: tuple(line.get(name) for line in shown) for name in ("accuracy", "loss")}
    return Trace(
        tuple(line["round"] for line in shown),
        values,
        math.fsum(seconds),
        statistics.median(apart or seconds),
        _spent(prepared),
        terms.channels[0].mechanism.noise_multiplier,
    )


def _simulated(study: Study, folder: RunFolder) -> tuple[list[Mapping[str, Any]], list[float]]:
    """The metrics of each round, and its processor time, which other work on the machine does not lengthen."""
    lines: list[Mapping[str, Any]] = []
    seconds: list[float] = []
    before = time.process_time()
    for progress in run.simulate(study, folder):
        now = time.process_time()
        lines.append(progress.metrics or {})
        seconds.append(now - before)
        before = now
    return lines, seconds


def prepare(table: Mapping[str, Any]) -> config.Prepared:
    """A configuration from its tables."""
    return config.prepare(config.Configuration.model_validate(table), Path())


def lent(table: Mapping[str, Any], lender: Mapping[str, Any]) -> dict[str, Any]:
    """The configuration with the noise that another one is calibrated to."""
    return with_noise(table, _noise(json.dumps(lender, sort_keys=True)))


def with_noise(table: Mapping[str, Any], multiplier: float) -> dict[str, Any]:
    """The configuration with a noise multiplier in place of a target."""
    privacy = {key: value for key, value in table["privacy"].items() if key != "epsilon"}
    return {**table, "privacy": {**privacy, "noise-multiplier": multiplier}}


@lru_cache(maxsize=64)
def _noise(lender: str) -> float:
    return prepare(json.loads(lender)).agreement.terms.channels[0].mechanism.noise_multiplier


@lru_cache(maxsize=1)
def _federation(text: str) -> data.Federation:
    """The data of a configuration, kept while the next run is on the same: some take long to unpack."""
    prepared = prepare({**json.loads(text), "model": {"name": "logistic"}})
    return config.study(prepared, _CPU).federation


def _spent(prepared: config.Prepared) -> str:
    terms = prepared.agreement.terms
    if not terms.channels[0].mechanism.noise_multiplier:
        return "none"
    findings = find(Ledger.plan(terms), prepared.agreement.observers)
    if isinstance(terms.topology, Groups):
        return f"the worst peer {_number(max(finding.price.epsilon for finding in findings))}"
    return ", ".join(_of(finding, observer) for finding in findings for observer in finding.observers)


def _of(finding: Finding, observer: str) -> str:
    return f"{observer} {_number(finding.price.epsilon)}"


def _number(epsilon: float) -> str:
    return f"{epsilon:.3g}" if math.isfinite(epsilon) else "none"


def mean_seconds(traces: Sequence[Trace]) -> float:
    """Of a round without evaluation."""
    return math.fsum(trace.round_seconds for trace in traces) / len(traces)
