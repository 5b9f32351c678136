"""Next-character prediction on Shakespeare's plays, by speaker."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from onlooker.data.federation import DataSettings, Description, Pool
from onlooker.data.files import Folder, damaged, read_text
from onlooker.types import Examples

SYMBOLS = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The alphabet, a public constant; a symbol's number is its place here."""
LENGTH = 80
"""Characters that come before the one to predict, as in LEAF (Caldas et al. 2018)."""
STRIDE = 8
"""Characters from one example to the next."""

SHAKESPEARE = Description(
    name="shakespeare",
    shape=(LENGTH,),
    outputs=len(SYMBOLS),
    task="classification",
    preprocessing=(
        f"characters are numbered by their place in a fixed alphabet of {len(SYMBOLS)}",
        f"each example is {LENGTH} characters of one speaker's joined speeches and the next one, every "
        f"{STRIDE} characters, with line breaks before the first",
        "the test set is the last fifth of what each speaker says",
    ),
    symbols=len(SYMBOLS),
)

_FOLDER = Folder(
    "shakespeare", ("input.txt",), "the text known as tinyshakespeare by A. Karpathy", alias="tinyshakespeare"
)


def read_shakespeare(settings: DataSettings, generator: np.random.Generator) -> Pool:
    """Windows of text, `int64[n, 80]`, with the next character as label; one natural client for each speaker.

    The examples at the end of a speaker's text are the test set: earlier ones never contain what those
    predict.

    Raises:
        DataError: if the text is not there or holds a character that is not in the alphabet.
    """
    del generator
    (path,) = _FOLDER.find(settings.root)
    text = read_text(path)
    unknown = set(text) - set(SYMBOLS)
    if unknown:
        raise damaged(path, f"the character {min(unknown)!r} is not in the alphabet")
    windows = [_windows(speech) for speech in speeches(text).values()]
    if not windows:
        raise damaged(path, 'no line "SPEAKER:" followed by a speech')
    tests = [len(labels) // 5 for _, labels in windows]
    owners = np.repeat(
        np.arange(len(windows)),
        [len(labels) - test for (_, labels), test in zip(windows, tests, strict=True)],
    )
    train = [
        (rows[: len(rows) - test], labels[: len(rows) - test])
        for (rows, labels), test in zip(windows, tests, strict=True)
    ]
    held = [
        (rows[len(rows) - test :], labels[len(rows) - test :])
        for (rows, labels), test in zip(windows, tests, strict=True)
    ]
    return Pool(_joined(train), _joined(held), owners=owners)


def speeches(text: str) -> dict[str, str]:
    r"""All that each speaker says, in the order of the play.

    >>> speeches("All:\nSpeak.\n\nMARCIUS:\nThanks.\n\nAll:\nResolved.")
    {'All': 'Speak.\nResolved.\n', 'MARCIUS': 'Thanks.\n'}
    """
    said: dict[str, str] = {}
    for block in text.split("\n\n"):
        speaker, colon, speech = block.strip().partition(":\n")
        if colon:
            said[speaker] = said.get(speaker, "") + speech + "\n"
    return said


def _windows(speech: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    numbers = {symbol: place for place, symbol in enumerate(SYMBOLS)}
    padded = np.array([numbers[symbol] for symbol in "\n" * LENGTH + speech], dtype=np.int64)
    windows = np.lib.stride_tricks.sliding_window_view(padded, LENGTH + 1)[::STRIDE]
    return windows[:, :-1], windows[:, -1]


def _joined(parts: list[tuple[NDArray[np.int64], NDArray[np.int64]]]) -> Examples:
    return Examples(np.concatenate([rows for rows, _ in parts]), np.concatenate([labels for _, labels in parts]))
