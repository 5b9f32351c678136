"""From a file and `--set` options to a `Configuration`, with errors that name the key and the line."""

from __future__ import annotations

import difflib
import re
import tomllib
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from onlooker.config.schema import Configuration, Table
from onlooker.errors import ConfigError

File = TypeVar("File", bound=Table)
_WANTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "a text in quotes",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "greater_than_equal": "at least 1",
    "literal_error": "one of the words that it knows",
}


def load(path: Path, settings: Iterable[str] = ()) -> Configuration:
    """Read a configuration file.

    Args:
        path: the TOML file.
        settings: `table.key=value` options that override it, each value as TOML would write it, or a bare word.

    Raises:
        ConfigError: if it cannot be read, or a table, key, type or option is wrong: one sentence for the first fault.
    """
    return parse(_text(path), settings, path.name)


def read(kind: type[File], path: Path) -> File:
    """Read a file of another kind, whose keys are those of a `Table`, with the same care.

    Raises:
        ConfigError: as `load`.
    """
    text = _text(path)
    return _checked(kind, _table(text, path.name), text, path.name, [])


def parse(text: str, settings: Iterable[str] = (), name: str = "run.toml") -> Configuration:
    """As `load`, from the text of a file called `name`."""
    table = _table(text, name)
    return _checked(Configuration, table, text, name, [_override(table, setting) for setting in settings])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise ConfigError(f"the configuration {path} cannot be read: {reason}; name a TOML file.") from error


def _table(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and lists as deep
        raise ConfigError(f"{name} is not TOML: {error}.") from error


def _checked(kind: type[File], table: dict[str, Any], text: str, name: str, options: list[list[str]]) -> File:
    try:
        return kind.model_validate(table)
    except ValidationError as error:
        faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")  # a misspelt table first
        raise ConfigError(_sentence(kind, faults[0], text, name, options)) from error


def _override(table: dict[str, Any], setting: str) -> list[str]:
    """Set one key, and give its path."""
    key, separator, value = setting.partition("=")
    *tables, last = key.strip().split(".")
    if not separator or not tables or not last:
        raise ConfigError(f'--set "{setting}" must be of the form table.key=value, such as --set privacy.epsilon=4.')
    for name in tables:
        inner: object = table.setdefault(name, {})
        if not isinstance(inner, dict):
            raise ConfigError(f'--set "{setting}" goes through {name}, which is a value and not a table.')
        table = cast(dict[str, Any], inner)
    try:
        read = tomllib.loads(f"value = {value.strip()}")
    except (ValueError, RecursionError):
        read = {"value": value.strip()}
    if len(read) > 1:
        raise ConfigError(f'--set "{setting}" sets more than one key; write one --set for each.')
    table[last] = read["value"]
    return [*tables, last]


def _sentence(kind: type[Table], error: ErrorDetails, text: str, name: str, options: list[list[str]]) -> str:
    # pydantic adds the tried type to the path of a union; keys of ours are lower case and hold no brackets.
    path = [str(part) for part in error["loc"] if isinstance(part, int) or re.fullmatch(r"[^\[\]()]+", str(part))]
    path = [part for part in path if part not in ("float", "int", "str", "bool")]
    if error["type"] == "extra_forbidden":
        path = [str(part) for part in error["loc"]]
    key = ".".join(path)
    where = _line(path, text)
    prefix = f"{name}, line {where}: " if where else f"{name}: "
    if any(path[: len(option)] == option for option in options):
        prefix = "--set: "
    if error["type"] == "extra_forbidden":
        return f"{prefix}{_unknown(kind, path)}"
    if error["type"] == "missing":
        return f"{prefix}{key} is missing; name it."
    if error["type"] == "literal_error":
        return f"{prefix}{key} = {_shown(error['input'])} must be {error['ctx']['expected']}."  # type: ignore[typeddict-item]
    wanted = _WANTED.get(error["type"], error["msg"].lower())
    return f"{prefix}{key} = {_shown(error['input'])} must be {wanted}."


def _unknown(kind: type[Table], path: list[str]) -> str:
    known = _known(kind, path[:-1])
    nearest = difflib.get_close_matches(path[-1], known, 1, 0.0)[0]
    what = "table" if len(path) == 1 or path[-1] in ("clients", "records") and path[0] == "sampling" else "key"
    where = f"[{'.'.join(path[:-1])}]" if len(path) > 1 else "a configuration"
    return f'the {what} "{path[-1]}" is not known in {where}; the nearest known name is "{nearest}".'


def _known(table: type[Table], path: list[str]) -> list[str]:
    """The keys of the table at `path`."""
    for name in path:
        field = next(field for field in table.model_fields.values() if field.alias == name)
        candidates = [field.annotation, *get_args(field.annotation)]
        table = next(one for one in candidates if isinstance(one, type) and issubclass(one, Table))
    return [field.alias or "" for field in table.model_fields.values()]


def _line(path: list[str], text: str) -> int | None:
    """The line of a key, found by reading headers and keys as they stand; None where it came by other ways."""
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[+\s*([^\]]+?)\s*\]+", line):
            table = [part.strip().strip("\"'") for part in header[1].split(".")]
            if table == path:
                return number
        elif assignment := re.match(r"\s*([A-Za-z0-9_.\"'-]+)\s*=", line):
            key = table + [part.strip("\"'") for part in assignment[1].split(".")]
            if key == path[: len(key)]:
                return number
    return None


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, bool):
        return str(value).lower()
    return "a table" if isinstance(value, (Mapping, types.MappingProxyType)) else str(value)
