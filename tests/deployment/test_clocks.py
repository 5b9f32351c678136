"""Servers whose clocks are off by an hour, each another way, as OpenSSL sees them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from onlooker.errors import UnreachableError
from server_trials import is_right, trial_in

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static long off(void) { const char *set = getenv("CLOCK_IS_OFF"); return set ? atol(set) : 0; }

time_t time(time_t *out) {
    struct timespec now;
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    real(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec + off();
    return now.tv_sec + off();
}

int clock_gettime(clockid_t clock, struct timespec *out) {
    int (*real)(clockid_t, struct timespec *) = dlsym(RTLD_NEXT, "clock_gettime");
    int found = real(clock, out);
    if (clock == CLOCK_REALTIME) out->tv_sec += off();
    return found;
}
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    """A library that turns the clock of whoever loads it."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc to make another clock with")
    folder = tmp_path_factory.mktemp("clock")
    (folder / "clock.c").write_text(SHIM)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", folder / "clock.so", folder / "clock.c", "-ldl"], check=True)
    return folder / "clock.so"


def start(trial, shim, server, seconds):
    trial.start(server, LD_PRELOAD=str(shim), CLOCK_IS_OFF=str(seconds))


def test_an_hour_does_not_matter_and_half_a_day_does(tmp_path, shim):
    with trial_in(tmp_path) as trial:
        start(trial, shim, 0, 3600)
        start(trial, shim, 1, -3600)
        assert is_right(*trial.play(1))
        trial.kill(1)
        start(trial, shim, 1, -12 * 3600)  # before any certificate was made

        async def act(conductor):
            await conductor.announcements()

        with pytest.raises(UnreachableError, match="aux:1"):
            trial.run(act, patience=3.0)
