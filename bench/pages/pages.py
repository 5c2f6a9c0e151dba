#!/usr/bin/env python3
"""The page-aware order beside random order: pages.py --data DIR --work DIR --out DIR.

ImageNet JPEGs, several copies of each under other names, in one packed data set and in a plain folder. Loaders deliver them as
stored bytes (the rate of storage) and as RandomResizedCrop(224) (the rate of training), in order "shuffled" and in order "pages"
with several sizes of pages and windows, of which 16 x 64 is the default. Settings:

- throttle: the loader's throttle, 200 MB/s, 10 ms for each request, one request at a time: a hard disk.
- network: the same with 32 requests at a time: a network volume.
- local: this machine's disk. Pages of the files are dropped from the kernel's cache before each run, and as they are read.

The folder's files were written in an order that is not that of their names. Each file is a request of its own, in any order. The
throttle treats all requests alike, so on it no order is faster than 1 / (10 ms + bytes of a file / 200 MB/s).

Ways run in turns. A run ends with a whole number of 512 samples after --seconds, or with its epoch. Each figure is the median of
the rounds. An epoch of each order is checked first: every sample comes once.

How well an order mixes is counted: the mean number of different classes in so many samples in a row, of a data set sorted
by class with 1300 samples each, as ImageNet packed from its folder.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import runner  # noqa: E402

import penstock as ps  # noqa: E402
from penstock import transforms as T  # noqa: E402

BATCH, PREFETCH = 128, 8  # samples; batches ahead: together two windows of 512 samples
THROTTLES = {"throttle": (200e6, 0.01, 1), "network": (200e6, 0.01, 32)}
WINDOW = 512  # samples
DEFAULT = "pages, 16 x 64"
WAYS: dict[str, dict[str, Any]] = {
    "random": {"order": "shuffled"},
    DEFAULT: {"order": "pages"},
    f"{DEFAULT}, 2 ahead": {"order": "pages", "prefetch": 2},
    "pages, 8 x 64": {"order": ps.Pages(8, 64)},
    "pages, 64 x 8": {"order": ps.Pages(64, 8)},
    "pages, 64 x 64": {"order": ps.Pages(64, 64)},
}
IN_FOLDERS = ("random", DEFAULT)  # the ways that folders are read in, whose files are requests of their own
CLASS_SAMPLES, N_CLASSES = 1300, 100
RUNS = (128, 1024, 4096, 16384)  # samples in a row


def make_folder(source: Path, folder: Path, copies: int) -> None:
    """Writes `copies` of each file under other names, class by class. Not links: each has blocks of its own on the disk.

    Within a class the files are written in random order, as an archive or several writers do.
    """
    mark = folder / f".{copies}-shuffled"
    if mark.exists():
        return
    for directory in sorted(path for path in source.iterdir() if path.is_dir()):
        (folder / directory.name).mkdir(parents=True, exist_ok=True)
        made = [(i, file) for file in sorted(directory.iterdir()) for i in range(copies)]
        random.Random(directory.name).shuffle(made)
        for i, file in made:
            (folder / directory.name / f"{i:03d}-{file.name}").write_bytes(file.read_bytes())
    mark.touch()


def drop(path: Path) -> None:
    """Writes the files' pages back and drops them from the kernel's cache."""
    for file in [path] if path.is_file() else path.rglob("*"):
        if file.is_file():
            descriptor = os.open(file, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def check_epoch(path: Path, options: dict[str, Any]) -> None:
    """Reads an epoch without throttle, and checks that each sample comes once."""
    with ps.Loader(path, fields=["image"], encoded=["image"], num_workers=2, **options) as loader:
        seen = sorted(int(i) for batch in loader for i in batch["index"])
    if seen != list(range(len(seen))) or not seen:
        raise SystemExit(f"{path}: an epoch of {options} has not each sample once")


def run(path: Path, chain: str, options: dict[str, Any], seconds: float, workers: int) -> dict[str, float]:
    """Reads for some seconds, counted from the second batch on. Returns the rates."""
    how: dict[str, Any] = {"encoded": ["image"]}
    if chain == "crops":
        how = {"transforms": [T.RandomResizedCrop(224), T.RandomHorizontalFlip()]}
    with ps.Loader(path, fields=["image"], num_workers=workers, batch_size=BATCH, output="numpy", dtype="uint8",
                   seed=int(time.time()), host_memory="3GiB", cache=None,
                   **how, **{"prefetch": PREFETCH, **options}) as loader:  # fmt: skip
        batches = iter(loader)
        start, cpu, images = time.perf_counter(), time.process_time(), 0
        for batch in batches:
            images += len(batch["index"])
            if time.perf_counter() - start >= seconds and images % WINDOW == 0:
                break
        spent, cpu = time.perf_counter() - start, time.process_time() - cpu
        storage = loader.stats()["storage"]
    items = storage["reads"] + storage["merged"]
    counted = spent * items / images  # rows that were read ahead were read before their time, so they are not counted
    return {"images_per_s": images / spent, "requests_per_s": storage["reads"] / counted,
            "items_per_request": items / storage["reads"], "ordered": storage["ordered"] / storage["reads"],
            "useful_mb_per_s": storage["nbytes_read"] / counted / 1e6,
            "thrown_away_mb_per_s": storage["nbytes_gap"] / counted / 1e6, "cpu_ms_per_image": 1e3 * cpu / images,
            "seconds": spent}  # fmt: skip


def mixing(work: Path) -> list[dict[str, Any]]:
    """Counts the classes in samples in a row, for each order."""
    path = work / "labels.pst"
    if not path.exists():
        with ps.Writer(path, {"label": ps.Int(N_CLASSES)}) as writer:
            for i in range(CLASS_SAMPLES * N_CLASSES):
                writer.write({"label": i // CLASS_SAMPLES})
    found = []
    for name, way in WAYS.items():
        if "prefetch" in way:  # the order does not depend on it
            continue
        with ps.Loader(path, batch_size=BATCH, output="numpy", seed=1, **way) as loader:
            labels = [int(label) for batch in loader for label in batch["label"]]
        for n in RUNS:
            runs = [len(set(labels[i : i + n])) for i in range(0, len(labels) - n + 1, n)]
            found.append({"way": name, "run": n, "classes": statistics.mean(runs)})
        print(f"{name:14} classes in runs:", *(f"{one['run']}: {one['classes']:.1f}" for one in found[-len(RUNS) :]), flush=True)
    return found


def measure(args: argparse.Namespace, paths: dict[str, Path]) -> list[dict[str, Any]]:
    cells = []
    for setting in args.settings:
        for layout, path in paths.items():
            for chain in args.chains:
                ways = {name: way for name, way in WAYS.items() if layout == "packed" or name in IN_FOLDERS}
                runs: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
                for _ in range(args.rounds):
                    for name, way in ways.items():
                        options = {**way, "reading": ps.Reading(page_cache="drop")}
                        if setting in THROTTLES:
                            options = {**way, "reading": ps.Reading(throttle=THROTTLES[setting])}
                        else:
                            drop(path)
                        runs[name].append(run(path, chain, options, args.seconds, args.workers))
                for name, found in runs.items():
                    cell = {key: statistics.median(one[key] for one in found) for key in found[0]}
                    base = statistics.median(one["images_per_s"] for one in runs["random"])
                    cells.append({"setting": setting, "layout": layout, "chain": chain, "way": name, **cell,
                                  "times_random": cell["images_per_s"] / base})  # fmt: skip
                    print(f"{setting:8} {layout:6} {chain:5} {name:23} {cell['images_per_s']:8.0f} images/s "
                          f"{cell['requests_per_s']:7.0f} requests/s {cell['items_per_request']:5.1f} items each "
                          f"{cell['useful_mb_per_s']:7.1f} MB/s (+ {cell['thrown_away_mb_per_s']:.1f}) "
                          f"{cell['cpu_ms_per_image']:.2f} CPU ms each {cells[-1]['times_random']:.2f} x", flush=True)  # fmt: skip
    return cells


def main() -> None:
    parser = runner.parser(__doc__, "data", "work", again=False)
    parser.add_argument("--settings", nargs="+", default=["throttle", "network", "local"],
                        choices=["throttle", "network", "local"])  # fmt: skip
    parser.add_argument("--layouts", nargs="+", default=["packed", "folder"], choices=["packed", "folder"])
    parser.add_argument("--chains", nargs="+", default=["bytes", "crops"], choices=["bytes", "crops"])
    parser.add_argument("--copies", type=int, default=16, help="of each image (default 16)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=8.0, help="of a run; runs end with the epoch, too")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    args = runner.parsed(parser)
    args.work.mkdir(parents=True, exist_ok=True)
    args.out.mkdir(parents=True, exist_ok=True)
    folder, packed = args.work / f"shuffled-{args.copies}", args.work / f"packed-{args.copies}.pst"
    make_folder(args.data / "imagenet_folder", folder, args.copies)
    if not packed.exists():
        ps.pack(folder, packed, forms=["original"])
    for way in WAYS.values():
        check_epoch(packed, way)
        check_epoch(folder, way)
    paths = {layout: {"packed": packed, "folder": folder}[layout] for layout in args.layouts}
    with ps.Dataset(packed) as dataset:
        n = len(dataset)
    result = {
        "bench": "pages", "date": datetime.date.today().isoformat(), "machine": runner.machine(), "images": n,
        "nbytes": sum(file.stat().st_size for file in ([packed] if packed.is_file() else packed.rglob("*")) if file.is_file()),
        "batch_size": BATCH, "prefetch": PREFETCH, "workers": args.workers, "rounds": args.rounds, "seconds": args.seconds,
        "throttles": THROTTLES, "classes": N_CLASSES, "class_samples": CLASS_SAMPLES, "mixing": mixing(args.work),
        "cells": measure(args, paths),
    }  # fmt: skip
    (args.out / "pages.json").write_text(json.dumps(result, indent=1) + "\n")
    print(f"figures: {args.out / 'pages.json'}")


if __name__ == "__main__":
    main()
