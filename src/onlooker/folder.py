"""A run folder: append-only facts, one commit point a round, readable without torch.

    run.toml            the configuration as it ran
    terms.toml          all that decides privacy
    ledger.jsonl        the terms' hash, then one line for each sealed round, on disk before its release is used
    metrics.jsonl       one line for each finished round
    private.float32     where models are split: clients' private parts, two places each; nobody else's in a deployment
    kept.N.safetensors  where clients keep something: which place is in use after round N, and what they drew
    noise.N.safetensors where noise is correlated: what noising parties remember after round N, before its release
    model.safetensors   the model, or each group's; replacing it commits a round
    env.json            versions, seed, machine, data

A process may die between any two instructions here. What follows a death is decided by order alone: charge, then
metrics, then what is kept, then model. A round whose model is not in place did not happen, but stays charged.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import tomllib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import tomli_w

from onlooker._stored import line_of, packed, replace_file, unpacked, write, writing
from onlooker.errors import FolderError, OnlookerError
from onlooker.privacy.ledger import Ledger, Release
from onlooker.privacy.terms import Terms, from_dict, to_dict
from onlooker.types import Array

MOMENTUM = "onlooker.server-momentum"
"""The tensor of server momentum, `float32[d]` or with groups `float32[g, d]`, beside the model's own tensors."""
USED, DRAWS = "used", "draws"
"""In what is kept: the place in use of each private part, `uint8[seats]`; draws for a whole run, `int64[n, k]`."""
_PRIVATE = "private.float32"


@dataclass(frozen=True)
class Commit:
    """What the last finished round left.

    Attributes:
        round: its number; 0 before the first.
        tensors: the model's tensors by name, and `MOMENTUM`.
        kept: what clients keep between rounds, by name.
        private: the file of clients' private parts; it is there where models are split.
    """

    round: int
    tensors: Mapping[str, Array]
    kept: Mapping[str, Array] = field(default_factory=dict[str, Array])
    private: Path = Path(_PRIVATE)


@dataclass(frozen=True)
class RunFolder:
    """A run folder that exists; `create` makes one, whole or not at all."""

    path: Path

    @staticmethod
    def create(
        path: Path,
        configuration: str,
        terms: Terms,
        environment: Mapping[str, Any],
        tensors: Mapping[str, Array],
        kept: Mapping[str, Array] | None = None,
    ) -> RunFolder:
        """A new folder with everything in it that a run starts from.

        Raises:
            FolderError: if the folder exists and is not empty, or cannot be written; nothing is left behind.
        """
        if path.exists() and (not path.is_dir() or any(path.iterdir())):
            raise FolderError(f"the run folder {path} exists already; name another by --out, or resume it.")
        draft = path.with_name(f".{path.name}.draft-{os.getpid()}")
        try:
            draft.mkdir(parents=True)
            write(draft / "run.toml", configuration.encode())
            write(draft / "terms.toml", tomli_w.dumps(to_dict(terms)).encode())
            write(draft / "ledger.jsonl", line_of({"terms": terms.hash}))
            write(draft / "metrics.jsonl", b"")
            write(draft / "env.json", json.dumps(environment, indent=2, allow_nan=False).encode())
            if kept:
                write(draft / _kept_name(0), packed(kept, 0))
            write(draft / "model.safetensors", packed(tensors, 0))
            replace_file(draft, path)
        except OSError as error:
            shutil.rmtree(draft, ignore_errors=True)
            raise FolderError(f"the run folder {path} cannot be written: {error.strerror or error}.") from error
        return RunFolder(path)

    @staticmethod
    def open(path: Path) -> RunFolder:
        """The folder at `path`.

        Raises:
            FolderError: if it is not a run folder.
        """
        try:
            missing = [name for name in ("run.toml", "terms.toml", "ledger.jsonl") if not (path / name).is_file()]
        except OSError as error:
            raise FolderError(f"{path} cannot be looked at: {error.strerror}.") from error
        if missing:
            raise FolderError(f"{path} is not a run folder: it has no {missing[0]}.")
        return RunFolder(path)

    def terms(self) -> Terms:
        """The terms of the run, checked against the hash that the ledger begins with.

        Raises:
            FolderError: if they are not the terms that the ledger was begun with, or cannot be read.
        """
        try:
            terms = from_dict(tomllib.loads(self._read("terms.toml").decode()))
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, OnlookerError) as error:
            raise FolderError(f"{self.path / 'terms.toml'} is damaged: {str(error).rstrip('.')}.") from error
        begun_with = (self._lines("ledger.jsonl") or [{"terms": None}])[0].get("terms")
        if begun_with != terms.hash:
            raise FolderError(
                f"{self.path / 'terms.toml'} was changed: its hash is {terms.hash[:12]}, but the ledger was begun with "
                f"{str(begun_with)[:12]}; put it back as it was."
            )
        return terms

    def ledger(self) -> Ledger:
        """Everything that was charged.

        Raises:
            FolderError: if it is damaged, or does not charge a round that is in the model.
        """
        terms, last = self.terms(), self.commit().round
        releases = tuple(self._release(line, terms.rounds) for line in self._lines("ledger.jsonl")[1:])
        uncharged = set(range(1, last + 1)) - {release.round for release in releases}
        if uncharged:
            raise FolderError(
                f"{self.path / 'ledger.jsonl'} does not charge round {min(uncharged)}, but the model holds rounds up "
                f"to {last}; put back the lines that are missing."
            )
        return Ledger(terms, releases)

    def metrics(self) -> list[dict[str, Any]]:
        """One object for each committed round, in order."""
        last = self.commit().round
        return [line for line in self._lines("metrics.jsonl") if self._round(line) <= last]

    def environment(self) -> dict[str, Any]:
        """What `env.json` says; empty where it is missing.

        Raises:
            FolderError: if it is no JSON.
        """
        if not (self.path / "env.json").exists():
            return {}
        try:
            environment = json.loads(self._read("env.json"))
        except (ValueError, RecursionError) as error:
            raise FolderError(f"{self.path / 'env.json'} is damaged: {error}.") from error
        if not isinstance(environment, dict):
            raise FolderError(f"{self.path / 'env.json'} is damaged: it is no object.")
        return cast(dict[str, Any], environment)

    def configuration(self) -> str:
        """The text of `run.toml`.

        Raises:
            FolderError: if it is no UTF-8 text.
        """
        try:
            return self._read("run.toml").decode()
        except UnicodeDecodeError as error:
            raise FolderError(f"{self.path / 'run.toml'} cannot be read: {error}.") from error

    def commit(self) -> Commit:
        """What the last finished round left.

        Raises:
            FolderError: if the model cannot be read.
        """
        tensors, round = self._load("model.safetensors")
        return Commit(round, tensors, self._remembered(_kept_name(round)), self.path / _PRIVATE)

    @contextlib.contextmanager
    def lock(self) -> Generator[None]:
        """Hold the folder against a second writer, and drop what a death left half written.

        Raises:
            FolderError: if another process writes to it.
        """
        held = os.open(self.path, os.O_RDONLY)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            last = self.commit().round
            self._mend("ledger.jsonl", lambda line: True)
            self._mend("metrics.jsonl", lambda line: self._round(line) <= last)
            yield
        except BlockingIOError as error:
            raise FolderError(f"{self.path} is being written by another process; wait until it ends.") from error
        finally:
            os.close(held)

    def noise(self, round: int) -> dict[str, Array]:
        """What noising parties remember after a round, by name; empty where they remember nothing."""
        return self._remembered(f"noise.{round}.safetensors")

    def charge(self, release: Release, noise: Mapping[str, Array] | None = None) -> None:
        """Put a release on the ledger, and first what later noise will rest on; it may be used once this returns."""
        if noise:
            self._store(f"noise.{release.round}.safetensors", noise, release.round)
        self._append("ledger.jsonl", {"round": release.round, "digest": release.digest})

    def finish(
        self, metrics: Mapping[str, Any], tensors: Mapping[str, Array], kept: Mapping[str, Array] | None = None
    ) -> None:
        """Commit a round: its metrics, what is kept, then its model, whose replacement is the commit point."""
        round = int(metrics["round"])
        self._append("metrics.jsonl", metrics)
        if kept:
            self._store(_kept_name(round), kept, round)
        self._store("model.safetensors", tensors, round)
        for found in (*self.path.glob("kept.*.safetensors"), *self.path.glob("noise.*.safetensors")):
            number = found.name.split(".")[1]
            if number.isdecimal() and int(number) < round:  # a later one may be charged, and noise go on from it
                found.unlink(missing_ok=True)

    def _store(self, name: str, tensors: Mapping[str, Array], round: int) -> None:
        with writing(self.path / name):
            draft = self.path / f".{name}.draft"
            write(draft, packed(tensors, round))
            replace_file(draft, self.path / name)

    def _remembered(self, name: str) -> dict[str, Array]:
        return self._load(name)[0] if (self.path / name).exists() else {}

    def _load(self, name: str) -> tuple[dict[str, Array], int]:
        try:
            return unpacked(self.path / name)
        except (OSError, ValueError) as error:
            raise FolderError(f"{self.path / name} cannot be read: {error}.") from error

    def _round(self, line: Mapping[str, Any]) -> int:
        if isinstance(round := line.get("round"), int):
            return round
        raise FolderError(f"{self.path / 'metrics.jsonl'} is damaged: a line has no round.")

    def _release(self, line: Mapping[str, Any], rounds: int) -> Release:
        match line:
            case {"round": int(round), "digest": str(digest)} if 1 <= round <= rounds:
                return Release(round, digest)
            case _:
                raise FolderError(f"{self.path / 'ledger.jsonl'} is damaged: {json.dumps(line)} is no charge.")

    def _mend(self, name: str, keep: Callable[[dict[str, Any]], bool]) -> None:
        """Cut off a torn last line (its write never returned, so nothing followed from it) and lines not to keep."""
        whole = self._read(name)
        lines = [line for line in whole.splitlines(keepends=True) if line.endswith(b"\n")]
        wanted = b"".join(line for line, value in zip(lines, self._lines(name), strict=True) if keep(value))
        if wanted != whole:
            with writing(self.path / name):
                draft = self.path / f".{name}.draft"
                write(draft, wanted)
                replace_file(draft, self.path / name)

    def _lines(self, name: str) -> list[dict[str, Any]]:
        whole = [line for line in self._read(name).splitlines(keepends=True) if line.endswith(b"\n")]
        try:
            values = [json.loads(line) for line in whole]
        except (ValueError, RecursionError) as error:
            raise FolderError(f"{self.path / name} is damaged: {error}.") from error
        if not all(isinstance(value, dict) for value in values):
            raise FolderError(f"{self.path / name} is damaged: a line is no object.")
        return values

    def _read(self, name: str) -> bytes:
        try:
            return (self.path / name).read_bytes()
        except OSError as error:
            raise FolderError(f"{self.path / name} cannot be read: {error.strerror}.") from error

    def _append(self, name: str, value: Mapping[str, Any]) -> None:
        with writing(self.path / name), open(self.path / name, "ab") as file:
            file.write(line_of(value))
            file.flush()
            os.fsync(file.fileno())


def _kept_name(round: int) -> str:
    return f"kept.{round}.safetensors"
