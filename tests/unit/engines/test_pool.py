"""Worker processes: what they share, how they end, and what is left of them."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from meanwhile import killed, meanwhile, refused, unheard_of
from onlooker import config
from onlooker.engines.arena import Arena, Layout, Parcel
from onlooker.engines.chunks import dealt
from onlooker.engines.member import Block, Task
from onlooker.engines.pool import Pool
from onlooker.engines.work import Job, Worker
from onlooker.errors import ModelError, WorkerError
from playing import begin, one_round

FOLDER_OF_PROCESSES = Path("/proc")


def study_of(**settings):
    table = {
        "task.method": '"dp-fedavg"',
        "data.name": '"digits"',
        "data.clients": 6,
        "model.name": '"mlp"',
        "privacy.noise-multiplier": 1.0,
        "sampling.clients.name": '"all"',
        "engine.workers": 2,
        "engine.trainer": '"flat"',
        **settings,
    }
    given = [f"{key}={value}" for key, value in table.items() if value is not None]
    ready = config.prepare(config.parse("", given), Path())
    return config.study(ready, torch.device("cpu"))


def test_a_worker_that_dies_is_named_with_its_client():
    study = meanwhile(study_of(), killed, 3)
    with pytest.raises(WorkerError, match=r"ended by signal 9 at client:3 of round 1; `onlooker resume` goes on"):
        one_round(study, begin(study)[0])
    assert not children()


def test_an_error_in_a_worker_is_raised_here():
    study = meanwhile(study_of(), refused, 2)
    with pytest.raises(ModelError, match=r"a sentence\."):
        one_round(study, begin(study)[0])
    study = meanwhile(study_of(), unheard_of, 2)
    with pytest.raises(RuntimeError, match="Unknown: what happened"):
        one_round(study, begin(study)[0])
    assert not children()


def test_nothing_grows_over_rounds():
    study = study_of()
    state = begin(study)[0]
    counted = []
    with study.opened() as engine:
        for round in range(1, 8):
            state = one_round(study, state, round, engine=engine).state
            counted.append((open_files(), shared_memory(), len(children())))
    assert len(set(counted[1:])) == 1
    assert counted[-1][2] == 2 and not children()


def children():
    """The numbers of this process's children that still run."""
    found = []
    for thread in (FOLDER_OF_PROCESSES / "self" / "task").iterdir():
        found += (thread / "children").read_text().split()
    running = []
    for one in found:
        name = (FOLDER_OF_PROCESSES / one / "cmdline").read_bytes()
        if b"resource_tracker" not in name and b"forkserver" not in name:
            running.append(one)
    return running


def open_files():
    return len(os.listdir("/proc/self/fd"))


def shared_memory():
    lines = (FOLDER_OF_PROCESSES / "self" / "maps").read_text().splitlines()
    return sum(1 for line in lines if "onlooker-" in line)


def test_a_task_travels_whole():
    jobs = Job(5, 2, 2, 0), Job(7, 2, 9, 1, covers=True)
    task = Task(3, Block(64, 10, 4), Block(640, 2, 3), 2, (704, 768), jobs)
    assert Task.unpacked(task.packed()) == task
    nobody = Task(3, Block(64, 10, 4), Block(640, 0, 0), 0, (), ())
    assert Task.unpacked(nobody.packed()) == nobody


@pytest.mark.parametrize("sizes", [[0], [1], [7, 0, 3], [500], [1] * 100, [400, 3]])
def test_every_job_is_dealt_once_and_in_order(sizes):
    cohorts = [[Job(client, group) for client in range(size)] for group, size in enumerate(sizes)]
    for size, whole in ((100, False), (100, True), (2**24, False)):
        chunks = dealt(cohorts, size, whole)
        assert [[job for chunk in parts for job in chunk.jobs] for parts in chunks] == cohorts
        assert all([chunk.number for chunk in parts] == list(range(len(parts))) for parts in chunks)
        assert all(chunk.group == group for group, parts in enumerate(chunks) for chunk in parts)
        if whole:
            assert max(len(parts) for parts in chunks) <= 1
        assert sum(len(parts) for parts in chunks) <= max(2 if size > 10**6 else 32, 0) + len(sizes)


def test_a_big_cohort_is_dealt_in_many_parts_of_about_one_size():
    (parts,) = dealt([[Job(client) for client in range(500)]], 100, False)
    assert len(parts) == 32 and {len(chunk.jobs) for chunk in parts} == {15, 16}


@pytest.mark.parametrize("method, at_once, pieces", [("dp-fedavg", 1, 48), ("dp-fedavg", 2, 32), ("fedavg", 1, 32)])
def test_more_workers_have_more_pieces_where_no_bit_depends_on_them(monkeypatch, method, at_once, pieces):
    """Else cores beyond the thirty-second would be idle, and all but a few of them with a large model."""
    noise = {"privacy.noise-multiplier": None} if method == "fedavg" else {}
    study = study_of(**{"task.method": f'"{method}"', "data.clients": 100, **noise})
    sent = []
    monkeypatch.setattr(Pool, "_run", lambda self, round, chunks, blocks, slots: sent.extend(chunks))
    worker = Worker(study.method, SimpleNamespace(at_once=at_once), study.federation.clients, study.source)
    arena = Arena()
    Pool(worker, (None,) * 3, arena).play(
        1, [[Job(client) for client in range(100)]], begin(study)[0].models, np.empty((0, 0), np.float32)
    )
    arena.close()
    assert len(sent) == pieces and [job.client for chunk in sent for job in chunk.jobs] == [*range(100)]


def test_an_arena_grows_and_old_views_show_the_same_memory():
    arena, layout = Arena(), Layout(8)
    first, second = (layout.place((3, 2), np.float32) for _ in range(2))
    assert first % 64 == second % 64 == 0 and second >= first + 24
    view = arena.array(first, (3, 2), np.float32)
    arena.reach(10_000_000)
    again = arena.array(first, (3, 2), np.float32)
    again[1, 1] = 7
    assert view[1, 1] == 7 and not view[0].any()
    assert arena.array(0, (0, 5), np.int64).shape == (0, 5)
    arena.close()
    assert view[1, 1] == 7


def test_a_parcel_is_unpacked_without_a_copy_of_its_arrays():
    """Also of arrays without a row, and not through the pickled bytes."""
    content = {"rows": np.arange(100_000), "none": np.empty((0, 3)), "word": "x"}
    body = Parcel(content).__reduce__()
    assert len(body[1][0]) < 5_000
    found, again = (body[0](*body[1]).content for _ in range(2))
    assert np.array_equal(found["rows"], content["rows"]) and found["none"].shape == (0, 3) and found["word"] == "x"
    found["rows"][7] = -1
    assert again["rows"][7] == -1 and content["rows"][7] == 7
