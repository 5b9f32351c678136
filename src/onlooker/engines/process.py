"""How a process computes that plays clients.

With one thread: workers are processes, and a sum that several threads share has other bits. And keeping memory that was
freed: giving back and fetching anew the activations of every step takes up to half the time.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import platform
from collections.abc import Generator
from contextlib import contextmanager
from multiprocessing.context import SpawnContext
from typing import cast

import torch

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # glibc's malloc.h
_NEVER, _STEP, _LARGEST = 2**31 - 1, 256 * 2**20, 32 * 2**20


def play_alone() -> None:
    """Compute so from here on."""
    torch.set_num_threads(1)
    _keep_freed_memory()


@contextmanager
def playing_alone() -> Generator[None]:
    """Compute so within the block; memory is kept beyond it."""
    before = torch.get_num_threads()
    play_alone()
    try:
        yield
    finally:
        torch.set_num_threads(before)


def context_of(start_method: str) -> SpawnContext:
    """How such processes are started; typed as one of the three, which all have the same methods."""
    return cast(SpawnContext, multiprocessing.get_context(start_method))


def _keep_freed_memory() -> None:
    """Tell glibc so, for this process; elsewhere nothing happens."""
    if platform.libc_ver()[0] != "glibc":
        return
    tune = ctypes.CDLL(None).mallopt
    if not tune(_MMAP_THRESHOLD, _NEVER):  # some versions refuse more than this
        tune(_MMAP_THRESHOLD, _LARGEST)
    tune(_TRIM_THRESHOLD, _NEVER)
    tune(_TOP_PAD, _STEP)
