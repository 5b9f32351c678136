"""What an engine is, and the one that a run takes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from onlooker.engines.driver import driver
from onlooker.engines.inline import Inline
from onlooker.engines.loop import Loop
from onlooker.engines.pool import pool
from onlooker.engines.process import playing_alone
from onlooker.engines.trial import candidates
from onlooker.engines.work import Gathered, Job, Rows, Worker
from onlooker.errors import ConfigError
from onlooker.methods.method import Method
from onlooker.methods.plain import Plain
from onlooker.methods.trainer import Trainer
from onlooker.models import Model
from onlooker.privacy.random import Source
from onlooker.types import Examples


class Engine(Protocol):
    """Who plays the clients of a round."""

    def play(self, round: int, cohorts: Sequence[Sequence[Job]], starts: Rows, private: Rows) -> list[list[Gathered]]:
        """Every group's sums, one for each of its channels.

        Args:
            round: from 1.
            cohorts: the jobs of each group.
            starts: `float32[k, p]`: the model of each group, then others that jobs name.
            private: `float32[jobs, a]`, the private part of each job, or no rows: read, and written as trained.
        """
        ...


@dataclass(frozen=True)
class Settings:
    """What the `[engine]` table says.

    Attributes:
        name: "loop", the plain one; or "vectorised", whose bits do not depend on anything but `trainer`; or "ray",
            which has the same bits on any number of machines.
        trainer: who computes gradients in the latter two.
        workers: how many processes, of one thread each; 0 for one on each core, 1 for none but this.
        start_method: how processes start; None for the fastest that this system has.
        elide: cut no shares where summing parties sum shares: sums, noise and releases are the same to the bit, but
            what each party would hold is not simulated.
        address: HOST:PORT of the Ray cluster to join; None for one that this machine starts.
    """

    name: Literal["loop", "vectorised", "ray"] = "loop"
    trainer: str = "flat"
    workers: int = 0
    start_method: Literal["fork", "spawn", "forkserver"] | None = None
    elide: bool = True
    address: str | None = None


@contextmanager
def opened(
    settings: Settings,
    method: Method,
    model: Model,
    clients: Sequence[Examples],
    source: Source,
    device: torch.device,
) -> Generator[Engine]:
    """The engine of a run, for as long as it lasts.

    Raises:
        ConfigError: if the trainer cannot train this model, or Ray cannot be joined.
        WorkerError: within it, if a process dies.
    """
    if settings.name == "loop":
        yield Loop(Worker(method, Plain(model, device), clients, source))
        return
    worker = Worker(method, trainer_of(settings.trainer, model, device), clients, source, settings.elide)
    workers, start_method = settings.workers or cores(), settings.start_method or _fastest_start()
    if settings.name == "ray":
        _refuse_what_ray_is_not_for(settings, device)
        with driver(worker, workers, settings.address, start_method) as machines:
            yield machines
        return
    if workers == 1 or device.type != "cpu":
        with playing_alone():
            yield Inline(worker)
        return
    with pool(worker, workers, start_method) as processes:
        yield processes


def _refuse_what_ray_is_not_for(settings: Settings, device: torch.device) -> None:
    if device.type != "cpu":
        raise ConfigError(
            f'engine.name = "ray" plays clients on processors, not on {device}; leave out --device, or choose another '
            "engine."
        )
    if settings.address is not None and settings.workers:
        raise ConfigError(
            f"engine.workers = {settings.workers} is for a machine of one's own: at engine.address = "
            f'"{settings.address}" each processor of the cluster plays, so leave it out.'
        )


def trainer_of(name: str, model: Model, device: torch.device) -> Trainer:
    """The trainer of a model that has this name.

    Raises:
        ConfigError: if it cannot train this model, with those that can.
    """
    able = candidates(model, device)
    if name not in able:
        raise ConfigError(
            f'engine.trainer = "{name}" cannot train this model; choose "auto" or one of {", ".join(able)}.'
        )
    return able[name]


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _fastest_start() -> str:
    """A fork needs no imports and copies no data; where it is not to be had, or not safe, a fresh process."""
    return "fork" if "fork" in multiprocessing.get_all_start_methods() and os.uname().sysname == "Linux" else "spawn"
