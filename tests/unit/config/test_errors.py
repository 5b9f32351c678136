"""Every wrong file gets one sentence that names the key and the value, exit status 2, and no run folder."""

import json

import pytest
from typer.testing import CliRunner

from onlooker.cli import app

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


def invoke(tmp_path, monkeypatch, text, *arguments, command="run"):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(text)
    return CliRunner().invoke(app, [command, "run.toml", *arguments])


WRONG = {
    "unknown table": (["prvacy.clip=1"], ["prvacy", "privacy"]),
    "unknown key": (["privacy.clp=1"], ["clp", "clip"]),
    "unknown sampling table": (["sampling.client.rate=0.5"], ["client", "clients"]),
    "wrong type": (["task.rounds=forty"], ["task.rounds", "forty", "whole number"]),
    "wrong type of a float": (['privacy.delta="small"'], ["privacy.delta", "small", "number"]),
    "boolean for a number": (["task.rounds=true"], ["task.rounds", "true"]),
    "no rounds": (["task.rounds=0"], ["task.rounds", "0", "at least 1"]),
    "unknown method": (["task.method=fedprox"], ["task.method", "fedprox", "dp-sgd"]),
    "no groups": (["task.method=dp-ogl"], ["task.method", "dp-ogl", "[groups]"]),
    "epsilon zero": (["privacy.epsilon=0.0", "privacy.noise-multiplier="], None),
    "delta one": (["privacy.delta=1.0"], ["privacy.delta", "1.0"]),
    "delta nan": (["privacy.delta=nan"], ["privacy.delta", "nan"]),
    "delta negative": (["privacy.delta=-1e-5"], ["privacy.delta", "-1e-05"]),
    "both epsilon and noise": (["privacy.epsilon=8.0"], ["privacy.epsilon", "privacy.noise-multiplier"]),
    "negative noise": (["privacy.noise-multiplier=-1.0"], ["privacy.noise-multiplier", "-1.0"]),
    "noise nan": (["privacy.noise-multiplier=nan"], ["privacy.noise-multiplier", "nan"]),
    "clip zero": (["privacy.clip=0.0"], ["privacy.clip", "0.0"]),
    "clip infinite": (["privacy.clip=inf"], ["privacy.clip", "inf"]),
    "clip list too short": (["privacy.clip=[1.0, 2.0]"], ["privacy.clip", "2", "data.clients = 10"]),
    "rate zero": (["sampling.clients.rate=0.0"], ["sampling.clients.rate", "0.0"]),
    "rate above one": (["sampling.clients.rate=1.5"], ["sampling.clients.rate", "1.5"]),
    "rate nan": (["sampling.clients.rate=nan"], ["sampling.clients.rate", "nan"]),
    "rate list too long": (
        ["sampling.clients.rate=[0.5, 0.5]"],
        ["sampling.clients.rate", "data.clients = 10"],
    ),
    "record rate above one": (
        ["task.method=dp-sgd", "data.expected-records=140", "sampling.records.rate=2"],
        ["sampling.records.rate", "2"],
    ),
    "no fixed size": (
        ["sampling.clients.name=fixed-size", "sampling.clients.rate=0.25"],
        ["sampling.clients.rate", "0.25", "whole"],
    ),
    "rate of all": (
        ["sampling.clients.name=all", "sampling.clients.rate=0.5"],
        ["sampling.clients.rate", "all"],
    ),
    "unknown sampler": (["sampling.clients.name=poison"], ["sampling.clients.name", "poison", "poisson"]),
    "no period": (["sampling.clients.name=cyclic"], ["sampling.clients.period", "cyclic"]),
    "no picks": (["sampling.clients.name=random-allocation"], ["sampling.clients.participations"]),
    "period longer than the run": (
        ["sampling.clients.name=cyclic", "sampling.clients.period=50"],
        ["sampling.clients.period", "50"],
    ),
    "coins for correlated noise": (
        ["task.method=dp-ftrl", "privacy.noised-by=server", "sampling.clients.name=poisson"],
        ["sampling.clients.name", "poisson", "cyclic"],
    ),
    "no bands": (
        ["task.method=dp-ftrl", "privacy.mechanism=banded", "sampling.clients.period=2"],
        ["privacy.bands"],
    ),
    "tree for another method": (["privacy.mechanism=tree"], ["privacy.mechanism", "tree", "feddecouple"]),
    "groups in two ways": (
        ["groups.members=[[0,1,2,3,4,5,6,7,8,9]]", "groups.structure=string"],
        ["[groups]", "members", "structure"],
    ),
    "unknown structure": (["groups.structure=strig"], ["groups.structure", "strig", "string"]),
    "client in no group": (["groups.members=[[0,1]]"], ["[groups]", "client 2"]),
    "interval that does not fit": (
        ["task.method=dp-ogl-plus", "groups.members=[[0,1,2,3,4,5,6,7,8,9]]", "groups.mixing-period=3"],
        ["task.rounds", "2 epochs", "3"],
    ),
    "records in groups": (
        ["task.method=dp-sgd", "data.expected-records=100", "groups.members=[[0,1,2,3,4,5,6,7,8,9]]"],
        ["[groups]", "dp-sgd"],
    ),
    "cohort in groups": (
        ["groups.members=[[0,1,2,3,4,5,6,7,8,9]]", "sampling.clients.name=fixed-size", "sampling.clients.rate=0.5"],
        ["[groups]", "poisson"],
    ),
    "one rate for two groups": (
        ["groups.members=[[0,1,2,3,4,5],[5,6,7,8,9]]", "groups.rate=[0.5]"],
        ["groups.rate", "2 groups"],
    ),
    "cover traffic without coins": (
        ["sampling.clients.name=all", "sampling.clients.cover-traffic=true"],
        ["sampling.clients.cover-traffic", "poisson"],
    ),
    "more clients than records": (["data.clients=100000"], ["data.clients", "100000"]),
    "unreadable folder": (["data.name=mnist", "data.root=nowhere"], ["data.root", "nowhere"]),
    "unknown data": (["data.name=mnits"], ["data.name", "mnits"]),
    "unknown partition": (["data.partition=fair"], ["data.partition", "fair"]),
    "alpha zero": (["data.partition=dirichlet", "data.alpha=0.0"], ["data.alpha", "0.0"]),
    "unknown model": (["model.name=resnet"], ["model.name", "resnet"]),
    "unknown observer": (['privacy.observers=["publik"]'], ["publik", "public"]),
    "no such server": (['privacy.observers=["aux:2"]'], ["aux:2"]),
    "no observers": (["privacy.observers=[]"], ["privacy.observers"]),
    "unknown unit": (["privacy.unit=house"], ["privacy.unit", "house"]),
    "unit of another method": (["privacy.unit=record"], ["privacy.unit", "record"]),
    "unknown adjacency": (["privacy.adjacency=swap"], ["privacy.adjacency", "swap"]),
    "narrow ring": (["servers.ring-bits=16"], ["servers.ring-bits", "16"]),
    "too narrow ring": (
        ["task.method=dp-sgd", "data.expected-records=100000000", "data.max-records=100000000"],
        ["servers.ring-bits", "32"],
    ),
    "one server": (["servers.count=1"], ["servers.count", "1"]),
    "all corrupt": (["servers.corrupt=2"], ["servers.corrupt", "2"]),
    "unknown relay": (["servers.relay=aux:7"], ["servers.relay", "aux:7"]),
    "unknown host": (['servers.hosted-by=["client:0", "me"]'], ["servers.hosted-by", "me"]),
    "noise nowhere": (["privacy.noised-by=nobody"], ["privacy.noised-by", "nobody"]),
    "noise at the coordinator of shares": (
        ["task.method=dp-fedavg", "servers.count=2", "privacy.noised-by=server"],
        ["privacy.noised-by", "server"],
    ),
    "learning rate zero": (["training.learning-rate=0.0"], ["training.learning-rate", "0.0"]),
    "momentum one": (["training.momentum=1.0"], ["training.momentum", "1.0"]),
    "unknown optimizer": (["training.optimizer=lamb"], ["training.optimizer", "lamb"]),
    "steps and epochs": (["training.steps=5", "training.epochs=1"], ["training.steps", "training.epochs"]),
    "glob without a match": (['split.public="tail.*"'], ["split.public", "tail.*", "head.weight"]),
    "nothing public": (['split.private="*"'], ["split", "nothing public"]),
    "both sides": (['split.public="head.*"', 'split.private="*"'], ["split", "head.bias", "both sides"]),
    "neither side": (
        ["model.name=mlp", "split.public=head.*", "split.private=hidden.bias"],
        ["split", "hidden.weight", "neither"],
    ),
    "share of nothing": (["split.ratio=0.0"], ["split.ratio", "0.0"]),
    "share in words": (["split.ratio=half"], ["split.ratio", "half", "1:9"]),
    "ratio and names": (["split.ratio=0.5", "split.public=head.*"], ["split.ratio", "0.5"]),
    "model clipped for a public divisor": (
        ["task.method=ms-pafl", "privacy.noised-by=servers", "privacy.clip-mode=model"],
        ["privacy.clip-mode", "model", "realised"],
    ),
    "groups": (["groups.mixing-period=5"], ["groups"]),
    "private evaluation": (["evaluation.private=true", "evaluation.share=0.0"], ["evaluation.share", "0.0"]),
    "realised divisor": (["privacy.divisor=realised"], ["privacy.divisor", "realised"]),
    "unknown mechanism": (["privacy.mechanism=laplace"], ["privacy.mechanism", "laplace"]),
    "inexact noise": (["privacy.mechanism=float-gaussian"], ["privacy.delta", "sampler"]),
    "data that end the program": (["data.name=sys:exit"], ["data.name", "SystemExit"]),
    "a model that ends the program": (["model.name=sys:exit"], ["model.name", "SystemExit"]),
    "bad setting": (["rounds"], ["--set", "rounds"]),
    "no guarantee to calibrate": (
        ['privacy.observers=["aux:0+aux:1"]', "privacy.epsilon=8.0"],
        ["privacy.epsilon", "aux:0+aux:1"],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_one_sentence(tmp_path, monkeypatch, name):
    settings, said = WRONG[name]
    text = GOOD
    if name in ("epsilon zero", "no guarantee to calibrate"):
        text = GOOD.replace("noise-multiplier = 2.064\n", "")
        settings = [setting for setting in settings if not setting.startswith("privacy.noise-multiplier")]
        said = said or ["privacy.epsilon", "0.0"]
    result = invoke(tmp_path, monkeypatch, text, *(part for one in settings for part in ("--set", one)))
    assert result.exit_code == 2, result.output
    sentences = [line for line in result.stderr.splitlines() if line.startswith("onlooker: error: ")]
    assert len(sentences) == 1
    for word in said:
        assert word in sentences[0], sentences[0]
    assert "Traceback" not in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["run.toml"]


@pytest.mark.parametrize("epsilon", ["0.0", "-1.0", "nan", "inf"])
def test_an_impossible_epsilon(tmp_path, monkeypatch, epsilon):
    text = GOOD.replace("noise-multiplier = 2.064", f"epsilon = {epsilon}")
    result = invoke(tmp_path, monkeypatch, text)
    assert result.exit_code == 2
    assert f"privacy.epsilon = {epsilon}" in result.stderr


def test_the_line_is_named(tmp_path, monkeypatch):
    result = invoke(tmp_path, monkeypatch, GOOD.replace("clients = 10", "cleints = 10"))
    assert "run.toml, line 8: " in result.stderr
    result = invoke(tmp_path, monkeypatch, GOOD.replace("rounds = 2", 'rounds = "two"'))
    assert "run.toml, line 4: " in result.stderr


@pytest.mark.parametrize(
    "setting", ["task.rounds=two", "task.cleints=1", "sampling.clients.rate=[x]", "sampling.clients.rate=[0.5,true]"]
)
def test_a_wrong_option_is_not_blamed_on_a_line(tmp_path, monkeypatch, setting):
    result = invoke(tmp_path, monkeypatch, GOOD, "--set", setting)
    assert "error: --set: " in result.stderr and ", line " not in result.stderr
    result = invoke(tmp_path, monkeypatch, GOOD.replace("rounds = 2", 'rounds = "two"'), "--set", "privacy.clip=2.0")
    assert "run.toml, line 4: task.rounds" in result.stderr


def test_a_file_that_is_not_there_or_not_toml(tmp_path, monkeypatch):
    result = CliRunner().invoke(app, ["plan", str(tmp_path / "none.toml")])
    assert result.exit_code == 2 and "none.toml cannot be read: No such file or directory; name a" in result.stderr
    result = invoke(tmp_path, monkeypatch, "[task\n", command="plan")
    assert result.exit_code == 2 and "run.toml is not TOML" in result.stderr


def test_a_large_delta_is_a_warning(tmp_path, monkeypatch):
    result = invoke(tmp_path, monkeypatch, GOOD, "--set", "privacy.delta=0.1", "--json", command="plan")
    assert result.exit_code == 0
    assert "warning" in result.stderr and "privacy.delta = 0.1" in result.stderr
    json.loads(result.stdout)


def test_the_form_of_a_plan(tmp_path, monkeypatch):
    result = invoke(tmp_path, monkeypatch, GOOD, "--set", "task.rounds=40", "--json", command="plan")

    def refuse(word):
        raise ValueError(word)

    plan = json.loads(result.stdout, parse_constant=refuse)
    assert list(plan) == ["terms", "noise-multipliers", "rows"]
    assert plan["noise-multipliers"] == {"model": 2.064}
    assert len(plan["terms"]) == 64
    keys = [
        "subjects",
        "observers",
        "unit",
        "adjacency",
        "epsilon",
        "delta",
        "delta-sampler",
        "accountant",
        "amplified",
    ]
    assert all(list(row) == [*keys, "guarantee", "because", "assumed-not-proven"] for row in plan["rows"])
    by_observer = {observer: row for row in plan["rows"] for observer in row["observers"]}
    assert by_observer["public"]["epsilon"] == pytest.approx(7.9995, rel=5e-3)
    assert by_observer["aux:0"]["epsilon"] == pytest.approx(17.14, rel=5e-3)
    assert by_observer["aux:0"]["guarantee"] == "computational"
    assert by_observer["aux:0"]["subjects"] == ["client:0-9"]
    assert by_observer["aux:0+aux:1"]["epsilon"] is None
    assert by_observer["aux:0+aux:1"]["guarantee"] == "none"


def test_one_pair_can_be_asked_for(tmp_path, monkeypatch):
    arguments = ("--json", "--subject", "client:3", "--observer", "aux:1+client:4")
    (row,) = json.loads(invoke(tmp_path, monkeypatch, GOOD, *arguments, command="plan").stdout)["rows"]
    assert row["subjects"] == ["client:3"] and row["observers"] == ["aux:1+client:4"]
    result = invoke(tmp_path, monkeypatch, GOOD, "--subject", "client:10", command="plan")
    assert result.exit_code == 2 and "client:10" in result.stderr
