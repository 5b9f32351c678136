"""All processes of a deployment on one machine: auxiliary servers, clients, a Flower SuperLink and its SuperNodes."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from processes import Failed, Processes

HOST = "127.0.0.1"
CONNECTION = "trial"
"""What `flwr` calls the SuperLink."""
_TOOLS = Path(sys.executable).parent


@dataclass(frozen=True)
class Federation:
    """Who there is, and where.

    Attributes:
        trial: the folder that `onlooker keys` wrote.
        app: the folder that `onlooker new` wrote, or one like it.
        clients: how many there are.
        servers: how many auxiliary servers there are.
        port: of the SuperLink; the SuperNodes have the next ones, for their own machine alone.
    """

    trial: Path
    app: Path
    clients: int
    servers: int
    port: int

    def begin(self, everyone: Processes) -> None:
        """Start all, each once those whom it needs are there.

        Raises:
            Failed: if one does not start.
        """
        for server in range(self.servers):
            everyone.start(f"aux{server}", [*ONLOOKER, "serve", self.trial / f"aux{server}.toml"])
        for client in range(self.clients):
            everyone.start(f"client{client}", [*ONLOOKER, "client", self.trial / f"client{client}.toml"])
        self._begin_superlink(everyone)
        for server in range(self.servers):
            everyone.wait_for(f"aux{server}", "serves task")
        for client in range(self.clients):
            everyone.wait_for(f"client{client}", "waits at")
        for client in range(self.clients):
            self._begin_supernode(everyone, client)
        for client in range(self.clients):
            everyone.wait_for(f"supernode{client}", "SuperNode ID")

    def submit(self, everyone: Processes, name: str) -> Iterator[str]:
        """Run the app, and yield what its ServerApp prints, line by line, until it ends."""
        setting = f'coordinator="{(self.trial / "coordinator.toml").resolve()}"'
        command = [_TOOLS / "flwr", "run", self.app, CONNECTION, "--run-config", setting, "--stream"]
        everyone.start(name, command, **self._home("coordinator"))
        for line in everyone.lines(name):
            _, mine, sentence = line.partition("onlooker: ")
            if mine:
                yield sentence
        if everyone.status(name):
            raise Failed(f"flwr run ended with status {everyone.status(name)}; see {name}.log.")

    def _begin_superlink(self, everyone: Processes) -> None:
        party = self.trial / "coordinator"
        command = [
            *(_TOOLS / "flower-superlink", "--host", HOST, "--port", str(self.port)),
            *("--ssl-certfile", party / "tls.pem", "--ssl-keyfile", party / "tls-key.pem"),
            *("--ssl-ca-certfile", self.trial / "authority.pem"),
            *("--enable-supernode-auth", "--disable-runtime-dependency-installation"),
        ]
        everyone.start("superlink", command, **self._home("coordinator"))
        _write_connection(party / "flwr" / "config.toml", self.port, self.trial / "authority.pem")
        everyone.wait_for("superlink", "Uvicorn running")
        for client in range(self.clients):
            key = self.trial / f"client{client}" / "supernode.pub"
            command = [_TOOLS / "flwr", "supernode", "register", key, CONNECTION]
            done = subprocess.run(
                list(map(str, command)), capture_output=True, text=True, env=os.environ | self._home("coordinator")
            )
            if done.returncode:
                raise Failed(f"the SuperNode of client{client} was not registered: {done.stderr or done.stdout}")

    def _begin_supernode(self, everyone: Processes, client: int) -> None:
        own = self.trial / f"client{client}"
        command = [
            *(_TOOLS / "flower-supernode", "--superlink", f"{HOST}:{self.port}"),
            *("--root-certificates", self.trial / "authority.pem"),
            *("--auth-supernode-private-key", own / "supernode"),
            *("--host", HOST, "--port", str(self.port + 1 + client)),
            *("--node-config", f"client={json.dumps(str((own / 'socket').resolve()))}"),
        ]
        everyone.start(f"supernode{client}", command, **self._home(f"client{client}"))

    def _home(self, party: str) -> dict[str, str]:
        """Nobody's own Flower folder is touched, and nobody is called: no telemetry, no look for updates."""
        return {
            "FLWR_HOME": str((self.trial / party / "flwr").resolve()),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.2",
            "PATH": f"{_TOOLS}{os.pathsep}{os.environ.get('PATH', '')}",
        }


ONLOOKER = (sys.executable, "-m", "onlooker")


def free_ports(count: int) -> int:
    """The first of so many ports next to each other that nobody uses, and that no connection is given by the system.

    Drawn, so that two who look at the same time hardly find the same.
    """
    firsts = list(range(20000, 32000, count))
    for first in random.sample(firsts, len(firsts)):
        if all(is_free(one) for one in range(first, first + count)):
            return first
    raise Failed(f"no {count} ports next to each other are free on {HOST}.")


def is_free(port: int) -> bool:
    """True if nobody listens there."""
    with socket.socket() as found:
        try:
            found.bind((HOST, port))
        except OSError:
            return False
        return True


def _write_connection(path: Path, port: int, authority: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        "[superlink]",
        f'default = "{CONNECTION}"',
        f"[superlink.{CONNECTION}]",
        f'address = "{HOST}:{port}"',
        f"root-certificates = {json.dumps(str(authority.resolve()))}",
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
