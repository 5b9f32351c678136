"""Whose rows they are: read from a column, returned by a function, kept by every step, and never parted."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onlooker.data import DataSettings, Description, Federation, describe, load, partition
from onlooker.errors import DataError
from onlooker.privacy.random import Seeded
from onlooker.types import Examples

SOURCE = Seeded(3)
HEADER = "site,who,x,y"


def line(person: int, visit: int) -> str:
    return f"s{person % 2},p{person},{person}.{visit},{person % 2}"


def written(folder: Path, persons: range = range(10), name: str = "rows.csv", more: tuple[str, ...] = ()) -> Path:
    lines = [HEADER, *(line(person, visit) for visit in range(3) for person in persons), *more]
    (folder / name).write_text("\n".join(lines))
    return folder


def settings_of(root: Path, **changes: object) -> DataSettings:
    complete = DataSettings(
        "csv",
        root,
        clients=2,
        label_column="y",
        classes=("0", "1"),
        ignore_columns=("site",),
        person_column="who",
        whole_persons=True,
    )
    return replace(complete, **changes)  # type: ignore[arg-type]


def persons_in(examples: Examples) -> set[int]:
    """The persons of a part, told by the whole part of the feature x."""
    return set(np.floor(examples.features[:, 0]).astype(int).tolist())


def assert_whole(federation: Federation) -> None:
    """Every person is in one place, with all three visits, under a number of that place."""
    parts = [*federation.clients, federation.test]
    together = [persons_in(part) for part in parts]
    assert sum(map(len, together)) == len(set.union(*together))
    for part, persons in zip(parts, together, strict=True):
        assert part.persons is not None and part.persons.dtype == np.int64
        rows = part.rows_by_person()
        assert len(rows) == len(persons) and sorted(np.unique(part.persons)) == list(range(len(persons)))
        for found in rows:
            assert len(found) == 3 and len(set(np.floor(part.features[found, 0]))) == 1


@pytest.mark.parametrize("changes", [{}, {"clients": 8}, {"partition": "natural", "id_column": "site"}])
def test_a_person_stays_whole(tmp_path: Path, changes: dict[str, object]) -> None:
    federation = load(settings_of(written(tmp_path), **changes), SOURCE)
    assert_whole(federation)
    assert len(persons_in(federation.test)) == 2
    assert federation.description.shape == (1,)  # neither site nor person is a feature
    assert any("all rows of a fixed share of the persons" in said for said in federation.description.preprocessing)


def test_whoever_is_at_two_clients_is_one_person_at_each(tmp_path: Path) -> None:
    root = written(tmp_path, more=("s1,p0,0.9,0",))
    natural = settings_of(root, partition="natural", id_column="site", test_fraction=0.1)
    federation = load(natural, SOURCE)
    assert 0 in persons_in(federation.clients[0]) & persons_in(federation.clients[1])
    assert 0 not in persons_in(federation.test)


def test_each_client_may_be_one_person(tmp_path: Path) -> None:
    natural = settings_of(written(tmp_path), partition="natural", id_column="who", clients=8)
    federation = load(natural, SOURCE)
    assert_whole(federation)
    assert all(len(client.rows_by_person()) == 1 for client in federation.clients)
    with pytest.raises(DataError, match="data.clients = 10 does not match the 8 clients"):
        load(replace(natural, clients=10), SOURCE)


def test_persons_of_several_files_are_the_same_by_name(tmp_path: Path) -> None:
    rows = [line(person, visit) for visit in range(3) for person in range(10)]
    for name, part in (("a.csv", rows[:15]), ("b.csv", rows[15:])):
        (tmp_path / name).write_text("\n".join([HEADER, *part]))
    assert_whole(load(settings_of(tmp_path), SOURCE))


def test_without_the_unit_persons_are_named_but_rows_are_dealt_one_by_one(tmp_path: Path) -> None:
    federation = load(settings_of(written(tmp_path), whole_persons=False), SOURCE)
    assert all(client.persons is not None for client in federation.clients)
    assert any(len(rows) < 3 for client in federation.clients for rows in client.rows_by_person())


@pytest.mark.parametrize("missing", ["", "NA"])
def test_a_row_of_nobody_is_named_by_file_line_and_column(tmp_path: Path, missing: str) -> None:
    root = written(tmp_path, more=(f"s0,{missing},1.0,0",))
    with pytest.raises(DataError, match='rows.csv", line 32, column "who" holds "' + missing + '": no person'):
        load(settings_of(root), SOURCE)


def test_no_test_row_is_of_a_person_who_is_trained_on(tmp_path: Path) -> None:
    root = written(written(tmp_path), range(10, 12), "held.csv")
    federation = load(settings_of(root, test_file="held.csv"), SOURCE)
    assert [len(client.rows_by_person()) for client in federation.clients] == [5, 5]
    assert persons_in(federation.test) == {10, 11}
    written(root, range(9, 12), "held.csv")
    with pytest.raises(DataError, match='held.csv", line 2, column "who" holds "p9": a person of the training rows'):
        load(settings_of(root, test_file="held.csv"), SOURCE)
    load(settings_of(root, test_file="held.csv", whole_persons=False), SOURCE)


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Callable[[object], str]:
    def reachable(answer: object) -> str:
        module = type(sys)("own_persons")
        module.function = lambda settings: answer  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "own_persons", module)
        return "own_persons:function"

    return reachable


def visits(persons: range, numbered: bool = True) -> Examples:
    owners = np.tile(np.array(persons), 3)
    features = (owners + 0.5)[:, None].astype(np.float32)
    return Examples(features, owners % 2, owners if numbered else None)


def test_a_function_may_say_whose_its_rows_are(own: Callable[[object], str]) -> None:
    pair = own((visits(range(10)), visits(range(20, 22))))
    settings = DataSettings(pair, None, 4, classes=("a", "b"), whole_persons=True)
    assert_whole(load(settings, SOURCE))
    description = Description("mine", (1,), 2, "classification", ())
    given = Federation((visits(range(5)), visits(range(5, 10))), visits(range(20, 22)), description)
    assert_whole(load(replace(settings, name=own(given), clients=2), SOURCE))


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((visits(range(9), False), visits(range(2))), ["training set of own_persons:function", 'unit "record"']),
        ((visits(range(9)), visits(range(8, 10))), ["the person 8", "one side"]),
        ((replace(visits(range(9)), persons=np.zeros(4, dtype=int)), visits(range(2))), ["persons", "(4,)", "27 rows"]),
        ((replace(visits(range(9)), persons=np.full(27, 0.5)), visits(range(2))), ["persons", "float64"]),
        (
            Federation(
                (visits(range(3)), visits(range(3), False)),
                visits(range(2)),
                Description("m", (1,), 2, "classification", ()),
            ),
            ["client 1 of own_persons:function", "onlooker.types.Examples its persons"],
        ),
    ],
)
def test_a_function_that_does_not_is_told_in_a_sentence(
    own: Callable[[object], str], answer: object, words: list[str]
) -> None:
    settings = DataSettings(own(answer), None, 2, classes=("a", "b"), whole_persons=True)
    for door in (describe, lambda settings: load(settings, SOURCE)):
        with pytest.raises(DataError) as refusal:
            door(settings)
        message = str(refusal.value)
        assert all(word in message for word in words), message
        assert message.endswith(".") and "\n" not in message


def test_every_person_has_the_same_chance_of_being_held_out() -> None:
    persons = np.repeat(np.arange(10), np.arange(1, 11))  # the last has ten rows
    held = np.zeros(10)
    for seed in range(600):
        _, test = partition.held_out_persons(persons, 0.35, np.random.default_rng(seed))
        found = np.unique(persons[test])
        assert len(found) == 3 and len(test) == sum(found + 1)
        held[found] += 1
    assert (np.abs(held - 180) < 6 * np.sqrt(600 * 0.3 * 0.7)).all()


def test_examples_keep_persons_and_show_no_value() -> None:
    rows = visits(range(4))
    assert repr(rows) == "Examples(12 x 1, 4 persons)" and repr(visits(range(4), False)) == "Examples(12 x 1)"
    assert rows.take(np.array([0, 4, 5])).persons.tolist() == [0, 0, 1]  # type: ignore[union-attr]
    assert visits(range(4), False).take(np.array([0])).persons is None
    assert visits(range(4), False).rows_by_person() == () == rows.take(np.arange(0)).rows_by_person()
