"""MS-PAFL's figures 3 to 6, which are formulas: what the paper's print, and what holds for the same noise.

The paper's neighbours differ in one record, and its s = 2 C bounds any change of a client; so each figure has a plot
for a client and one for a record. Values that the text leaves open are chosen alike everywhere and named in the
captions: p = 0.5 and q = 0.2 are those of its figure 4, and 325 records with Q = 5 batches of 13 are Adult's over 100
clients, where q comes to just 0.2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from onlooker.privacy.published import Published, Sound, ms_pafl
from onlooker.privacy.published import ms_pafl_sound as sound
from onlooker.reproduce.drawing import Drawing, Panel, Series

PAPER = "ms-pafl"
_CLIENTS, _DELTA = 100, 1e-4
_STEPS, _RECORDS, _BATCHES = 5, 325, (1, 5, 13)
_LOCAL_EPSILONS = tuple(step / 20 for step in range(1, 21))
_ROUNDS = (1, 2, 5, *range(10, 101, 10))
_RATE, _PARTICIPATION = 0.2, 0.5


@dataclass(frozen=True)
class _Point:
    """One setting: the local guarantee that sets the noise, both samplings, and how many rounds."""

    local_epsilon: float
    participation: float = _PARTICIPATION
    rate: float = _RATE
    rounds: int = 1

    @property
    def local(self) -> Published:
        return ms_pafl.lemma_1(self.local_epsilon, _DELTA)

    @property
    def noise(self) -> float:
        return self.local.noise_multiplier


def _round(point: _Point) -> Published:
    return ms_pafl.corollary_1(point.local, point.participation, point.rate, _CLIENTS)


def _total(point: _Point) -> Published:
    return ms_pafl.theorem_4(_round(point), point.rounds)


def _alone(point: _Point) -> Published:
    return ms_pafl.theorem_3(point.local, point.participation, point.rate, point.rounds)


def _rows(point: _Point) -> Sound:
    return sound.each_row(point.noise, point.rounds, _DELTA)


def _rows_of_a_record(point: _Point) -> Sound:
    return sound.each_row_of_a_record(point.noise, point.rate, point.rounds, _DELTA)


def _summed(point: _Point) -> Sound:
    return sound.summed_rows(point.noise, point.participation, _CLIENTS, point.rounds, _DELTA)


def _public(point: _Point) -> Sound:
    return sound.public_sum(point.noise, point.participation, _CLIENTS, point.rounds, _DELTA)


def _public_of_a_record(point: _Point) -> Sound:
    return sound.public_sum_of_a_record(point.noise, point.participation, point.rate, _CLIENTS, point.rounds, _DELTA)


_Formula = Callable[[_Point], Published | Sound]


def _line(name: str, colour: int, x: Sequence[float], points: Sequence[_Point], formula: _Formula) -> Series:
    found = [formula(point) for point in points]
    first = found[0]
    kind: Literal["published", "sound"] = "published" if isinstance(first, Published) else "sound"
    reason = f"{first.formula}: {first.reason}" if isinstance(first, Published) else ""
    dotted = formula in (_rows, _summed, _rows_of_a_record)
    return Series(name, kind, first.label, colour, x, [one.epsilon for one in found], dotted=dotted, reason=reason)


_Settings = Mapping[str, Callable[[float], _Point]]
_Formulas = Mapping[str, _Formula]


def _panel(
    title: str, across: str, x: Sequence[float], settings: _Settings, varied: _Formulas, shared: _Formulas
) -> Panel:
    """Each of `varied` at each setting in its colour; each of `shared`, which they do not change, once."""
    drawn = [
        _line(f"{name}, {meaning}", colour, x, [point(value) for value in x], formula)
        for colour, (name, point) in enumerate(settings.items(), 1)
        for meaning, formula in varied.items()
    ]
    some = next(iter(settings.values()))
    for colour, (meaning, formula) in enumerate(shared.items(), 4):
        drawn.append(_line(meaning, colour, x, [some(value) for value in x], formula))
    return Panel(title, across, "epsilon", tuple(drawn), "log")


def _client_and_record(
    part: str, across: str, x: Sequence[float], settings: _Settings, printed: _Formula, by_rate: bool
) -> tuple[Panel, Panel]:
    """The global model's two plots: the rate of records changes nothing for a client."""
    seen = {"sound, secure aggregation": _summed, "sound, public": _public}
    rows = {"sound, each row": _rows}
    if by_rate:
        client = _panel(f"{part}, one client", across, x, settings, {"as published": printed}, seen | rows)
    else:
        client = _panel(f"{part}, one client", across, x, settings, {"as published": printed} | seen, rows)
    record = {"as published": printed, "sound, public": _public_of_a_record}
    shared = {} if by_rate else {"sound, each row": _rows_of_a_record}
    varied = record | {"sound, each row": _rows_of_a_record} if by_rate else record
    return client, _panel(f"{part}, one record, if clients kept nothing", across, x, settings, varied, shared)


_PARTICIPATIONS: _Settings = {
    f"p = {p:g}": lambda epsilon, p=p: _Point(epsilon, participation=p) for p in (0.1, 0.5, 1.0)
}
_RATES: _Settings = {f"q = {q:g}": lambda epsilon, q=q: _Point(epsilon, rate=q) for q in (0.1, 0.3, 0.5)}


def figure_3() -> Drawing:
    """One round of the global model against the local epsilon."""
    across = "local epsilon"
    a = _client_and_record("(a) q = 0.2", across, _LOCAL_EPSILONS, _PARTICIPATIONS, _round, by_rate=False)
    b = _client_and_record("(b) p = 0.5", across, _LOCAL_EPSILONS, _RATES, _round, by_rate=True)
    return Drawing(
        PAPER,
        "figure-3",
        "One round: central against local epsilon",
        "N = 100, delta 1e-4; the paper does not say which q belongs to (a) and which p to (b): those of its figure 4 "
        "are taken. Where each row reaches the coordinator, as Algorithm 1 has it, nothing is amplified.",
        (*a, *b),
    )


def _after(rounds: float, **rest: float) -> _Point:
    return _Point(1.0, rounds=int(rounds), **rest)


def figure_4() -> Drawing:
    """The global model over all rounds."""
    participations: _Settings = {
        f"p = {p:g}": lambda rounds, p=p: _after(rounds, participation=p) for p in (0.1, 0.5, 1.0)
    }
    rates: _Settings = {f"q = {q:g}": lambda rounds, q=q: _after(rounds, rate=q) for q in (0.1, 0.3, 0.5)}
    a = _client_and_record("(a) q = 0.2", "round", _ROUNDS, participations, _total, by_rate=False)
    b = _client_and_record("(b) p = 0.5", "round", _ROUNDS, rates, _total, by_rate=True)
    return Drawing(
        PAPER,
        "figure-4",
        "All rounds: the global model, without replacement",
        "N = 100, local epsilon 1 (the paper names none), slack and delta 1e-4. The published line comes with T "
        "delta_c + 1e-4 of delta, 1.8e-3 at p = 0.5 and T = 100; the sound ones with 1e-4.",
        (*a, *b),
    )


def figure_5() -> Drawing:
    """One client over all rounds, both ways to draw records."""
    return Drawing(
        PAPER,
        "figure-5",
        "All rounds: one client's own loss",
        f"p = 0.5, b = 13, Q = 5, n = 325, delta 1e-4. The paper names no c_0: {ms_pafl.CONSTANT:.3f} is what its "
        "(C.8) comes to at C = 1. Its DP-FedAvg is drawn as c_0 epsilon sqrt(T), for at q = 1 the theorem is infinite. "
        "A client's own rows reach the coordinator, who sees its participation, so p counts for nothing; its private "
        "part remembers every record, so neither does q, unless clients kept nothing.",
        tuple(_own_loss(part, epsilon) for part, epsilon in (("(a)", 0.1), ("(b)", 1.0))),
    )


def _own_loss(part: str, epsilon: float) -> Panel:
    settings: _Settings = {
        name: lambda rounds, rate=rate: _Point(epsilon, rate=rate, rounds=int(rounds))
        for name, rate in (("without replacement", _rate(13, False)), ("with replacement", _rate(13, True)))
    }
    varied = {"as published": _alone, "sound, record": _rows_of_a_record}
    shared = {"DP-FedAvg, as published": _unsampled, "sound, client": _rows}
    return _panel(f"{part} local epsilon {epsilon:g}", "round", _ROUNDS, settings, varied, shared)


def _unsampled(point: _Point) -> Published:
    """The paper's baseline: the order sqrt(T) of its Theorem 3, without p and q, by the same constant."""
    scale = 1 / (point.rate * (point.participation / (1 - point.rate)) ** 0.5)
    return ms_pafl.theorem_3(point.local, point.participation, point.rate, point.rounds, ms_pafl.CONSTANT * scale)


def _rate(batch_size: int, replacement: bool) -> float:
    return ms_pafl.record_rate(_STEPS, batch_size, _RECORDS, replacement)


def figure_6() -> Drawing:
    """The global model over all rounds, by the size of a batch."""
    panels: list[Panel] = []
    for part, replacement in (("(a) without replacement", False), ("(b) with replacement", True)):
        rates = {size: _rate(size, replacement) for size in _BATCHES}
        settings: _Settings = {
            f"b = {size}": lambda rounds, rate=rate: _after(rounds, rate=rate) for size, rate in rates.items()
        }
        panels += _client_and_record(part, "round", _ROUNDS, settings, _total, by_rate=True)
    return Drawing(
        PAPER,
        "figure-6",
        "All rounds: the global model, by batch size",
        "p = 0.5, Q = 5, n = 325, N = 100, local epsilon 1, slack and delta 1e-4. With replacement fewer distinct "
        "records are used in a round, and that is all that makes it look stronger.",
        tuple(panels),
    )
