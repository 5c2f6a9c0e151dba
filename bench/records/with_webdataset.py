"""WebDataset: shards in random order, divided among workers, then a shuffle buffer; transforms of torchvision v2."""

from __future__ import annotations

from pathlib import Path

import common
import formats
import torch
import webdataset as wds
from peer_torchvision import fixed_transform, random_transform
from peer_webdataset import decode, versions

NAME = "WebDataset"
__all__ = ["versions"]


def epochs(work: common.Work, form: str, store: Path, threads: int, buffer: int, fixed: bool, cold: bool):
    torch.set_num_threads(threads)
    transform = (fixed_transform if fixed else random_transform)(work)
    shards = [str(path) for path in formats.shards(store, form)]
    samples = wds.WebDataset(shards, shardshuffle=False if fixed else len(shards))
    if not fixed:
        samples = samples.shuffle(buffer)
    samples = (samples.to_tuple("jpg", "cls").map_tuple(lambda data: transform(decode(data, True)), int)
               .batched(work.batch, partial=True))
    workers = threads if threads > 1 else 0
    loader = wds.WebLoader(samples, batch_size=None, num_workers=workers, persistent_workers=workers > 0)
    while True:
        yield ((images.numpy(), numbers.tolist()) for images, numbers in loader)
