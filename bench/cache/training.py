#!/usr/bin/env python3
"""A cache that keeps images at the training size, beside caches of whole images, and no cache: epochs in turns.

    bench/cache/training.py DATA [--epochs 7] [--batch 32] [--workers 2] [--json FILE]

Transforms are Resize(256), RandomCrop(224), a flip and Normalize. Each row is a loader over DATA, a folder or data set of images.
All loaders take one epoch after another, so that a busy machine hits all of them. Before rates are printed, one batch of every
loader is compared, to the bit, with that of the loader without a cache. Images/s of a core are images divided by the CPU seconds of
the process.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

import numpy as np
import penstock as ps
from penstock import transforms as T

TRANSFORMS = [T.Resize(256), T.RandomCrop(224), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
SIZE = "2GiB"
CACHES = {
    "no cache": None,
    "stored bytes": SIZE,
    "pli-jpeg": ps.CacheUse(SIZE, form="pli-jpeg"),
    "raw, whole": ps.CacheUse(SIZE, form="raw"),
    "pli, training size": ps.CacheUse(SIZE, form="pli", resolution="training"),
    "pli-fast, training size": ps.CacheUse(SIZE, form="pli-fast", resolution="training"),
    "raw, training size": ps.CacheUse(SIZE, form="raw", resolution="training"),
}


def epoch(loader: ps.Loader) -> tuple[float, float]:
    """Runs one epoch. Returns images/s, and images per CPU second."""
    wall, cpu, n = time.perf_counter(), time.process_time(), 0
    for batch in loader:
        n += len(batch["index"])
    return n / (time.perf_counter() - wall), n / (time.process_time() - cpu)


def check(loaders: dict[str, ps.Loader]) -> None:
    """Ends the program if the pixels that a loader delivers from its cache differ from those of the first loader."""
    expected = None
    for name, loader in loaders.items():
        batch = loader.fetch(range(min(64, len(loader.dataset))), epoch=3)["image"]
        if expected is None:
            expected = np.array(batch)
        elif not np.array_equal(expected, batch):
            sys.exit(f"{name}: other pixels than without a cache")


def measure(args: argparse.Namespace) -> list[dict[str, Any]]:
    options = {"batch_size": args.batch, "shuffle": True, "seed": 1, "num_workers": args.workers, "output": "numpy"}
    loaders = {
        name: ps.Loader(args.data, transforms=TRANSFORMS, watch=ps.Watch(live=False), cache=cache, **options)
        for name, cache in CACHES.items()
    }
    first = {name: epoch(loader) for name, loader in loaders.items()}
    check(loaders)
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in loaders}
    for _ in range(args.epochs):
        for name, loader in loaders.items():
            found[name].append(epoch(loader))
    return [
        {
            "cache": name,
            "nbytes": loaders[name].stats()["cache"]["used"],
            "images_per_second": statistics.median(rate for rate, _ in rates),
            "images_per_core_second": statistics.median(rate for _, rate in rates),
            "first_epoch_images_per_core_second": first[name][1],
        }
        for name, rates in found.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=7)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json")
    args = parser.parse_args()
    rows = measure(args)
    none = rows[0]["images_per_second"]
    print(f"{'cache':24} {'MB':>7} {'images/s':>9} {'of a core':>10} {'x none':>7} {'first epoch, of a core':>23}")
    for row in rows:
        print(f"{row['cache']:24} {row['nbytes'] / 1e6:7.1f} {row['images_per_second']:9.0f} {row['images_per_core_second']:10.0f} "
              f"{row['images_per_second'] / none:7.2f} {row['first_epoch_images_per_core_second']:23.0f}")  # fmt: skip
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"benchmark": "cache at the training size", "data": args.data, "rows": rows}, file, indent=1)


if __name__ == "__main__":
    main()
