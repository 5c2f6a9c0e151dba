#!/usr/bin/env python3
"""How much a training step slows down while the same GPU decodes its input.

    bench/gpu/training.py DATA [--batch-size 256] [--seconds 10] [--repeats 5] [--out FILE.json]

DATA is a Penstock data set of images (or a folder). ResNet-50 is trained with mixed precision (bfloat16) and
channels-last tensors, on one batch that lies on the GPU (synthetic) and on batches that Penstock decodes, crops, flips
and normalises on that GPU; windows of both alternate, and the medians are compared. The same is measured again with the model on a
CUDA stream of high priority ("first"), whose kernels run before the loader's; on the default stream both have the same priority.
Before anything is timed, the loader's first batch is compared with the batch that the CPU makes. Images of small sets come several
times in an epoch.

Needs torch with CUDA, and nothing else. Without a GPU: --dry-run builds the model and runs one small step on the CPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

import penstock as ps
from penstock import transforms as T

EPOCH_BATCHES = 64  # at least


def convolution(n_in: int, n_out: int, kernel: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(n_in, n_out, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(n_out)
    )


class Bottleneck(nn.Module):
    """The bottleneck block of ResNet-50 (He et al., CVPR 2016), with the stride in the 3x3 convolution."""

    def __init__(self, n_in: int, width: int, stride: int) -> None:
        super().__init__()
        n_out = 4 * width
        self.one = convolution(n_in, width, 1)
        self.two = convolution(width, width, 3, stride)
        self.three = convolution(width, n_out, 1)
        self.short = convolution(n_in, n_out, 1, stride) if stride != 1 or n_in != n_out else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.one(x))
        y = torch.relu(self.two(y))
        return torch.relu(self.three(y) + self.short(x))


def resnet(depths: tuple[int, ...] = (3, 4, 6, 3), n_classes: int = 1000) -> nn.Sequential:
    layers: list[nn.Module] = [convolution(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    n_in = 64
    for i, depth in enumerate(depths):
        for j in range(depth):
            layers.append(Bottleneck(n_in, 64 << i, 2 if i > 0 and j == 0 else 1))
            n_in = 256 << i
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, n_classes))


def make_loader(data: str, batch_size: int, device: str | None) -> ps.Loader:
    dataset = ps.Dataset(data)
    n = len(dataset)
    return ps.Loader(
        dataset,
        batch_size=batch_size,
        indices=np.arange(max(n, EPOCH_BATCHES * batch_size)) % n,
        shuffle=True,
        seed=1,
        drop_last=True,
        fields=["image"],
        transforms={
            "image": [
                T.RandomResizedCrop(224),
                T.RandomHorizontalFlip(),
                T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD),
            ]
        },
        dtype="float16",
        layout="channels_last",
        output="torch",
        prefetch=3,
        device=ps.Gpu(device, decode="gpu") if device else "cpu",
    )


def images(loader: ps.Loader) -> Iterator[torch.Tensor]:
    """Yields the loader's batches without end, as NCHW tensors in channels-last memory format."""
    while True:
        for batch in loader:
            yield batch["image"]


def check(data: str, batch_size: int, device: str) -> None:
    on_gpu = next(iter(make_loader(data, batch_size, device)))["image"].cpu()
    on_cpu = next(iter(make_loader(data, batch_size, None)))["image"]
    if not torch.equal(on_gpu, on_cpu):
        worst = (on_gpu.float() - on_cpu.float()).abs().max().item()
        sys.exit(f"the GPU's batch differs from the CPU's by up to {worst}: nothing was timed")


def make_step(model: nn.Module, device: str, n_classes: int) -> Callable[[torch.Tensor], None]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()

    def step(x: torch.Tensor) -> None:
        labels = torch.zeros(len(x), dtype=torch.long, device=device)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.split(":")[0], dtype=torch.bfloat16):
            loss = loss_of(model(x), labels)
        loss.backward()
        optimizer.step()

    return step


def window(step: Callable[[torch.Tensor], None], source: Iterator[torch.Tensor], seconds: float) -> float:
    """Returns the seconds per step over a window of about `seconds`."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    n = 0
    while time.perf_counter() - start < seconds:
        for _ in range(10):
            step(next(source))
        torch.cuda.synchronize()
        n += 10
    return (time.perf_counter() - start) / n


def forever(x: torch.Tensor) -> Iterator[torch.Tensor]:
    while True:
        yield x


def measure(args: argparse.Namespace) -> dict[str, Any]:
    device = "cuda"
    check(args.data, args.batch_size, device)
    torch.backends.cudnn.benchmark = True
    model = resnet().to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    step = make_step(model, device, 1000)
    loader = make_loader(args.data, args.batch_size, device)
    loaded = images(loader)
    synthetic = forever(next(loaded).clone(memory_format=torch.preserve_format))
    streams = {"": torch.cuda.default_stream(), "_first": torch.cuda.Stream(priority=-1)}
    times: dict[str, list[float]] = {}
    for seconds in [min(3.0, args.seconds)] + args.repeats * [args.seconds]:
        for suffix, stream in streams.items():
            for name, source in (("synthetic", synthetic), ("loaded", loaded)):
                with torch.cuda.stream(stream):
                    times.setdefault(name + suffix, []).append(window(step, source, seconds))
    # The first windows only warm up and are not counted.
    times = {name: values[1:] for name, values in times.items()}
    medians = {name: statistics.median(values) for name, values in times.items()}
    stats = loader.stats()
    return {
        "what": "training",
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "batch_size": args.batch_size,
        "step_ms": {name: 1000 * value for name, value in medians.items()},
        "windows_ms": {name: [1000 * value for value in values] for name, values in times.items()},
        "images_per_second": {name: args.batch_size / value for name, value in medians.items()},
        "slow_down": medians["loaded"] / medians["synthetic"] - 1,
        "slow_down_first": medians["loaded_first"] / medians["synthetic_first"] - 1,
        "loader": {name: value for name, value in stats.items() if isinstance(value, int | float | str)},
    }


def dry_run() -> None:
    model = resnet((1, 1, 1, 1), 10).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    step = make_step(model, "cpu", 10)
    step(torch.zeros(2, 64, 64, 3).permute(0, 3, 1, 2))
    full = resnet()
    n = sum(p.numel() for p in full.parameters())
    if n != 25_557_032:
        sys.exit(f"ResNet-50 has 25557032 parameters, this model {n}")
    print("dry run: one step on the CPU, ResNet-50's parameters counted")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", nargs="?", default="")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=10.0, help="of a window")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="JSON")
    parser.add_argument("--dry-run", action="store_true")
    args = parser.parse_args()
    if args.dry_run:
        dry_run()
        return
    if not torch.cuda.is_available():
        sys.exit("no CUDA GPU: nothing to measure (--dry-run checks the script)")
    result = measure(args)
    print(f"{result['gpu']}: synthetic {result['step_ms']['synthetic']:.1f} ms, loaded "
          f"{result['step_ms']['loaded']:.1f} ms a step: {100 * result['slow_down']:+.1f} %, "
          f"{100 * result['slow_down_first']:+.1f} % with the model first")
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
