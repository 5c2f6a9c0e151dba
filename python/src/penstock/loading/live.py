"""A line on stderr that says, while training, how long steps take and what they wait for."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol, TextIO

_TERMINAL_S, _FILE_S = 1.0, 10.0  # between two lines


class Shown(Protocol):
    """What of a loader the line tells."""

    _received: list[Any]
    _final: Any

    @property
    def batch_size(self) -> int: ...

    @property
    def rank(self) -> int: ...

    def stats(self) -> Any: ...

    def _open(self) -> Any: ...


def wanted(live: bool | None) -> bool:
    """Returns the argument, or if that is None what PENSTOCK_LIVE says."""
    if live is not None:
        return bool(live)
    return os.environ.get("PENSTOCK_LIVE", "0") not in ("", "0")


def line(loader: Shown) -> str:
    """Returns the line: epoch, step, rate, time of a step, stall."""
    stats = loader.stats()
    step, window = stats["step"], stats["step"]["window"]
    _, taken, left = loader._received[0]
    place = f"penstock: epoch {stats['epoch']}, {taken} of {taken + left} batches"
    if window["steps"] == 0:
        return place
    rate = loader.batch_size / window["mean"] if window["mean"] else 0.0
    times = f"{rate:.0f} samples/s, step {1e3 * window['mean']:.1f} ms, p99 {1e3 * window['p99']:.1f} ms"
    return f"{place}, {times}, {step['text']}"


class Live:
    """Writes the line of rank 0: on a terminal once a second in place, else every 10 seconds. And at an epoch's end."""

    def __init__(self, stream: TextIO | None = None, seconds: float | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._in_place = self._stream.isatty()
        self._seconds = seconds if seconds is not None else _TERMINAL_S if self._in_place else _FILE_S
        self._due = time.monotonic() + self._seconds
        self._length = 0

    def batch(self, loader: Shown, ends: bool) -> None:
        """A batch was delivered, or the epoch has ended. Errors of the stream are left alone: it is only a line."""
        now = time.monotonic()
        if (now < self._due and not ends) or loader.rank != 0:
            return
        self._due = now + self._seconds
        text = line(loader)
        padded = text.ljust(self._length)
        self._length = len(text)
        try:
            if self._in_place:
                self._stream.write(f"\r{padded}" + ("\n" if ends else ""))
            else:
                self._stream.write(text + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            self._due = float("inf")
        if ends:
            self._length = 0


@contextlib.contextmanager
def peers_wait(loader: Shown) -> Iterator[None]:
    """Counts the time inside as waiting for other ranks, in the step under way."""
    begun = time.perf_counter_ns()
    try:
        yield
    finally:
        if loader._final is None:
            loader._open().peers_waited(time.perf_counter_ns() - begun)
