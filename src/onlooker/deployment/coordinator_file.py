"""The coordinator's own file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from pydantic import Field

from onlooker.config import Prepared, Table, read
from onlooker.deployment.files import Credentials, Shared, TlsTable, credentials_of, own_key, shared
from onlooker.deployment.job import agreed


class CoordinatorFile(Table):
    """The coordinator's own.

    Attributes:
        task: the file of the task.
        job: the configuration that all parties have.
        run: the run folder, which is made when the task begins and gone on with when it was begun.
        signing_key: its private key, PEM.
        functions: "package.module:function" of the job that it is willing to run; no other code is.
        patience: seconds that a server may take to answer until the round is given up.
        report_patience: seconds that clients may take for a round.
        client_patience: seconds to wait for as many clients as a round needs; then the run stops, to be gone on with.
        test_root: a folder with the set of the task, whose public test rows the model is evaluated on; none without.
        tls: its certificate.
    """

    task: str
    job: str
    run: str
    signing_key: str
    functions: list[str] = []
    patience: Annotated[float, Field(gt=0)] = 60.0
    report_patience: Annotated[float, Field(gt=0)] = 600.0
    client_patience: Annotated[float, Field(gt=0)] = 600.0
    test_root: str | None = None
    tls: TlsTable


@dataclass(frozen=True)
class OwnCoordinator:
    """All that a coordinator is started with.

    Attributes:
        shared: what it has in common with others.
        prepared: the job, under the terms of the task.
        run: the run folder.
        signing_key: its own.
        credentials: of its connections.
        patience: with servers, in seconds.
        report_patience: with clients in a round.
        client_patience: with clients before a round.
        test_root: where the public test rows are; None for no evaluation.
    """

    shared: Shared
    prepared: Prepared
    run: Path
    signing_key: Ed25519PrivateKey
    credentials: Credentials
    patience: float
    report_patience: float
    client_patience: float
    test_root: Path | None


def own_coordinator(path: Path) -> OwnCoordinator:
    """Read the coordinator's file, and the files that it names.

    Raises:
        ConfigError: if one cannot be read.
        OnlookerError: as `files.shared` and `job.agreed`.
    """
    file = read(CoordinatorFile, path)
    base = path.parent
    found = shared(base / file.task)
    key = own_key(path, file.signing_key, found.task.coordinator, "the coordinator", file.task)
    return OwnCoordinator(
        found,
        agreed(base / file.job, found.task, file.functions),
        base / file.run,
        key,
        credentials_of(file.tls, path),
        file.patience,
        file.report_patience,
        file.client_patience,
        None if file.test_root is None else base / file.test_root,
    )
