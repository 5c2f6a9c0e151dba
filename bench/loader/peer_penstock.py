"""Penstock, from the plain folder: no conversion."""

from __future__ import annotations

import numpy as np
import penstock as ps
from penstock import transforms as T

import common

NAME = "Penstock, plain folder"


def versions() -> dict:
    return {"penstock": ps.__version__}


def normalize() -> list:
    return [T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]


def batches(work: common.Work, threads: int):
    crop = T.RandomResizedCrop(work.size) if work.resized else T.RandomCrop(work.size)
    # One core: the calling thread does the work, as the torch peers do it there.
    loader = ps.Loader(ps.Dataset(str(work.root)), batch_size=work.batch, shuffle=True, seed=1, drop_last=True,
                       num_workers=threads if threads > 1 else 0, output="numpy",
                       transforms={"image": [crop, T.RandomHorizontalFlip(), *normalize()]})
    while True:
        for batch in loader:
            yield batch["image"], batch["label"]


def evaluate_samples(dataset, work: common.Work, wanted: list[int]):
    first = [T.Resize((work.size, work.size))] if work.resized else []
    loader = ps.Loader(dataset, batch_size=len(wanted), indices=wanted, output="numpy", num_workers=0,
                       transforms={"image": [*first, T.CenterCrop(work.size), *normalize()]})
    return np.array(next(iter(loader))["image"])


def evaluate(work: common.Work, files):
    dataset = ps.Dataset(str(work.root))
    numbers = {dataset.name(i): i for i in range(len(dataset))}
    return evaluate_samples(dataset, work, [numbers[str(path.relative_to(work.root))] for path in files])
