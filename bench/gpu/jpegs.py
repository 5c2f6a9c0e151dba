#!/usr/bin/env python3
"""Batches of the same JPEGs on a GPU, decoded by the GPU from pli-jpeg or by the CPU: images/s of whole loaders.

    bench/gpu/jpegs.py JPEGS [--batch-size 256] [--seconds 5] [--repeats 5] [--workers N] [--out FILE.json]

JPEGS is a folder of JPEG files. It is packed twice, as it is and as pli-jpeg; epochs of RandomResizedCrop(224), flip and
Normalize to float16 are then loaded from memory without end. Windows of the loaders take turns; medians are printed. Images that
the CPU decoded are prepared on the GPU. First one batch of each loader is compared: all must be equal to the bit.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock import transforms as T

EPOCH_BATCHES = 64  # minimum number of batches of an epoch, in which images of small sets come several times
WAYS = {"pli-jpeg, gpu": ("pli", "gpu"), "pli-jpeg, cpu": ("pli", "cpu"), "jpeg, cpu": ("jpeg", "cpu")}


def make_loader(path: Path, args: argparse.Namespace, decode: str) -> ps.Loader:
    chain = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    output = "torch" if args.torch else "dlpack"
    dataset = ps.Dataset(str(path))
    indices = np.arange(max(len(dataset), EPOCH_BATCHES * args.batch_size)) % len(dataset)
    return ps.Loader(dataset, batch_size=args.batch_size, shuffle=True, seed=1, indices=indices, drop_last=True,
                     fields=["image"], transforms={"image": chain}, dtype="float16", layout="NCHW", prefetch=3,
                     reading=ps.Reading(storage="memory"), num_workers=args.workers, device=ps.Gpu(decode=decode), output=output)


def on_host(x: Any) -> np.ndarray:
    if hasattr(x, "cpu"):
        return np.asarray(x.cpu().float().numpy())
    interface = x.__cuda_array_interface__  # an array of the driver that emulates a GPU
    dtype = np.dtype(interface["typestr"])
    bytes_ = ctypes.string_at(interface["data"][0], int(np.prod(interface["shape"])) * dtype.itemsize)
    return np.frombuffer(bytes_, dtype).reshape(interface["shape"]).astype(np.float32)


def batches(loader: ps.Loader) -> Iterator[Any]:
    while True:
        for batch in loader:
            yield batch["image"]


def window(source: Iterator[Any], batch_size: int, seconds: float, torch: Any) -> float:
    """Returns images/s over a window of about `seconds`."""
    n, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        next(source)
        n += batch_size
    if torch:
        torch.cuda.synchronize()
    return n / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("jpegs", type=Path)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=5.0, help="of a window")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--out", type=Path, help="JSON")
    args = parser.parse_args()
    try:
        import torch

        args.torch = torch if torch.cuda.is_available() else None
    except ImportError:
        args.torch = None
    result: dict[str, Any] = {"what": "jpegs", "gpu": ps.cuda.info(0)["name"], "batch_size": args.batch_size}
    with tempfile.TemporaryDirectory() as work:
        data = {"jpeg": Path(work) / "jpeg.pst", "pli": Path(work) / "pli.pst"}
        ps.pack(str(args.jpegs), str(data["jpeg"]), forms=["original"])
        ps.pack(str(args.jpegs), str(data["pli"]))
        loaders = {way: make_loader(data[name], args, decode) for way, (name, decode) in WAYS.items()}
        first = {way: on_host(next(batches(loader))) for way, loader in loaders.items()}
        for way, images in first.items():
            if not np.array_equal(images, first["jpeg, cpu"]):
                raise SystemExit(f"{way}: not the CPU's batch of the JPEG files to the bit: nothing was timed")
        sources = {way: batches(loader) for way, loader in loaders.items()}
        for source in sources.values():
            window(source, args.batch_size, min(2.0, args.seconds), args.torch)
        rates: dict[str, list[float]] = {way: [] for way in WAYS}
        for _ in range(args.repeats):
            for way, source in sources.items():
                rates[way].append(window(source, args.batch_size, args.seconds, args.torch))
        result["images_per_second"] = {way: statistics.median(values) for way, values in rates.items()}
        result["windows"] = rates
        result["loader"] = {way: loader.stats()["device"] for way, loader in loaders.items()}
    print(f"{result['gpu']}: " + "; ".join(f"{way} {rate:.0f} images/s" for way, rate in result["images_per_second"].items()))
    if args.out:
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
