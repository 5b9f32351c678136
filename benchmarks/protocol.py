"""What the driver and the contenders say to each other: a job as arguments, and one line of JSON as the result.

It is read in every contender's own environment, so it needs the standard library alone.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from benchmarks.job import Job

STARTED = "BENCHMARK_STARTED"
"""The variable that tells a contender when the driver started it, in seconds since 1970."""
_MARK = "RESULT "


def arguments_of(job: Job, options: Mapping[str, object] | None = None) -> tuple[str, ...]:
    """A job, and a contender's own settings, as a command line.

    >>> arguments_of(Job("mlp", 50, 12), {"threads": 2})[:4]
    ('--name', 'mlp', '--cohort', '50')
    >>> arguments_of(Job("mlp", 50, 12), {"set": ("a=1", "b=2")})[-4:]
    ('--set', 'a=1', '--set', 'b=2')
    """
    pairs = {**{field.name: getattr(job, field.name) for field in fields(Job)}, **(options or {})}
    each = [(key, one) for key, value in pairs.items() for one in (value if isinstance(value, tuple) else (value,))]
    return tuple(text for key, value in each for text in (f"--{key.replace('_', '-')}", str(value)))


def asked(**options: Any) -> tuple[Job, argparse.Namespace]:
    """The job that this process was asked to do, and its own settings.

    Args:
        **options: the settings that this contender knows, each with its default; a list may be given many times.
    """
    parser = argparse.ArgumentParser()
    for field in fields(Job):
        parser.add_argument(f"--{field.name.replace('_', '-')}", type={"str": str, "int": int}.get(field.type, float))
    for key, default in options.items():
        how: dict[str, Any] = {"action": "append"} if isinstance(default, list) else {"type": type(default)}
        parser.add_argument(f"--{key.replace('_', '-')}", default=default, **how)
    found = parser.parse_args()
    return Job(**{field.name: getattr(found, field.name) for field in fields(Job)}), found


def report(stamps: Sequence[float], versions: Mapping[str, str], **more: Any) -> None:
    """Print the result.

    Args:
        stamps: when each round ended, in seconds since 1970.
        versions: of what ran.
        **more: anything else that the tables should show.
    """
    seconds = [after - before for before, after in zip(stamps, stamps[1:], strict=False)]
    start = stamps[0] - float(os.environ.get(STARTED, stamps[0]))
    say({"seconds": seconds, "start": start, "versions": dict(versions), **more})


def say(result: Mapping[str, Any]) -> None:
    """Print one result as the line that the driver looks for."""
    print(_MARK + json.dumps(result), flush=True)


def heard(output: str) -> dict[str, Any] | None:
    r"""The result in what a contender printed; None where it came to none.

    >>> heard('INFO\nRESULT {"seconds": [0.1]}\nbye')
    {'seconds': [0.1]}
    """
    lines = [line for line in output.splitlines() if line.startswith(_MARK)]
    return json.loads(lines[-1].removeprefix(_MARK)) if lines else None


def now() -> float:
    """Seconds since 1970: processes must agree on it."""
    return time.time()
