"""wids: ShardListDataset, which reads samples by number, under torch's DataLoader in an exact random order."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import common
import torch
import wids
from peer_torchvision import fixed_transform, random_transform
from peer_webdataset import decode, versions

NAME = "wids"
EXACT = True
__all__ = ["versions"]


def prepare(store: Path) -> None:
    tars = sorted(path.name for path in store.glob("*.tar"))
    subprocess.run([sys.executable, "-m", "wids.wids_index", "create", *tars, "--output", "wids.json"], cwd=store, check=True,
                   stdout=subprocess.DEVNULL)


class Samples(torch.utils.data.Dataset):
    def __init__(self, store: Path, transform) -> None:
        self.found, self.transform = wids.ShardListDataset(str(store / "wids.json"), base=str(store), keep=True,
                                                           localname=str, transformations=[]), transform

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, i: int):
        sample = self.found[i]
        return self.transform(decode(sample[".jpg"].read(), True)), int(sample[".cls"].read())


def epochs(work: common.Work, store: Path, threads: int, buffer: int, fixed: bool):
    torch.set_num_threads(threads)
    workers = threads if threads > 1 else 0
    data = Samples(store, (fixed_transform if fixed else random_transform)(work))
    loader = torch.utils.data.DataLoader(data, work.batch, shuffle=not fixed, num_workers=workers,
                                         persistent_workers=workers > 0)
    while True:
        yield ((images.numpy(), numbers.tolist()) for images, numbers in loader)
