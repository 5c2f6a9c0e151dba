"""torch DataLoader + torchvision v2. Images are read at their offsets in files of any format, in the order of a permutation."""

from __future__ import annotations

import os
from pathlib import Path

import common
import formats
import torch
from peer_torchvision import decode, fixed_transform, random_transform, versions

NAME = "torch DataLoader"
__all__ = ["versions"]


class Samples(torch.utils.data.Dataset):
    def __init__(self, found: list[formats.Sample], transform, jpeg: bool):
        self.found, self.transform, self.jpeg, self.opened = found, transform, jpeg, {}

    def __len__(self) -> int:
        return len(self.found)

    def bytes_of(self, sample: formats.Sample) -> bytearray:
        """Reads an image's bytes. Each worker keeps shards open, but not the files of a folder, which are as many as samples."""
        if sample.offset == 0:
            return bytearray(sample.path.read_bytes())
        if sample.path not in self.opened:
            self.opened[sample.path] = os.open(sample.path, os.O_RDONLY)
        return bytearray(os.pread(self.opened[sample.path], sample.nbytes, sample.offset))

    def __getitem__(self, i: int):
        data = torch.frombuffer(self.bytes_of(self.found[i]), dtype=torch.uint8)
        return self.transform(decode(data, self.jpeg)), self.found[i].number


def epochs(work: common.Work, form: str, store: Path, threads: int, buffer: int, fixed: bool, cold: bool):
    torch.set_num_threads(threads)
    transform = (fixed_transform if fixed else random_transform)(work)
    samples = Samples(formats.samples(work, form, store), transform, work.jpeg)
    workers = threads if threads > 1 else 0  # with one core the calling process does the work, which is faster
    loader = torch.utils.data.DataLoader(samples, work.batch, shuffle=not fixed, num_workers=workers,
                                         persistent_workers=workers > 0)
    while True:
        yield ((images.numpy(), numbers.tolist()) for images, numbers in loader)
