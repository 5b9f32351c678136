"""The honest no: whether noise will drown the signal is known before training (rule 15)."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from onlooker.cli import app
from onlooker.privacy.channel import Channel
from onlooker.privacy.example import terms
from onlooker.privacy.forecast import forecast
from onlooker.privacy.grid import Grid
from onlooker.privacy.mechanisms import RoundedGaussian
from onlooker.privacy.sampling import Everyone, PoissonRecords
from onlooker.privacy.summation import Plain, Shared
from onlooker.privacy.training import Training

ROOT = Path(__file__).resolve().parents[2]


def setting(z, size=6_500_000, rounds=30, servers=True):
    """FedDecouple's own: 10 clients, Poisson 0.5, two servers or one."""
    noised_by, summation = ("servers", Shared()) if servers else ("server", Plain())
    channel = Channel(size, RoundedGaussian(z), Grid(1.0, 16, 32), noised_by, summation, bounds=1.0)
    return replace(terms(z, rounds), channels=(channel,))


def test_the_papers_own_setting_learns_nothing():
    """At epsilon 8 (z = 1.8289, T = 30) the noise on the mean has norm 933 C by one server, sqrt(2) times by two."""
    assert forecast(setting(1.8289, servers=False)).noise_norm == pytest.approx(933, rel=2e-3)
    assert forecast(setting(1.8289)).noise_norm == pytest.approx(933 * 2**0.5, rel=2e-3)
    assert forecast(setting(1.8289)).drowned
    assert "more clients" in forecast(setting(1.8289)).sentence()


def test_at_epsilon_1_the_command_says_so_before_training(tmp_path):
    """The network of the paper as users name it, a factory of 6.5 million parameters, epsilon 1."""
    (tmp_path / "run.toml").write_text(
        '[task]\nmethod = "feddecouple"\nrounds = 40\n[data]\nname = "cifar10"\nroot = "."\nclients = 10\n'
        '[model]\nname = "networks:large"\n[privacy]\nepsilon = 1.0\ndelta = 1e-5\nobservers = ["public"]\n'
    )
    result = CliRunner().invoke(app, ["plan", str(tmp_path / "run.toml")])
    assert result.exit_code == 0, result.stderr
    assert "nothing will be learned" in result.stderr and "What would help" in result.stderr
    assert "6,492,808 parameters" in result.stdout


def test_many_records_are_not_warned_of():
    records = Training("nothing", PoissonRecords(0.04), 6000, 6000)
    channel = Channel(
        20_522,
        RoundedGaussian(1.31),
        Grid(1.0, 14, 32),
        "servers",
        Shared(),
        bounds=1.0,
        sums_records=True,
        max_records=6000,
    )
    silos = replace(
        setting(1.31), unit="record", sampling=Everyone(), training=records, channels=(channel,), rounds=600
    )
    expected = forecast(silos)
    assert not expected.drowned
    assert expected.noise_norm == pytest.approx(2**0.5 * 1.31 * 20_522**0.5 / 2400)


def test_what_would_help_does_help():
    drowned = setting(2.0, size=100_000)
    assert forecast(drowned).drowned
    assert forecast(setting(2.0, size=100)).whole_run < forecast(drowned).whole_run
    more = replace(drowned, clients=10_000)
    assert forecast(more).whole_run < forecast(drowned).whole_run / 900


def test_little_is_not_nothing():
    """Between once and five times the longest way a small model may learn something: "nothing" is not claimed there."""
    assert "little will be learned" in forecast(setting(0.5, size=20_000)).sentence()
    assert "nothing will be learned" in forecast(setting(5.0, size=20_000)).sentence()
