"""Run folders as a run would leave them, for tests of what reads them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from onlooker.folder import RunFolder
from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid
from onlooker.privacy.ledger import Release
from onlooker.privacy.mechanisms import NoNoise, RoundedGaussian
from onlooker.privacy.sampling import ClientSampling, Everyone, Poisson, PoissonRecords
from onlooker.privacy.summation import Plain, Shared, Summation
from onlooker.privacy.terms import Terms
from onlooker.privacy.topology import Groups
from onlooker.privacy.training import Training

OBSERVERS = ("public", "coordinator", "aux:0", "aux:0+aux:1")
COINS, SERVERS = Poisson(0.5), Shared()
CONFIGURATION = '[task]\nmethod = "feddecouple"\nrounds = 40\nseed = 42\n\n[privacy]\nclip = 1.0\n'


def terms(
    rounds: int = 40,
    clients: int = 10,
    sampling: ClientSampling = COINS,
    summation: Summation = SERVERS,
    multiplier: float = 2.064,
) -> Terms:
    """FedDecouple with ten clients: 8.00 for the public, 17.14 for one server, nothing for both."""
    noised_by = "servers" if isinstance(summation, Shared) else "server"
    channel = Channel(100, RoundedGaussian(multiplier), Grid(1.0, 16, 32), noised_by, summation, bounds=1.0)
    return Terms("client", "zero-out", 1e-5, rounds, clients, sampling, Training(), (channel,))


def record_terms(rounds: int = 40) -> Terms:
    """Federated DP-SGD over two servers, ten silos."""
    channel = Channel(
        100,
        RoundedGaussian(1.1),
        Grid(1.0, 12, 32),
        "servers",
        Shared(),
        bounds=1.0,
        sums_records=True,
        max_records=280,
    )
    training = Training("nothing", PoissonRecords(0.05), 140, 280)
    return Terms("record", "zero-out", 1e-5, rounds, 10, Everyone(), training, (channel,))


def open_terms(rounds: int = 40) -> Terms:
    """FedAvg: no noise, no guarantee."""
    channel = Channel(101, NoNoise(), None, "server", Plain())
    return Terms("none", "zero-out", 1e-5, rounds, 10, Everyone(), Training(), (channel,))


def grouped_terms(
    members: Sequence[Sequence[int]] = ((0, 1, 2, 3), (3, 4, 5), (5, 6, 7)),
    rounds: int = 10,
    period: int = 5,
    interval: int = 1,
    part: str = "*",
    noises: Sequence[float] | None = None,
) -> Terms:
    """DP-OGL in overlapping groups; DP-OGL+ as printed where a round is an interval of several epochs."""
    channels = tuple(
        Channel(90, RoundedGaussian(noise), Grid(1.0, 16, 32), "server", bounds=1.0, part=part, name=f"model/{group}")
        for group, noise in enumerate(noises or (3.0,) * len(members))
    )
    topology = Groups(tuple(map(tuple, members)), 1 if interval > 1 else period)
    keeps = "nothing" if part == "*" else "state"
    return Terms(
        unit="client",
        adjacency="zero-out",
        delta=1e-5,
        rounds=rounds,
        clients=1 + max(client for group in members for client in group),
        sampling=COINS,
        training=Training(keeps),
        channels=channels,
        topology=topology,
        interval=interval,
        within="shared" if interval > 1 else "alone",
    )


def personal_metrics(rounds: int) -> list[dict[str, Any]]:
    """Lines of a run whose clients have models of their own."""
    own = {"accuracy-worst": 0.4, "accuracy-spread": 0.05}
    own |= {"own-accuracy": 0.7, "own-accuracy-worst": 0.3, "own-accuracy-spread": 0.1}
    return [{**line, "simulation": {**line["simulation"], **own}} for line in metrics(rounds)]


def environment(**changes: Any) -> dict[str, Any]:
    """What a run writes down about itself, with changes; a change to None takes the key away."""
    whole = {
        "onlooker": "0.1.0",
        "name": "ten-hospitals",
        "started": "2025-06-01T12:00:00+00:00",
        "python": "3.11.9",
        "platform": "Linux-6.1-x86_64",
        "packages": {"numpy": "2.1.0", "torch": "2.6.0", "dp-accounting": "0.6.0"},
        "seed": 42,
        "threads": 2,
        "device": "cpu",
        "task": "feddecouple",
        "data": {
            "name": "digits",
            "clients": 10,
            "partition": "iid",
            "test-records": 360,
            "preprocessing": ["Pixels are divided by 16, a public constant."],
            "uncharged": ["The test set was held out before the partition."],
        },
        "model": {"name": "logistic", "parameters": 100},
        "observers": list(OBSERVERS),
        "target-epsilon": 8.0,
        "warnings": [],
    }
    return {key: value for key, value in {**whole, **changes}.items() if value is not None}


def metrics(rounds: int, **changes: Any) -> list[dict[str, Any]]:
    """Lines of `metrics.jsonl` of a run that learns."""
    return [
        {
            "round": round,
            "seconds": 0.4,
            "expected-clients": 5.0,
            "accuracy": 0.97 - 0.85 * 0.9**round,
            "loss": 0.2 + 2.1 * 0.88**round,
            "simulation": {"clients": 5.0, "signal-norm": 4.0 * 0.95**round + 0.3, "noise-norm": 0.9},
            **changes,
        }
        for round in range(1, rounds + 1)
    ]


def make(
    path: Path,
    terms: Terms,
    lines: Sequence[Mapping[str, Any]] = (),
    env: Mapping[str, Any] | None = None,
    configuration: str = CONFIGURATION,
    charged: int | None = None,
) -> RunFolder:
    """A run folder that committed `lines` and charged as many rounds, or `charged`."""
    tensors = {"weight": np.zeros(100, dtype=np.float32)}
    folder = RunFolder.create(path, configuration, terms, environment() if env is None else env, tensors)
    for round in range(1, (len(lines) if charged is None else charged) + 1):
        folder.charge(Release(round, hashlib.sha256(str(round).encode()).hexdigest()))
    for line in lines:
        folder.finish(line, tensors)
    return folder


def rewrite_metrics(folder: RunFolder, lines: Sequence[Mapping[str, Any]]) -> None:
    """Put other lines in place, also such as a run would never write: NaN and infinities."""
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder.path / "metrics.jsonl").write_text(text)
