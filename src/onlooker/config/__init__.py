"""One TOML file, checked whole before anything else happens, and what it builds."""

from onlooker.config.build import Prepared, as_toml, changed, prepare, sides_of, study, warnings_of
from onlooker.config.environment import environment
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
    "environment",
    "load",
    "parse",
    "prepare",
    "read",
    "sides_of",
    "study",
    "warnings_of",
]
