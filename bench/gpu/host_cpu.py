#!/usr/bin/env python3
"""The host's CPU seconds per image of a loader: batches decoded on the GPU, beside batches decoded by the CPU.

    bench/gpu/host_cpu.py FOLDER... [--workers 2] [--batch-size 64] [--seconds 2] [--repeats 3] [--out FILE.json]

A folder has image files, such as PLI or JPEG; they are packed unchanged. Transforms are RandomResizedCrop(224), a flip and
Normalize to f16. In both cases batches end on the GPU. Loaders run in turns; a figure is the CPU time of all threads of the
process, divided by the images delivered.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

from shares import loader_of, window

import penstock as ps

SHARES = {"cpu": 0.0, "cuda": 1.0}


def packed(folder: Path, work: Path) -> Path:
    to = work / (folder.name + ".pst")
    ps.pack(str(folder), str(to))
    return to


def measure(data: Path, args: argparse.Namespace) -> dict[str, Any]:
    windows: dict[str, list[tuple[float, float]]] = {name: [] for name in SHARES}
    for _ in range(args.repeats):
        for name, share in SHARES.items():
            windows[name].append(window(loader_of(data, args, share), args.seconds))
    return {name: {"images_per_s": statistics.median(rate for rate, _ in found),
                   "cpu_seconds": statistics.median(cpu for _, cpu in found)} for name, found in windows.items()}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0, help="of a window")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON")
    args = parser.parse_args()
    sets: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as work:
        for folder in args.folders:
            sets[folder.name] = measure(packed(folder, Path(work)), args)
            for name, row in sets[folder.name].items():
                print(f"{folder.name}, {name}: {1e3 * row['cpu_seconds']:.3f} ms of CPU an image, "
                      f"{row['images_per_s']:.0f} images/s")
    if args.out:
        result = {"what": "host cpu", "gpu": ps.cuda.info(0)["name"], "workers": args.workers, "batch_size": args.batch_size,
                  "sets": sets}  # fmt: skip
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
