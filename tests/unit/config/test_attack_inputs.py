"""Hostile files, options and paths: each gets one sentence and exit status 2, and leaves nothing behind."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onlooker import config
from onlooker.cli import app
from onlooker.errors import OnlookerError
from onlooker.privacy.ledger import Ledger
from onlooker.privacy.statement import find

GOOD = """
[task]
method = "feddecouple"
rounds = 2
[data]
name = "digits"
clients = 10
[model]
name = "logistic"
[privacy]
noise-multiplier = 2.064
"""
NINES = "9" * 5000
SHORT_FIRST = "[{}, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]"

TEXTS = {
    "a number of thousands of digits": GOOD.replace("rounds = 2", f"rounds = {NINES}"),
    "a seed of thousands of digits": GOOD.replace("rounds = 2", f"seed = {NINES}"),
    "lists as deep as a well": "deep = " + "[" * 3000 + "]" * 3000 + GOOD,
    "a key in brackets": GOOD + '"a[b]" = 1\n',
    "a table in brackets": GOOD + '["(x)"]\ny = 1\n',
    "a key called after a type": GOOD + "float = 1\n",
    "an empty key": GOOD + '"" = 1\n',
    "a key twice": GOOD + "noise-multiplier = 1.0\n",
    "tables in a list": GOOD.replace("[task]", "[[task]]"),
    "a table for a number": GOOD + "[privacy.clip]\na = 1\n",
    "nul": "\0",
    "nothing": "",
}
SETTINGS = {
    "rounds beyond counting": ("task.rounds=9223372036854775808", "task.rounds"),
    "clients beyond counting": ("data.clients=9223372036854775808", "9223372036854775808"),
    "servers beyond counting": ("servers.count=9223372036854775808", "servers.count"),
    "a rate below every coin": ("sampling.clients.rate=1e-320", "sampling.clients.rate"),
    "a delta below floats": ("privacy.delta=1e-320", "privacy.delta"),
    "noise in name only": ("privacy.noise-multiplier=1e-320", "privacy.noise-multiplier"),
    "noise beyond every ring": ("privacy.noise-multiplier=1e308", "servers.ring-bits"),
    "a path with nul": ('data.root="\\u0000"', "data.root"),
    "a learning rate beyond floats": ("training.learning-rate=1e308", "training.learning-rate"),
    "a decay beyond floats": ("training.weight-decay=1e308", "training.weight-decay"),
    "a clip below the grid": (f"privacy.clip={SHORT_FIRST.format('1e-300')}", "privacy.clip"),
    "a weight below the grid": (f"data.weights={SHORT_FIRST.format('1e-320')}", "privacy.clip"),
    "an observer in other digits": ('privacy.observers=["client:１"]', "client:１"),
    "an observer of thousands of digits": (f'privacy.observers=["client:{NINES}"]', "is not known"),
    "a host of thousands of digits": (f'servers.hosted-by=["client:{NINES}", "client:0"]', "servers.hosted-by"),
    "a method on two lines": ('task.method="fed\\nx"', "task.method"),
    "no table": (".rounds=2", '""'),
    "two keys in one": ("task.rounds=2\nseed=3", "one --set for each"),
    "a value on two lines": ("task.rounds=1\n2", "task.rounds"),
    "a trainer of nothing": ("engine.trainer=fast", "engine.trainer"),
    "a trainer of other networks": ("engine.trainer=flat-channels-last", "engine.trainer"),
    "workers beyond counting": ("engine.workers=99999", "engine.workers"),
    "an engine of nobody": ("engine.name=warp", "engine.name"),
    "records beyond counting": ("data.expected-records=99999999999999", None),
}


def refused(tmp_path, monkeypatch, text, *arguments, command="run"):
    """The one sentence."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(text)
    result = CliRunner().invoke(app, [command, "run.toml", *arguments])
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code == 2, result.output
    (sentence,) = [line for line in result.stderr.splitlines() if not line.startswith("onlooker: warning: ")]
    assert sentence.startswith("onlooker: error: ")
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]
    return sentence


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_file_gets_one_sentence(tmp_path, monkeypatch, name):
    assert "run.toml" in refused(tmp_path, monkeypatch, TEXTS[name])


@pytest.mark.parametrize("name", SETTINGS)
def test_a_hostile_value_gets_one_sentence(tmp_path, monkeypatch, name):
    setting, said = SETTINGS[name]
    text = GOOD
    if said is None:
        text, said = GOOD.replace("feddecouple", "dp-sgd"), "data.expected-records"
    assert said in refused(tmp_path, monkeypatch, text, "--set", setting)


@pytest.mark.parametrize("subject", ["", "0", "client:", "client:²", "client:１", "client:-1", f"client:{NINES}"])
def test_a_hostile_subject_gets_one_sentence(tmp_path, monkeypatch, subject):
    assert "--subject" in refused(tmp_path, monkeypatch, GOOD, "--subject", subject, command="plan")


@pytest.mark.parametrize("observer", ["", "+", "public+", "PUBLIC", "client:²", "client:１", f"aux:{NINES}"])
def test_a_hostile_observer_gets_one_sentence(tmp_path, monkeypatch, observer):
    assert "is not known" in refused(tmp_path, monkeypatch, GOOD, "--observer", observer, command="plan")


@pytest.mark.parametrize("place", [".", "/", "run.toml", "run.toml/x", "/dev/null", "a" * 300, "x/.."])
def test_a_hostile_place_gets_one_sentence(tmp_path, monkeypatch, place):
    assert "run folder" in refused(tmp_path, monkeypatch, GOOD, "--out", place)


def test_a_device_that_holds_no_values_is_refused(tmp_path, monkeypatch):
    assert '--device "meta"' in refused(tmp_path, monkeypatch, GOOD, "--device", "meta")


def test_what_a_run_without_noise_would_not_look_at_is_refused_all_the_same(tmp_path, monkeypatch):
    text = GOOD.replace("feddecouple", "fedavg").replace("noise-multiplier = 2.064", "{}")
    for wrong in ("clip = 0.0", 'noised-by = "nobody"', 'mechanism = "laplace"'):
        assert wrong.split()[0] in refused(tmp_path, monkeypatch, text.replace("{}", wrong))


def test_a_place_may_have_blanks_and_accents(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(GOOD)
    result = CliRunner().invoke(app, ["run", "run.toml", "--out", "a b/ç/run"])
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1] == "a b/ç/run"


VALUES = ("true", "[]", "{}", "[[]]", '""', "nan", "inf", "-inf", "-1", "0", "1e400", "1979-05-27", "07:32:00", "[nan]")


def test_no_key_takes_what_it_should_not_and_breaks():
    """Every key of every table with each strange value is priced, or refused by one of our own errors."""
    keys = [
        f"{table.alias}.{key.alias}"
        for table in config.Configuration.model_fields.values()
        for part in [table.annotation, *getattr(table.annotation, "__args__", ())]
        if hasattr(part, "model_fields")
        for key in part.model_fields.values()
    ]
    assert len(keys) > 50
    tried = 0
    for key in keys:
        for value in VALUES:
            try:
                config.prepare(config.parse(GOOD, [f"{key}={value}"]), Path())
            except OnlookerError as error:
                assert len(str(error).splitlines()) == 1
            tried += 1
    assert tried == len(keys) * len(VALUES)


def test_the_real_command_never_shows_a_traceback(tmp_path):
    (tmp_path / "run.toml").write_text(GOOD)
    for arguments in (["run", "run.toml", "--set", f"task.rounds={NINES}"], ["resume", "a" * 300]):
        result = subprocess.run(
            [sys.executable, "-m", "onlooker", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith("onlooker: error: ") and result.stderr.count("\n") == 1
        assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


IN_GROUPS = GOOD.replace("feddecouple", "dp-ogl") + "[groups]\n"
MEMBERS = "members = [[0,1,2,3,4],[4,5,6,7,8,9]]\n"
SPLIT = GOOD.replace("feddecouple", "ms-pafl") + "[split]\n"
TABLES = {
    "more groups than can be dealt": (IN_GROUPS + 'structure = "grid"\ngroups = 1000000000000', "groups.groups"),
    "noise that one group lacks": (
        (IN_GROUPS + MEMBERS + "noise-multiplier = [0.0, 1.0]").replace("noise-multiplier = 2.064\n", ""),
        "groups.noise-multiplier = 0.0",
    ),
    "a clip that bounds nothing": (IN_GROUPS + MEMBERS + "clip = [1.0, inf]", "groups.clip = inf"),
    "rates where all take part": (
        IN_GROUPS + MEMBERS + 'rate = [0.5, 0.5]\n[sampling.clients]\nname = "all"',
        "groups.rate = [0.5, 0.5]",
    ),
    "a ratio of infinities": (SPLIT + f'ratio = "1:{"9" * 400}"', "split.ratio"),
    "a client that is a word": (
        GOOD.replace("noise-multiplier = 2.064", 'epsilon = 3.0\nobservers = ["client:abc"]'),
        'observer "client:abc"',
    ),
    "a client of thousands of digits": (
        GOOD.replace("noise-multiplier = 2.064", f'epsilon = 3.0\nobservers = ["client:{NINES}"]'),
        'observer "client:999',
    ),
}


@pytest.mark.parametrize("command", ["plan", "run"])
@pytest.mark.parametrize("name", TABLES)
def test_a_hostile_table_gets_one_sentence(tmp_path, monkeypatch, name, command):
    text, said = TABLES[name]
    assert said in refused(tmp_path, monkeypatch, text, command=command)


REGIONS = {
    "digits without end": f"0,a\n{NINES},a\n",
    "a name without end": f"0,{'a' * 200_000}\n",
    "digits of another script": "１,a\n",
}


@pytest.mark.parametrize("name", REGIONS)
def test_a_hostile_file_of_regions_gets_one_sentence(tmp_path, name):
    path = tmp_path / "regions.csv"
    path.write_text("client,group\n" + REGIONS[name])
    with pytest.raises(OnlookerError, match="groups.path = ") as caught:
        config.prepare(config.parse(IN_GROUPS + 'path = "regions.csv"'), tmp_path)
    assert "\n" not in str(caught.value)


def test_no_noise_at_all_still_tells_whom_nothing_reaches():
    text = IN_GROUPS.replace("2.064", "0.0") + MEMBERS.replace("[4,", "[") + "mixing-period = 2\n"
    prepared = config.prepare(config.parse(text), Path())
    found = find(Ledger.plan(prepared.agreement.terms), ["client:9"], [0, 5])
    assert [finding.price.epsilon for finding in found] == [0.0, float("inf")]
