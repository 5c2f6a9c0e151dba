"""torch DataLoader + torchvision v2 on uint8 tensors: decode_jpeg / decode_png, antialiased resize."""

from __future__ import annotations

import torch
import torchvision.io as io
from torchvision.transforms import v2

import common
from torch_loader import forever

NAME = "torch DataLoader + torchvision v2"


def versions() -> dict:
    import torchvision

    return {"torch": torch.__version__, "torchvision": torchvision.__version__}


def load(path) -> torch.Tensor:
    data = io.read_file(str(path))
    if path.suffix.lower() == ".png":
        return io.decode_png(data, mode=io.ImageReadMode.RGB)
    return io.decode_jpeg(data, mode=io.ImageReadMode.RGB)


TAIL = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(common.MEAN, common.STD)]


class Samples(torch.utils.data.Dataset):
    def __init__(self, work: common.Work):
        crop = v2.RandomResizedCrop(work.size, antialias=True) if work.resized else v2.RandomCrop(work.size)
        self.files, self.labels = work.files(), work.labels()
        self.transform = v2.Compose([crop, v2.RandomHorizontalFlip(), *TAIL])

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int):
        return self.transform(load(self.files[i])), self.labels[i]


def batches(work: common.Work, threads: int):
    return forever(Samples(work), work.batch, threads)


def evaluate(work: common.Work, files):
    first = [v2.Resize((work.size, work.size), antialias=True)] if work.resized else []
    transform = v2.Compose([*first, v2.CenterCrop(work.size), *TAIL])
    return torch.stack([transform(load(path)) for path in files]).numpy()
