"""A small U-Net that labels each pixel, trained by Penstock and by torch's DataLoader.

    python examples/train_segmentation.py [--made 160] [--loader penstock torch] [--seeds 1 2 3] [--same]
    python examples/train_segmentation.py --data FOLDER --size 256 --width 32 --epochs 100
    python examples/train_segmentation.py --frames leftImg8bit/train/aachen gtFine/train/aachen --size 128 --epochs 40

Without --data the pictures are generated: sky, ground, houses and trees with exactly known labels, and a line with the ignored
label around each thing. FOLDER is a folder with images/ and masks/, or unpacked Cityscapes (leftImg8bit/ beside gtFine/). --frames
names a folder of Cityscapes' frames and a folder of label maps (*_labelIds.png); frames without a label map are left out.

If Cityscapes' own training labels are missing, they are made from its label numbers. Pictures are tested with --size as their
shorter side: those in the split "val", else the fraction --test. The result is the mean intersection over union (mIoU).

--loader torch needs torchvision (transforms.v2, with masks). --same trains with both loaders without augmentation, with torch in
Penstock's order, and ends with status 1 if their losses are not equal.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import nn

import penstock as ps
from penstock import transforms as T
from training import Run, compare, need_steps, normalized, order_of, peer_loader, report, same_losses, train

IGNORE = 255
# Cityscapes' label numbers, in the order of its training labels: cityscapesScripts, helpers/labels.py.
TRAINED = (7, 8, 11, 12, 13, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 31, 32, 33)
SCALE, DEGREES = (0.2, 1.0), 10.0
# Mean colours of the classes in generated pictures. Ground and trees may have the same colour; texture and position tell them
# apart.
COLOURS = np.array([[120, 150, 200], [130, 120, 90], [170, 90, 80], [70, 120, 60]])


def block(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """The U-Net of Ronneberger et al., MICCAI 2015, with padding and normalisation, for pictures of any size."""

    def __init__(self, n_classes: int, width: int, depth: int = 3):
        super().__init__()
        self.down = nn.ModuleList([block(width << i - 1 if i else 3, width << i) for i in range(depth + 1)])
        self.up = nn.ModuleList([block((width << i) + (width << i + 1), width << i) for i in reversed(range(depth))])
        self.last = nn.Conv2d(width, n_classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        maps: list[torch.Tensor] = []
        for layer in self.down:
            x = layer(nn.functional.max_pool2d(x, 2, ceil_mode=True) if maps else x)
            maps.append(x)
        for layer, beside in zip(self.up, maps[-2::-1], strict=True):
            x = layer(torch.cat([nn.functional.interpolate(x, size=beside.shape[2:]), beside], 1))
        return self.last(x)


# Data: generated pictures, and Cityscapes.

def draw(rng: np.random.Generator, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Generates a picture and its labels: 0 sky, 1 ground, 2 houses, 3 trees."""
    y, x = np.mgrid[:size, :size] + 0.5
    horizon = size * rng.uniform(0.4, 0.7)
    labels = (y > horizon).astype(np.uint8)
    colours = COLOURS + rng.integers(-30, 31, (4, 3))
    waves = np.stack([np.zeros_like(x), np.sin(y * 1.6), np.sign(np.sin(x)) * np.sign(np.sin(y)), rng.normal(0, 1, x.shape)])
    for _ in range(int(rng.integers(2, 5))):
        kind, half = int(rng.integers(2, 4)), rng.uniform(size / 12, size / 6)
        cx, cy = rng.uniform(0, size), horizon - half * rng.uniform(-0.2, 0.8)
        away = np.hypot(x - cx, y - cy) if kind == 3 else np.maximum(abs(x - cx), abs(y - cy))
        labels[abs(away - half) < 1] = IGNORE
        labels[away <= half - 1] = kind
    shown = np.where(labels == IGNORE, 0, labels)
    texture = np.take_along_axis(waves, shown[None].astype(np.int64), 0)[0]
    picture = colours[shown] + 25 * texture[..., None] + rng.normal(0, 4, (size, size, 3))
    return picture.clip(0, 255).astype(np.uint8), labels


def make_scenes(folder: Path, n: int, size: int) -> None:
    """Writes generated pictures as PNG to images/ and masks/."""
    rng = np.random.default_rng(1)
    for name in ("images", "masks"):
        (folder / name).mkdir()
    for i in range(n):
        for name, pixels in zip(("images", "masks"), draw(rng, size), strict=True):
            Image.fromarray(pixels).save(folder / name / f"{i:05}.png")


def gather_frames(folder: Path, images: Path, labels: Path) -> None:
    """Makes folders like those of Cityscapes, with copies of the frames that have a label map."""
    for path in sorted(images.glob("*_leftImg8bit.png")):
        label = labels / path.name.replace("_leftImg8bit", "_gtFine_labelIds")
        if label.is_file():
            for source, top in ((path, "leftImg8bit"), (label, "gtFine")):
                place = folder / top / "train" / path.name.split("_")[0]
                place.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, place / source.name)


class Task:
    """The masks of a data set, and the samples to test on."""

    def __init__(self, folder: Path, part: float):
        self.dataset = ps.Dataset(folder)
        is_cityscapes = "split" in self.dataset.fields
        self.mask = "mask_train" if "mask_train" in self.dataset.fields else "mask"
        self.classes = torch.arange(256)
        if is_cityscapes:
            if self.mask == "mask":
                self.classes[:] = IGNORE
                self.classes[list(TRAINED)] = torch.arange(len(TRAINED))
            self.n_classes = len(TRAINED)
        else:
            masks = ps.Loader(self.dataset, 1, fields=[self.mask], output="numpy", num_workers=1)
            self.n_classes = 1 + max(int(batch[self.mask][batch[self.mask] != IGNORE].max(initial=0)) for batch in masks)
        splits = self.dataset.column("split") if is_cityscapes else []
        if {"train", "val"} <= set(splits):
            self.training, self.test = self.dataset.filter(split="train"), self.dataset.filter(split="val")
        else:
            self.training, self.test = self.dataset.split([1 - part, part], seed=1)


# Both loaders. A batch is a dict of "image" (N, 3, size, size) and "mask" (N, size, size).

def chain(size: int, augment: bool) -> list[T.Transform]:
    """Returns the operations. Without augmentation, pixels stay uint8."""
    if not augment:
        return [T.CenterCrop(size, mask_fill=IGNORE)]
    return [T.RandomResizedCrop(size, SCALE), T.RandomHorizontalFlip(),
            T.RandomRotation(DEGREES, interpolation="bilinear", mask_fill=IGNORE), T.ColorJitter(0.4, 0.4, 0.4, 0.1),
            T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]


def penstock_batches(task: Task, args: argparse.Namespace, augment: bool, seed: int) -> ps.Loader:
    return ps.Loader(task.training, args.batch, shuffle=True, seed=seed, transforms=chain(args.size, augment), drop_last=True,
                     fields=["image", task.mask], num_workers=args.workers, output="torch")


class Frames(torch.utils.data.Dataset):
    """The data set for comparison: PIL decodes, and torchvision moves images and masks."""

    def __init__(self, task: Task, size: int, augment: bool):
        from torchvision import tv_tensors
        from torchvision.transforms import v2

        self.task = task
        fill = {tv_tensors.Image: 0, tv_tensors.Mask: IGNORE}
        self.transforms = v2.Compose([
            v2.RandomResizedCrop(size, SCALE, antialias=True), v2.RandomHorizontalFlip(),
            v2.RandomRotation(DEGREES, v2.InterpolationMode.BILINEAR, fill=fill), v2.ColorJitter(0.4, 0.4, 0.4, 0.1),
            v2.ToDtype({tv_tensors.Image: torch.float32, "others": None}, scale=True),
            v2.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]) if augment else v2.CenterCrop(size)

    def __len__(self) -> int:
        return len(self.task.training)

    def __getitem__(self, i: int) -> dict[str, torch.Tensor]:
        from torchvision import tv_tensors

        with Image.open(io.BytesIO(self.task.training.read(i, "image"))) as file:
            image = torch.from_numpy(np.array(file.convert("RGB"))).permute(2, 0, 1)
        with Image.open(io.BytesIO(self.task.training.read(i, self.task.mask))) as file:
            mask = torch.from_numpy(np.array(file))
        image, mask = self.transforms(tv_tensors.Image(image), tv_tensors.Mask(mask))
        return {"image": torch.as_tensor(image), self.task.mask: torch.as_tensor(mask)}


def peer_batches(task: Task, args: argparse.Namespace, seed: int) -> Any:
    return peer_loader(Frames(task, args.size, True), torch.utils.data.default_collate, args.workers, seed, batch_size=args.batch,
                       shuffle=True, drop_last=True)


def fit(batches: Any, task: Task, args: argparse.Namespace, n_epochs: int, n_steps: int, seed: int) -> tuple[Run, UNet]:
    torch.manual_seed(seed)
    network = UNet(task.n_classes, args.width)
    optimizer = torch.optim.AdamW(network.parameters(), args.rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.rate, n_steps)

    def step(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        truth = task.classes[batch[task.mask].long()]
        loss = nn.functional.cross_entropy(network(normalized(batch["image"])), truth, ignore_index=IGNORE)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        return loss

    return train(step, batches, n_epochs), network


@torch.no_grad()
def mean_iou(network: UNet, task: Task, args: argparse.Namespace) -> float:
    """Returns the mean IoU over the classes that occur in the labels. Ignored pixels do not count."""
    network.eval()
    n = task.n_classes
    counts = torch.zeros(n, n, dtype=torch.int64)  # rows: true class; columns: predicted class
    ops = [T.Resize(args.size), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    for batch in ps.Loader(task.test, 1, transforms=ops, fields=["image", task.mask], num_workers=args.workers, output="torch"):
        truth, made = task.classes[batch[task.mask].long()], network(batch["image"]).argmax(1)
        known = truth != IGNORE
        counts += torch.bincount(truth[known] * n + made[known], minlength=n * n).reshape(n, n)
    there, right = counts.sum(1) > 0, counts.diagonal()
    return float((right / (counts.sum(0) + counts.sum(1) - right))[there].mean())


def compare_losses(task: Task, args: argparse.Namespace) -> bool:
    order = order_of(penstock_batches(task, args, False, 1), args.same_epochs)
    peer = peer_loader(Frames(task, args.size, False), torch.utils.data.default_collate, 0, 1, batch_sampler=order)
    ours, _ = fit(penstock_batches(task, args, False, 1), task, args, args.same_epochs, need_steps(len(order)), 1)
    theirs, _ = fit(peer, task, args, 1, len(order), 1)
    return same_losses(ours, theirs)


def run(folder: Path, args: argparse.Namespace) -> int:
    task = Task(folder, args.test)
    print(f"{task.n_classes} classes, {len(task.training)} pictures to train on, {len(task.test)} to test on", flush=True)
    if args.same:
        return 0 if compare_losses(task, args) else 1
    makers: dict[str, Callable[[int], Any]] = {"penstock": lambda seed: penstock_batches(task, args, True, seed),
                                               "torch": lambda seed: peer_batches(task, args, seed)}
    results: dict[str, list[float]] = {name: [] for name in args.loader}
    for seed in args.seeds:
        for name in args.loader:
            batches = makers[name](seed)
            done, network = fit(batches, task, args, args.epochs, need_steps(args.epochs * len(batches)), seed)
            results[name].append(mean_iou(network, task, args))
            report(name, seed, done, f"mIoU {results[name][-1]:.1%}")
    compare("mIoU", results)
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    data = parser.add_mutually_exclusive_group()
    data.add_argument("--data", type=Path, help="a folder with images/ and masks/, or Cityscapes")
    data.add_argument("--frames", type=Path, nargs=2, metavar=("IMAGES", "LABELS"), help="frames and label maps of Cityscapes")
    data.add_argument("--made", type=int, default=160, help="pictures to make")
    parser.add_argument("--test", type=float, default=0.25, help="the part to test on, if the data set does not say")
    parser.add_argument("--loader", nargs="+", choices=("penstock", "torch"), default=["penstock"])
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--width", type=int, default=8, help="channels of the first level")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--rate", type=float, default=5e-3, help="the learning rate")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--same", action="store_true", help="compare losses without augmentation")
    parser.add_argument("--same-epochs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="threads of Penstock, processes of torch")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.data or Path(scratch)
        if args.frames:
            gather_frames(folder, *args.frames)
        elif not args.data:
            make_scenes(folder, args.made, args.size)
        return run(folder, args)


if __name__ == "__main__":
    sys.exit(main())
