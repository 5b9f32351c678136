"""The unit "person": rows of one person are drawn, used and clipped together, and priced as one."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from onlooker import config, models
from onlooker.cli import app
from onlooker.errors import DataError, OnlookerError
from onlooker.folder import RunFolder
from onlooker.methods.plain import Plain
from onlooker.methods.records import clipped_sum, clipped_sum_of_persons
from onlooker.methods.trainer import answered
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.random import Seeded
from onlooker.privacy.statement import find
from onlooker.types import Examples

CPU = torch.device("cpu")
OBSERVERS = ["public", "client:1", "coordinator", "aux:0", "aux:0+aux:1"]


def table(persons: int, visits: int, sites: int = 2) -> str:
    """A column that tells the class, and several visits of each person, who belongs to one site."""
    generator = np.random.default_rng(5)
    lines = ["site,subject,x,y"]
    for person in range(persons):
        sick = person % 2
        for _ in range(visits):
            lines.append(f"s{person % sites},p{person},{sick - 0.5 + 0.1 * generator.normal():.4f},{sick}")
    return "\n".join(lines)


def settings(folder: Path, **changes: object) -> dict[str, object]:
    return {
        "task.method": '"dp-sgd"',
        "task.rounds": 3,
        "data.name": '"csv"',
        "data.root": f'"{folder / "visits.csv"}"',
        "data.clients": 2,
        "data.label-column": '"y"',
        "data.classes": ["0", "1"],
        "data.ignore-columns": ["site"],
        "data.ranges.x": [-1.0, 1.0],
        "data.person-column": '"subject"',
        "data.expected-records": 20,
        "model.name": '"logistic"',
        "sampling.records.rate": 0.5,
        "privacy.unit": '"person"',
        "privacy.noise-multiplier": 1.0,
    } | {key.replace("__", ".").replace("_", "-"): value for key, value in changes.items()}


def prepared(folder: Path, **changes: object) -> config.Prepared:
    """The settings, over forty persons of three visits each."""
    (folder / "visits.csv").write_text(table(40, 3))
    said = [f"{key}={value}" for key, value in settings(folder, **changes).items()]
    return config.prepare(config.parse("", said), folder)


def one_hot(persons: int, visits: int) -> Examples:
    """Rows that are nothing but their person, so that a sum of gradients tells who went into it."""
    owners = np.repeat(np.arange(persons), visits)
    return Examples(np.eye(persons, dtype=np.float32)[owners], np.zeros(len(owners), dtype=np.int64), owners)


def linear(persons: int) -> models.Model:
    return models.build("logistic", (persons,), 2, "classification")


def each(examples: Examples) -> list[Examples]:
    return [examples.take(rows) for rows in examples.rows_by_person()]


def test_all_rows_of_a_person_move_the_sum_by_at_most_the_clip():
    model, clip = linear(4), 0.1
    start, stream = np.zeros(model.size, dtype=np.float32), Seeded(1).stream("x")
    rows = one_hot(4, 5)
    alone = [clipped_sum_of_persons(model, start, [person], clip, stream, CPU) for person in each(rows)]
    for row in alone:
        assert 0.999 * clip < np.linalg.norm(row) <= clip  # it is the clip that bounds
    by_record = clipped_sum(model, start, each(rows)[0], clip, stream, CPU)
    assert np.linalg.norm(by_record) > 4.9 * clip  # which clipping record by record would not
    whole = clipped_sum_of_persons(model, start, each(rows), clip, stream, CPU)
    without = clipped_sum_of_persons(model, start, each(rows)[:2] + each(rows)[3:], clip, stream, CPU)
    assert np.linalg.norm(whole - without) <= clip * (1 + 1e-12)
    assert np.allclose(whole, sum(alone), atol=1e-12)


def test_one_record_of_a_person_is_not_covered_at_the_persons_own_price(tmp_path):
    """A second record turns the person's row round: twice the clip, which is what replace-one prices."""
    line, start, stream = models.build("linear", (1,), 1, "regression"), np.zeros(2, np.float32), Seeded(1).stream("x")
    person = Examples(np.ones((2, 1), np.float32), np.array([5, -20], np.float32), np.zeros(2, np.int64))
    one, both = (clipped_sum_of_persons(line, start, [person.take(np.arange(n))], 1.0, stream, CPU) for n in (1, 2))
    assert np.linalg.norm(one - both) == pytest.approx(2.0)
    terms = prepared(tmp_path).agreement.terms
    exchanged = Ledger.plan(replace(terms, adjacency="replace-one")).epsilon(0, "public")
    assert Ledger.plan(terms).epsilon(0, "public", unit="record") == exchanged
    assert exchanged > 1.2 * Ledger.plan(terms).epsilon(0, "public", unit="person")


def test_a_persons_row_is_the_clipped_gradient_of_the_mean_loss(monkeypatch):
    generator = np.random.default_rng(2)
    model = models.build("mlp", (6,), 3, "classification")
    person = Examples(
        generator.normal(size=(7, 6)).astype(np.float32), generator.integers(0, 3, 7), np.zeros(7, dtype=np.int64)
    )
    start, stream = model.initial(3), Seeded(1).stream("x")
    module = model.fresh(start)
    model.losses(module(torch.from_numpy(person.features)), torch.from_numpy(person.labels)).mean().backward()
    gradient = np.concatenate([one.grad.numpy().reshape(-1) for one in module.parameters()]).astype(float)
    norm = np.linalg.norm(gradient)
    for clip, at_once in ((norm / 3, 128), (10 * norm, 128), (10 * norm, 3)):
        monkeypatch.setattr("onlooker.methods.records._ROWS_AT_ONCE", at_once)
        found = clipped_sum_of_persons(model, start, [person], clip, stream, CPU)
        assert np.allclose(found, gradient * min(1, clip / norm), atol=1e-6)


def test_a_person_whose_gradient_is_not_finite_adds_nothing():
    model, stream = linear(3), Seeded(1).stream("x")
    start = np.zeros(model.size, dtype=np.float32)
    rows = one_hot(3, 2)
    spoiled = rows.features.copy()
    spoiled[2, 0] = np.inf
    found = clipped_sum_of_persons(model, start, each(replace(rows, features=spoiled)), 0.1, stream, CPU)
    rest = clipped_sum_of_persons(model, start, [each(rows)[0], each(rows)[2]], 0.1, stream, CPU)
    assert np.array_equal(found, rest)


def test_one_coin_decides_on_all_rows_of_a_person(tmp_path):
    """Who is drawn is told by the sum: a person is there whole or not at all, at the rate that is priced."""
    persons, rounds, rate = 20, 200, 0.3
    method = prepared(tmp_path, sampling__records__rate=rate, data__expected_records=persons).method
    model = linear(persons)
    start, rows = np.zeros(model.size, dtype=np.float32), one_hot(persons, 4)
    drawn = np.zeros((rounds, persons))
    for round in range(rounds):
        half = method.local(start, start[:0], rows, Seeded(8).stream("local", round))
        (row,) = answered([half], Plain(model))[0].rows.values()
        drawn[round] = row.reshape(-1)[:persons]  # the first class's weight of each person's own feature
    sizes = np.unique(np.round(drawn, 9))
    assert len(sizes) == 2 and sizes[0] == 0
    count, tries = np.count_nonzero(drawn), drawn.size
    event = method.terms.round_event(0, "public")

    def accepted(probability):
        return abs(count - tries * probability) < 6 * math.sqrt(tries * probability * (1 - probability))

    assert accepted(event.sampling_probability)
    assert not accepted(0.7 * rate) and not accepted(1.3 * rate)
    assert not accepted(1 - (1 - rate) ** 4)  # what a coin for each of four rows would give
    together = np.count_nonzero((drawn[:, 0] > 0) & (drawn[:, 1] > 0)) / rounds
    assert abs(together - rate**2) < 6 * math.sqrt(rate**2 / rounds) and abs(together - rate) > 0.1


def test_a_person_costs_what_a_record_costs_at_the_same_rate(tmp_path):
    persons = prepared(tmp_path, task__rounds=40, sampling__records__rate=0.1).agreement.terms
    records = prepared(tmp_path, task__rounds=40, sampling__records__rate=0.1, privacy__unit='"record"').agreement.terms
    ours, theirs = Ledger.plan(persons), Ledger.plan(records)
    for observer in OBSERVERS:
        assert ours.epsilon(0, observer) == theirs.epsilon(0, observer)
        assert math.isinf(theirs.epsilon(0, observer, unit="person"))
    assert persons.hash != records.hash
    assert persons.divisor == 0.1 * 20 * 2
    assert persons.expected_units == 40
    (public, *_) = find(ours, ["public"])
    assert "persons are drawn in the silo" in public.because
    assert "whoever is at two clients counts as two persons" in public.because


def test_persons_are_never_parted_and_never_in_the_test(tmp_path):
    ready = prepared(tmp_path, data__clients=5)
    plain = prepared(tmp_path, data__clients=5, privacy__unit='"record"')
    federation = config.study(ready, CPU).federation
    assert sorted(len(client.rows_by_person()) for client in federation.clients) == [6, 6, 6, 7, 7]  # of 32 persons
    assert len(federation.test) == 8 * 3
    for client in (*federation.clients, federation.test):
        assert [len(rows) for rows in client.rows_by_person()] == [3] * (len(client) // 3)
    parted = config.study(plain, CPU).federation
    assert any(len(rows) < 3 for client in parted.clients for rows in client.rows_by_person())  # by record they are


def test_a_cap_counts_persons(tmp_path):
    ready = prepared(tmp_path, data__expected_records=10, data__max_records=16)
    assert [len(client) for client in config.study(ready, CPU).federation.clients] == [48, 48]
    with pytest.raises(DataError, match="data.max-records = 15 is less than the 16 persons of client:0"):
        config.study(prepared(tmp_path, data__expected_records=10, data__max_records=15), CPU)


REFUSED = {
    "no column": ({"data__person_column": None}, ["data.person-column is missing", "site, subject, x, y"]),
    "unknown column": ({"data__person_column": '"patient"'}, ["data.person-column", '"patient"', "subject"]),
    "data without persons": ({"data__name": '"digits"'}, ['data.name = "digits"', 'privacy.unit = "person"']),
    "rows dealt by class": ({"data__partition": '"dirichlet"'}, ["data.partition", "dirichlet", "iid or natural"]),
    "more clients than persons": ({"data__clients": 33}, ["data.clients = 33", "32 persons"]),
    "no test person": ({"data__test_fraction": 0.01}, ["data.test-fraction = 0.01", "less than one person"]),
    "a clip for each client": ({"privacy__clip": [1.0, 2.0]}, ["privacy.clip", "person"]),
    "weights": ({"data__weights": [1.0, 2.0]}, ["data.weights", "person"]),
    "a method of clients": ({"task__method": '"feddecouple"'}, ['privacy.unit = "person"', "as a whole"]),
    "no expected persons": ({"data__expected_records": None}, ["data.expected-records", "public number of persons"]),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_persons_cannot_have_is_refused_in_a_sentence(tmp_path, name):
    changes, words = REFUSED[name]
    (tmp_path / "visits.csv").write_text(table(40, 3))
    said = [f"{key}={value}" for key, value in settings(tmp_path, **changes).items() if value is not None]
    if name == "no test person":
        said.append("data.clients=1")
    with pytest.raises(OnlookerError) as refusal:
        config.study(config.prepare(config.parse("", said), tmp_path), CPU)
    message = str(refusal.value)
    assert all(word in message for word in words), message
    assert message.endswith(".") and "\n" not in message


def test_a_column_that_groups_nothing_is_warned_of(tmp_path):
    plain = prepared(tmp_path, privacy__unit='"record"')
    assert any("data.person-column" in sentence for sentence in config.warnings_of(plain))
    assert not any("data.person-column" in sentence for sentence in config.warnings_of(prepared(tmp_path)))
    assert plain.model.size == 2 * 1 + 2  # the column is never a feature


def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: dict[str, object]) -> tuple[str, RunFolder]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text("")
    options = [part for key, value in said.items() for part in ("--set", f"{key}={value}")]
    result = CliRunner().invoke(app, ["run", "run.toml", "--out", "out", *options])
    assert result.exit_code == 0, result.output
    return result.output, RunFolder.open(tmp_path / "out")


def test_a_table_of_visits_is_learned_from_end_to_end(tmp_path, monkeypatch):
    (tmp_path / "visits.csv").write_text(table(400, 3))
    more = {"task__rounds": 40, "data__expected_records": 160, "training__learning_rate": 4.0}
    more |= {"data__partition": '"natural"', "data__id_column": '"site"', "data__ignore_columns": []}
    output, folder = ran(tmp_path, monkeypatch, settings(tmp_path, **more))
    assert "What each observer can learn about one person" in output
    assert "Unit person" in output
    assert folder.metrics()[-1]["accuracy"] > 0.95  # a person's class is as good as told by x
    page = (tmp_path / "out" / "report.html").read_text()
    assert "all records of one person at one client" in page and "L2 norm of one person" in page


def test_patients_and_not_their_recordings_are_guarded(shared, tmp_path, monkeypatch):
    """Parkinsons Telemonitoring: 42 patients with some 140 recordings each; eight patients are held out whole."""
    said = {
        "task.method": '"dp-sgd"',
        "task.rounds": 3,
        "data.name": '"parkinsons"',
        "data.root": f'"{shared / "data" / "parkinsons"}"',
        "data.clients": 5,
        "data.expected-records": 7,
        "model.name": '"mlp"',
        "sampling.records.rate": 0.2,
        "privacy.unit": '"person"',
        "privacy.noise-multiplier": 1.0,
    }
    output, folder = ran(tmp_path, monkeypatch, said)
    assert "Persons are drawn in the silo" in output and "whoever is at two clients counts as two" in output
    assert len(folder.metrics()) == 3 and math.isfinite(folder.metrics()[-1]["loss"])
    ready = config.prepare(config.parse("", [f"{key}={value}" for key, value in said.items()]), tmp_path)
    federation = config.study(ready, CPU).federation
    assert sorted(len(client.rows_by_person()) for client in federation.clients) == [6, 7, 7, 7, 7]
    assert len(federation.test.rows_by_person()) == 8
    assert sum(map(len, federation.clients)) + len(federation.test) == 5875
    ages = [set(np.unique(part.features[:, 0])) for part in (*federation.clients, federation.test)]
    assert max(map(len, ages)) <= 8  # a recording carries its patient's age: one for each patient, not more
    assert any("a fifth of the patients" in sentence for sentence in federation.description.preprocessing)
