"""From the segments of a cell to the rows of its table: medians, and ratios within the same run."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

WARMING = 1
"""Of a process' intervals between rounds, those left out: with the first round, which is start-up, two rounds."""


@dataclass(frozen=True)
class Segment:
    """One process of one contender.

    Attributes:
        contender: name and setting.
        number: the pass through all contenders, from 0.
        samples: milliseconds.
        start: seconds from the start of the process to the end of its first round.
        memory: the most that it held, in MiB.
        foreign: the cores that other processes used meanwhile.
        disturbed: True if they used too much.
        failure: why there are no samples; empty where there are.
        versions: of what ran.
        unwritten: the samples without what is written to the disk, where a contender writes.
    """

    contender: str
    number: int
    samples: tuple[float, ...] = ()
    start: float | None = None
    memory: float | None = None
    foreign: float | None = None
    disturbed: bool = False
    failure: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    unwritten: tuple[float, ...] = ()


@dataclass(frozen=True)
class Result:
    """One cell as it was measured.

    Attributes:
        name: of the cell.
        title: its heading.
        aim: what was aimed at.
        unit: of the samples.
        operations: multiplications and additions of one sample; 0 where the machine's limit says nothing about it.
        date: of the measurement.
        processor: where it was.
        commit: of the project.
        command: that measures it again.
        limits: the machine's own rates, thousands of millions of operations a second, once in each pass.
        segments: all that was run.
    """

    name: str
    title: str
    aim: str
    unit: str
    operations: int
    date: str
    processor: str
    commit: str
    command: str
    limits: tuple[Mapping[str, float], ...]
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class Row:
    """One contender's line.

    Attributes:
        contender: name and setting.
        median: milliseconds; None where it came to none.
        low: the first quartile.
        high: the third.
        ratio: the median over passes of its median over that of the first contender.
        rate: thousands of millions of operations a second.
        start: seconds to the end of the first round.
        memory: MiB.
        note: that it was disturbed, or why there is nothing.
        versions: of what ran.
        unwritten: the median without what is written to the disk.
    """

    contender: str
    median: float | None
    low: float | None
    high: float | None
    ratio: float | None
    rate: float | None
    start: float | None
    memory: float | None
    note: str
    versions: Mapping[str, str]
    unwritten: float | None = None


def samples_of(seconds: Sequence[float], parts: int) -> tuple[float, ...]:
    """Milliseconds that count, of the seconds from each round's end to the next's.

    >>> samples_of([9.0, 0.25, 0.5], parts=1)
    (250.0, 500.0)
    """
    return tuple(round(1000 * one / parts, 4) for one in seconds[WARMING:])


def rows_of(result: Result) -> list[Row]:
    """A line for each contender, in the order in which they ran."""
    names = list(dict.fromkeys(segment.contender for segment in result.segments))
    first = _medians(_counted(result.segments, names[0])) if names else {}
    return [_row(result, name, first) for name in names]


def _row(result: Result, name: str, first: Mapping[int, float]) -> Row:
    counted = _counted(result.segments, name)
    samples = [sample for segment in counted for sample in segment.samples]
    if not samples:
        failures = [segment.failure for segment in result.segments if segment.contender == name]
        return Row(name, None, None, None, None, None, None, None, failures[-1], {})
    low, middle, high = quartiles(samples)
    own = _medians(counted)
    ratios = [median / first[number] for number, median in own.items() if number in first]
    rate = result.operations / middle / 1e6 if result.operations else None
    return Row(
        name,
        middle,
        low,
        high,
        statistics.median(ratios) if ratios else None,
        rate,
        _median(segment.start for segment in counted),
        max((segment.memory for segment in counted if segment.memory is not None), default=None),
        "disturbed by other work" if any(segment.disturbed for segment in counted) else "",
        counted[-1].versions,
        _median(sample for segment in counted for sample in segment.unwritten),
    )


def quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    """The first quartile, the median and the third.

    >>> quartiles([4.0, 1.0, 2.0, 3.0, 5.0])
    (2.0, 3.0, 4.0)
    """
    if len(samples) == 1:
        return (samples[0],) * 3
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, middle, high


def limit_of(result: Result) -> dict[str, float]:
    """The machine's rates, medians over passes."""
    return {name: statistics.median(one[name] for one in result.limits) for name in (result.limits or ({},))[0]}


def _counted(segments: Iterable[Segment], name: str) -> list[Segment]:
    """A contender's segments with samples: the undisturbed ones, or all where there are no others."""
    found = [segment for segment in segments if segment.contender == name and segment.samples]
    return [segment for segment in found if not segment.disturbed] or found


def _medians(segments: Iterable[Segment]) -> dict[int, float]:
    return {segment.number: statistics.median(segment.samples) for segment in segments}


def _median(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def to_json(result: Result) -> dict[str, Any]:
    """As it is stored."""
    return asdict(result)


def from_json(stored: Mapping[str, Any]) -> Result:
    """As it was stored."""
    segments = tuple(
        Segment(**{**one, **{key: tuple(one[key]) for key in ("samples", "unwritten")}}) for one in stored["segments"]
    )
    return Result(**{**stored, "limits": tuple(stored["limits"]), "segments": segments})
