#!/usr/bin/env python3
"""Networks that are trained on this machine, and the share of their time that is a stall: models.py --images DIR --out DIR.

Each network of torchvision is trained (forward, backward, SGD step) on a GPU if torch has one, else on the CPU with one thread,
while one worker prepares batches on the other cores. penstock.analyze measures, for files as they are and for pli-jpeg, and for
storage of several speeds (the loader's throttle): the parts of the time in which the network computes, waits for preparation, and
waits for storage. The rate that the what-if model predicts from the costs stands beside it. A round goes over all cells; figures
are medians of --rounds rounds.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import runner  # noqa: E402

MODELS = ("shufflenet_v2_x0_5", "mobilenet_v3_small", "squeezenet1_1", "resnet18")
STORAGE = {"memory": None, "530 MB/s": (530e6, 0.0), "15 MB/s": (15e6, 0.0)}
CLASSES = 1000


def store(images: Path, path: Path, form: str) -> Path:
    import penstock as ps

    if path.exists():
        return path
    half = path.with_name(path.name + ".part")
    shutil.rmtree(half, ignore_errors=True)
    with ps.Writer(half, {"image": ps.Image(form), "label": ps.Int(CLASSES)}) as writer:
        for number, file in enumerate(sorted(images.glob("*/*.JPEG"))):
            writer.write({"image": file.read_bytes(), "label": number % CLASSES}, name=file.stem)
    half.rename(path)
    return path


def trainer(name: str):
    """Returns a step that trains the network with a batch."""
    import torch
    import torchvision

    torch.manual_seed(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    network = getattr(torchvision.models, name)(num_classes=CLASSES).to(device).train()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01, momentum=0.9)

    def step(batch: dict[str, Any]) -> None:
        images = batch["image"].to(device, non_blocking=True)
        loss = torch.nn.functional.cross_entropy(network(images), batch["label"].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def measure(path: Path, name: str, throttle: tuple[float, float] | None, args: argparse.Namespace) -> dict[str, Any]:
    import penstock as ps
    from penstock import transforms as T

    chain = [T.RandomResizedCrop(args.size), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    loader = ps.Loader(path, args.batch, shuffle=True, seed=1, transforms=chain, num_workers=1, output="torch", cache=None,
                       reading=ps.Reading(throttle=throttle))
    report = ps.analyze(loader, trainer(name), budget=args.budget, forms=()).data
    phase = "cold" if throttle else "warm"
    return {"rate": report["phases"][phase]["samples_per_second"], "own": report["phases"]["resident"]["samples_per_second"],
            "step_s": report["accelerator"]["step_seconds"], "stall": report["stall"][phase],
            "predicted": report["check"][phase]["predicted"]}  # fmt: skip


def medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    found = {name: statistics.median(run[name] for run in runs) for name in ("rate", "own", "step_s", "predicted")}
    parts = ("compute", "upload", "prepare", "fetch")
    return {**found, "stall": {part: statistics.median(run["stall"][part] for run in runs) for part in parts}}


def table(cells: list[dict[str, Any]]) -> str:
    heads = ("network", "form", "storage", "step, ms", "images/s alone", "images/s", "computes", "prep stall", "fetch stall",
             "predicted")  # fmt: skip
    lines = runner.heads(*heads)
    for cell in cells:
        parts = cell["stall"]
        row = [cell["model"], cell["form"], cell["storage"], f"{1000 * cell['step_s']:.0f}", f"{cell['own']:.0f}",
               f"{cell['rate']:.0f}", f"{parts['compute']:.2f}", f"{parts['prepare'] + parts['upload']:.2f}",
               f"{parts['fetch']:.2f}", f"{cell['predicted'] / cell['rate'] - 1:+.1%}"]  # fmt: skip
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = runner.parser(__doc__, "images", "work", again=False)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--forms", default="jpeg,pli-jpeg")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=96, help="pixels; at 224 a CPU's networks are too slow to stall")
    parser.add_argument("--budget", default="12s", help="of one analysis")
    parser.add_argument("--rounds", type=int, default=1)
    args = runner.parsed(parser)
    import torch

    torch.set_num_threads(1)
    args.work.mkdir(parents=True, exist_ok=True)
    names = [(model, form, storage) for model in args.models.split(",") for form in args.forms.split(",") for storage in STORAGE]
    runs: dict[tuple[str, str, str], list[dict[str, Any]]] = {name: [] for name in names}
    for i in range(args.rounds):
        for model, form, storage in names:
            path = store(args.images, args.work / f"{form}.pst", form)
            runs[model, form, storage].append(measure(path, model, STORAGE[storage], args))
            print(f"round {i + 1}: {model}, {form}, {storage}", file=sys.stderr, flush=True)
    cells = [{"model": m, "form": f, "storage": s, **medians(runs[m, f, s])} for m, f, s in names]
    accelerator = torch.cuda.get_device_name() if torch.cuda.is_available() else "the CPU, one thread"
    found = {"bench": "models", "machine": runner.machine(), "accelerator": accelerator, "batch": args.batch, "size": args.size,
             "rounds": args.rounds, "cells": cells}  # fmt: skip
    runner.write(args.out / f"models-{found['machine']['date']}", found, table(cells) + "\n")


if __name__ == "__main__":
    main()
