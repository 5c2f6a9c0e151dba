"""A ResNet classifier, with parts of torchvision's recipe, trained with Penstock and with torch's DataLoader.

    python examples/train_images.py [--data FOLDER --test 0.2] [--loader penstock torch] [--seeds 1 2 3] [--same]
    torchrun --standalone --nproc-per-node 2 examples/train_images.py
    python examples/train_images.py --data imagenet/train --test 0.02 --model resnet50 --width 64 --size 176 --batch 128 --epochs 90

The recipe: RandomResizedCrop, flip, RandAugment, RandomErasing, MixUp or CutMix in each batch, label smoothing, SGD with momentum,
a warm-up and a cosine schedule; --ema averages the weights. See torchvision's references/classification.

FOLDER holds one folder of images per class. --test is the fraction of each class used for testing; with 0, the training images are
used. Without --data, the photographs beside this file are cut into tiles, and the class of a tile is its photograph.

--from-size 32 begins with pictures of 32 pixels, which grow to --size: progressive resizing, only with Penstock.

--loader torch needs torchvision: it reads the same files with PIL and torchvision.transforms.v2. --same trains with both loaders
without augmentation, with torch in Penstock's order, and ends with status 1 if their losses are not equal.
train_images_lightning.py does the same training with Lightning.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from PIL import Image, ImageOps
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import penstock as ps
from penstock import transforms as T
from training import Run, compare, need_steps, normalized, order_of, peer_loader, report, same_losses, train

PHOTOGRAPHS = Path(__file__).parent / "photographs"
TILE = 128
MIXUP, CUTMIX, SMOOTHING, ERASING = 0.2, 1.0, 0.1, 0.1


class Block(nn.Module):
    """The residual block of ResNet-18 (two 3x3 convolutions), or of ResNet-50 (a 3x3 convolution between two 1x1) (He et al., CVPR
    2016)."""

    def __init__(self, inputs: int, width: int, stride: int, deep: bool):
        super().__init__()
        outputs = 4 * width if deep else width
        shapes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)] if deep else \
            [(inputs, width, 3, stride), (width, outputs, 3, 1)]
        layers: list[nn.Module] = []
        for channels, made, kernel, step in shapes:
            layers += [nn.Conv2d(channels, made, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(made), nn.ReLU()]
        self.body = nn.Sequential(*layers[:-1])
        self.around = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.around(x))


def resnet(model: str, n_classes: int, width: int) -> nn.Module:
    deep = model == "resnet50"
    layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = width
    for stage, n_blocks in enumerate((3, 4, 6, 3) if deep else (2, 2, 2, 2)):
        for i in range(n_blocks):
            layers.append(Block(inputs, width << stage, 2 if stage and i == 0 else 1, deep))
            inputs = (4 if deep else 1) * (width << stage)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, n_classes))


def cut_tiles(folder: Path) -> None:
    """Cuts the photographs into JPEG tiles, with a class folder for each photograph."""
    for path in sorted(PHOTOGRAPHS.glob("kodak*")):
        (folder / path.stem).mkdir()
        with Image.open(path) as photograph:
            for y in range(0, photograph.height - TILE + 1, TILE):
                for x in range(0, photograph.width - TILE + 1, TILE):
                    tile = photograph.convert("RGB").crop((x, y, x + TILE, y + TILE))
                    tile.save(folder / path.stem / f"{y:03}_{x:03}.jpg", quality=92)


def chain(size: int, augment: bool) -> list[T.Transform]:
    """Returns the operations. Without augmentation, pixels stay uint8."""
    if not augment:
        return [T.CenterCrop(size)]
    normalize = T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)
    return [T.RandomResizedCrop(size), T.RandomHorizontalFlip(), T.RandAugment(interpolation="bilinear"), normalize,
            T.RandomErasing(ERASING)]


def peer_chain(size: int, augment: bool) -> Callable[[Any], torch.Tensor]:
    from torchvision.transforms import v2

    if not augment:
        return v2.Compose([v2.PILToTensor(), v2.CenterCrop(size)])
    ending = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    return v2.Compose([v2.PILToTensor(), v2.RandomResizedCrop(size, antialias=True), v2.RandomHorizontalFlip(),
                       v2.RandAugment(interpolation=v2.InterpolationMode.BILINEAR), *ending, v2.RandomErasing(ERASING)])


class Photographs(torch.utils.data.Dataset):
    """The data set for comparison: PIL and torchvision."""

    def __init__(self, folder: Path, dataset: ps.Dataset, transforms: Callable[[Any], torch.Tensor]):
        self.paths = [folder / dataset.name(i) for i in range(len(dataset))]
        self.labels, self.transforms = dataset.column("label").tolist(), transforms

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, i: int) -> tuple[torch.Tensor, int]:
        with Image.open(self.paths[i]) as image:
            return self.transforms(ImageOps.exif_transpose(image).convert("RGB")), self.labels[i]


class Collate:
    """Makes batches like Penstock's, as dicts. Mixes them if the number of classes is given."""

    def __init__(self, n_classes: int = 0):
        self.mix = None
        if n_classes:
            from torchvision.transforms import v2

            self.mix = v2.RandomChoice([v2.MixUp(alpha=MIXUP, num_classes=n_classes),
                                        v2.CutMix(alpha=CUTMIX, num_classes=n_classes)])

    def __call__(self, rows: list[tuple[torch.Tensor, int]]) -> dict[str, torch.Tensor]:
        images, labels = torch.utils.data.default_collate(rows)
        if self.mix is not None:
            images, labels = self.mix(images, labels)
        return {"image": images, "label": labels}


def penstock_batches(dataset: ps.Dataset, args: argparse.Namespace, augment: bool, seed: int) -> Any:
    n = len(dataset.classes or ())
    mix = [T.MixUp(MIXUP, num_classes=n), T.CutMix(CUTMIX, num_classes=n)] if augment else None
    loader = ps.Loader(dataset, args.batch, shuffle=True, seed=seed, transforms={"image": chain(args.size, augment)}, mix=mix,
                       fields=["image", "label"], drop_last=True, num_workers=args.workers, output="torch")
    return Growing(loader, args.from_size, args.size, args.epochs) if augment and args.from_size else loader


class Growing:
    """A loader whose pictures grow from epoch to epoch. The last third of the epochs has the final size."""

    def __init__(self, loader: ps.Loader, first: int, last: int, n_epochs: int):
        self.loader, self.first, self.last, self.n_growing = loader, first, last, max(1, 2 * n_epochs // 3)

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Any:
        grown = min(1.0, self.loader.epoch / self.n_growing)
        self.loader.set(size=self.first + int(grown * (self.last - self.first)) // 8 * 8 if grown < 1 else self.last)
        return iter(self.loader)


def peer_batches(dataset: ps.Dataset, folder: Path, args: argparse.Namespace, seed: int) -> Any:
    samples = Photographs(folder, dataset, peer_chain(args.size, True))
    # Outside of torchrun, DistributedSampler with rank 0 of 1 gives a shuffle with a known seed.
    ranks = (dist.get_world_size(), dist.get_rank()) if dist.is_initialized() else (1, 0)
    sampler = torch.utils.data.DistributedSampler(samples, *ranks, seed=seed, drop_last=True)
    return peer_loader(samples, Collate(len(dataset.classes or ())), args.workers, seed + ranks[1], batch_size=args.batch,
                       sampler=sampler, drop_last=True)


def optimizer_of(network: nn.Module, rate: float, n_steps: int) -> tuple[torch.optim.Optimizer, Any]:
    """SGD without weight decay for norms and biases; a warm-up over a twentieth of the steps, then a cosine schedule."""
    decayed = [p for p in network.parameters() if p.ndim > 1]
    rest = [p for p in network.parameters() if p.ndim <= 1]
    optimizer = torch.optim.SGD([{"params": decayed, "weight_decay": 1e-4}, {"params": rest, "weight_decay": 0.0}], rate,
                                momentum=0.9, nesterov=True)
    warm = max(1, n_steps // 20)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: min((i + 1) / warm, 0.5 + 0.5 * math.cos(math.pi * min(1.0, i / n_steps))))


def fit(batches: Any, n_classes: int, args: argparse.Namespace, n_epochs: int, n_steps: int, seed: int) -> tuple[Run, nn.Module]:
    """Trains a network. Returns the run, and the network, or with --ema the average of its weights."""
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    network = resnet(args.model, n_classes, args.width)
    optimizer, schedule = optimizer_of(network, args.rate, n_steps)
    trained = nn.parallel.DistributedDataParallel(network) if dist.is_initialized() else network
    mean = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(0.98), use_buffers=True) if args.ema else None

    def step(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        loss = nn.functional.cross_entropy(trained(normalized(batch["image"])), batch["label"], label_smoothing=SMOOTHING)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if mean is not None:
            mean.update_parameters(network)
        return loss

    return train(step, batches, n_epochs), network if mean is None else mean


@torch.no_grad()
def accuracy(network: nn.Module, dataset: ps.Dataset, args: argparse.Namespace) -> float:
    """Returns the accuracy on a data set. Each rank tests its part, and no sample is repeated."""
    network.eval()
    right, ops = 0, [T.Resize(args.size + args.size // 8), T.CenterCrop(args.size), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    for batch in ps.Loader(dataset, 64, transforms={"image": ops}, fields=["image", "label"], pad_epoch=False,
                           num_workers=args.workers, output="torch"):
        right += int((network(batch["image"]).argmax(1) == batch["label"]).sum())
    total = torch.tensor(right)
    if dist.is_initialized():
        dist.all_reduce(total)
    return int(total) / len(dataset)


def compare_losses(folder: Path, dataset: ps.Dataset, args: argparse.Namespace) -> bool:
    """Trains without augmentation, once with each loader, and compares the losses. torch's loader reads the samples in Penstock's
    order."""
    order = order_of(penstock_batches(dataset, args, False, 1), args.same_epochs)
    peer = peer_loader(Photographs(folder, dataset, peer_chain(args.size, False)), Collate(), 0, 1, batch_sampler=order)
    n = len(dataset.classes or ())
    ours, _ = fit(penstock_batches(dataset, args, False, 1), n, args, args.same_epochs, need_steps(len(order)), 1)
    theirs, _ = fit(peer, n, args, 1, len(order), 1)
    return same_losses(ours, theirs)


def same_weights(network: nn.Module) -> bool:
    """Whether all ranks have the same parameters."""
    mine = torch.cat([p.detach().flatten() for p in network.parameters()])
    first = mine.clone()
    dist.broadcast(first, 0)
    return torch.equal(mine, first)


def run(folder: Path, args: argparse.Namespace) -> int:
    dataset = ps.Dataset(folder)
    first = not dist.is_initialized() or dist.get_rank() == 0
    training, test = dataset.split([1 - args.test, args.test], seed=1, stratify="label") if args.test else (dataset, dataset)
    if first:
        print(f"{len(dataset.classes or ())} classes, {len(training)} images to train on, {len(test)} to test on", flush=True)
    if args.same:
        return 0 if compare_losses(folder, training, args) else 1
    results: dict[str, list[float]] = {name: [] for name in args.loader}
    for seed in args.seeds:
        for name in args.loader:
            batches = penstock_batches(training, args, True, seed) if name == "penstock" else \
                peer_batches(training, folder, args, seed)
            n_steps = need_steps(args.epochs * len(batches))
            done, network = fit(batches, len(dataset.classes or ()), args, args.epochs, n_steps, seed)
            results[name].append(accuracy(network, test, args))
            assert not dist.is_initialized() or same_weights(network), "ranks have other weights"
            if first:
                report(name, seed, done, f"accuracy {results[name][-1]:.1%}")
    if first:
        compare("accuracy", results)
    return 0


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="a folder with one folder of images per class")
    parser.add_argument("--test", type=float, default=0.25, help="the part of each class to test on")
    parser.add_argument("--loader", nargs="+", choices=("penstock", "torch"), default=["penstock"])
    parser.add_argument("--model", choices=("resnet18", "resnet50"), default="resnet18")
    parser.add_argument("--width", type=int, default=16, help="channels of the first layer; 64 in the article")
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--from-size", type=int, help="pictures grow from this size in the first two thirds of the epochs")
    parser.add_argument("--batch", type=int, default=16, help="of each rank")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--rate", type=float, default=0.05, help="the learning rate")
    parser.add_argument("--ema", action="store_true", help="test a moving average of the weights")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--same", action="store_true", help="compare losses without augmentation")
    parser.add_argument("--same-epochs", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="threads of Penstock, processes of torch")
    return parser.parse_args(arguments)


def main() -> int:
    args = parse()
    if "RANK" in os.environ:  # started by torchrun
        dist.init_process_group("gloo")
    try:
        with tempfile.TemporaryDirectory() as scratch:
            if args.data is None:
                cut_tiles(Path(scratch))
            return run(args.data or Path(scratch), args)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


if __name__ == "__main__":
    sys.exit(main())
