"""Penstock without sharing: each job has its own loader."""

from __future__ import annotations

import penstock as ps
from penstock import transforms as T

import kinds

NAME = "Penstock, a loader for each job"
_loaders: list[ps.Loader] = []


def make(setting: kinds.Setting, **more) -> ps.Loader:
    loader = ps.Loader(ps.Dataset(str(setting.work.root)), batch_size=setting.work.batch, shuffle=True, seed=kinds.SEED,
                       drop_last=True, output="numpy", cache=None,
                       transforms=[T.RandomResizedCrop(setting.work.size), T.RandomHorizontalFlip(),
                                   T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)], **more)
    _loaders.append(loader)
    return loader


def forever(loader: ps.Loader):
    while True:
        for batch in loader:
            yield batch["image"], batch["label"]


def jobs_batches(setting: kinds.Setting):
    return forever(make(setting, num_workers=setting.threads))


def counters() -> dict:
    """Returns the number of rows that the job's loaders have prepared, and the bytes that they have read."""
    stats = [loader.stats() for loader in _loaders]
    return {"prepared": sum(s["storage"]["reads"] for s in stats),  # a JPEG file is one read
            "nbytes": sum(s["storage"]["nbytes_read"] for s in stats)}
