"""What auxiliary servers take: a client's report, a server's absorbing of it, memory, and a round of many clients.

`python -m benchmarks.auxiliary_servers` measures one report of 6.5 million parameters on one core, beside rates of the
machine itself taken in the same run; then a round of `--clients` reports of `--size` parameters through two servers,
which are processes of their own on loopback, with TLS.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from onlooker import config
from onlooker.deployment.conductor import Conductor
from onlooker.deployment.ends import Ends
from onlooker.deployment.files import Credentials, shared, signing_key
from onlooker.deployment.http import Link
from onlooker.deployment.keys import write
from onlooker.privacy.random import System
from onlooker.privacy.terms import Terms
from onlooker.secagg import coordinator
from onlooker.secagg.aggregator import Aggregator
from onlooker.secagg.agreement import Context, Task
from onlooker.secagg.envelope import EnvelopeKey
from onlooker.secagg.memory import heard
from onlooker.secagg.messages import Announcement, Report
from onlooker.secagg.reports import deliveries, report
from onlooker.secagg.secret import Secret
from onlooker.secagg.store import Store
from onlooker.secagg.wire import packed

LONG = 6_500_000
JOB = """
[task]
method = "feddecouple"
rounds = 2
[data]
name = "digits"
clients = {clients}
[model]
name = "logistic"
[sampling.clients]
name = "all"
[servers]
count = 2
[privacy]
noise-multiplier = 1.0
delta = 1e-7
"""


def terms_of(clients: int, size: int) -> Terms:
    """A task of so many clients, whose sum has so many elements."""
    terms = config.prepare(config.parse(JOB.format(clients=clients)), Path()).agreement.terms
    return replace(terms, channels=(replace(terms.channels[0], size=size),))


def milliseconds(step: Callable[[], object], times: int = 5) -> float:
    """CPU time of this process, the median."""
    spent: list[float] = []
    for _ in range(times):
        start = time.process_time()
        step()
        spent.append(time.process_time() - start)
    return 1e3 * statistics.median(spent)


def machine(size: int) -> dict[str, float]:
    """The machine's own rates for as many bytes, in milliseconds."""
    encryptor = Cipher(algorithms.AES256(bytes(32)), modes.CTR(bytes(16))).encryptor()
    zeros, drawn = memoryview(bytes(2**17)), memoryview(bytearray(2**17))
    count, content = -(-size // 2**17), bytes(size)
    source, target = np.ones(size // 4, np.uint32), np.zeros(size // 4, np.uint32)
    return {
        "AES-256-CTR": milliseconds(lambda: [encryptor.update_into(zeros, drawn) for _ in range(count)]),
        "copy": milliseconds(lambda: np.copyto(target, source)),
        "SHA-256": milliseconds(lambda: hashlib.sha256(content).digest()),
    }


def one_report(folder: Path) -> None:
    """A report of `LONG` elements: made by a client, absorbed by each server."""
    terms, keys = terms_of(8, LONG), [Ed25519PrivateKey.generate() for _ in range(11)]
    public = [key.public_key().public_bytes_raw() for key in keys]
    task = Task(bytes(32), terms, public[0], tuple(public[1:3]), tuple(public[3:]))
    servers: list[Aggregator] = []
    for number in range(2):
        store, secret = Store(folder / f"aux{number}.db"), Secret.generate(number)
        servers.append(Aggregator(task, number, keys[1 + number], EnvelopeKey.generate(), secret, store))
    for number, server in enumerate(servers):
        nonce = server.memory.nonce
        server.memory.recall(heard(task, "coordinator", number, nonce, [], keys[0]))
        server.memory.recall(servers[1 - number].memory.heard_from(number, nonce))
    context = Context(task, 1, 0, bytes(32))
    commitments = [server.open(coordinator.opening(context, keys[0])) for server in servers]
    for number, word in enumerate(commitments):
        servers[1 - number].hear(word)
    announcements = coordinator.announced(task, [server.announcement() for server in servers])
    (channel,), row = context.channels, _row(LONG)
    bodies = [_parts(context, client, row, announcements, keys[3 + client]) for client in range(5)]
    rates = machine(4 * LONG)
    print(f"a report of {LONG:,} elements, {4 * LONG / 1e6:.0f} MB, in ms of one core:")
    for name, spent in rates.items():
        print(f"  {'machine: ' + name:32} {spent:6.1f}")
    shared_out = milliseconds(lambda: channel.shard(channel.encode(row, 0), 0, 1, System()))
    print(f"  {'client: encode and share':32} {shared_out:6.1f}   {1e6 * shared_out / LONG:.1f} ns an element")
    whole = milliseconds(lambda: _parts(context, 5, row, announcements, keys[8]))
    print(f"  {'client: the whole report':32} {whole:6.1f}   {1e6 * whole / LONG:.1f} ns an element")
    for number, server in enumerate(servers):
        waiting = iter(bodies)
        spent = milliseconds(lambda server=server, number=number, waiting=waiting: server.report(next(waiting)[number]))
        share = min(rates["AES-256-CTR"], rates["copy"]) / spent, rates["AES-256-CTR"] / spent
        print(f"  {f'aux:{number}: absorb':32} {spent:6.1f}   {share[1]:.2f} of the rate of AES-256-CTR")


def _row(size: int) -> np.ndarray:
    row = np.random.default_rng(0).standard_normal(size)
    return 0.5 * row / np.linalg.norm(row)


def _parts(
    context: Context, client: int, row: np.ndarray, announcements: list[Announcement], key: Ed25519PrivateKey
) -> list[bytes]:
    return [packed(one) for one in deliveries(_report(context, client, row, announcements, key))]


def _report(
    context: Context, client: int, row: np.ndarray, announcements: list[Announcement], key: Ed25519PrivateKey
) -> Report:
    return report(context, client, {context.channels[0].name: row}, announcements, key, System())


def a_round(folder: Path, clients: int, size: int) -> None:
    """A round of many clients through two servers, each a process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    write(folder / "t", terms_of(clients, size), "", ["127.0.0.1"], (port, port + 1), 10.0)
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "onlooker", "serve", str(folder / "t" / f"aux{number}.toml")],
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(2)
    ]
    try:
        for one in started:
            assert one.stdout is not None
            one.stdout.readline()
        before = [_memory(one.pid, "VmRSS") for one in started]
        seconds = asyncio.run(_played(folder / "t", clients, size))
        after = [_memory(one.pid, "VmHWM") for one in started]
    finally:
        for one in started:
            one.terminate()
            one.wait(20)
    print(f"{clients:,} clients of {size:,} parameters through two servers on loopback, TLS, one coordinator:")
    for name, spent in seconds.items():
        print(f"  {name:32} {spent:6.1f} s   {1e3 * spent / clients:.1f} ms a client")
    for number, (first, most) in enumerate(zip(before, after, strict=True)):
        grown = (most - first) / (4 * size / 2**20)
        print(f"  aux:{number}: {first:.0f} MiB before, {most:.0f} MiB at most: {grown:.0f} times a row of a report")


def _memory(pid: int, name: str) -> float:
    """In MiB, as the system tells it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) / 1024


async def _played(folder: Path, clients: int, size: int) -> dict[str, float]:
    """Seconds of each part."""
    found = shared(folder / "task.toml")
    own = folder / "coordinator"
    credentials = Credentials(own / "tls.pem", own / "tls-key.pem", folder / "authority.pem")
    links = [Link(f"aux:{number}", one, credentials) for number, one in enumerate(found.addresses)]
    conductor = Conductor(found.task, signing_key(own / "signing.pem"), links, 600.0, Ends(None, 2))
    context, row, sealing = Context(found.task, 1, 0, bytes(32)), _row(size), 0.0
    await conductor.open(context)
    announcements = coordinator.announced(found.task, await conductor.announcements())
    began = time.perf_counter()
    for client in range(clients):
        start = time.perf_counter()
        key = signing_key(folder / f"client{client}" / "signing.pem")
        made = _report(context, client, row, announcements, key)
        sealing += time.perf_counter() - start
        await conductor.deliver(made)
    delivered = time.perf_counter() - began - sealing
    began = time.perf_counter()
    await conductor.finish(context, clients)
    finished = time.perf_counter() - began
    for link in links:
        await link.close()
    return {
        "clients' sealing, one after another": sealing,
        "delivery to both servers": delivered,
        "sum and noise": finished,
    }


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--size", type=int, default=1_000_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        one_report(Path(folder))
    with tempfile.TemporaryDirectory() as folder:
        a_round(Path(folder), asked.clients, asked.size)


if __name__ == "__main__":
    main()
