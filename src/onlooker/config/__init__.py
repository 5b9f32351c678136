"""One TOML file, checked whole before anything else happens, and what it builds."""

from onlooker.config.build import (
    Prepared,
    as_toml,
    changed,
    data_settings,
    prepare,
    sides_of,
    study,
    warnings_of,
    without_seed,
)
from onlooker.config.environment import deployed, environment
from onlooker.config.load import load, parse, read
from onlooker.config.schema import Configuration, Table
from onlooker.config.terms import Agreement

__all__ = [
    "Agreement",
    "Configuration",
    "Prepared",
    "Table",
    "as_toml",
    "changed",
    "data_settings",
    "deployed",
    "environment",
    "load",
    "parse",
    "prepare",
    "read",
    "sides_of",
    "study",
    "warnings_of",
    "without_seed",
]
