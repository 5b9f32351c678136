"""Processes that belong together: each with its own log, none left when the one that started them ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

_GRACE = 10.0
"""Seconds to end by oneself."""


class Failed(Exception):
    """One of them did not do what the others need; one sentence."""


class Processes:
    """All that were started, in the order of their start.

    Args:
        logs: a folder, where each has `NAME.log`.
        environment: of all of them.
    """

    def __init__(self, logs: Path, environment: Mapping[str, str]) -> None:
        self._logs, self._environment = logs, dict(environment)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, command: Sequence[str | Path], **environment: str) -> int:
        """Start one, in a group of its own so that whatever it starts ends with it; its process number."""
        with open(self._logs / f"{name}.log", "ab") as log:
            process = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment | environment,
                start_new_session=True,
            )
        self._running[name] = process
        return process.pid

    def wait_for(self, name: str, words: str, seconds: float = 60.0) -> None:
        """Wait until one has said some words.

        Raises:
            Failed: if it ended before, or did not say them in time.
        """
        until = time.monotonic() + seconds
        while words not in self.said(name):
            if self._running[name].poll() is not None or time.monotonic() > until:
                last = self.said(name).strip().splitlines()[-1:] or ["nothing"]
                raise Failed(f"{name} did not start; the last line of {self._logs / f'{name}.log'} is: {last[0]}")
            time.sleep(0.1)

    def said(self, name: str) -> str:
        """All that one has printed."""
        return (self._logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def lines(self, name: str) -> Iterator[str]:
        """What one prints, line by line, until it ends."""
        with open(self._logs / f"{name}.log", encoding="utf-8", errors="replace") as log:
            rest = ""
            while True:
                over = self._running[name].poll() is not None
                *whole, rest = (rest + log.read()).split("\n")
                yield from whole
                if over:
                    return
                time.sleep(0.1)

    def status(self, name: str) -> int | None:
        """The exit status of one; None while it runs."""
        return self._running[name].poll()

    def stop(self) -> None:
        """End all of them, the last first; whoever does not end by itself is killed."""
        for process in reversed(self._running.values()):
            _signal(process, signal.SIGTERM)
        until = time.monotonic() + _GRACE
        for process in reversed(self._running.values()):
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, until - time.monotonic()))
            _signal(process, signal.SIGKILL)  # also what it has started, and left
            process.wait()


def _signal(process: subprocess.Popen[bytes], what: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, what)


@contextlib.contextmanager
def processes(logs: Path, environment: Mapping[str, str]) -> Iterator[Processes]:
    """Processes for as long as a block lasts, however it ends: also by a signal."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {one: signal.signal(one, stop) for one in (signal.SIGTERM, signal.SIGHUP)}
    found = Processes(logs, environment)
    try:
        yield found
    finally:
        ignored = {one: signal.signal(one, signal.SIG_IGN) for one in (signal.SIGINT, *before)}
        found.stop()
        for one, handler in (ignored | before).items():
            signal.signal(one, handler)
