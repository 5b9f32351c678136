"""One voice for impossible values: each check raises `TermsError` with the key, the value and what would do.

A key is written as an argument's name, with `__` for the dot between table and key and `_` for a hyphen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from onlooker.errors import TermsError

_LEAST_MULTIPLIER = 1e-9


def positive(**values: float) -> None:
    """Refuse a value that is not a finite number above 0.

    >>> positive(privacy__clip=1.0)
    >>> positive(privacy__clip=-1.0)
    Traceback (most recent call last):
    onlooker.errors.TermsError: privacy.clip = -1.0 must be a finite number above 0.
    """
    for name, value in values.items():
        if not (math.isfinite(value) and value > 0):
            raise TermsError(f"{_key(name)} = {value} must be a finite number above 0.")


def non_negative(**values: float) -> None:
    """Refuse a value that is not a finite number, 0 or above."""
    for name, value in values.items():
        if not (math.isfinite(value) and value >= 0):
            raise TermsError(f"{_key(name)} = {value} must be a finite number, 0 or above.")


def multiplier(**values: float) -> None:
    """Refuse what is no noise multiplier, and what would be noise in name only."""
    non_negative(**values)
    for name, value in values.items():
        if 0 < value < _LEAST_MULTIPLIER:
            raise TermsError(f"{_key(name)} = {value} must be 0, or at least {_LEAST_MULTIPLIER}.")


def rate(**values: float) -> None:
    """Refuse a value outside (0, 1], and one so small that a coin of 64 bits never shows it."""
    for name, value in values.items():
        if not 2.0**-64 <= value <= 1:
            raise TermsError(f"{_key(name)} = {value} must be above 0 (2^-64 is the rarest coin) and at most 1.")


def probability(**values: float) -> None:
    """Refuse a value outside (0, 1), such as a delta of 1, or too small to be computed with."""
    for name, value in values.items():
        if not 1e-200 <= value < 1:
            raise TermsError(f"{_key(name)} = {value} must be above 0 (1e-200 is the least) and below 1.")


def at_least(bound: int, **values: int) -> None:
    """Refuse a whole number below `bound`."""
    for name, value in values.items():
        if value < bound:
            raise TermsError(f"{_key(name)} = {value} must be at least {bound}.")


def at_most(bound: int, **values: int) -> None:
    """Refuse a whole number above `bound`."""
    for name, value in values.items():
        if value > bound:
            raise TermsError(f"{_key(name)} = {value} must be at most {bound}.")


def one_of(choices: Iterable[str], **values: str) -> None:
    """Refuse a word that is not among `choices`."""
    known = sorted(choices)
    for name, value in values.items():
        if value not in known:
            raise TermsError(f'{_key(name)} = "{value}" is not known; choose one of {", ".join(known)}.')


def _key(name: str) -> str:
    return name.replace("__", ".").replace("_", "-")
