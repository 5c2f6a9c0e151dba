"""cell.py SOURCE WHAT THREADS --folder DIR --store DIR --epochs N: one loader in a process of its own.

WHAT is one of these. Each prints a line of JSON.

    prepare   makes the index or conversion that the loader needs: seconds
    check     images of the whole set, compared with Pillow and counted; with --expected (of make_containers.py) the mean colours
              of each, too
    first     opens (without an index of Penstock) and delivers epochs: seconds to the first batch, images/s of the first epoch and
              of later ones, peak memory of all processes
    again     opens once more: seconds to the first batch

With --rows batches are the images' encoded bytes, which the check compares by their sums. Imports are not timed. The first epoch
is timed from the opening to its last batch.
"""

from __future__ import annotations

import argparse
import importlib
import json
import statistics
import sys
import time
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "records")]
import runner  # noqa: E402
import common  # noqa: E402
import measure  # noqa: E402
import numpy as np  # noqa: E402

CHECKED = 8  # images that are compared with Pillow
BUFFER_PART = 8  # a shuffle buffer holds one part in so many of the set


def check_whole(found: list[int], n: int, what: str) -> None:
    if sorted(found) != list(range(n)):
        raise SystemExit(f"{what}: {len(found)} samples of {n}, {len(set(found))} of them different")


def check_means(found: dict[int, list[float]], expected: list[dict], what: str) -> float:
    """Compares the mean colours of each image with the expected ones. Returns the largest difference, in levels of 255."""
    want = np.array([expected[number]["means"] for number in found])
    levels = np.abs(np.array(list(found.values())) - want) * np.array(common.STD) * 255
    if not levels.max() <= measure.TOLERANCE_LEVELS:
        number = list(found)[int(levels.max(axis=1).argmax())]
        raise SystemExit(f"{what}: the mean colour of sample {number} differs by {levels.max():.2f} levels of 255")
    return round(float(levels.max()), 3)


def check(source, work: common.Work, args: argparse.Namespace) -> dict:
    files, seen, means = work.files(), [], {}
    wanted = dict.fromkeys(range(0, len(files), max(1, len(files) // CHECKED)))
    for images, numbers in next(source.epochs(work, args.store, args.threads, args.buffer, True)):
        seen += numbers
        wanted.update({number: np.array(images[i]) for i, number in enumerate(numbers) if number in wanted})
        means.update({number: np.asarray(images[i]).mean(axis=(1, 2)) for i, number in enumerate(numbers)})
    check_whole(seen, len(files), source.NAME)
    area = getattr(source, "AREA", False)
    found = measure.compare(source.NAME, work, [files[number] for number in wanted], np.stack(list(wanted.values())), area)
    return found | ({"means_levels": check_means(means, args.expected, source.NAME)} if args.expected else {})


def check_rows(source, work: common.Work, args: argparse.Namespace) -> dict:
    """Checks that each row has the bytes of its file: those with the row's number in `expected`."""
    seen: list[int] = []
    for values, numbers in next(source.epochs(work, args.store, args.threads, args.buffer, True, True)):
        seen += numbers
        for value, number in zip(values, numbers, strict=True):
            if zlib.crc32(value) != args.expected[number]["crc"]:
                raise SystemExit(f"{source.NAME}: sample {number} has other bytes than its file")
    check_whole(seen, len(args.expected), source.NAME)
    return {"rows": len(seen)}


def deliver(source, work: common.Work, args: argparse.Namespace, n_epochs: int) -> dict:
    """Delivers epochs; if n_epochs is 0, only the first batch."""
    n, rates, opened_s = len(work.files()), [], 0.0
    runner.forget_peak_rss()
    meter = runner.Meter()
    epochs = source.epochs(work, args.store, args.threads, args.buffer, False, *([True] if args.rows else []))
    begun = time.perf_counter()
    for i in range(max(1, n_epochs)):
        order: list[int] = []
        for images, numbers in next(epochs):
            if not opened_s:
                opened_s = time.perf_counter() - begun
                if n_epochs == 0:
                    return {"opened_s": round(opened_s, 4)}
                if not args.rows:
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
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--expected", type=Path)
    args = parser.parse_args()
    source = importlib.import_module("source_" + args.source)
    work = common.Work("imagenet", args.folder, 64, 224, True, True)
    args.expected = json.loads(args.expected.read_text()) if args.expected else []
    args.buffer = max(1, len(work.files()) // BUFFER_PART)
    found = {"name": source.NAME, "versions": source.versions()}
    if args.what == "prepare":
        begun = time.perf_counter()
        source.prepare(args.store)
        found["prepared_s"] = round(time.perf_counter() - begun, 4)
    elif args.what == "check":
        found["check"] = (check_rows if args.rows else check)(source, work, args)
    else:
        found |= deliver(source, work, args, args.epochs + 1 if args.what == "first" else 0)
    runner.tell(found)


if __name__ == "__main__":
    main()
