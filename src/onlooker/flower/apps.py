"""The two apps of a configuration file: a ServerApp that coordinates, and a ClientApp that hands on.

Flower starts a process anew for every message to a ClientApp, so what only the ServerApp needs is imported by it alone.
"""

from __future__ import annotations

import logging
from pathlib import Path

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from onlooker.deployment.desk import ANSWER, GREET, ask_at
from onlooker.errors import ConfigError, OnlookerError
from onlooker.flower.bodies import GREETING, body_of, content_of

_SECONDS = 3600.0
"""That a client may train, as far as its ClientApp is concerned."""
_REFUSED = 1000
"""The code of a reply without a report; why is the client's own affair, and stands in its terminal."""

server_app = ServerApp()
client_app = ClientApp()


@server_app.main()
def _serve(grid: Grid, context: Context) -> None:
    """Run the task of the file that `--run-config 'coordinator="FILE"'` names."""
    from onlooker.flower.strategies import Deployment

    try:
        file = context.run_config.get("coordinator")
        if not isinstance(file, str) or not file:
            raise ConfigError(
                "the run configuration names no coordinator; say --run-config 'coordinator=\"FILE\"' with the whole "
                "path of coordinator.toml."
            )
        strategy = Deployment(Path(file).expanduser(), _say)
        strategy.summary()
        strategy.start(grid)
        _say(str(strategy.own.run))
    except OnlookerError:
        logging.getLogger("flwr").addFilter(_in_a_sentence)
        raise  # Flower has to know that the run failed


@client_app.query()
def _greet(message: Message, context: Context) -> Message:
    return _answer(message, context, GREET, GREETING)


@client_app.train()
def _train(message: Message, context: Context) -> Message:
    return _answer(message, context, ANSWER, _SECONDS)


def _answer(message: Message, context: Context, what: str, seconds: float) -> Message:
    """What the client process of this machine says; or nothing, which looks the same whatever the reason."""
    path = context.node_config.get("client")
    try:
        if not isinstance(path, str):
            raise ConfigError("--node-config names no client; write client='PATH', the socket of `onlooker client`.")
        body = ask_at(Path(path).expanduser(), "onlooker client", what, body_of(message) or b"", seconds)
    except OnlookerError as error:
        _say(f"error: {error}")
        return Message(Error(_REFUSED, "no report"), reply_to=message)
    return Message(content_of(body), reply_to=message)


def _in_a_sentence(record: logging.LogRecord) -> bool:
    """Let Flower log an error of ours as the sentence that it is, and not by where in the code it rose."""
    error = record.exc_info[1] if record.exc_info else None
    if isinstance(error, OnlookerError):
        record.msg, record.args, record.exc_info = f"onlooker: error: {error}", (), None
    return True


def _say(sentence: str) -> None:
    print(f"onlooker: {sentence}", flush=True)
