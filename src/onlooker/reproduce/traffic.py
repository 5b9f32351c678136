"""FedDecouple's tables 3, 4 and 6: bytes counted on what one client and its servers really send.

One row of the paper's network for MNIST goes through a `Channel`, is cut into shares, summed and sealed; the arrays
that leave are measured. Envelopes, signatures and the requests of a real network are not in it. What no run sends
(keys in the place of masks, and anything between servers) follows from how shares and noise are made, and says so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from onlooker import models
from onlooker.privacy import shares
from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid, choose_fraction_bits
from onlooker.privacy.mechanisms import NoNoise, RoundedGaussian
from onlooker.privacy.published import LABEL, feddecouple, printed_noise
from onlooker.privacy.random import Seeded, Stream
from onlooker.privacy.summation import Plain, Shared, Summation
from onlooker.reproduce.drawing import Drawing, Row, Table
from onlooker.reproduce.feddecouple import CLIENTS, COHORT, DELTA, PAPER

_KEY_BYTES = 32
_COUNTED = "measured: bytes of the arrays that are sent"
_KEYED = "by construction: a share and the keys of the others; no run sends keys"
_APART = "by construction: a server draws its own noise and adds its own shares, and sends the others nothing"
_NOTHING = 0
_ROUNDS = 40


@dataclass(frozen=True)
class Traffic:
    """What one round sends, in bytes.

    Attributes:
        parts: how many arrays one client sends, one to each summing party.
        upload: from one client, to all summing parties.
        sealed: from all summing parties to the coordinator.
        additions: of ring elements, by all summing parties, for one client.
    """

    parts: int
    upload: int
    sealed: int
    additions: int


def measure(size: int, summation: Summation, private: bool = True) -> Traffic:
    """Send one row of `size` parameters through a channel and count."""
    source, z = Seeded(0), 1.0
    row = np.full(size, 0.5 / math.sqrt(size))
    ring = 32 if isinstance(summation, Shared) else 64
    fraction = choose_fraction_bits(ring, COHORT, z, summation.servers, dimension=size, unit="client")
    by = "servers" if isinstance(summation, Shared) else "server"
    if private:
        channel = Channel(size, RoundedGaussian(z), Grid(1.0, fraction, ring), by, summation, bounds=1.0)
    else:
        channel = Channel(size, NoNoise(), None, "server")
    report = channel.shard(channel.encode(row, 0), 0, 1, source)
    sums = channel.empty()
    channel.aggregate(sums, report)
    sealed = channel.seal(sums, 1, source)
    return Traffic(
        parts=len(report.shares),
        upload=sum(share.nbytes for share in report.shares),
        sealed=sum(share.nbytes for share in sealed.shares),
        additions=sum(len(share) for share in report.shares),
    )


def keyed_upload(size: int, servers: int) -> int:
    """Bytes of one client's upload if each mask is sent as the key that it is expanded from.

    The shares are cut once more from known keys, and each server's mask is expanded from its key alone.
    """
    keys = [bytes([server]) * _KEY_BYTES for server in range(1, servers)]
    values = np.arange(size, dtype=np.uint32)
    difference, *masks = shares.split(values, servers, [Stream(key) for key in keys])
    for key, mask in zip(keys, masks, strict=True):
        assert np.array_equal(shares.mask(Stream(key), size, 32), mask)
    return difference.nbytes + sum(len(key) for key in keys)


def _size() -> int:
    return models.build("cnn-feddecouple", (1, 28, 28), 10, "classification").size


def table_6() -> Drawing:
    """Bytes of one round, by who sends to whom."""
    size = _size()
    plain, noisy, two = measure(size, Plain(), private=False), measure(size, Plain()), measure(size, Shared())
    floats = 4 * size

    def row(who: str, what: str, printed: str, counted: int, constructed: str = "") -> Row:
        cells, label = (who, what, printed, counted, counted / floats), constructed or _COUNTED
        factor = "" if printed == "-" else "; the printed factor is the paper's"
        return Row(cells, "constructed" if constructed else "measured", label + factor)

    rows = (
        row("client to coordinator", "fedavg, as run (64-bit floats)", "1 O(p)", plain.upload),
        row("client to coordinator", "dp-fedavg, as run (ring of 64 bits)", "-", noisy.upload),
        row("client to servers", "two shares (ring of 32 bits)", "2 O(p)", two.upload),
        row("client to servers", "one share and the other's key", "-", keyed_upload(size, 2), _KEYED),
        row("server to server", "each draws its own noise, and asks nobody", "O(1)", _NOTHING, _APART),
        row("servers to coordinator", "two sealed sums", "2 O(p)", two.sealed),
    )
    return Drawing(
        PAPER,
        "table-6",
        "Bytes of one round",
        f"One row of {size:,} parameters. The last column is in rows of 32-bit floats: twice the upload is not "
        "inherent to two servers, for a mask can travel as the key that it is expanded from.",
        tables=(Table(("who", "what", "as published", "bytes", "rows of 32-bit floats"), rows),),
    )


def table_3() -> Drawing:
    """What one more server costs, in bytes and additions."""
    size = _size()
    rows: list[Row] = []
    for servers in (2, 3):
        found = measure(size, Shared(count=servers))
        cells = (servers, found.upload, keyed_upload(size, servers), found.additions, found.sealed)
        rows.append(Row(cells, "measured", f"{_COUNTED}; with keys {_KEYED}"))
    columns = ("servers", "upload, bytes", "upload with keys, bytes", "additions for one client", "sealed sums, bytes")
    return Drawing(
        PAPER,
        "table-3",
        "Additive shares among two and three servers",
        f"One row of {size:,} parameters. The paper's threshold sharing is not built: the sums here are recovered by "
        "adding, and every server must answer.",
        tables=(Table(columns, tuple(rows)),),
    )


def table_4() -> Drawing:
    """What two and three servers protect from, with the printed noise and with enough of it."""
    z = printed_noise(8.0, COHORT / CLIENTS, _ROUNDS, DELTA).noise_multiplier
    rows = [
        _coalitions("2, each half the variance", 2, z / math.sqrt(2), LABEL),
        _coalitions("3, each (sigma / 3)^2", 3, z / 3, LABEL),
        _coalitions("2, one corrupt: each sigma", 2, z, "sound"),
        _coalitions("3, one corrupt: each sigma / sqrt(2)", 3, z / math.sqrt(2), "sound"),
        _coalitions("3, two corrupt: each sigma", 3, z, "sound"),
    ]
    columns = ("servers and their noise", "public", "coordinator", "one server", "two servers", "all servers")
    return Drawing(
        PAPER,
        "table-4",
        "Epsilon of one client against coalitions of servers",
        "T = 40, K = 10, 5 in a round, delta 1e-5, sigma as section 4.4.5 prints it for epsilon 8; one client "
        "replaced, priced at what noise is left. Three servers with (sigma / 3)^2 each add a third of the variance "
        "that is claimed. All servers together hold every share of every client, not only the sum. Below, the bytes of "
        f"one round for one row of {_size():,} parameters.",
        tables=(Table(columns, tuple(rows)), _bytes_by_servers()),
    )


def _bytes_by_servers() -> Table:
    """What one more server costs in bytes, beside what it protects from."""
    rows: list[Row] = []
    for servers in (2, 3):
        found = measure(_size(), Shared(count=servers))
        cells = (servers, found.parts, found.upload, found.sealed, _NOTHING)
        rows.append(Row(cells, "measured", f"{_COUNTED}; between servers {_APART}"))
    columns = ("servers", "shares of one client", "upload, bytes", "sealed sums, bytes", "between servers, bytes")
    return Table(columns, tuple(rows))


def _coalitions(name: str, servers: int, each: float, whose: str) -> Row:
    """The sound epsilons of servers that each add noise of multiplier `each`."""

    def seen(colluding: int) -> float | str:
        left = servers - colluding
        if left <= 0:
            return "no guarantee"
        return feddecouple.sound_seen(each * math.sqrt(left), _ROUNDS, DELTA, "servers").epsilon

    total = each * math.sqrt(servers)
    public = feddecouple.sound_public(total, COHORT, CLIENTS, _ROUNDS, DELTA).epsilon
    label = "sound epsilons, of noise that is " + (
        f"{whose}" if whose == LABEL else "enough for those that may collude"
    )
    return Row((name, public, seen(0), seen(1), seen(2), seen(servers)), "sound", label)
