"""The methods as Flower strategies, with Flower's own `start`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from onlooker.deployment.coordination import coordinated
from onlooker.deployment.coordinator_file import OwnCoordinator, own_coordinator
from onlooker.errors import ConfigError
from onlooker.flower.courier import Courier
from onlooker.folder import RunFolder
from onlooker.privacy.ledger import Ledger
from onlooker.types import Vector


class Deployment(Strategy):
    """A task through auxiliary servers as a Flower strategy.

    What clients, servers and rounds there are stands in the task's files, because all of it is priced and agreed on:
    `start` refuses what would be another task.

    Args:
        file: the coordinator's file, as `onlooker keys` writes one.
        say: shows a sentence to whoever watches.

    Raises:
        OnlookerError: if the file, or one that it names, cannot be used, or its method is another one.
    """

    methods: tuple[str, ...] = ()
    """The values of `task.method` that this class is for; empty for all."""

    def __init__(self, file: str | Path, say: Callable[[str], None] = print) -> None:
        self.own: OwnCoordinator = own_coordinator(Path(file))
        self._say = say
        method = self.own.prepared.configuration.task.method
        if self.methods and method not in self.methods:
            raise ConfigError(
                f'task.method = "{method}" is not for {type(self).__name__}, which runs {", ".join(self.methods)}; use '
                "Deployment, which runs any."
            )

    def start(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        grid: Grid,
        initial_arrays: ArrayRecord | None = None,
        num_rounds: int | None = None,
        timeout: float | None = None,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Play the rounds of the task that its run folder has not seen.

        Args:
            grid: of the ServerApp.
            initial_arrays: the model of round 0, that no private data decided; without it, weights made of the task's
                public name. A task that goes on goes on from where it was.
            num_rounds: those of the task, if any.
            timeout: seconds that clients may take for a round; `report-patience` of the file without it.
            train_config: empty: nothing that is not in the terms is sent to clients.
            evaluate_config: empty, likewise.
            evaluate_fn: called after every round with the model, on public data; what it gives is in the result.

        Returns:
            The last model, and metrics round by round.

        Raises:
            OnlookerError: if the run cannot go on; the run folder keeps what was done, and `start` goes on with it.
        """
        _refuse_other(self.own, num_rounds, train_config, evaluate_config)
        own = self.own if timeout is None else replace(self.own, report_patience=timeout)
        start = _vector(own, initial_arrays) if initial_arrays else None
        result = Result()
        courier = Courier(grid, self.own.shared.task.digest)
        for progress in coordinated(own, courier, self._say, start):
            if progress.metrics is None:
                continue
            round = int(progress.metrics["round"])
            numbers = {k: v for k, v in progress.metrics.items() if k in ("accuracy", "loss", "mean-absolute-error")}
            if numbers:
                result.evaluate_metrics_serverapp[round] = MetricRecord(numbers)
            arrays = _arrays(RunFolder.open(self.own.run))
            if evaluate_fn is not None and (found := evaluate_fn(round, arrays)) is not None:
                result.evaluate_metrics_serverapp[round] = found
            shown = "".join(f", {name} {value:.4g}" for name, value in numbers.items())
            told = _told(progress.metrics.get("released", {}))
            if told:
                of_before = MetricRecord({name: value for name, value in told.items()})
                result.evaluate_metrics_clientapp[round - 1] = of_before
                shown += "; clients say of the model before it " + ", ".join(_in_words(told))
            self._say(f"round {round} of {self.own.shared.task.terms.rounds}{shown}.")
        result.arrays = _arrays(RunFolder.open(self.own.run))
        return result

    def summary(self) -> None:
        """Say what every observer will have learned."""
        ledger = Ledger.plan(self.own.shared.task.terms)
        for observer in self.own.prepared.agreement.observers:
            worst = max(ledger.epsilon(one, observer) for one in ledger.terms.one_of_each_kind(observer))
            known = f"epsilon {worst:.4g}" if math.isfinite(worst) else "no guarantee"
            self._say(f"{known} against {observer}, at delta {ledger.terms.delta:g} in {ledger.terms.rounds} rounds.")

    def configure_train(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Any:
        """Not by itself: a round is charged, relayed and resumed as a whole, by `start`."""
        raise NotImplementedError("use start()")

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> Any:
        """Not by itself, as `configure_train`."""
        raise NotImplementedError("use start()")

    def configure_evaluate(self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid) -> Any:
        """Nobody is asked: a metric of clients' data that is not charged would be a leak (rule 10)."""
        del server_round, arrays, config, grid
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> MetricRecord | None:
        """None came."""
        del server_round, replies
        return None


class DPFedAvg(Deployment):
    """Federated averaging of clipped updates under noise (McMahan et al. 2018), summed by auxiliary servers."""

    methods = ("dp-fedavg",)


class MSPAFL(Deployment):
    """MS-PAFL: only the public part of a split model leaves; the private part stays in `onlooker client`."""

    methods = ("ms-pafl",)


class DPOGL(Deployment):
    """DP-OGL, and DP-OGL+ in its isolated form: overlapping groups whose sums go through auxiliary servers."""

    methods = ("dp-ogl", "dp-ogl-plus-isolated")


class FedDecouple(Deployment):
    """FedDecouple: shares to two auxiliary servers, one act of noising."""

    methods = ("feddecouple",)


class DPSGD(Deployment):
    """Federated DP-SGD: the gradients of records are clipped in each silo, and noised once by the servers."""

    methods = ("dp-sgd",)


class DPFTRL(Deployment):
    """DP-FTRL: correlated noise, drawn by the servers."""

    methods = ("dp-ftrl",)


def _arrays(folder: RunFolder) -> ArrayRecord:
    """The last model by the names of its tensors."""
    return ArrayRecord({name: Array(value) for name, value in folder.commit().tensors.items()})


def _told(released: Mapping[str, float | list[float] | None]) -> dict[str, float | list[float]]:
    """What clients told under noise, with 95 % intervals; nothing of what the noise hid."""
    return {name: value for name, value in released.items() if value is not None}


def _in_words(told: Mapping[str, float | list[float]]) -> list[str]:
    found: list[str] = []
    for name, value in told.items():
        interval = told.get(f"{name}-interval")
        if isinstance(value, float) and isinstance(interval, list):
            found.append(f"{name} {value:.4g} ({interval[0]:.4g} to {interval[1]:.4g})")
    return found


def _vector(own: OwnCoordinator, arrays: ArrayRecord) -> Vector:
    """A model that Flower's user starts from, `float32[d]`."""
    layout = own.prepared.layout
    given = arrays.to_numpy_ndarrays()
    shapes = [one.shape for one in given]
    if shapes != [one.shape for one in layout]:
        raise ConfigError(
            f"initial_arrays has shapes {shapes}, but the model of the task {[one.shape for one in layout]}; leave it "
            "out, and all start from weights made of the task's name."
        )
    return np.concatenate([one.reshape(-1) for one in given]).astype(np.float32)


def _refuse_other(own: OwnCoordinator, rounds: int | None, *configs: ConfigRecord | None) -> None:
    if rounds is not None and rounds != own.shared.task.terms.rounds:
        raise ConfigError(
            f"num_rounds = {rounds}, but the parties have agreed on {own.shared.task.terms.rounds}; leave it out, or "
            "agree on a new task."
        )
    if any(configs):
        raise ConfigError(
            "train_config and evaluate_config are not the strategy's to choose: what clients receive is agreed on; "
            "leave them out."
        )
