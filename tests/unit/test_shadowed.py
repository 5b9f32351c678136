"""Rows with a shadow: what was committed is never touched, and a file takes no more than was written."""

import numpy as np
import pytest

from onlooker._shadowed import Shadowed
from onlooker.errors import FolderError

START = np.array([1.0, 2.0, 3.0], dtype=np.float32)


def rows_of(count, value):
    return np.full((count, 3), value, dtype=np.float32)


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_change_leaves_the_object_before_it_as_it_was(tmp_path, on_disk):
    first = Shadowed.on_disk(5, START, tmp_path / "rows") if on_disk else Shadowed.in_memory(5, START)
    assert np.array_equal(first.take([0, 4]), [START, START]) and len(first) == 5
    second = first.changed([1, 3], rows_of(2, 7.0))
    third = second.changed([3, 0], np.stack([START * 2, START * 3]))
    assert np.array_equal(first.take([3]), [START])
    assert np.array_equal(second.take([0, 1, 2, 3]), [START, [7, 7, 7], START, [7, 7, 7]])
    assert np.array_equal(third.take([0, 1, 2, 3]), [START * 3, [7, 7, 7], START, START * 2])
    assert third.take([]).shape == (0, 3) and np.array_equal(third.changed([], rows_of(0, 0)).take([3]), [START * 2])


def test_what_was_written_down_is_read_again_after_a_change_that_was_not(tmp_path):
    """As after a death between a change and its commit."""
    path = tmp_path / "rows"
    committed = Shadowed.on_disk(4, START, path).changed([0, 1], rows_of(2, 5.0))
    committed.flush()
    committed.changed([1, 2], rows_of(2, 9.0)).flush()
    again = Shadowed.on_disk(4, START, path, committed.used)
    assert np.array_equal(again.take([0, 1, 2]), [[5, 5, 5], [5, 5, 5], START])
    assert np.array_equal(again.changed([1, 2], rows_of(2, 8.0)).take([1, 2]), rows_of(2, 8.0))


def test_a_file_is_as_large_as_what_was_written(tmp_path):
    """100,000 clients, of whom few were there: 20 GB that are not on the disk."""
    start = np.zeros(25_000, dtype=np.float32)
    rows = Shadowed.on_disk(100_000, start, tmp_path / "rows").changed([99_999, 5], np.ones((2, 25_000), np.float32))
    taken = (tmp_path / "rows").stat()
    assert taken.st_size == 2 * 100_000 * 100_000 and taken.st_blocks * 512 < 1_000_000
    assert rows.take([99_999, 6]).sum() == 25_000


def test_a_file_of_another_size_is_refused(tmp_path):
    path = tmp_path / "rows"
    rows = Shadowed.on_disk(4, START, path).changed([0], rows_of(1, 5.0))
    with open(path, "r+b") as file:
        file.truncate(95)
    with pytest.raises(ValueError, match="95 bytes and not 96"):
        Shadowed.on_disk(4, START, path, rows.used)


def test_a_file_that_cannot_be_written_is_said_in_a_sentence(tmp_path):
    rows = Shadowed.on_disk(4, START, tmp_path / "rows")
    (tmp_path / "rows").unlink()
    with pytest.raises(FolderError, match="rows cannot be written: .*; make room and run `onlooker resume"):
        rows.changed([0], rows_of(1, 5.0))
