"""The two apps of a configuration file: a ServerApp that coordinates, and a ClientApp that hands on."""

from __future__ import annotations

from pathlib import Path

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from onlooker.deployment.client import ANSWER, GREET
from onlooker.deployment.http import ask_at
from onlooker.errors import ConfigError, OnlookerError
from onlooker.flower.courier import GREETING, body_of, content_of
from onlooker.flower.strategies import Deployment

_SECONDS = 3600.0
"""That a client may train, as far as its ClientApp is concerned."""
_REFUSED = 1000
"""The code of a reply without a report; why is the client's own affair, and stands in its terminal."""

server_app = ServerApp()
client_app = ClientApp()


@server_app.main()
def _serve(grid: Grid, context: Context) -> None:
    """Run the task of the file that `--run-config 'coordinator="FILE"'` names."""
    file = context.run_config.get("coordinator")
    if not isinstance(file, str):
        raise ConfigError('the run configuration names no coordinator; write coordinator = "coordinator.toml".')
    strategy = Deployment(Path(file).expanduser(), lambda sentence: print(sentence, flush=True))
    strategy.summary()
    strategy.start(grid)
    print(strategy.own.run, flush=True)


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
        body = ask_at(Path(path), "onlooker client", what, body_of(message) or b"", seconds)
    except OnlookerError as error:
        print(error, flush=True)
        return Message(Error(_REFUSED, "no report"), reply_to=message)
    return Message(content_of(body), reply_to=message)
