"""Tells exceptions that a signal handler raised from those of the code that it interrupted."""

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
    """Returns the numbers of the signals that have a handler in Python."""
    return [number for number in signal.valid_signals() if callable(signal.getsignal(number))]


@contextlib.contextmanager
def blocked() -> Iterator[set[int | signal.Signals]]:
    """Blocks signals while a thread or process is started. If a handler raised an exception meanwhile, the exception would be lost,
    or nobody would know of the new thread or process. Yields the signals that were blocked before."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, handled())
        yield before
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def how_ended(code: int | None) -> str:
    """Describes how a process of `multiprocessing` ended. `code` is its exit code; None: it closed its pipe."""
    if code is not None and code < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by signal {-code} ({signal.Signals(-code).name})"
    return "closed its pipe" if code is None else f"ended with status {code}"


def raised_by_handler(error: BaseException) -> bool:
    """Whether a signal handler, or a function that it called, raised `error`.

    A handler runs in the main thread between any two instructions, so its exception seems to come from the interrupted code. Code
    that takes exceptions for faults of a sample calls this first. A frame is a handler's if its arguments are a signal number and
    the interrupted frame, which precedes it in the traceback.
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
    """Returns the arguments that a frame's function was called with. The values of ``*args`` follow one by one."""
    code = frame.f_code
    names = list(code.co_varnames[: code.co_argcount])
    if code.co_flags & inspect.CO_VARARGS:
        names.append(code.co_varnames[code.co_argcount + code.co_kwonlyargcount])
    values = [frame.f_locals.get(name) for name in names]
    return [each for value in values for each in (value if isinstance(value, tuple) else (value,))]
