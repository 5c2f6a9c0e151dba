"""Waits for a quiet machine before anything is measured."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ...base import options
from ...base.units import amount, duration
from ...errors import ArgumentError
from .. import conclusion
from . import machine

_LOOK, _GLANCE = 0.5, 0.25  # seconds over which the work of other programs is measured: while waiting, and without waiting
_TELL = 5.0  # seconds between two lines of progress


def checked(wait_quiet: float | str | None) -> float:
    """Converts a number or a text such as "60s" to seconds. None means 0, no waiting. ArgumentError: it is neither."""
    if wait_quiet is None:
        return 0.0
    seconds = options.seconds(wait_quiet)
    if seconds is None or seconds > 86400:
        raise ArgumentError(f'wait_quiet is seconds, or a text such as "60s" or "2min", not {wait_quiet!r}')
    return seconds


def wait(seconds: float, say: Callable[[str], Any]) -> float:
    """Waits up to `seconds` until other programs hardly use this process's CPU cores.

    Returns the number of cores that they used at the end. With 0 seconds, measures once and does not wait.
    """
    start, told = time.monotonic(), -_TELL
    cores = machine.quota_cores()
    while True:
        others = _used(_LOOK if seconds > 0 else _GLANCE)
        passed = time.monotonic() - start
        if others < conclusion.quiet_cores(cores) or passed >= seconds:
            break
        if passed - told >= _TELL:
            told = passed
            left = duration(round(seconds - passed))
            say(f"other programs use {amount(others, 2)} of {amount(cores)} CPU cores: waiting up to {left} for a quiet machine")
    if seconds > 0:
        quiet = others < conclusion.quiet_cores(cores)
        say("the machine is quiet" if quiet else f"going on; other programs use {amount(others, 2)} of {amount(cores)} CPU cores")
    return others


def _used(seconds: float) -> float:
    """Returns the mean number of cores that other programs use now."""
    others = machine.OtherWork()
    time.sleep(seconds)
    return others.cores()
