"""torch DataLoader + torchvision's classic transforms on Pillow images (plain Pillow where torchvision is missing)."""

from __future__ import annotations

import random

import numpy as np
import PIL
import torch
from PIL import Image

import common
from torch_loader import forever

NAME = "torch DataLoader + Pillow"


def versions() -> dict:
    return {"torch": torch.__version__, "pillow": PIL.__version__}


def to_tensor(image: Image.Image) -> torch.Tensor:
    array = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().to(torch.float32).div_(255)
    mean, std = torch.tensor(common.MEAN).view(3, 1, 1), torch.tensor(common.STD).view(3, 1, 1)
    return array.sub_(mean).div_(std)


class Samples(torch.utils.data.Dataset):
    def __init__(self, work: common.Work):
        self.work, self.files, self.labels = work, work.files(), work.labels()

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int):
        size = self.work.size
        with open(self.files[i], "rb") as file:
            image = Image.open(file).convert("RGB")
        if self.work.resized:
            left, top, width, height = common.random_box(*image.size)
            image = image.resize((size, size), Image.BILINEAR, box=(left, top, left + width, top + height))
        else:
            left, top = random.randint(0, image.width - size), random.randint(0, image.height - size)
            image = image.crop((left, top, left + size, top + size))
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        return to_tensor(image), self.labels[i]


def batches(work: common.Work, store, threads: int):
    return forever(Samples(work), work.batch, threads)


def evaluate(work: common.Work, store, files):
    out = []
    for path in files:
        image = Image.open(path).convert("RGB")
        if work.resized:
            image = image.resize((work.size, work.size), Image.BILINEAR)
        left, top, width, height = common.center_box(*image.size, work.size)
        out.append(to_tensor(image.crop((left, top, left + width, top + height))))
    return torch.stack(out).numpy()
