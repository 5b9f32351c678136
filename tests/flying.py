"""A whole Flower federation on loopback, and a tap on what passes between a SuperNode and its client."""

from __future__ import annotations

import http.client
import os
import socket
import socketserver
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

from federation import ONLOOKER, Federation, free_ports
from processes import processes

SERVERS = 2


def onlooker(*words):
    done = subprocess.run([*ONLOOKER, *map(str, words)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Tap(socketserver.ThreadingUnixStreamServer):
    """Where a SuperNode believes its client to be, to see what passes: what each answer came to, in bytes."""

    def __init__(self, path, behind):
        super().__init__(str(path), None)
        self.behind, self.answers = str(behind), []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def finish_request(self, request, client_address):
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(self.behind)
        asked = request.makefile("rb")
        _, path, _ = asked.readline().decode().split()
        headers = http.client.parse_headers(asked)
        connection.request("POST", path, asked.read(int(headers["content-length"])))
        response = connection.getresponse()
        body = response.read()
        if path == "/1/answer":
            self.answers.append(body)
        request.sendall(f"HTTP/1.1 {response.status} -\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        connection.close()


def prepared(folder, clients, rounds, least):
    app, trial, port = folder / "app", folder / "trial", free_ports(SERVERS + 1 + clients)
    onlooker("new", app)
    job = (app / "job.toml").read_text()
    changes = {"rounds = 10": f"rounds = {rounds}", "clients = 4": f"clients = {clients}", "= 350": "= 700"}
    for before, after in (changes | {"min-batch = 3": f"min-batch = {least}"}).items():
        assert before in job
        job = job.replace(before, after)
    (app / "job.toml").write_text(job)
    onlooker("keys", trial, "--job", app / "job.toml", "--port", port)
    return Federation(trial, app, clients, SERVERS, port + SERVERS)


def children_of(folder):
    """The processes that were started for a federation in this folder, by what they run."""
    found = {}
    for process in Path("/proc").iterdir():
        try:
            if f"FLWR_HOME={folder}".encode() in (process / "environ").read_bytes():
                found[int(process.name)] = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, ValueError):
            continue
    return found


@contextmanager
def tapped(federation, logs, tap=None):
    """Everybody at work, with a tap before each client."""
    taps = []
    for client in range(federation.clients):
        own = federation.trial / f"client{client}.toml"
        own.write_text(own.read_text().replace(f"client{client}/socket", f"client{client}/behind"))
        place = federation.trial / f"client{client}"
        taps.append((tap or Tap)(place / "socket", place / "behind"))
    with processes(logs, os.environ | {"OMP_NUM_THREADS": "1"}) as everyone:
        federation.begin(everyone)
        yield everyone, taps
    for one in taps:
        one.shutdown()
        one.server_close()
