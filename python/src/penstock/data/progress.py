"""A line on the terminal while the index of tars is made."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator

_PATIENCE_S, _EVERY_S = 2.0, 0.2


def _is_wanted() -> bool:
    """Whether stderr is a terminal, and nobody turned progress off."""
    try:
        return sys.stderr.isatty() and os.environ.get("PENSTOCK_DISABLE_PROGRESS_BARS", "0") in ("", "0")
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


@contextlib.contextmanager
def shown() -> Iterator[Callable[[int, int], None] | None]:
    """Yields what is told of samples and bytes so far; None where nothing is to be shown. The line appears after 2 seconds."""
    if not _is_wanted():
        yield None
        return
    following = time.monotonic() + _PATIENCE_S
    drawn = False

    def tell(n_samples: int, nbytes: int) -> None:
        nonlocal following, drawn
        now = time.monotonic()
        if now < following:
            return
        sys.stderr.write(f"\r\033[Kpenstock: making an index: {n_samples:,} samples, {nbytes / 1e9:.1f} GB")
        sys.stderr.flush()
        following, drawn = now + _EVERY_S, True

    try:
        yield tell
    finally:
        if drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
