"""Names of the form "package.module:function": how users hand in code of their own."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

from onlooker.errors import OnlookerError

Result = TypeVar("Result")


def resolved(name: str, key: str, error: type[OnlookerError]) -> Callable[..., Any]:
    """The callable that `name` stands for.

    Args:
        name: such as "package.module:function".
        key: the key of the configuration that holds it, for the message.
        error: the class to raise.

    Raises:
        error: if the module cannot be imported or holds no such callable.
    """
    module, _, function = name.partition(":")
    try:
        found = import_module(module)
    except (Exception, SystemExit) as failure:  # whatever runs in a module of others when it is imported
        raise error(
            f'{key} = "{name}" cannot be imported ({_told(failure)}); correct it, or put the folder that '
            "holds it on PYTHONPATH."
        ) from failure
    target = getattr(found, function, None)
    if not callable(target):
        raise error(f'{key} = "{name}": the module "{module}" has no function "{function}".')
    return target


def called(call: Callable[[], Result], what: str, error: type[OnlookerError]) -> Result:
    """The result of code that is not ours, whose failure is reported in one sentence.

    Args:
        call: the call.
        what: the beginning of the sentence, such as 'data.name = "a:b"'.
        error: the class to raise.

    Raises:
        error: whatever the code raises, with its type and message.
    """
    try:
        return call()
    except OnlookerError:
        raise
    except (Exception, SystemExit) as failure:  # code of others may fail in any way, and none is a fault of ours
        raise error(f"{what} raised {_told(failure)}; correct it there.") from failure


def _told(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {' '.join(str(failure).split()).rstrip('.')}"
