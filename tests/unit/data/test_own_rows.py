"""Rows of the user's own: comma-separated files, and functions."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from onlooker.cli import app
from onlooker.data import DataSettings, Description, Federation, describe, load
from onlooker.errors import DataError, TermsError
from onlooker.privacy.random import Seeded
from onlooker.types import Examples

SOURCE = Seeded(3)
ROWS = """site,age,smoker,dose,outcome
north,30,yes,1.5,ill
north,50,no,2.5,well
south,70,no,,well
south,90,yes,3.5,ill
"""


def settings_of(root: Path, **changes: object) -> DataSettings:
    complete = DataSettings(
        "csv",
        root,
        clients=2,
        label_column="outcome",
        id_column="site",
        classes=("well", "ill"),
        categories={"smoker": ("yes", "no")},
        ranges={"age": (30.0, 90.0)},
        missing_columns=("dose",),
        test_fraction=0.5,
    )
    return replace(complete, **changes)  # type: ignore[arg-type]


def written(folder: Path, text: str = ROWS, name: str = "rows.csv") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def all_rows(federation: Federation) -> dict[tuple[float, ...], float]:
    parts = [*federation.clients, federation.test]
    return {
        tuple(row): label
        for part in parts
        for row, label in zip(part.features.tolist(), part.labels.tolist(), strict=True)
    }


# Age in [30, 90] to [-1, 1]; smoker yes, no; dose as it is, and whether it is missing.
EXPECTED = {
    (-1.0, 1.0, 0.0, 1.5, 0.0): 1,
    (np.float32(-1 / 3).item(), 0.0, 1.0, 2.5, 0.0): 0,
    (np.float32(1 / 3).item(), 0.0, 1.0, 0.0, 1.0): 0,
    (1.0, 1.0, 0.0, 3.5, 0.0): 1,
}


def test_every_column_becomes_what_the_configuration_says(tmp_path: Path) -> None:
    settings = settings_of(written(tmp_path))
    federation = load(settings, SOURCE)
    assert all_rows(federation) == EXPECTED
    assert federation.description == describe(settings)
    assert federation.description.shape == (5,)
    assert federation.description.outputs == 2
    assert federation.description.uncharged == ()
    assert "taken as they are: dose" in federation.description.preprocessing


def test_natural_clients_are_the_values_of_the_id_column(tmp_path: Path) -> None:
    federation = load(settings_of(written(tmp_path), partition="natural"), SOURCE)
    assert [len(client) for client in federation.clients] == [1, 1]
    ages = [client.features[0, 0] for client in federation.clients]
    assert ages[0] < 0 < ages[1]


def test_without_an_id_column_each_file_is_a_natural_client(tmp_path: Path) -> None:
    header, *rows = ROWS.splitlines()
    for name, part in (("b.csv", rows[:3]), ("a.csv", rows[3:]), ("held.csv", rows[:2])):
        written(tmp_path, "\n".join([header, *part]), name)
    settings = settings_of(
        tmp_path, partition="natural", id_column=None, ignore_columns=("site",), test_file="held.csv"
    )
    federation = load(settings, SOURCE)
    assert [len(client) for client in federation.clients] == [1, 3]
    assert len(federation.test) == 2


def test_files_may_order_their_columns_differently(tmp_path: Path) -> None:
    rows = [line.split(",") for line in ROWS.splitlines()]
    written(tmp_path, "\n".join(",".join(reversed(row)) for row in rows), "test.csv")
    federation = load(settings_of(written(tmp_path), test_file="test.csv"), SOURCE)
    test = zip(federation.test.features.tolist(), federation.test.labels.tolist(), strict=True)
    assert {tuple(row): label for row, label in test} == EXPECTED


def test_a_single_packed_file_with_byte_order_mark_and_windows_lines_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(("\ufeff" + ROWS.replace("\n", "\r\n")).encode()))
    assert all_rows(load(settings_of(path), SOURCE)) == EXPECTED


def test_a_regression_scales_its_label_by_its_range(tmp_path: Path) -> None:
    settings = settings_of(
        written(tmp_path, "x,y\n1,0\n2,10\n3,40\n"),
        task="regression",
        id_column=None,
        label_column="y",
        categories={},
        missing_columns=(),
        ranges={"y": (0.0, 20.0)},
        clients=1,
        test_fraction=0.4,
    )
    federation = load(settings, SOURCE)
    assert all_rows(federation) == {(1.0,): -1.0, (2.0,): 0.0, (3.0,): 3.0}
    assert federation.description.outputs == 1


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        (ROWS, {"root": None}, ["data.root is missing", "csv"]),
        (ROWS, {"label_column": None}, ["data.label-column is missing", "site, age, smoker, dose, outcome"]),
        (ROWS, {"label_column": "outcom"}, ['data.label-column = "outcom"', "outcome"]),
        (ROWS, {"classes": ()}, ["data.classes = []", "outcome"]),
        (ROWS, {"classes": ("well", "well")}, ["data.classes = ['well', 'well']"]),
        (ROWS, {"classes": ("well", "sick")}, ["line 2", '"outcome" holds "ill"', "well, sick"]),
        (ROWS, {"id_column": "center"}, ['data.id-column names "center"', "site"]),
        (ROWS, {"ignore_columns": ("x",)}, ['data.ignore-columns names "x"']),
        (ROWS, {"missing_columns": ("x",)}, ['data.missing-columns names "x"']),
        (ROWS, {"ranges": {"x": (0.0, 1.0)}}, ['data.ranges names "x"']),
        (ROWS, {"ranges": {"age": (9.0, 1.0)}}, ['data.ranges."age" = [9.0, 1.0]']),
        (ROWS, {"ranges": {"age": (0.0, float("nan"))}}, ['data.ranges."age" = [0.0, nan]']),
        (ROWS, {"categories": {}}, ["line 2", '"smoker" holds "yes"', "data.ignore-columns", "categories"]),
        (ROWS, {"categories": {"smoker": ("yes",)}}, ["line 3", '"smoker" holds "no"', "not one of yes"]),
        (ROWS, {"missing_columns": ()}, ["line 4", '"dose" holds ""', "missing-columns"]),
        (ROWS, {"ignore_columns": ("age", "smoker", "dose")}, ["no column left"]),
        (ROWS, {"test_fraction": 0.1}, ["data.test-fraction = 0.1", "test-file"]),
        (ROWS, {"test_fraction": 1.0}, ["data.test-fraction = 1.0"]),
        (ROWS, {"test_file": "none.csv"}, ['data.test-file = "none.csv"']),
        (ROWS, {"clients": 3}, ["data.clients = 3", "2 training rows"]),
        (ROWS, {"clients": 5, "partition": "natural"}, ["data.clients = 5"]),
        (ROWS.replace("90", "inf"), {}, ["line 5", '"age" holds "inf"']),
        (ROWS.replace("90", "1e999"), {}, ["line 5", '"age" holds "1e999"']),
        (ROWS.replace("3.5", "1e39"), {}, ["line 5", '"dose" holds "1e39"', "not a finite 32-bit number"]),
        (ROWS.replace("2.5,", ""), {}, ["line 3", "4 values where 5"]),
        (ROWS.replace(",", ";"), {}, ["data.label-column", "separated by commas"]),
        (ROWS.replace("dose", "age"), {}, ['"age" 2 times']),
        (ROWS.replace("dose", ""), {}, ["no name for column 4"]),
        (ROWS.splitlines()[0], {}, ["holds no rows"]),
        ("", {}, ["is empty", "name the columns"]),
        (ROWS.replace("yes", '"yes'), {}, ["is no comma-separated row"]),
    ],
)
def test_what_does_not_fit_is_named_in_one_sentence(
    text: str, changes: dict[str, object], words: list[str], tmp_path: Path
) -> None:
    with pytest.raises(DataError) as refusal:
        load(replace(settings_of(written(tmp_path, text)), **changes), SOURCE)  # type: ignore[arg-type]
    message = str(refusal.value)
    assert all(word in message for word in words), message
    assert message.endswith(".") and "\n" not in message


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(ROWS.replace("north", "nörd").encode("latin-1"))
    with pytest.raises(DataError, match="save it as UTF-8"):
        load(settings_of(tmp_path), SOURCE)


def test_natural_clients_need_something_that_tells_them_apart(tmp_path: Path) -> None:
    settings = settings_of(written(tmp_path), partition="natural", id_column=None, ignore_columns=("site",))
    with pytest.raises(DataError, match="data.id-column"):
        load(settings, SOURCE)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"partition": "at-random"}, 'data.partition = "at-random" is not known'),
        ({"partition": "natural", "id_column": None}, "data.id-column, or give one file for each client"),
        ({"clients": 9}, 'data.clients = 9 is more than the rows that ".*" can hold, of which there are at most 8'),
        ({"clients": 9, "partition": "natural"}, "at most 8 by its size"),
        ({"test_file": "none.csv"}, 'data.test-file = "none.csv"'),
        ({"test_fraction": 1.0}, "data.test-fraction = 1.0"),
        ({"task": "regression", "label_column": "age", "partition": "dirichlet"}, "choose iid or natural"),
    ],
)
def test_what_no_rows_could_be_is_known_before_any_is_read(
    tmp_path: Path, changes: dict[str, object], words: str
) -> None:
    with pytest.raises((DataError, TermsError), match=words):
        describe(settings_of(written(tmp_path), **changes))


def test_files_that_are_clients_are_counted_before_any_row_is_read(tmp_path: Path) -> None:
    written(written(tmp_path, name="a.csv"), name="b.csv")
    settings = settings_of(tmp_path, partition="natural", id_column=None, ignore_columns=("site",))
    assert describe(settings).outputs == 2
    with pytest.raises(DataError, match="data.clients = 3 does not match the 2 clients found; write clients = 2"):
        describe(replace(settings, clients=3))


@pytest.mark.parametrize("ending", ["", "\n"])
def test_a_file_of_the_shortest_rows_may_have_as_many_clients(tmp_path: Path, ending: str) -> None:
    text = "x,y\n" + "\n".join(f"{row},{row}" for row in range(6)) + ending
    settings = settings_of(
        written(tmp_path, text),
        clients=6,
        id_column=None,
        label_column="y",
        task="regression",
        categories={},
        ranges={},
        missing_columns=(),
        test_fraction=0.1,
    )
    assert describe(settings).shape == (1,)
    with pytest.raises(DataError, match="at most 6 by its size"):
        describe(replace(settings, clients=7))


def test_the_size_of_a_packed_file_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv.gz"
    path.write_bytes(gzip.compress(ROWS.encode()))
    assert describe(settings_of(path, clients=1000)).outputs == 2


def test_a_plan_reads_little_more_than_the_first_line(tmp_path: Path) -> None:
    path = written(tmp_path, ROWS + "south,70,no,,well\n" * 10_000) / "rows.csv"
    path.write_bytes(path.read_bytes() + b"\xff")
    assert describe(settings_of(tmp_path)).shape == (5,)
    with pytest.raises(DataError, match="save it as UTF-8"):
        load(settings_of(tmp_path), SOURCE)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"partition": "natural"}, 'whether "site" names 2 clients, and every file has these columns'),
        ({}, "whether they are enough for 2 clients, and every file"),
    ],
)
def test_what_only_rows_tell_is_said(tmp_path: Path, changes: dict[str, object], words: str) -> None:
    unseen = describe(settings_of(written(tmp_path), **changes)).unseen
    assert words in unseen and unseen.endswith("only `onlooker run` will tell.")


def test_a_plan_ends_with_what_only_a_run_will_tell(tmp_path: Path) -> None:
    written(tmp_path, "x,y\n1,2\n3,4\n5,6\n")
    (tmp_path / "run.toml").write_text(
        '[task]\nmethod = "fedavg"\n[model]\nname = "logistic"\n'
        '[data]\nname = "csv"\nroot = "rows.csv"\nclients = 2\nlabel-column = "y"\ntask = "regression"\n'
    )
    result = CliRunner().invoke(app, ["plan", str(tmp_path / "run.toml")])
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith(
        "No row was read: whether they are enough for 2 clients, and every file has these columns with values that "
        "they may hold, only `onlooker run` will tell.\n"
    )


def examples(count: int = 10, classes: int = 3) -> Examples:
    return Examples(np.arange(count * 4, dtype=np.float64).reshape(count, 2, 2), np.arange(count) % classes)


Own = Callable[[DataSettings], object]


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Callable[[Own], str]:
    """Makes a function reachable as "own_rows:function"."""

    def reachable(function: Own) -> str:
        module = type(sys)("own_rows")
        module.function = function  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "own_rows", module)
        return "own_rows:function"

    return reachable


def test_a_function_may_return_rows_that_are_then_dealt(own: Callable[[Own], str]) -> None:
    settings = DataSettings(own(lambda _: (examples(), examples(4))), None, 3, "dirichlet", classes=("a", "b", "c"))
    federation = load(settings, SOURCE)
    assert sorted(len(client) for client in federation.clients) == [3, 3, 4]
    assert federation.clients[0].features.dtype == np.float32
    assert federation.description == describe(settings)
    assert (federation.description.shape, federation.description.outputs) == ((2, 2), 3)
    assert len(federation.description.uncharged) == 1


def test_classes_counted_from_the_rows_are_called_uncharged(own: Callable[[Own], str]) -> None:
    found = describe(DataSettings(own(lambda _: (examples(), examples(4))), None, 3))
    assert found.outputs == 3
    assert any("read from the labels" in sentence for sentence in found.uncharged)


def test_a_function_may_return_a_federation_of_symbols(own: Callable[[Own], str]) -> None:
    described = Description("mine", (4,), 2, "classification", ("nothing",), symbols=5)
    rows = Examples(np.array([[0, 1, 2, 4]]), np.array([1]))
    name = own(lambda _: Federation((rows, rows), rows, described))
    federation = load(DataSettings(name, None, 2), SOURCE)
    assert federation.description is described
    assert federation.clients[1].features.dtype == np.int64
    with pytest.raises(DataError, match="data.clients = 3, but .* 2 clients"):
        load(DataSettings(name, None, 3), SOURCE)
    wrong = Examples(np.array([[0, 1, 2, 5]]), np.array([1]))
    name = own(lambda _: Federation((rows, wrong), rows, described))
    with pytest.raises(DataError, match="client 1 of .*, features, row 0: .* from 0 to 4"):
        load(DataSettings(name, None, 2), SOURCE)


def raises(_: DataSettings) -> object:
    raise RuntimeError("no such table\nin the database")


def spoiled(field: str, row: int, value: float) -> Examples:
    good = examples()
    features, labels = good.features.astype(np.float64), good.labels.astype(np.float64)
    (features if field == "features" else labels)[row] = value
    return Examples(features, labels)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (raises, ["RuntimeError: no such table in the database"]),
        (lambda _: None, ["returned NoneType", "Federation"]),
        (lambda _: (examples(),), ["returned tuple"]),
        (lambda _: (1, 2), ["returned tuple"]),
        (lambda _: (spoiled("features", 4, np.nan), examples()), ["training set", "features, row 4"]),
        (lambda _: (spoiled("features", 4, 1e300), examples()), ["training set", "features, row 4"]),
        (lambda _: (examples(), spoiled("features", 2, np.inf)), ["test set", "features, row 2"]),
        (lambda _: (spoiled("labels", 5, -1), examples()), ["labels, row 5", "-1.0", "from 0 to 2"]),
        (lambda _: (spoiled("labels", 6, 3), examples()), ["labels, row 6", "3.0"]),
        (lambda _: (spoiled("labels", 7, 0.5), examples()), ["labels, row 7", "0.5"]),
        (lambda _: (spoiled("labels", 8, np.nan), examples()), ["labels, row 8", "nan"]),
        (lambda _: (examples(), examples().take(np.arange(0))), ["test set", "no rows"]),
        (lambda _: (Examples(np.zeros((3, 2)), np.zeros(2, dtype=int)), examples()), ["(3, 2)", "(2,)"]),
        (lambda _: (examples(), Examples(np.zeros((3, 2)), np.zeros(3))), ["test set", "(2,)", "(2, 2)"]),
        (
            lambda _: (Examples(np.array([["a"]] * 2), np.zeros(2, dtype=int)), examples()),
            ["features", "<U1"],
        ),
        (lambda _: (Examples([[1], [1, 2]], np.zeros(2)), examples()), ["different shapes"]),  # type: ignore[arg-type]
    ],
)
def test_what_a_function_returns_is_checked(own: Callable[[Own], str], function: Own, words: list[str]) -> None:
    with pytest.raises(DataError) as refusal:
        load(DataSettings(own(function), None, 2, classes=("a", "b", "c")), SOURCE)
    message = str(refusal.value)
    assert all(word in message for word in words), message
    assert "own_rows:function" in message
    assert message.endswith(".") and "\n" not in message


def test_labels_that_are_no_classes_ask_for_the_task(own: Callable[[Own], str]) -> None:
    name = own(lambda _: (Examples(np.zeros((3, 2)), np.array([0.5, 1, 2])), examples()))
    with pytest.raises(DataError, match='task = "regression"'):
        load(DataSettings(name, None, 2), SOURCE)


@pytest.mark.parametrize("name", ["no_such_module:rows", "onlooker.data:no_such_function", ":rows", "os:sep"])
def test_a_function_that_is_not_there_is_named(name: str) -> None:
    with pytest.raises(DataError) as refusal:
        load(DataSettings(name, None, 2), SOURCE)
    assert f'data.name = "{name}"' in str(refusal.value)


def test_a_module_that_cannot_be_imported_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_rows.py").write_text("def rows(:\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(DataError, match="SyntaxError"):
        load(DataSettings("broken_rows:rows", None, 2), SOURCE)


def test_no_clients_is_refused_before_a_function_runs(own: Callable[[Own], str]) -> None:
    with pytest.raises(TermsError, match="data.clients = 0"):
        load(DataSettings(own(raises), None, 0), SOURCE)
