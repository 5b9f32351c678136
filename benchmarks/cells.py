"""Every comparison by name: who does which job, against whom, and what is aimed at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from benchmarks.environments import ENVIRONMENTS
from benchmarks.job import Job
from benchmarks.protocol import arguments_of


@dataclass(frozen=True)
class Contender:
    """One program that does the job.

    Attributes:
        name: as tables and `--peers` call it.
        setting: what distinguishes two of the same name; empty where nothing does.
        module: the runner, under `benchmarks.runners`.
        options: of the runner.
        threads: `OMP_NUM_THREADS`; 0 leaves it as it is.
        job: where it does another one than its cell.
    """

    name: str
    setting: str
    module: str
    options: Mapping[str, object] = field(default_factory=dict[str, object])
    threads: int = 1
    job: Job | None = None

    @property
    def title(self) -> str:
        """Name and setting."""
        return f"{self.name} ({self.setting})" if self.setting else self.name

    @property
    def environment(self) -> str | None:
        """The environment that it needs; None for Onlooker's own."""
        return self.module if self.module in ENVIRONMENTS else None

    def arguments(self, job: Job) -> tuple[str, ...]:
        """Its command line, after the interpreter."""
        return ("-m", f"benchmarks.runners.{self.module}", *arguments_of(self.job or job, self.options))


@dataclass(frozen=True)
class Cell:
    """One job, and who does it; the first contender is what the others are compared with.

    Attributes:
        name: as `--only` calls it.
        title: a heading.
        job: what is done.
        contenders: who does it.
        aim: what was set as a goal before anything was measured.
        parts: what a round's time is divided by before it is shown.
        unit: of what is shown.
        measures: "rounds", or "start" where all that counts is the time from the start to the first result.
        limited: True where the machine's own limit says something about it.
        segments: how often each contender is started unless the command says otherwise.
    """

    name: str
    title: str
    job: Job
    contenders: tuple[Contender, ...]
    aim: str = ""
    parts: int = 1
    unit: str = "ms a round"
    measures: Literal["rounds", "start"] = "rounds"
    limited: bool = False
    segments: int = 3


OWN = Contender("onlooker", "", "onlooker", threads=0)
PEERS = (
    Contender("pfl", "1 thread", "pfl", {"threads": 1}, 1),
    Contender("pfl", "2 threads", "pfl", {"threads": 2}, 2),
    Contender("flower", "2 actors", "flower", {"actors": 2}, 1),
    Contender("fedjax", "jit", "fedjax", {"backend": "jit"}, 0),
    Contender("blazefl", "2 threads", "blazefl", {"threads": 2}, 1),
)
_ROUNDS = {"mlp": (42, 22, 14), "cnn": (22, 10, 8), "cifar": (8, 6, 5)}
_COHORTS = (10, 50, 100)
_AIMS = {
    "mlp-50": "1.4 times as fast as the fastest peer and 2.5 times as fast as pfl; better, twice the fastest peer",
    "cnn-50": "1.6 times as fast as the fastest peer; better, twice",
    "cifar-10": "75 % of the rate of a large matrix product; better, 85 %",
}


def _against_peers() -> list[Cell]:
    return [
        Cell(
            f"{name}-{cohort}",
            f"{Job(name, cohort, rounds).network.title}, {cohort} of 100 clients",
            Job(name, cohort, rounds),
            (OWN, *PEERS),
            _AIMS.get(f"{name}-{cohort}", ""),
            limited=True,
        )
        for name, counts in _ROUNDS.items()
        for cohort, rounds in zip(_COHORTS, counts, strict=True)
    ]


def _by_path(name: str, options: str) -> Contender:
    return Contender("onlooker", name, "onlooker", {"path": options}, threads=0)


def _through_servers() -> list[Cell]:
    paths = (
        _by_path("one trusted server", "plain"),
        _by_path("two servers", "servers"),
        _by_path("no noise", "fedavg"),
    )
    aims = {"mlp": "at most 1.5 times the first row; better, 1.2"}
    rounds = {"mlp": (50, 22), "cnn": (50, 10), "cifar": (10, 8)}
    return [
        Cell(
            f"servers-{name}",
            f"Two auxiliary servers, {Job(name, cohort, count).network.title}, {cohort} of 100 clients",
            Job(name, cohort, count),
            paths,
            aims.get(name, "at most 1.1 times the first row; better, 1.05"),
        )
        for name, (cohort, count) in rounds.items()
    ]


def _by_records(cohort: int, name: str, title: str) -> Cell:
    job = Job("cnn", cohort, 12, clients=cohort, records=64, steps=1)
    opacus = [
        Contender("opacus", f"{way}, {threads} thread{'s' * (threads > 1)}", "opacus", {"way": way, "threads": threads})
        for way in ("hooks", "ew", "functorch", "ghost")
        for threads in (1, 2)
    ]
    return Cell(
        name,
        title,
        job,
        (_by_path("whole round", "records"), *opacus),
        "1.2 times as fast as the best of Opacus; better, 1.5",
        parts=cohort,
        unit="ms a batch of 64",
    )


def _of_many() -> Cell:
    def logistic(cohort: int, clients: int) -> Contender:
        job = Job("logistic", cohort, 12, clients=clients, records=4, batch=4)
        return Contender("onlooker", f"{cohort:,} of {clients:,} clients", "onlooker", threads=0, job=job)

    return Cell(
        "population",
        "Logistic regression 784-10, few of many clients with 4 records each",
        Job("logistic", 1000, 12, clients=10_000, records=4, batch=4),
        (logistic(1000, 10_000), logistic(1000, 100_000), logistic(2000, 100_000), logistic(500, 100_000)),
        "time in proportion to the cohort and not to the population; under 2 GB beside the data "
        "(1,197 MiB for 100,000 clients)",
    )


def _commands() -> list[Cell]:
    once = Job("mlp", 10, 1)
    peers = tuple(one for one in PEERS if one.setting != "2 threads" or one.name == "blazefl")
    own = Contender("onlooker", "the command", "command", {"word": "run"}, threads=0, job=Job("mlp", 10, 40))
    long = Job("mlp", 10, 10_000)
    # What a user plans: data and model by name, so that nothing of this job is drawn, nor torch imported for it.
    asked = ("data.name='digits'", "model.name='mlp'", "sampling.clients={name='poisson', rate=0.1}")
    plan = {"word": "plan", "set": asked}
    return [
        Cell(
            "start",
            "From the command to the end of the first round, MLP, 10 of 100 clients",
            once,
            (own, *peers),
            "3 s; better, 2 s",
            unit="ms",
            measures="start",
            segments=5,
        ),
        Cell(
            "plan",
            "`onlooker plan`, 10,000 rounds, each client there with probability 0.1",
            long,
            (
                Contender("onlooker", "noise given", "command", {**plan, "path": "servers"}, threads=0),
                Contender("onlooker", "noise found for epsilon 8", "command", {**plan, "path": "target"}, threads=0),
            ),
            "3 s; better, 1 s",
            unit="ms",
            measures="start",
            segments=5,
        ),
    ]


CELLS = {
    cell.name: cell
    for cell in (
        *_against_peers(),
        *_through_servers(),
        _by_records(1, "record-1", "Per-record gradients, small CNN, one silo: a round is one batch of 64"),
        _by_records(20, "record-20", "Per-record gradients, small CNN, 20 silos: a round is 20 batches of 64"),
        _of_many(),
        *_commands(),
    )
}
