"""A run on Ray: the bits of one process, whatever is lost on the way, and nothing left behind."""

import importlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from meanwhile import killed, machine_here, meanwhile, noted, refused, unheard_of
from onlooker import config
from onlooker.errors import ConfigError, ModelError, WorkerError
from playing import begin, one_round

TESTS = Path(__file__).resolve().parents[1]
METHODS = {
    "dp-fedavg": {"privacy.noise-multiplier": 1.0},
    "fedavg": {},
    "ms-pafl": {"privacy.noise-multiplier": 1.0, "split.public": '"hidden.*"'},
    "dp-ogl": {
        "privacy.noise-multiplier": 1.0,
        "groups.members": "[[0,1,2,3,4],[4,5,6,7],[7,8,9,10,11]]",
        "groups.mixing-period": 2,
        "servers.count": 2,
    },
}


def study_of(method, **settings):
    table = {
        "task.method": f'"{method}"',
        "task.rounds": 4,
        "data.name": '"digits"',
        "data.clients": 12,
        "model.name": '"mlp"',
        "training.steps": 2,
        "engine.workers": 1,
        "engine.trainer": '"flat"',
        **METHODS[method],
        **settings,
    }
    if method != "dp-ogl":
        table["sampling.clients.name"] = '"all"'
    ready = config.prepare(config.parse("", [f"{key}={value}" for key, value in table.items()]), Path())
    return config.study(ready, torch.device("cpu"))


def on_ray(study, address=None, workers=0):
    return replace(study, engine=replace(study.engine, name="ray", workers=workers, address=address))


def played(study, rounds=2):
    """What rounds leave: models, private parts, digests and what a simulator sees."""
    (state, kept), digests, seen = begin(study), [], []
    with study.opened() as engine:
        for round in range(1, rounds + 1):
            done = one_round(study, state, round, lambda digest, noise: digests.append(digest), kept, engine)
            state, kept = done.state, done.kept
            seen.append(done.simulation)
    return state.models, kept.private.take(range(len(kept.private))), digests, seen


def same(found, expected):
    models, private = (np.array_equal(one, other) for one, other in zip(found[:2], expected[:2], strict=True))
    return models and private and found[2:] == expected[2:]


@dataclass(frozen=True)
class Machines:
    """A cluster of raylets, as `machines.py` keeps it."""

    process: subprocess.Popen
    address: str

    def add(self):
        return self._told("add")

    def remove(self, name):
        assert self._told(f"remove {name}") == name

    def _told(self, order):
        self.process.stdin.write(f"{order}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@pytest.fixture(scope="module")
def two_machines():
    """Two of one processor each; this process is on the first."""
    command = [sys.executable, str(Path(__file__).with_name("machines.py"))]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment(), text=True, **pipes) as process:
        machines = Machines(process, process.stdout.readline().strip())
        machines.add()
        yield machines


def environment():
    path = os.pathsep.join([str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])])
    quiet = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    return os.environ | quiet | {"PYTHONPATH": path}


@pytest.fixture
def here(monkeypatch):
    """Processes that Ray starts for this test can import what it hands them."""
    for name, value in environment().items():
        monkeypatch.setenv(name, value)


def test_a_cluster_of_ones_own_gives_the_bits_of_one_process():
    """Also where this process has imported Ray, whose settings of then a fork would inherit."""
    assert importlib.import_module("ray")
    study = study_of("ms-pafl")
    assert same(played(on_ray(study, workers=2)), played(study))


@pytest.mark.deep
@pytest.mark.parametrize("method", METHODS)
def test_two_machines_give_the_bits_of_one_process(two_machines, tmp_path, method):
    study = study_of(method)

    def act():
        """Wait for the other machine."""
        noted(tmp_path, machine_here())
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.01)

    assert same(played(meanwhile(on_ray(study, two_machines.address), act)), played(study))


@pytest.mark.deep
@pytest.mark.parametrize("method", METHODS)
def test_a_process_that_dies_in_the_middle_of_a_round_changes_nothing(two_machines, tmp_path, method):
    study = study_of(method)

    def act():
        if noted(tmp_path, "dead"):
            os.kill(os.getpid(), signal.SIGKILL)

    assert same(played(meanwhile(on_ray(study, two_machines.address), act)), played(study))
    assert (tmp_path / "dead").exists()


@pytest.mark.deep
@pytest.mark.parametrize("method", ["dp-fedavg", "fedavg", "ms-pafl"])
def test_a_machine_that_is_lost_with_the_sums_on_it_changes_nothing(two_machines, tmp_path, method):
    """It is taken away while it plays its fourth client, and the sums of its first chunk lie on it and nowhere else."""
    study = study_of(method, **{"model.name": '"meanwhile:wide"'})
    doomed = two_machines.add()
    lost, others = tmp_path / "lost", tmp_path / "others"

    def act():
        if machine_here() == doomed:
            if not any(noted(tmp_path, f"{number}") for number in range(3)):
                noted(tmp_path, "lost")
                time.sleep(600)
            return
        while not lost.exists():
            time.sleep(0.01)
        with open(others, "ab") as file:
            file.write(b".")

    def take_away():
        while not lost.exists():
            time.sleep(0.01)
        two_machines.remove(doomed)

    watch = threading.Thread(target=take_away)
    watch.start()
    found = played(meanwhile(on_ray(study, two_machines.address), act))
    watch.join()
    assert same(found, played(study))
    assert others.stat().st_size == 2 * 12  # the other machines have played every client of both rounds


@pytest.mark.deep
def test_what_goes_wrong_in_a_client_is_told_in_a_sentence(here):
    study = on_ray(study_of("dp-fedavg"), workers=1)
    with pytest.raises(ModelError, match=r"^a sentence\.$"):
        played(meanwhile(study, refused))
    with pytest.raises(RuntimeError, match="Unknown: what happened"):
        played(meanwhile(study, unheard_of))
    with pytest.raises(WorkerError, match=r"lost client:\d+ to client:\d+ of round 1 for good \(WorkerCrashedError\)"):
        played(meanwhile(study, killed))


@pytest.mark.parametrize(
    "address, word",
    [
        ("127.0.0.1:1", "cannot be reached"),
        ("nowhere.invalid:6379", "cannot be reached"),
        ("127.0.0.1", "must be HOST:PORT"),
        ("ray://127.0.0.1:10001", "must be HOST:PORT"),
    ],
)
def test_a_cluster_that_cannot_be_reached_is_told_in_a_sentence(address, word):
    with pytest.raises(ConfigError, match=f'engine.address = "{address}" {word}.*ray start --address=HOST:PORT'):
        played(on_ray(study_of("dp-fedavg"), address))


def test_a_ray_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r'pip install "onlooker\[ray\]"'):
        played(on_ray(study_of("dp-fedavg")))


def test_what_would_not_be_heeded_is_refused():
    study = study_of("dp-fedavg")
    with pytest.raises(ConfigError, match="engine.workers = 3"):
        played(on_ray(study, "127.0.0.1:1", workers=3))
    with pytest.raises(ConfigError, match="not on meta"):
        played(replace(on_ray(study), device=torch.device("meta")))


@pytest.mark.deep
@pytest.mark.parametrize("how", ["SIGINT", "SIGTERM", "SIGKILL", "raylet"])
def test_nothing_of_ones_own_cluster_is_left_however_a_run_ends(tmp_path, how):
    file, place = tmp_path / "run.toml", tmp_path / "run"
    file.write_text(
        '[task]\nmethod = "fedavg"\nrounds = 100000\n[data]\nname = "digits"\n[model]\nname = "logistic"\n'
        '[engine]\nworkers = 1\ntrainer = "flat"\n'
    )
    command = [sys.executable, "-m", "onlooker", "run", str(file), "--out", str(place), "--engine", "ray"]
    pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    written = tempfile.mkdtemp(dir="/tmp")  # a short name, for those of sockets are short
    process = subprocess.Popen(
        command, text=True, start_new_session=True, env=os.environ | {"TMPDIR": written}, **pipes
    )
    try:
        wait_for(lambda: process.poll() is not None or has_played(place))
        family = descendants(process.pid)
        raylets = [one for one, name in family.items() if name == "raylet"]
        assert len(raylets) == 1 and "gcs_server" in family.values()
        if how == "raylet":
            os.kill(raylets[0], signal.SIGKILL)
        elif how == "SIGINT":
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        else:
            process.send_signal(getattr(signal, how))
        said = process.communicate(timeout=60)[1].splitlines()[-1:]
    finally:
        process.kill()
        process.communicate()
    expected = {"SIGINT": 130, "SIGTERM": -signal.SIGTERM, "SIGKILL": -signal.SIGKILL, "raylet": 2}
    assert process.returncode == expected[how]
    if how in ("SIGINT", "raylet"):
        assert "`onlooker resume" in said[0]
    wait_for(lambda: not any(running(one) for one in family))
    os.rmdir(written)  # which is empty


def has_played(place):
    return (place / "metrics.jsonl").exists() and (place / "metrics.jsonl").stat().st_size


def wait_for(condition, seconds=180):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"nothing happened for {seconds} seconds"
        time.sleep(0.05)


def descendants(parent):
    """The names of all processes below one, by their numbers."""
    found = {}
    for thread in Path(f"/proc/{parent}/task").iterdir():
        for child in (thread / "children").read_text().split():
            found[int(child)] = Path(f"/proc/{child}/comm").read_text().strip()
            found |= descendants(int(child))
    return found


def running(process):
    """True unless it has ended, its parent told or not."""
    try:
        return " Z " not in Path(f"/proc/{process}/stat").read_text().partition(")")[2][:3]
    except OSError:
        return False
