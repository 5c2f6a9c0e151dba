"""recode_cell.py WAY SET: epochs of one loader in a process of its own. Prints its figures as a line of JSON.

WAY is one of WAYS: what the loader's cache keeps. SET is a folder, a folder of tars, or a data set.

    --check          compares the pixels of epochs with a loader without a cache: before, while and after items are re-coded
    --step SECONDS   the first epoch has steps of that time; without it all epochs are as fast as the loader is

CPU time is the process's own, of all its threads, Python's among them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import zlib
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
import numpy as np  # noqa: E402
import penstock as ps  # noqa: E402
from penstock import transforms as T  # noqa: E402

SIZE, MEMORY = 224, "2GiB"
PAUSE_S, QUIET_S, LIMIT_S = 0.01, 0.3, 120.0  # between two looks; without a change; for all items
WAYS = {
    "files": None,
    "stored": MEMORY,
    "idle": ps.CacheUse(MEMORY, form="pli-jpeg", recode="idle"),
    "at-once": ps.CacheUse(MEMORY, form="pli-jpeg"),
}


def image_of(dataset: ps.Dataset) -> str:
    (name,) = (name for name, field in dataset.fields.items() if field.type == "image")
    return name


def loader_of(args: argparse.Namespace, way: str) -> ps.Loader:
    dataset = ps.Dataset(str(args.set))
    image = image_of(dataset)
    chain = [T.RandomResizedCrop(SIZE), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    return ps.Loader(dataset, args.batch, shuffle=True, seed=1, num_workers=args.workers, output="numpy", cache=WAYS[way],
                     fields=[image], transforms={image: chain})


# Checking ------------------------------------------------------------------------------------------------


def sums_of(loader: ps.Loader) -> dict[int, int]:
    """Returns the checksum of each sample's pixels in one epoch, keyed by the sample's number."""
    image, found = image_of(loader.dataset), {}
    for batch in loader:
        found.update((int(number), zlib.crc32(np.ascontiguousarray(pixels)))
                     for number, pixels in zip(batch["index"], batch[image], strict=True))
    if sorted(found) != list(range(len(loader.dataset))):
        sys.exit(f"an epoch of {len(loader.dataset)} samples delivered {len(found)}")
    return found


def check(args: argparse.Namespace) -> dict:
    """Compares the pixels of three epochs with those of a loader without a cache over the same data set."""
    with loader_of(args, "files") as plain, loader_of(args, args.way) as loader:
        for number in range(3):
            wanted, found = sums_of(plain), sums_of(loader)
            wrong = [number for number, value in wanted.items() if found[number] != value]
            if wrong:
                sys.exit(f"{args.way}: other pixels in epoch {number}: samples {wrong[:8]}, {len(wrong)} in all")
            if number == 1 and args.way == "idle":
                wait_for_all(loader)
        return {"compared": 3 * len(wanted), "recoded": loader.stats()["cache"]["recoded"]}


# Measuring -----------------------------------------------------------------------------------------------


def wait_for_all(loader: ps.Loader) -> float:
    """Waits until no item waits for re-coding and no worker is re-coding one. Returns the seconds that it waited."""
    begun = time.perf_counter()
    changed, former = begun, None
    while time.perf_counter() - changed < QUIET_S:
        stats: Any = loader.stats()["cache"]
        now = stats["to_recode"], stats["recoded"], stats["not_recoded"]
        if now[0] > 0 or now != former:
            changed, former = time.perf_counter(), now
        if changed - begun > LIMIT_S:
            sys.exit(f"{now[0]} items were not re-coded within {LIMIT_S:g} s")
        time.sleep(PAUSE_S)
    return changed - begun


def epoch(loader: ps.Loader, step_s: float = 0.0) -> tuple[float, float]:
    """Returns the seconds of an epoch, and the CPU milliseconds of a sample. An emulated step begins when its batch has arrived and
    the previous step has ended.
    """
    begun, cpu, n = time.perf_counter(), time.process_time(), 0
    free = begun
    for batch in loader:
        free = max(free, time.perf_counter()) + step_s
        n += len(batch["index"])
        time.sleep(max(0.0, free - time.perf_counter()))
    if n != len(loader.dataset):
        sys.exit(f"an epoch of {len(loader.dataset)} samples delivered {n}")
    return time.perf_counter() - begun, (time.process_time() - cpu) / n * 1e3


def deliver(args: argparse.Namespace) -> dict:
    meter = runner.Meter()
    with loader_of(args, args.way) as loader:
        first_s, first_cpu_ms = epoch(loader, args.step)
        stats: Any = loader.stats()["cache"]
        found = {"first_s": first_s, "first_cpu_ms": first_cpu_ms, "items": stats["items"], "recoded": stats["recoded"],
                 "not_recoded": stats["not_recoded"], "recode_ms": stats["recode_seconds"] / max(1, stats["recoded"]) * 1e3}
        rest_s = wait_for_all(loader) if args.way == "idle" else 0.0
        later = [epoch(loader) for _ in range(args.epochs)]
        n = len(loader.dataset)
        return {**found, "images": n, "rest_s": rest_s, "later_cpu_ms": statistics.median(cpu for _, cpu in later),
                "later": n / statistics.median(seconds for seconds, _ in later), "foreign_cores": meter.spent().foreign_cores}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("set", type=Path)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--step", type=float, default=0.0, metavar="SECONDS")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=3, help="after the first (%(default)s)")
    args = parser.parse_args()
    runner.tell((check if args.check else deliver)(args))


if __name__ == "__main__":
    main()
