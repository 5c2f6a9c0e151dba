"""The source of source_penstock_recoded.py, over the folder of JPEGs instead of tars."""

from __future__ import annotations

from pathlib import Path

import common
import penstock as ps
from source_penstock_recoded import EXACT, epochs_recoded, prepare, versions

NAME = "Penstock, folder, re-coded in the first epoch"
__all__ = ["EXACT", "prepare", "versions"]


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool):
    yield from epochs_recoded(ps.Dataset(work.root), work, threads, fixed)
