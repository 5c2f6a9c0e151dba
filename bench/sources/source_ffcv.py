"""FFCV: its loader over a file of the JPEGs' own bytes (bench/loader/peer_ffcv.py), in an exact random order."""

from __future__ import annotations

from pathlib import Path

import common
import numpy as np
import peer_ffcv
from ffcv.loader import OrderOption
from ffcv.transforms import RandomHorizontalFlip
from peer_ffcv import AREA, NAME, versions

EXACT = False  # FFCV leaves out a last batch that is incomplete
__all__ = ["AREA", "NAME", "versions"]


def prepare(store: Path) -> None:
    """Does nothing: the file contains its own table."""


def whole_set(work: common.Work, store: Path):
    """Reads the whole set without FFCV's compiler, with whole images. FFCV drops incomplete batches, so a batch is one image."""
    peer_ffcv.Compiler.set_enabled(False)
    n = len(work.files())
    one = common.Work(work.name, work.root, 1, work.size, work.resized, work.jpeg)
    images = peer_ffcv.loader(one, store, np.arange(n), 1, OrderOption.SEQUENTIAL, [peer_ffcv.decoder(work.size, peer_ffcv.whole)])
    for batch in images:
        yield batch[0].numpy().copy(), batch[1].numpy().reshape(-1).tolist()


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool):
    file = store / "train.beton"
    if fixed:
        yield whole_set(work, file)
    crop = [peer_ffcv.decoder(work.size), RandomHorizontalFlip()]
    loader = peer_ffcv.loader(work, file, np.arange(len(work.files())), threads, OrderOption.RANDOM, crop)
    while True:
        yield ((images.numpy(), labels.numpy().reshape(-1).tolist()) for images, labels in loader)
