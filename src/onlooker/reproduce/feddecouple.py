"""FedDecouple's figure 1 and tables 5 and 8, which need no training.

The paper's experiments have K = 10 clients, 5 in each round, and delta 1e-5. Its neighbours replace one client.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from onlooker import models
from onlooker.privacy.published import LABEL, Formula, feddecouple, printed_noise
from onlooker.reproduce.drawing import Cell, Drawing, Panel, Row, Series, Table

PAPER = "feddecouple"
CLIENTS, COHORT, DELTA = 10, 5, 1e-5
TARGETS = ((30, 8.0), (30, 4.0), (30, 1.0), (40, 8.0))
"""Rounds and epsilon: MNIST three times, then CIFAR-10."""
_CIFAR, _MNIST = (3, 32, 32), (1, 28, 28)
_COHORTS = tuple(range(1, CLIENTS + 1))
_PRINTED_NOISE = (
    "section 4.4.7 asks for sigma_loc = sqrt(m) sigma_global at one epsilon, where its table 5 has the same "
    "divergence for both; sigma_global is section 4.4.5's at q = 0.5"
)
_SEEN = "sound, for one client, against the coordinator, which sees who takes part"
_HIDDEN = "sound, for one client, against the public, which does not see who takes part"


def figure_1() -> Drawing:
    """The noise that each way to add it needs, against the size of a cohort."""
    return Drawing(
        PAPER,
        "figure-1",
        "The noise that a target needs, by the size of a cohort",
        "T = 30, epsilon 8, delta 1e-5, K = 10, one client replaced. The noise that a client needs to guard its own "
        "row does not grow with the cohort; on the mean, noise by clients falls as 1 / sqrt(m), noise by servers as "
        "1 / m: that factor of sqrt(m), and over noise by clients alone, is all that is gained. The two servers of the "
        "sound lines each add all of it, so that one of them, subtracting its own, learns no more.",
        (_needed(), _on_the_mean()),
    )


def _noises() -> tuple[float, float, list[float]]:
    """z as printed, z against whoever sees the cohort, and z against the public for each size of cohort."""
    printed = printed_noise(8.0, COHORT / CLIENTS, 30, DELTA).noise_multiplier
    seen = feddecouple.sound_seen_noise(8.0, 30, DELTA)
    return printed, seen, [feddecouple.sound_public_noise(8.0, m, CLIENTS, 30, DELTA) for m in _COHORTS]


def _needed() -> Panel:
    printed, seen, hidden = _noises()
    return _noise_panel(
        "Noise multiplier of one adder",
        Series("each client, as published", "published", LABEL, 1, _COHORTS, [printed * m**0.5 for m in _COHORTS]),
        Series("the servers, as published", "published", LABEL, 2, _COHORTS, [printed] * len(_COHORTS)),
        Series("each client, sound, coordinator", "sound", _SEEN, 1, _COHORTS, [seen] * len(_COHORTS)),
        Series("each server, sound, public alone", "sound", _HIDDEN, 2, _COHORTS, hidden),
        Series("each server, sound, coordinator", "sound", _SEEN, 3, _COHORTS, [seen] * len(_COHORTS), dotted=True),
    )


def _on_the_mean() -> Panel:
    printed, seen, hidden = _noises()
    both = math.sqrt(2)
    return _noise_panel(
        "Standard deviation of the noise on the released mean, over the clip",
        Series("clients, as published", "published", LABEL, 1, _COHORTS, [printed] * len(_COHORTS)),
        Series("servers, as published", "published", LABEL, 2, _COHORTS, [printed] * len(_COHORTS)),
        Series("clients, sound, coordinator", "sound", _SEEN, 1, _COHORTS, [seen / m**0.5 for m in _COHORTS]),
        Series(
            "servers, sound, public alone",
            "sound",
            _HIDDEN,
            2,
            _COHORTS,
            [both * z / m for z, m in zip(hidden, _COHORTS, strict=True)],
        ),
        Series("servers, sound, coordinator", "sound", _SEEN, 3, _COHORTS, [both * seen / m for m in _COHORTS]),
    )


def _noise_panel(title: str, *series: Series) -> Panel:
    explained = (replace(one, reason=_PRINTED_NOISE if one.kind == "published" else "") for one in series)
    return Panel(title, "clients in a round", "noise over clip", tuple(explained))


_FORMULAS: Mapping[Formula, str] = {
    "table-5": "table 5",
    "section-4.4.2": "section 4.4.2",
    "section-3.3": "section 3.3",
    "theorem-7": "Theorem 7",
    "section-4.4.5": "section 4.4.5",
}


def table_5() -> Drawing:
    """What each of the paper's formulas prints, and what its noise costs."""
    rows = [_priced(formula, rounds, epsilon) for rounds, epsilon in TARGETS for formula in _FORMULAS]
    columns = (
        "formula",
        "rounds",
        "noise multiplier",
        f"epsilon, {LABEL}",
        "sound: public",
        "sound: coordinator",
        "sound: one of two servers that add half the variance each",
    )
    return Drawing(
        PAPER,
        "table-5",
        "What the noise of each printed formula costs one client",
        "K = 10, 5 in a round, delta 1e-5, one client replaced. The printed table gives DP-FedAvg and FedDecouple one "
        "divergence and calls one epsilon larger. In fact the noise on the mean differs, by sqrt(m), and only because "
        "in one of them each client adds it.",
        tables=(Table(columns, tuple(rows)), _variances()),
    )


def _priced(formula: Formula, rounds: int, epsilon: float) -> Row:
    printed = printed_noise(epsilon, COHORT / CLIENTS, rounds, DELTA, formula)
    z = printed.noise_multiplier
    public = feddecouple.sound_public(z, COHORT, CLIENTS, rounds, DELTA)
    coordinator = feddecouple.sound_seen(z, rounds, DELTA, "the coordinator")
    server = feddecouple.sound_seen(z / math.sqrt(2), rounds, DELTA, "one server")
    cells: tuple[Cell, ...] = (_FORMULAS[formula], rounds, z, printed.epsilon)
    label = f"{printed.label}, but for the sound columns"
    return Row((*cells, public.epsilon, coordinator.epsilon, server.epsilon), "published", label, printed.reason)


def _variances() -> Table:
    published = "the 4 belongs to the sensitivity, not to the noise"
    m = COHORT
    return Table(
        ("variance of the noise on the mean, over (z C)^2", "DP-FedAvg, noise by clients", "FedDecouple, by servers"),
        (
            Row(("table 5", 4 / m, 4.0), "published", LABEL, published),
            Row(("table 1", 1 / m, 1.0), "published", LABEL, "noise on a sum is counted as noise on the mean"),
            Row(("the sum over m", 1 / m, 1 / m**2), "sound", "by definition, m = 5, one noise of deviation z C"),
        ),
    )


_ARCHITECTURES = (
    ("DP-SGD", "cnn-dp-sgd", 1.2e6),
    ("Opacus", "cnn-opacus", 7.2e6),
    ("DP-FTRL", "cnn-dp-ftrl", 0.55e6),
    ("FedDecouple", "cnn-feddecouple", 6.5e6),
    ("all, in figure 11", "cnn-common", None),
)


def table_8() -> Drawing:
    """How many parameters the described architectures have."""
    rows: list[Row] = []
    for method, name, printed in _ARCHITECTURES:
        if printed:
            rows.append(Row((method, name, int(printed), "-"), "published", "as published, about"))
        counted = (models.build(name, shape, 10, "classification").size for shape in (_CIFAR, _MNIST))
        rows.append(Row((method, name, *counted), "measured", "counted in the network that is described"))
    return Drawing(
        PAPER,
        "table-8",
        "Parameters by method",
        "The networks of section 5.2, as far as the text describes them, with 10 outputs, and the one on which figure "
        "11 compares all methods. The noise grows with the square root of the number.",
        tables=(Table(("method", "network", "CIFAR-10", "MNIST"), tuple(rows)),),
    )
