"""The configuration file as frozen tables: names, types and defaults, and nothing about what they mean together."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Count = Annotated[int, Field(ge=1)]


class Table(BaseModel):
    """A table of the file: kebab-case keys, no unknown ones, no silent conversions."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.replace("_", "-"),
    )

    def given(self, name: str) -> bool:
        """True if the file names this key, True or not by its default."""
        return name in self.model_fields_set


class TaskTable(Table):
    """What to run, for how long."""

    method: str
    rounds: Count = 40
    seed: int | Literal["system"] = 42


class DataTable(Table):
    """Whose data, and how they are split; keys that only one kind of data knows are checked where it is loaded."""

    name: str
    root: str | None = None
    clients: Count = 10
    partition: str = "iid"
    alpha: float = 0.5
    classes_per_client: Count = 2
    id_column: str | None = None
    columns: list[str] | None = None
    label_column: str | None = None
    person_column: str | None = None
    expected_records: Count | None = None
    max_records: Count | None = None
    weights: list[float] | None = None
    task: Literal["classification", "regression"] = "classification"
    classes: list[str] = []
    categories: dict[str, list[str]] = {}
    ranges: dict[str, list[float]] = {}
    ignore_columns: list[str] = []
    missing_columns: list[str] = []
    test_file: str | None = None
    test_fraction: float = 0.2


class ModelTable(Table):
    """What is trained."""

    name: str = "cnn-dp-sgd"


class TrainingTable(Table):
    """How a client trains, and how the coordinator moves the model."""

    steps: Count | None = None
    epochs: Count | None = None
    batch_size: Count = 64
    optimizer: Literal["sgd", "adam"] = "sgd"
    momentum: float = 0.0
    weight_decay: float = 0.0
    learning_rate: float = 0.1
    server_learning_rate: float = 1.0
    server_momentum: float = 0.0


class ClientSamplingTable(Table):
    """Who takes part in a round."""

    name: str = "poisson"
    rate: float | list[float] | None = None
    period: Count | None = None
    participations: Count | None = None
    cover_traffic: bool = False


class RecordSamplingTable(Table):
    """Which records of a silo are used in a round."""

    name: str = "poisson"
    rate: float | None = None


class SamplingTable(Table):
    """Both samplings."""

    clients: ClientSamplingTable | None = None
    records: RecordSamplingTable | None = None


class SplitTable(Table):
    """Which parameters leave a client: by globs of their names, or by a share of each."""

    public: str | list[str] | None = None
    private: str | list[str] | None = None
    ratio: float | str | None = None
    rule: Literal["mask-per-layer"] = "mask-per-layer"


class GroupsTable(Table):
    """Overlapping groups: listed, built, or read from a file; lists of rates, clips and noises have one for each."""

    members: list[list[int]] | None = None
    structure: str | None = None
    groups: Count | None = None
    overlap: Count = 1
    path: str | None = None
    mixing_period: Count = 1
    rate: list[float] | None = None
    clip: list[float] | None = None
    noise_multiplier: list[float] | None = None
    publish: list[int] = []


class ServersTable(Table):
    """The auxiliary servers."""

    count: int = 2
    corrupt: int = 1
    relay: str = "coordinator"
    hosted_by: list[str] = []
    min_batch: Count = 5
    ring_bits: int = 32


class PrivacyTable(Table):
    """What is promised."""

    unit: str | None = None
    adjacency: str = "zero-out"
    mechanism: str | None = None
    bands: Count | None = None
    noised_by: str | None = None
    clip: float | list[float] = 1.0
    divisor: str = "public"
    clip_mode: str = "update"
    adaptive_clip: dict[str, Any] | None = None
    delta: float = 1e-5
    noise_multiplier: float | None = None
    epsilon: float | None = None
    observers: list[str] | None = None


class EvaluationTable(Table):
    """How often the model is evaluated, and whether clients measure it under noise, at what price."""

    every: Count = 1
    private: bool = False
    share: float = 0.1
    noise_multiplier: float | None = None
    loss_bound: float | None = None


class EngineTable(Table):
    """Who computes the clients of a round: how fast, and in which last digits, but nothing else."""

    name: Literal["vectorised", "loop", "ray"] = "vectorised"
    workers: Count | None = None
    trainer: str = "auto"
    start_method: Literal["fork", "spawn", "forkserver"] | None = None
    shares: Literal["elided", "cut"] = "elided"
    address: str | None = None


class Configuration(Table):
    """The whole file."""

    task: TaskTable
    data: DataTable
    model: ModelTable = ModelTable()
    training: TrainingTable = TrainingTable()
    sampling: SamplingTable = SamplingTable()
    split: SplitTable | None = None
    groups: GroupsTable | None = None
    servers: ServersTable | None = None
    privacy: PrivacyTable = PrivacyTable()
    evaluation: EvaluationTable = EvaluationTable()
    engine: EngineTable = EngineTable()
