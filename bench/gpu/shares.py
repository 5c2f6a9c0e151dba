#!/usr/bin/env python3
"""Predictions of the what-if model for a loader whose batches a GPU decodes in part, beside the measured rates.

    bench/gpu/shares.py JPEGS [--workers 2] [--batch-size 64] [--seconds 3] [--repeats 3] [--out FILE.json]

The same images as pli-jpeg are analysed on this GPU (`penstock.analyze`, with the GPU's own clock), rates are predicted for
Gpu.part 0, 0.25, 0.5, 0.75 and 1, and then loaders run in turns. No network is trained. The CPU seconds of the process stand beside
each rate.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import penstock as ps
from penstock import transforms as T

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "whatif"))
from hybrid import on_gpu  # noqa: E402

SHARES = (0.0, 0.25, 0.5, 0.75, 1.0)
EPOCH_BATCHES = 512
CHAIN = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]


def loader_of(data: Path, args: argparse.Namespace, share: float) -> ps.Loader:
    dataset = ps.Dataset(str(data))
    return ps.Loader.from_config(on_gpu(share), dataset=dataset, batch_size=args.batch_size,
                                 indices=np.arange(EPOCH_BATCHES * args.batch_size) % len(dataset), shuffle=True,
                                 drop_last=True, fields=["image"], transforms=CHAIN, dtype="float16", num_workers=args.workers,
                                 cache=None)  # fmt: skip


def window(loader: ps.Loader, seconds: float) -> tuple[float, float]:
    """Returns images/s and the process's CPU seconds per image. The first tenth of the window is not counted."""
    end, begin, n = time.perf_counter() + 1.1 * seconds, None, 0
    while True:
        for _ in loader:
            now = time.perf_counter()
            if begin is not None:
                n += loader.batch_size
            elif now > end - seconds:
                begin, cpu = now, time.process_time()
            if now > end:
                assert begin is not None
                return n / (now - begin), (time.process_time() - cpu) / n


def clock_us(loader: ps.Loader) -> dict[str, float]:
    """Returns microseconds of an image by the GPU's clock: of its upload, and from a batch's first launch to its last."""
    stats = loader.stats()
    upload, n = stats["stages"]["upload"], max(stats["device"]["gpu_samples"] + stats["device"]["cpu_samples"], 1)
    return {"link": 1e6 * upload["link"] / n, "gpu": 1e6 * upload["gpu"] / n}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("jpegs", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a window")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON")
    args = parser.parse_args()
    rows: dict[str, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as work:
        data = Path(work) / "pli.pst"
        ps.pack(str(args.jpegs), str(data))
        report = ps.analyze(loader_of(data, args, 0.5), budget=f"{4 * args.seconds}s", forms=("pli-jpeg",))
        for share in SHARES:
            answer = report.whatif(gpu_part=share)
            rows[str(share)] = {"predicted": answer.samples_per_second, "binding": answer.binding, "rates": [], "cpu": [],
                                "clock_us": []}  # fmt: skip
        for _ in range(args.repeats):
            for share in SHARES:
                loader = loader_of(data, args, share)
                rate, cpu = window(loader, args.seconds)
                rows[str(share)]["rates"].append(rate)
                rows[str(share)]["cpu"].append(cpu)
                rows[str(share)]["clock_us"].append(clock_us(loader))
    for share, row in rows.items():
        row["measured"], row["cpu_seconds"] = statistics.median(row["rates"]), statistics.median(row["cpu"])
        row["error"] = row["predicted"] / row["measured"] - 1
        print(f"part {share}: {row['measured']:.0f} images/s, predicted {row['predicted']:.0f} ({100 * row['error']:+.1f} %, "
              f"limited by {row['binding']}), {1e3 * row['cpu_seconds']:.3f} ms of CPU an image")
    report.data["subject"]["path"] = data.name
    if args.out:
        result = {"what": "shares", "gpu": ps.cuda.info(0)["name"], "workers": args.workers, "batch_size": args.batch_size,
                  "shares": rows, "report": report.data}  # fmt: skip
        args.out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
