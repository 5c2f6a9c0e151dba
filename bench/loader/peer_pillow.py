"""torch DataLoader + torchvision's classic transforms on Pillow images (plain Pillow where torchvision is missing)."""

from __future__ import annotations

import math
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


def random_box(width: int, height: int) -> tuple[int, int, int, int]:
    """torchvision's RandomResizedCrop.get_params."""
    low, high = math.log(3 / 4), math.log(4 / 3)
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(low, high))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)
            return left, top, left + w, top + h
    side = min(width, height)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side


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
            image = image.crop(random_box(*image.size)).resize((size, size), Image.BILINEAR)
        else:
            left, top = random.randint(0, image.width - size), random.randint(0, image.height - size)
            image = image.crop((left, top, left + size, top + size))
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        return to_tensor(image), self.labels[i]


def batches(work: common.Work, threads: int):
    return forever(Samples(work), work.batch, threads)


def evaluate(work: common.Work, files):
    out = []
    for path in files:
        image = Image.open(path).convert("RGB")
        if work.resized:
            image = image.resize((work.size, work.size), Image.BILINEAR)
        left, top = round((image.width - work.size) / 2), round((image.height - work.size) / 2)
        out.append(to_tensor(image.crop((left, top, left + work.size, top + work.size))))
    return torch.stack(out).numpy()
