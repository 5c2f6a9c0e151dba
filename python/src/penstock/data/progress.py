"""Shows progress while a large folder is listed or an index of containers is made: a line on the terminal, or lines in the log."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator

_PATIENCE_S, _EVERY_S, _LOG_EVERY_S = 1.0, 0.2, 5.0

_log = logging.getLogger("penstock")


def _is_wanted() -> bool:
    """Whether stderr is a terminal and the user has not turned progress off."""
    try:
        return sys.stderr.isatty() and os.environ.get("PENSTOCK_DISABLE_PROGRESS_BARS", "0") in ("", "0")
    except (AttributeError, ValueError):  # stderr does not exist, or is closed
        return False


def _words(n_found: int, nbytes: int) -> str:
    return f"looking through the data: {n_found:,} found" + (f", {nbytes / 1e9:.1f} GB walked over" if nbytes else "")


class _Line:
    """A line on the terminal that appears only if opening takes longer than a moment."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _PATIENCE_S
        self._drawn = False

    def __call__(self, n_found: int, nbytes: int) -> None:
        now = time.monotonic()
        if n_found == 0:
            self.clear()
        elif now >= self._next:
            sys.stderr.write(f"\r\033[Kpenstock: {_words(n_found, nbytes)}")
            sys.stderr.flush()
            self._next, self._drawn = now + _EVERY_S, True

    def clear(self) -> None:
        if self._drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
        self._drawn = False


class _Lines:
    """Writes a line to Python's log every few seconds."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _LOG_EVERY_S

    def __call__(self, n_found: int, nbytes: int) -> None:
        now = time.monotonic()
        if n_found and now >= self._next:
            _log.info(_words(n_found, nbytes))
            self._next = now + _LOG_EVERY_S


@contextlib.contextmanager
def shown() -> Iterator[Callable[[int, int], None]]:
    """Yields a callback for the number of files or samples found so far, and their bytes. 0 found means that opening is over; the
    line is then cleared."""
    if not _is_wanted():
        yield _Lines()
        return
    line = _Line()
    try:
        yield line
    finally:
        line.clear()
