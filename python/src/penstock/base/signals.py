"""Which exceptions are those of a signal's handler, and not of the code that it interrupted."""

from __future__ import annotations

import contextlib
import inspect
import itertools
import signal
import threading
import traceback
from collections.abc import Iterator
from types import FrameType
from typing import Any


def handled() -> list[int]:
    """Returns the signals that have handlers in Python."""
    return [number for number in signal.valid_signals() if callable(signal.getsignal(number))]


@contextlib.contextmanager
def blocked() -> Iterator[set[int | signal.Signals]]:
    """Blocks signals while a thread or process is started. If a handler raised an exception in the middle of that, the exception
    would be lost, or the thread or process would run on unknown to anybody. Yields the signals that were blocked before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, handled())
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def how_ended(code: int | None) -> str:
    """Returns in words how a process of `multiprocessing` with that exit code ended."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    return "closed its pipe" if code is None else f"ended with status {code}"


def raised_by_handler(error: BaseException) -> bool:
    """Whether a signal's handler raised it, or something that a handler called.

    A handler runs in the main thread between any two instructions, so that its exception comes out of whatever ran there. Code
    that takes exceptions for faults of a sample asks this first. A handler is known by its arguments: the number of a signal,
    and the interrupted frame, which is the one before it in the traceback.
    """
    if threading.current_thread() is not threading.main_thread():
        return False
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(_is_handler(frame, before) for before, frame in itertools.pairwise(frames))


def _is_handler(frame: FrameType, interrupted: FrameType) -> bool:
    given = _arguments(frame)
    return any(value is interrupted for value in given) and any(
        isinstance(value, int) and value in signal.valid_signals() for value in given
    )


def _arguments(frame: FrameType) -> list[Any]:
    """Returns what a frame's function was called with, the values of ``*args`` one by one."""
    code = frame.f_code
    names = list(code.co_varnames[: code.co_argcount])
    if code.co_flags & inspect.CO_VARARGS:
        names.append(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
    values = [frame.f_locals.get(name) for name in names]
    return [each for value in values for each in (value if isinstance(value, tuple) else (value,))]
