"""cell.py LOADER SET CORES: the rate of one loader, alone and beside emulated or real steps. Prints a line of JSON.

--rate R: storage of R MB/s, which the control group of this process makes so. Memory then holds the part --share of the set. For
Penstock that is the size of its cache. Others have the kernel's page cache: Linux keeps of random epochs what random eviction would
(bench/cache), so that part of the files, always the same, stays in it, and the pages of all others are dropped after each batch.
Without --rate all files are in the page cache.

An emulated accelerator takes a batch when it has done the one before, and computes while the next one is prepared. A real step is
a small network that the CPU trains, with one thread.
"""

from __future__ import annotations

import argparse
import json
import random
import site
import time
from collections.abc import Callable
from pathlib import Path

import sources

import sets  # which puts the other benches in reach
import runner
import common
import epochs as cache_epochs  # of bench/cache
import groups

NEW_BATCHES = 3  # the first ones lie in memory that is new
MIN_BATCHES = 4
Step = Callable[[int, object], None]  # of a number of samples, and their images


class Pages:
    """The page cache of a set of files: what does not fit is dropped after each batch."""

    def __init__(self, files: list[Path], part: float):
        self.dropped = random.Random(1).sample(files, round(len(files) * (1 - part)))

    def drop(self) -> None:
        groups.drop_pages(self.dropped)


def emulated(samples_per_s: float) -> Step:
    free = 0.0

    def step(count: int, images) -> None:
        nonlocal free
        now = time.perf_counter()
        if free > now:
            time.sleep(free - now)
        free = max(free, now) + count / samples_per_s

    return step


def real() -> Step:
    """A step of a network of three convolutions, forward, backward and SGD, on the CPU."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(1)
    layers = [torch.nn.Conv2d(3, 16, 7, 4), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(16, 32, 3, 2), torch.nn.ReLU(),
              torch.nn.Conv2d(32, 64, 3, 2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(),
              torch.nn.Linear(64, 10)]
    network = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)

    def step(count: int, images) -> None:
        loss = network(torch.as_tensor(images)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def window(batches: sources.Batches, pages: Pages | None, step: Step | None, seconds: float, samples: int) -> dict:
    """Takes batches for so many seconds and samples, at least."""
    n = steps = 0
    disk, meter = runner.disk_nbytes(), runner.Meter()
    while n < samples or meter.seconds() < seconds or steps < MIN_BATCHES:
        count, images = next(batches)
        if step:
            step(count, images)
        n += count
        steps += 1
        if pages:
            pages.drop()
    spent = meter.spent()
    wall, used = spent.wall_s, spent.cpu_s
    return {"samples_per_s": round(n / wall, 2), "disk_mb_per_s": round((runner.disk_nbytes() - disk) / wall / 1e6, 2),
            "cpu_ms": round(1e3 * used / n, 3), "cores_used": round(used / wall, 2), "foreign_cores": round(spent.foreign_cores, 3)}


def opened(each: sets.Set, args: argparse.Namespace) -> tuple[sources.Batches, dict]:
    cold = args.rate is not None
    if args.loader != "penstock":
        return getattr(sources, args.loader)(each, args.cores, cold), {}
    plan = json.loads(args.plan.read_text())
    return sources.penstock(each, plan | {"cold": cold}), {"plan": plan["words"]}


def measure(each: sets.Set, args: argparse.Namespace) -> dict:
    files, pages = each.files(), None
    if args.rate is not None:
        kept = 0.0 if args.loader == "penstock" else cache_epochs.random_replacement(args.share)
        stored = files if args.loader != "penstock" else [p for p in Path(args.store).rglob("*") if p.is_file()]
        pages = Pages(stored, kept)
    batches, found = opened(each, args)
    for _ in range(NEW_BATCHES):
        next(batches)
    if pages:
        pages.drop()
        window(batches, pages, None, 0, len(files))  # fills the cache
    found["alone"] = window(batches, pages, None, args.seconds, len(files) if pages else 0)
    found["steps"] = [{"step_rate": rate, **window(batches, pages, emulated(rate), args.seconds, len(files) if pages else 0)}
                      for rate in args.steps]
    if args.torch:
        site.addsitedir(str(args.torch))  # behind this environment's own packages
        step = real()
        step(*next(batches))
        found["real"] = window(batches, pages, step, args.seconds, len(files) if pages else 0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loader", choices=["dali", "torchvision", "penstock"])
    parser.add_argument("set")
    parser.add_argument("cores", type=int)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rate", type=float, help="of storage, MB/s")
    parser.add_argument("--share", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--steps", type=float, nargs="*", default=[], help="samples/s of emulated accelerators")
    parser.add_argument("--torch", type=Path, help="packages with torch: a real network learns, too")
    parser.add_argument("--plan", type=Path, help="what plan.py has found")
    args = parser.parse_args()
    args.store = json.loads(args.plan.read_text())["source"] if args.plan else None
    each = sets.sets(args.data, args.folder)[args.set]
    try:
        found = measure(each, args)
    except common.Unavailable as reason:
        found = {"absent": str(reason)}
    runner.tell(found)


if __name__ == "__main__":
    main()
