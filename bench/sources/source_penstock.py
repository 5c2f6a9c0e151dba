"""Penstock: tars and other containers as they are, in an exact random order over all files. No loader of this bench has a cache."""

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
    """Does nothing: the first opening makes the index."""


def fields_of(dataset: ps.Dataset) -> tuple[str, str]:
    """Returns the names of the fields that hold images and numbers."""
    (image,) = (name for name, field in dataset.fields.items() if field.type == "image")
    (number,) = (name for name, field in dataset.fields.items() if field.type == "int" and name.endswith("label"))
    return image, number


def numbers_of(dataset: ps.Dataset, work: common.Work):
    """Returns the field of the images, that of their numbers as a list (of none for a folder), and a function that gives the
    numbers of a batch. In a folder, a file's number is its place among all sorted paths."""
    if dataset.is_folder:
        place = {path: number for number, path in enumerate(str(path.relative_to(work.root)) for path in work.files())}
        numbers = [place[dataset.name(i)] for i in range(len(dataset))]
        return "image", [], lambda batch: [numbers[i] for i in batch["index"].tolist()]
    image, number = fields_of(dataset)
    return image, [number], lambda batch: batch[number].tolist()


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool, rows: bool = False):
    yield from epochs_of(ps.Dataset(store), work, threads if threads > 1 else 0, fixed, rows)


def epochs_of(dataset: ps.Dataset, work: common.Work, workers: int, fixed: bool, rows: bool = False, cache=None):
    image, number, numbers = numbers_of(dataset, work)
    first = [T.Resize((work.size, work.size))] if fixed else [T.RandomResizedCrop(work.size), T.RandomHorizontalFlip()]
    what = {"encoded": (image,)} if rows else {"transforms": {image: [*first, *normalize()]}}
    loader = ps.Loader(dataset, work.batch, shuffle=not fixed, seed=1, num_workers=workers, output="numpy", cache=cache,
                       fields=[image, *number], **what)
    while True:
        yield ((batch[image], numbers(batch)) for batch in loader)
