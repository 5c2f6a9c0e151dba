"""torch DataLoader + torchvision v2 on uint8 tensors: decode_jpeg / decode_image, antialiased resize."""

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


TAIL = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(common.MEAN, common.STD)]


def decode(data: torch.Tensor, jpeg: bool) -> torch.Tensor:
    return (io.decode_jpeg if jpeg else io.decode_image)(data, mode=io.ImageReadMode.RGB)


def random_transform(work: common.Work):
    crop = v2.RandomResizedCrop(work.size, antialias=True) if work.resized else v2.RandomCrop(work.size)
    return v2.Compose([crop, v2.RandomHorizontalFlip(), *TAIL])


def fixed_transform(work: common.Work):
    first = [v2.Resize((work.size, work.size), antialias=True)] if work.resized else []
    return v2.Compose([*first, v2.CenterCrop(work.size), *TAIL])


class Samples(torch.utils.data.Dataset):
    def __init__(self, work: common.Work):
        self.files, self.labels, self.jpeg = work.files(), work.labels(), work.jpeg
        self.transform = random_transform(work)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int):
        return self.transform(decode(io.read_file(str(self.files[i])), self.jpeg)), self.labels[i]


def batches(work: common.Work, store, threads: int):
    return forever(Samples(work), work.batch, threads)


def evaluate(work: common.Work, store, files):
    transform = fixed_transform(work)
    return torch.stack([transform(decode(io.read_file(str(path)), work.jpeg)) for path in files]).numpy()
