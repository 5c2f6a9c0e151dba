"""torch DataLoader + torchvision v2 on uint8 tensors, decoded by torchvision.io; workers, with boxes and masks as tv_tensors."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
import torchvision.io as io
from peer_torchvision import TAIL, decode, evaluate, versions
from torch_loader import Endless
from torchvision import tv_tensors
from torchvision.transforms import v2

import recipes

MIXED = True
NAME = "torch DataLoader"
__all__ = ["evaluate", "versions"]

LAST = [v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True), TAIL[1]]


def name(task: recipes.Task, form: str) -> str:
    return "torch DataLoader + torchvision v2"


def random_transform(task: recipes.Task) -> v2.Compose:
    flip = v2.RandomHorizontalFlip()
    if task.name == "classify":
        augment = v2.RandAugment(interpolation=v2.InterpolationMode.BILINEAR)
        return v2.Compose([v2.RandomResizedCrop(task.size, antialias=True), flip, augment, *LAST,
                           v2.RandomErasing(recipes.ERASING)])
    if task.name == "detect":
        return v2.Compose([v2.RandomIoUCrop(), v2.Resize((task.size, task.size), antialias=True), flip,
                           v2.ColorJitter(*recipes.JITTER), *LAST, v2.SanitizeBoundingBoxes()])
    fill = {tv_tensors.Image: 0, tv_tensors.Mask: recipes.IGNORE}
    # ScaleJitter multiplies by the factor that fits the target, which is 1 for the frames' own width and height.
    return v2.Compose([v2.ScaleJitter((2048, 1024), recipes.SCALES, antialias=True),
                       v2.RandomCrop(task.size, pad_if_needed=True, fill=fill), flip, *LAST])


def fixed_transform(task: recipes.Task) -> v2.Compose:
    return v2.Compose([v2.Resize((task.size, task.size), antialias=True), v2.RandomHorizontalFlip(1.0)])


class Samples(torch.utils.data.Dataset):
    """The samples of a task: image and class; or image, boxes and their classes; or image and mask."""

    def __init__(self, task: recipes.Task, transform: v2.Compose):
        self.task, self.transform, self.files = task, transform, task.files()
        self.labels = task.labels() if task.name == "classify" else []
        if task.name == "detect":
            names = recipes.class_names(task)
            found = [recipes.objects(task.annotation_of(path)) for path in self.files]
            self.boxes = [(torch.tensor(boxes), torch.tensor([names.index(name) for name in kinds])) for boxes, kinds in found]

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, i: int) -> tuple:
        path = self.files[i]
        image = tv_tensors.Image(decode(io.read_file(str(path)), self.task.jpeg))
        if self.task.name == "classify":
            return self.transform(image), self.labels[i]
        if self.task.name == "segment":
            mask = io.decode_png(io.read_file(str(self.task.mask_of(path))), io.ImageReadMode.UNCHANGED)
            return self.transform(image, tv_tensors.Mask(mask[0]))
        boxes, labels = self.boxes[i]
        boxes = tv_tensors.BoundingBoxes(boxes, format="XYXY", canvas_size=image.shape[1:])
        done = self.transform({"image": image, "boxes": boxes, "labels": labels})
        return done["image"], done["boxes"].as_subclass(torch.Tensor), done["labels"]


class Numbered(Samples):
    """Adds to each sample its number as the last part."""

    def __getitem__(self, i: int) -> tuple:
        return (*super().__getitem__(i), i)


def mix_rows(mix: v2.Transform, rows: list[tuple]) -> tuple:
    images, labels = torch.utils.data.default_collate(rows)
    return mix(images, labels)


def pad_rows(rows: list[tuple]) -> tuple:
    images, boxes, labels, *numbers = zip(*rows, strict=True)
    padded = torch.nn.utils.rnn.pad_sequence
    return (torch.stack(images), padded(boxes, batch_first=True), padded(labels, batch_first=True, padding_value=-1),
            torch.tensor([len(each) for each in boxes]), *map(torch.tensor, numbers))


def collate_of(task: recipes.Task):
    if task.name == "classify":
        n = max(task.labels()) + 1
        ways = [v2.MixUp(alpha=recipes.MIXUP, num_classes=n), v2.CutMix(alpha=recipes.CUTMIX, num_classes=n)]
        return partial(mix_rows, v2.RandomChoice(ways))
    return pad_rows if task.name == "detect" else None


def batches(task: recipes.Task, store: Path, threads: int, numbered: bool = False):
    """With one core there is no worker process, which is faster; with more, there is a worker for each core, kept alive. `numbered`
    (detection only): the last part of a batch is the numbers of its files."""
    torch.set_num_threads(threads)
    extra = {"num_workers": threads, "persistent_workers": True} if threads > 1 else {}
    samples = (Numbered if numbered else Samples)(task, random_transform(task))
    for batch in torch.utils.data.DataLoader(samples, task.batch, sampler=Endless(len(samples)), drop_last=True,
                                             collate_fn=collate_of(task), **extra):
        yield tuple(batch)


def fixed(task: recipes.Task, files: list[Path]) -> list[tuple]:
    """Returns the samples of these files, mirrored and resized to the recipe's size, as uint8."""
    samples = Samples(task, fixed_transform(task))
    numbers = {path: i for i, path in enumerate(samples.files)}
    return [tuple(map(torch.as_tensor, samples[numbers[path]])) for path in files]
