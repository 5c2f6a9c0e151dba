"""The place that a pass over a loader has reached."""

from __future__ import annotations

from typing import NamedTuple

State = tuple[int, ...]  # the C library's state, in the order of KEYS in loading/state.py


class Place(NamedTuple):
    """The place of a pass after the newest batch that the caller received."""

    state: State
    taken: int  # batches received or skipped so far
    left: int  # batches that are left in the pass
