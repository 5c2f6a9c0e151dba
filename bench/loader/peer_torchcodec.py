"""TorchCodec, the image decoder that replaces torchvision's deprecated one. torch DataLoader; all other operations are torchvision
v2.
"""

from __future__ import annotations

from importlib.metadata import version

import torch
from torchcodec.decoders import decode_image

import common
from peer_torchvision import fixed_transform, random_transform
from peer_torchvision import versions as torch_versions
from torch_loader import forever

NAME = "torch DataLoader + TorchCodec"


def versions() -> dict:
    return {"torchcodec": version("torchcodec"), **torch_versions()}


class Samples(torch.utils.data.Dataset):
    def __init__(self, work: common.Work):
        self.files, self.labels, self.transform = work.files(), work.labels(), random_transform(work)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int):
        return self.transform(decode_image(self.files[i])), self.labels[i]


def batches(work: common.Work, store, threads: int):
    return forever(Samples(work), work.batch, threads)


def evaluate(work: common.Work, store, files):
    transform = fixed_transform(work)
    return torch.stack([transform(decode_image(path)) for path in files]).numpy()
