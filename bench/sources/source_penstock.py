"""Penstock: tars and other containers as they are, in an exact random order over all files. No cache, as no other has one."""

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


def fields_of(dataset: ps.Dataset) -> tuple[str, str]:
    """Returns the names of the images and of their numbers."""
    (image,) = (name for name, field in dataset.fields.items() if field.type == "image")
    (number,) = (name for name, field in dataset.fields.items() if field.type == "int" and name.endswith("label"))
    return image, number


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool, rows: bool = False):
    dataset = ps.Dataset(store)
    image, number = fields_of(dataset)
    first = [T.Resize((work.size, work.size))] if fixed else [T.RandomResizedCrop(work.size), T.RandomHorizontalFlip()]
    what = {"encoded": (image,)} if rows else {"transforms": {image: [*first, *normalize()]}}
    loader = ps.Loader(dataset, work.batch, shuffle=not fixed, seed=1, num_workers=threads if threads > 1 else 0, output="numpy",
                       cache=None, fields=[image, number], **what)
    while True:
        yield ((batch[image], batch[number].tolist()) for batch in loader)
