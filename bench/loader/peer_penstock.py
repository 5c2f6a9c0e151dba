"""Penstock on the plain folder, without conversion. The modules for packed forms differ only in `prepare`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import penstock as ps
from penstock import _native
from penstock import transforms as T

import common

NAME = "Penstock, plain folder"


def versions() -> dict:
    return {"penstock": ps.__version__}


def packed(work: common.Work, form: str) -> Path:
    """Packs the group in one form with the installed Penstock. A data set that an earlier version wrote is packed again."""
    store = work.store(form + ".pst")
    if store.exists() and store.stat().st_mtime < Path(_native.__file__).stat().st_mtime:
        common.remove(store)
    return common.made(store, lambda path: ps.pack(str(work.root), str(path), forms=(form,)))


def normalize() -> list:
    return [T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]


def batches(work: common.Work, store: Path, threads: int):
    crop = T.RandomResizedCrop(work.size) if work.resized else T.RandomCrop(work.size)
    # On one core the calling thread does the work, as in the torch peers.
    loader = ps.Loader(ps.Dataset(str(store)), batch_size=work.batch, shuffle=True, seed=1, drop_last=True,
                       num_workers=threads if threads > 1 else 0, output="numpy",
                       transforms={"image": [crop, T.RandomHorizontalFlip(), *normalize()]})
    while True:
        for batch in loader:
            yield batch["image"], batch["label"]


def evaluate(work: common.Work, store: Path, files):
    dataset = ps.Dataset(str(store))
    numbers = {dataset.name(i): i for i in range(len(dataset))}
    wanted = [numbers[str(path.relative_to(work.root))] for path in files]
    first = [T.Resize((work.size, work.size))] if work.resized else []
    loader = ps.Loader(dataset, batch_size=len(wanted), indices=wanted, output="numpy", num_workers=0,
                       transforms={"image": [*first, T.CenterCrop(work.size), *normalize()]})
    return np.array(next(iter(loader))["image"])
