"""Penstock: the tars as they are, in an exact random order over all of them. No cache, as no other has one."""

from __future__ import annotations

from pathlib import Path

import common
import penstock as ps
from peer_penstock import normalize, versions
from penstock import transforms as T

NAME = "Penstock"
EXACT = True
__all__ = ["versions"]


def prepare(store: Path) -> None:
    """Nothing: the first opening makes the index."""


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool):
    dataset = ps.Dataset(store)
    first = [T.Resize((work.size, work.size))] if fixed else [T.RandomResizedCrop(work.size), T.RandomHorizontalFlip()]
    loader = ps.Loader(dataset, work.batch, shuffle=not fixed, seed=1, num_workers=threads if threads > 1 else 0, output="numpy",
                       cache=None, transforms={"image": [*first, *normalize()]})
    while True:
        yield ((batch["image"], batch["label"].tolist()) for batch in loader)
