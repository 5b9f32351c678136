"""What a channel lets out: bounded record by record, summed whole, wide enough, and digested to the last byte."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from onlooker import config
from onlooker.privacy.channel import Channel
from onlooker.privacy.grid import Grid, choose_fraction_bits
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.observers import TABLE
from onlooker.privacy.random import Seeded
from onlooker.privacy.rounding import rounded_gaussian
from onlooker.privacy.summation import Shared

SIZE, BITS = 400, 12

# The table as it is printed: what each role sees, and whether it sees who takes part.
WHO_SEES_WHAT = {
    ("server", "plain"): {
        "coordinator": ("raw", True),
        "relay": ("release", True),
        "client": ("release", False),
        "public": ("release", False),
    },
    ("clients", "plain"): {
        "coordinator": ("rows", True),
        "relay": ("rows", True),
        "client": ("release", True),
        "public": ("release", True),
    },
    ("clients", "shares"): {
        "coordinator": ("release", False),
        "relay": ("release", True),
        "auxiliary server": ("release", True),
        "all servers": ("rows", True),
        "client": ("release", True),
        "public": ("release", True),
    },
    ("servers", "shares"): {
        "coordinator": ("release", False),
        "relay": ("release", True),
        "auxiliary server": ("release", True),
        "all servers": ("raw", True),
        "client": ("release", False),
        "public": ("release", False),
    },
}


def test_the_table_of_who_sees_what_is_the_one_that_is_printed():
    found = {
        key: {role: (sight.sees, sight.participation) for role, sight in row.items()} for key, row in TABLE.items()
    }
    assert found == WHO_SEES_WHAT


def summing(clip=0.5, z=0.0):
    """A channel whose rows are sums of up to 64 records."""
    return Channel(
        SIZE,
        RoundedGaussian(z),
        Grid(clip, BITS, 32),
        "servers",
        Shared(),
        bounds=clip,
        sums_records=True,
        max_records=64,
    )


def moved(one, record_norm):
    """How far, in units, one record with equal coordinates moves a rounded sum just below the half of a unit."""
    unit = one.grid.clip / 2**BITS
    others = np.full(SIZE, 0.4999 * unit)
    record = np.full(SIZE, record_norm / math.sqrt(SIZE))
    return np.linalg.norm(one.encode(others + record, 0) - one.encode(others, 0))


def test_one_record_moves_a_rounded_sum_by_at_most_the_clip():
    """At C' it does; a record of the whole clip would be lifted over it by rounding (rule 8b)."""
    one = summing()
    assert one.record_clip < one.grid.clip
    assert 0.98 * 2**BITS < moved(one, one.record_clip) <= 2**BITS < moved(one, one.grid.clip)


def test_a_sum_of_records_is_as_long_as_its_records_make_it():
    one = summing()
    row = np.zeros(SIZE)
    row[3] = 20 * one.record_clip
    assert one.encode(row, 0)[3] == round(20 * one.record_clip / one.grid.clip * 2**BITS)


@pytest.mark.parametrize("changed", [0, 1])
def test_a_digest_is_of_every_server_s_bytes(changed):
    one, source = replace(summing(), sums_records=False), Seeded(3)
    sealed = one.seal(one.empty(), 1, source)
    shares = [share.copy() for share in sealed.shares]
    shares[changed][7] += np.uint32(1)
    assert replace(sealed, shares=tuple(shares)).digest != sealed.digest


@pytest.mark.parametrize("z", [0.5, 1000.0, 1024.1, 5000.0, 1e5])
@pytest.mark.parametrize("ring", [32, 64])
def test_noise_is_never_wider_than_its_sampler_reaches(z, ring):
    """A plan that is accepted can draw its noise: found out before the run, not in its first round."""
    bits = choose_fraction_bits(ring, 10, z, 1, dimension=100, unit="client")
    assert len(rounded_gaussian(z * 2**bits, 10, Seeded(1).stream("x"))) == 10


@pytest.mark.parametrize("noised_by", ["servers", "clients"])
@pytest.mark.parametrize("z", [1.0, 50.0, 3000.0])
def test_a_sum_with_all_its_noises_stays_within_a_quarter_of_the_ring(noised_by, z):
    """Whoever adds them: a hundred clients' noises are wider than two servers'."""
    settings = {"task.method": "dp-fedavg", "data.name": "digits", "data.clients": 100, "model.name": "logistic"}
    settings |= {"servers.count": 2, "sampling.clients.name": "all", "privacy.noised-by": noised_by}
    table = [f"{key}={value}" for key, value in (settings | {"privacy.noise-multiplier": z}).items()]
    (one,) = config.prepare(config.parse("", table), Path()).agreement.terms.channels
    widest = 100 + 6 * one.deviation(100) / one.grid.clip
    assert widest * 2.0**one.grid.fraction_bits <= 2**30 < 4 * widest * 2.0**one.grid.fraction_bits
