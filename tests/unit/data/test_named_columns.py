"""Columns that the configuration names: known without a file, and in one order for files that have another."""

from __future__ import annotations

import numpy as np
import pytest

from onlooker import data
from onlooker.data import DataSettings
from onlooker.errors import DataError
from onlooker.privacy.random import Seeded

COLUMNS = ("who", "age", "sex", "ill")


def settings(root=None, **changes):
    given = {
        "columns": COLUMNS,
        "person_column": "who",
        "label_column": "ill",
        "classes": ("no", "yes"),
        "categories": {"sex": ("f", "m")},
        "ranges": {"age": (0.0, 100.0)},
        "test_file": "public.csv",
    }
    return DataSettings("csv", root, 4, "natural", **(given | changes))


def test_no_file_is_needed_to_say_what_is_public():
    described = data.describe(settings())
    assert (described.shape, described.outputs) == ((3,), 2)
    assert "`onlooker client` will tell that client" in described.unseen


def test_all_rows_of_an_own_file_are_read_whatever_the_order_of_its_columns(tmp_path):
    one, other = tmp_path / "one.csv", tmp_path / "other.csv"
    one.write_text("who,age,sex,ill\na,50,f,yes\nb,100,m,no\na,0,f,no\n")
    other.write_text("ill,extra,sex,who,age\nyes,?,f,a,50\nno,?,m,b,100\nno,?,f,a,0\n")
    first, second = (data.rows(settings(file), "the rows of client:0") for file in (one, other))
    assert np.array_equal(first.features, [[0, 1, 0], [1, 0, 1], [-1, 1, 0]])
    assert np.array_equal(first.features, second.features) and np.array_equal(first.labels, second.labels)
    assert [len(rows) for rows in first.rows_by_person()] == [2, 1]


def test_without_a_file_nothing_can_be_dealt():
    with pytest.raises(DataError, match="data.root is missing"):
        data.load(settings(), Seeded(0))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"columns": (*COLUMNS, "age")}, 'data.columns names "age" twice'),
        ({"label_column": "well"}, 'data.label-column = "well" is not a column of "data.columns"'),
        ({"ranges": {"height": (0.0, 2.0)}}, 'data.ranges names "height", but "data.columns" has the columns who'),
        ({"test_file": None, "test_fraction": 1.0}, "data.test-fraction = 1.0 must be above 0"),
    ],
)
def test_what_does_not_fit_the_columns_is_one_sentence(changes, sentence):
    with pytest.raises(DataError, match=sentence):
        data.describe(settings(**changes))


def test_a_file_that_lacks_a_column_is_named(tmp_path):
    (tmp_path / "own.csv").write_text("who,age,ill\na,50,yes\n")
    with pytest.raises(DataError, match='own.csv" has no column "sex"'):
        data.rows(settings(tmp_path / "own.csv"), "the rows of client:0")
