"""Writes a line to stderr while training: how long steps take, and what they wait for."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from typing import Any, Protocol, TextIO

_TERMINAL_S, _FILE_S = 1.0, 10.0  # seconds between two lines


class Shown(Protocol):
    """The part of a loader that the line shows."""

    _received: list[Any]
    _final: Any

    @property
    def batch_size(self) -> int: ...

    @property
    def rank(self) -> int: ...

    def stats(self) -> Any: ...

    def _open(self) -> Any: ...


def wanted(live: bool | None) -> bool:
    """Whether to write the line: the argument, or PENSTOCK_LIVE if it is None."""
    if live is not None:
        return bool(live)
    return os.environ.get("PENSTOCK_LIVE", "0") not in ("", "0")


def line(loader: Shown) -> str:
    """Returns the text of the line: epoch, step, rate, time of a step, stall."""
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
    """Writes the line on rank 0: once a second in place on a terminal, else every 10 seconds, and at the end of an epoch."""

    def __init__(self, stream: TextIO | None = None, seconds: float | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._in_place = self._stream.isatty()
        self._seconds = seconds if seconds is not None else _TERMINAL_S if self._in_place else _FILE_S
        self._due = time.monotonic() + self._seconds
        self._length = 0

    def batch(self, loader: Shown, ends: bool) -> None:
        """Writes the line if it is due. Called after each batch and at an epoch's end. Errors of the stream are ignored."""
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
    """Counts the time within the block as waiting for other ranks, in the current step."""
    begun = time.perf_counter_ns()
    try:
        yield
    finally:
        if loader._final is None:
            loader._open().peers_waited(time.perf_counter_ns() - begun)
