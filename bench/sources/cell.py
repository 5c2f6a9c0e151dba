"""cell.py SOURCE WHAT THREADS --folder DIR --store DIR --epochs N: one loader of tars in a process of its own.

WHAT is one of these. Each prints a line of JSON.

    prepare   makes what the loader wants made beforehand: seconds
    check     images of the whole set, compared with Pillow and counted
    first     opens (without an index of Penstock) and delivers epochs: seconds to the first batch, images/s of the first epoch and
              of later ones, peak memory of all processes
    again     opens once more: seconds to the first batch

Imports are not timed. The first epoch is timed from the opening to its last batch.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "records")]
import runner  # noqa: E402
import common  # noqa: E402
import measure  # noqa: E402
import numpy as np  # noqa: E402

CHECKED = 8  # images that are compared with Pillow
BUFFER_PART = 8  # a buffer holds this part of the set


def check_whole(found: list[int], n: int, what: str) -> None:
    if sorted(found) != list(range(n)):
        raise SystemExit(f"{what}: {len(found)} samples of {n}, {len(set(found))} of them different")


def check(source, work: common.Work, args: argparse.Namespace) -> dict:
    files, seen = work.files(), []
    wanted = dict.fromkeys(range(0, len(files), max(1, len(files) // CHECKED)))
    for images, numbers in next(source.epochs(work, args.store, args.threads, args.buffer, True)):
        seen += numbers
        wanted.update({number: np.array(images[i]) for i, number in enumerate(numbers) if number in wanted})
    check_whole(seen, len(files), source.NAME)
    return measure.compare(source.NAME, work, [files[number] for number in wanted], np.stack(list(wanted.values())))


def deliver(source, work: common.Work, args: argparse.Namespace, n_epochs: int) -> dict:
    """Delivers epochs, or, if n_epochs is 0, the first batch alone."""
    n, rates, opened_s = len(work.files()), [], 0.0
    runner.forget_peak_rss()
    meter = runner.Meter()
    epochs = source.epochs(work, args.store, args.threads, args.buffer, False)
    begun = time.perf_counter()
    for i in range(max(1, n_epochs)):
        order: list[int] = []
        for images, numbers in next(epochs):
            if not opened_s:
                opened_s = time.perf_counter() - begun
                if n_epochs == 0:
                    return {"opened_s": round(opened_s, 4)}
                measure.check_batch(source, work, images)
            order += numbers
        rates.append(len(order) / (time.perf_counter() - begun))
        if source.EXACT:
            check_whole(order, n, f"{source.NAME}, epoch {i}")
        begun = time.perf_counter()
    spent = meter.spent()
    return {"opened_s": round(opened_s, 4), "first": round(rates[0], 1), "later": round(statistics.median(rates[1:]), 1),
            "low": round(min(rates[1:]), 1), "high": round(max(rates[1:]), 1), "peak_mb": round(runner.peak_rss_mb(), 1),
            "foreign_cores": round(spent.foreign_cores, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("what", choices=["prepare", "check", "first", "again"])
    parser.add_argument("threads", type=int)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    args = parser.parse_args()
    source = importlib.import_module("source_" + args.source)
    work = common.Work("imagenet", args.folder, 64, 224, True, True)
    args.buffer = max(1, len(work.files()) // BUFFER_PART)
    found = {"name": source.NAME, "versions": source.versions()}
    if args.what == "prepare":
        begun = time.perf_counter()
        source.prepare(args.store)
        found["prepared_s"] = round(time.perf_counter() - begun, 4)
    elif args.what == "check":
        found["check"] = check(source, work, args)
    else:
        found |= deliver(source, work, args, args.epochs + 1 if args.what == "first" else 0)
    runner.tell(found)


if __name__ == "__main__":
    main()
