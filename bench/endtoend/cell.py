"""cell.py LOADER SET CORES: the rate of one loader, alone and beside emulated or real steps. Prints a line of JSON.

--memory N: bytes of data that each loader may keep in memory. Without --rate this memory is the kernel's page cache, also for
Penstock, whose plan may not store more than it holds. --rate R: storage of R MB/s, limited by the control group of this process.
Memory is then Penstock's cache, and for others the page cache.

Where the stored samples take more than the memory, the page cache keeps a part of them, always the same, and the pages of all
others are dropped once they have been delivered (bench/records/delivered.py). The part is the one that random eviction keeps,
because Linux's page cache behaves like that in random epochs (bench/cache).

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

import sets  # makes the modules of the other benches importable
import runner
import common
import delivered
import epochs as cache_epochs  # of bench/cache

NEW_BATCHES = 3  # batches that are not counted: the first ones touch new memory
MIN_BATCHES = 4
Step = Callable[[int, object], None]  # takes the numbers of a batch's samples, and the images


class Pages:
    """Simulates the page cache of stored samples: a part of them, always the same, stays; pages of all others are dropped once
    their samples are delivered.
    """

    def __init__(self, source: sources.Source, part: float):
        numbers = sorted({sample.number for sample in source.samples})
        self.dropped = set(random.Random(1).sample(numbers, round(len(numbers) * (1 - part))))
        self._places = delivered.Delivered(source.samples, set(numbers) - self.dropped, source.release)
        self.drop(numbers)

    def drop(self, numbers: list[int]) -> None:
        """Drops the pages of those of these samples that do not stay in the page cache."""
        self._places.drop(number for number in numbers if number in self.dropped)


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
    """A real step: forward, backward and SGD of a network with three convolutions, on the CPU."""
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
    """Takes batches until both a number of seconds and a number of samples are reached."""
    n = steps = 0
    disk, meter = runner.disk_nbytes(), runner.Meter()
    while n < samples or meter.seconds() < seconds or steps < MIN_BATCHES:
        numbers, images = next(batches)
        if step:
            step(len(numbers), images)
        n += len(numbers)
        steps += 1
        if pages:
            pages.drop(numbers)
    spent = meter.spent()
    wall, used = spent.wall_s, spent.cpu_s
    return {"samples_per_s": round(n / wall, 2), "disk_mb_per_s": round((runner.disk_nbytes() - disk) / wall / 1e6, 2),
            "cpu_ms": round(1e3 * used / n, 3), "cores_used": round(used / wall, 2), "foreign_cores": round(spent.foreign_cores, 3)}


def opened(each: sets.Set, args: argparse.Namespace) -> tuple[sources.Source, dict]:
    if args.loader != "penstock":
        # DALI must read files, because pages that it maps could not be dropped
        return getattr(sources, args.loader)(each, args.cores, args.rate is not None), {}
    plan = json.loads(args.plan.read_text())
    return sources.penstock(each, plan | {"cold": args.rate is not None}), {"plan": plan["words"]}


def kept(loader: str, stored: int, memory: int, slow: bool) -> float:
    """Returns the share of the stored samples that stays in the page cache."""
    if loader == "penstock" and slow:
        return 0.0  # the memory belongs to Penstock's cache; the page cache keeps nothing
    return 1.0 if stored <= memory else cache_epochs.random_replacement(memory / stored)


def measure(each: sets.Set, args: argparse.Namespace) -> dict:
    files = each.files()
    source, found = opened(each, args)
    part = kept(args.loader, source.nbytes(), args.memory, args.rate is not None)
    found |= {"memory_mb": round(args.memory / 1e6, 3), "stored_mb": round(source.nbytes() / 1e6, 3), "page_cache": round(part, 3)}
    pages, batches = Pages(source, part) if part < 1 else None, source.batches
    for _ in range(NEW_BATCHES):
        numbers, _ = next(batches)
        if pages:
            pages.drop(numbers)
    if pages:
        window(batches, pages, None, 0, len(files))  # fills the cache
    found["alone"] = window(batches, pages, None, args.seconds, len(files) if pages else 0)
    found["steps"] = [{"step_rate": rate, **window(batches, pages, emulated(rate), args.seconds, len(files) if pages else 0)}
                      for rate in args.steps]
    if args.torch:
        site.addsitedir(str(args.torch))  # searched after this environment's own packages
        step = real()
        numbers, images = next(batches)
        step(len(numbers), images)
        found["real"] = window(batches, pages, step, args.seconds, len(files) if pages else 0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loader", choices=["dali", "torchvision", "ffcv_raw", "penstock"])
    parser.add_argument("set")
    parser.add_argument("cores", type=int)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rate", type=float, help="of storage, MB/s")
    parser.add_argument("--memory", type=int, required=True, help="bytes of data that stay in memory")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--steps", type=float, nargs="*", default=[], help="samples/s of emulated accelerators")
    parser.add_argument("--torch", type=Path, help="packages with torch: a real network learns, too")
    parser.add_argument("--plan", type=Path, help="what plan.py has found")
    args = parser.parse_args()
    each = sets.sets(args.data, args.folder)[args.set]
    try:
        found = measure(each, args)
    except common.Unavailable as reason:
        found = {"absent": str(reason)}
    runner.tell(found)


if __name__ == "__main__":
    main()
