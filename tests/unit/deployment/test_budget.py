"""A client's durable ledger of its data over all tasks."""

import multiprocessing
import sqlite3

import pytest

from onlooker.deployment.budget import Budget
from onlooker.errors import BudgetError, FolderError, TermsError
from secure_rounds import terms_of

TASK, OTHER = bytes(32), bytes([1]) * 32


def budget(path, epsilon=10.0):
    return Budget(path / "budget.db", epsilon, 1e-5)


def test_a_report_is_charged_once_however_often_it_is_asked_for(tmp_path):
    own, terms = budget(tmp_path), terms_of()
    first = own.charge(TASK, terms, 0, 1, 0)
    assert own.charge(TASK, terms, 0, 1, 0) == first
    assert own.charge(TASK, terms, 0, 2, 0).epsilon > first.epsilon


def test_it_is_kept_and_holds_over_all_tasks(tmp_path):
    own, terms = budget(tmp_path), terms_of()
    one = own.charge(TASK, terms, 0, 1, 0)
    own.close()
    again = budget(tmp_path)
    assert again.price() == one
    both = again.charge(OTHER, terms_of(**{"privacy.noise-multiplier": 3.0}), 4, 1, 0)
    assert both.epsilon > one.epsilon


def test_past_the_limit_nothing_is_charged(tmp_path):
    terms = terms_of()
    free = budget(tmp_path / "free", 1000.0)
    limit = [free.charge(TASK, terms, 0, round, 0).epsilon for round in (1, 2, 3)][1]
    own = budget(tmp_path / "own", limit)
    own.charge(TASK, terms, 0, 1, 0)
    spent = own.charge(TASK, terms, 0, 2, 0)
    for task in (TASK, OTHER):
        with pytest.raises(BudgetError, match=r"budget\.epsilon = .* would be passed"):
            own.charge(task, terms, 0, 3, 0)
    assert own.price() == spent
    assert own.charge(TASK, terms, 0, 2, 0) == spent


def test_a_task_of_another_unit_is_refused_and_forgotten(tmp_path):
    own = budget(tmp_path)
    spent = own.charge(TASK, terms_of(), 0, 1, 0)
    with pytest.raises(TermsError, match="no epsilon together"):
        own.charge(OTHER, terms_of(**{"privacy.adjacency": '"replace-one"'}), 0, 1, 0)
    assert own.price() == spent


def charge_some(path, task, rounds):
    own = Budget(path, 1000.0, 1e-5)
    for round in rounds:
        own.charge(task, terms_of(), 0, round, 0)


def test_two_tasks_at_once_are_both_charged(tmp_path):
    path = tmp_path / "budget.db"
    context = multiprocessing.get_context("spawn")
    work = [context.Process(target=charge_some, args=(path, task, range(1, 6))) for task in (TASK, OTHER)]
    for one in work:
        one.start()
    for one in work:
        one.join(60)
        assert one.exitcode == 0
    (count,) = sqlite3.connect(path).execute("select count(*) from reports").fetchone()
    assert count == 10


def test_it_is_for_its_owner_alone(tmp_path):
    own = budget(tmp_path)
    own.charge(TASK, terms_of(), 0, 1, 0)
    assert (tmp_path / "budget.db").stat().st_mode & 0o077 == 0


def test_what_is_no_database_is_refused(tmp_path):
    (tmp_path / "budget.db").write_text("no database at all, and long enough to be looked at" * 30)
    (tmp_path / "budget.db").chmod(0o600)
    with pytest.raises(FolderError, match=r"budget\.file = "):
        budget(tmp_path)


def test_the_same_data_are_not_in_a_task_twice(tmp_path):
    """Both rows would be in one sum: five rounds of two at z = 2 are 11.48, and two lines of one number 4.98."""
    own, terms = budget(tmp_path), terms_of()
    spent = own.charge(TASK, terms, 0, 1, 0)
    for round in (1, 2):
        with pytest.raises(BudgetError, match="as client:3 too would be in a sum twice"):
            own.charge(TASK, terms, 3, round, 0)
    assert own.price() == spent
    assert own.charge(OTHER, terms, 3, 1, 0).epsilon > spent.epsilon


def test_one_that_others_may_read_is_refused(tmp_path):
    budget(tmp_path).close()
    (tmp_path / "budget.db").chmod(0o640)
    with pytest.raises(FolderError, match="may be read by others"):
        budget(tmp_path)


@pytest.mark.parametrize("terms", ["", "unit = [", "unit = 'client'"])
def test_terms_that_cannot_be_read_stop_every_charge(tmp_path, terms):
    own = budget(tmp_path)
    own.charge(TASK, terms_of(), 0, 1, 0)
    own._base.execute("update tasks set terms = ?", (terms,))
    with pytest.raises((FolderError, TermsError)):
        own.charge(OTHER, terms_of(), 0, 1, 0)
    assert own.charged(OTHER) == frozenset()
