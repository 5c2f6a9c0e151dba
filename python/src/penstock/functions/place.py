"""Where a pass over a loader is."""

from __future__ import annotations

from typing import NamedTuple

State = tuple[int, ...]  # of the C library, in the order of loading/state.py, KEYS


class Place(NamedTuple):
    """Where a pass is: after the newest batch that the caller received."""

    state: State
    taken: int  # batches received or skipped
    left: int  # batches to come
