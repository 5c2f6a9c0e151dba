"""Penstock with a cache whose JPEGs idle workers re-code as pli-jpeg while an accelerator is busy in the first epoch.

The accelerator is emulated: in the first epoch it takes the images per second that the variable RATE says. sources.py sets it to
half of what Penstock reaches without a cache in the same round. Later epochs are not paced. One core has one worker, because only
workers re-code.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import common
import penstock as ps
import source_penstock
from peer_penstock import versions

NAME = "Penstock, tars, re-coded in the first epoch"
EXACT = True
RATE = "ACCELERATOR_IMAGES_PER_S"
CACHE = "2GiB"  # larger than the whole set
__all__ = ["versions"]


def prepare(store: Path) -> None:
    """Does nothing: the first opening makes the index."""


def paced(batches, rate: float):
    """Yields batches with pauses between them: at most `rate` images are taken in a second."""
    due = time.perf_counter()
    for images, numbers in batches:
        yield images, numbers
        now = time.perf_counter()
        due = max(due + len(numbers) / rate, now)
        time.sleep(due - now)


def epochs_recoded(dataset: ps.Dataset, work: common.Work, threads: int, fixed: bool):
    cache = None if fixed else ps.CacheUse(CACHE, form="pli-jpeg", recode="idle")
    found = source_penstock.epochs_of(dataset, work, threads, fixed, cache=cache)
    if not fixed:
        yield paced(next(found), float(os.environ[RATE]))
    yield from found


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool):
    yield from epochs_recoded(ps.Dataset(store), work, threads, fixed)
