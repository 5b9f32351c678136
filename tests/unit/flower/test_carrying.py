"""What Flower carries between the coordinator and `onlooker client`, and what is said when it carries nothing."""

from __future__ import annotations

import logging
import subprocess
import sys
from dataclasses import dataclass, field

import pytest
from flwr.app import Context, Error, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from onlooker.deployment.http import many
from onlooker.errors import ConfigError, FolderError
from onlooker.flower import apps
from onlooker.flower.bodies import body_of, content_of, message_of
from onlooker.flower.courier import Courier
from onlooker.secagg.messages import Greeting
from onlooker.secagg.wire import packed

TASK = bytes(range(32))


@pytest.fixture(autouse=True)
def _in_a_run(monkeypatch):
    """As in the process that Flower starts for an app."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@dataclass
class Nodes:
    """A grid whose nodes answer as they are told: with bytes, with an error, or not at all."""

    answers: dict
    sent: list = field(default_factory=list)

    def get_node_ids(self):
        return list(self.answers)

    def push_messages(self, messages):
        self.sent += messages
        return [str(len(self.sent) - len(messages) + place) for place in range(len(messages))]

    def pull_messages(self, awaited):
        replies = []
        for one in sorted(awaited, key=int):
            message = self.sent[int(one)]
            answer = self.answers[message.metadata.dst_node_id]
            if answer is None:
                continue
            content = Error(1000, "no report") if answer == b"error" else content_of(answer)
            reply = Message(content, reply_to=message)
            reply.metadata.__dict__["_reply_to_message_id"] = one
            replies.append(reply)
        return replies


def test_clients_are_those_who_greet_for_the_task():
    greetings = {
        7: packed(Greeting(TASK, 2)),
        8: packed(Greeting(bytes(32), 1)),
        9: b"error",
        10: b"nothing that is known",
    }
    courier = Courier(Nodes(greetings), TASK)
    assert courier.present() == {2}


def test_a_node_is_asked_once_who_it_is_and_a_stranger_again():
    nodes = Nodes({7: packed(Greeting(TASK, 2)), 9: b"error"})
    courier = Courier(nodes, TASK)
    courier.present()
    nodes.answers[9] = packed(Greeting(TASK, 0))
    assert courier.present() == {0, 2}
    assert [message.metadata.dst_node_id for message in nodes.sent] == [7, 9, 9]
    del nodes.answers[7]
    assert courier.present() == {0}


def test_reports_come_back_and_what_is_none_is_left_out():
    nodes = Nodes({node: packed(Greeting(TASK, node - 7)) for node in (7, 8, 9)})
    courier = Courier(nodes, TASK)
    courier.present()
    nodes.answers.update({7: many([b"one", b"two"]), 8: b"no list", 9: b"error"})
    found = list(courier.ask(3, {0: b"to 0", 1: b"to 1", 2: b"to 2", 5: b"to nobody"}, 60.0))
    assert found == [b"one", b"two"]
    asked = nodes.sent[3:]
    assert [body_of(message) for message in asked] == [b"to 0", b"to 1", b"to 2"]
    assert {message.metadata.ttl for message in asked} == {60.0} and asked[0].metadata.group_id == "3"


def test_whoever_is_silent_is_waited_for_as_long_as_said():
    nodes = Nodes({7: packed(Greeting(TASK, 0))})
    courier = Courier(nodes, TASK)
    courier.present()
    nodes.answers[7] = None
    assert list(courier.ask(1, {0: b"to 0"}, 0.2)) == []


def context(**node_config):
    return Context(1, 7, node_config, RecordDict(), {})


@pytest.mark.parametrize("config", [{}, {"client": 3}, {"client": "/nowhere/at/all"}], ids=["none", "number", "gone"])
def test_why_there_is_no_report_is_said_where_the_node_is_and_nowhere_else(config, capsys):
    asked = message_of(b"come", 7, "train", 1, 5.0)
    reply = apps.client_app(asked, context(**config))
    assert reply.has_error() and (reply.error.code, reply.error.reason) == (1000, "no report")
    said = capsys.readouterr().out
    assert said.startswith("onlooker: error: ") and said.count("\n") == 1


@pytest.mark.parametrize("config", [{}, {"coordinator": ""}, {"coordinator": "/nowhere/coordinator.toml"}])
def test_a_run_without_its_file_fails_in_a_sentence(config, caplog):
    error = pytest.raises(ConfigError, apps.server_app, Nodes({}), Context(1, 0, {}, RecordDict(), config)).value
    logger = logging.getLogger("flwr")
    try:
        with caplog.at_level(logging.ERROR):
            logger.addHandler(caplog.handler)
            logger.error("%s raised an exception", "ServerApp", exc_info=error)
    finally:
        logger.removeHandler(caplog.handler)
        logger.removeFilter(apps._in_a_sentence)
    record = caplog.records[-1]
    assert record.getMessage() == f"onlooker: error: {error}" and record.exc_info is None


def test_errors_of_others_are_logged_whole():
    record = logging.LogRecord("flwr", 40, "", 1, "what", (), (ValueError, ValueError("other"), None))
    assert apps._in_a_sentence(record) and record.exc_info is not None
    record.exc_info = (FolderError, FolderError("a sentence."), None)
    assert apps._in_a_sentence(record) and record.getMessage() == "onlooker: error: a sentence."


def test_an_app_does_not_wait_for_what_only_a_coordinator_needs():
    look = "import sys, onlooker.flower; print([one for one in ('torch', 'pydantic', 'uvicorn') if one in sys.modules])"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done


def test_strategies_are_found_by_name_and_other_names_are_not():
    import onlooker.flower

    assert onlooker.flower.DPSGD.methods == ("dp-sgd",)
    with pytest.raises(AttributeError, match="has no attribute 'DPSDG'"):
        _ = onlooker.flower.DPSDG
