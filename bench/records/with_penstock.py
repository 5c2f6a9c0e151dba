"""Penstock: the plain folder, and data sets packed with the files' own bytes and as pli-jpeg. No loader of this bench has a
cache."""

from __future__ import annotations

from pathlib import Path

import common
import formats
import penstock as ps
from peer_penstock import normalize, versions
from penstock import transforms as T

NAME = "Penstock"
__all__ = ["versions"]


def epochs(work: common.Work, form: str, store: Path, threads: int, buffer: int, fixed: bool, cold: bool):
    dataset = ps.Dataset(store)
    number = formats.penstock_numbers(work, store)
    first = [T.Resize((work.size, work.size))] if fixed else [T.RandomResizedCrop(work.size), T.RandomHorizontalFlip()]
    loader = ps.Loader(dataset, work.batch, shuffle=not fixed, seed=1, num_workers=threads if threads > 1 else 0, output="numpy",
                       cache=None, transforms={"image": [*first, *normalize()]})
    while True:
        yield ((batch["image"], [number[i] for i in batch["index"]]) for batch in loader)
