"""fed.py PEER WORKLOAD CORES: the most accelerators that a loader feeds. Prints one JSON line. Run it pinned to CORES.

An emulated accelerator takes a batch and sleeps for a step. Its utilisation is the share of the time in which it sleeps; it is fed
if that is at least the workload's limit. n accelerators are emulated by one that is n times as fast, so n need not be whole. The
greatest n is found by bisection, starting at the loader's own rate. Then n is raised as long as the median utilisation of --windows
windows is at least the limit.
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import loaders
from workloads import WORKLOADS, Workload

import runner  # loaders.py has made this module importable
import common


NEW_BATCHES, STEPS_MIN, WARM_STEPS = 6, 5, 2


def own_rate(batches, seconds: float) -> float:
    """Returns the samples per second of a caller that only takes batches. The first batches are not counted, because they touch new
    memory.
    """
    for _ in range(NEW_BATCHES):
        next(batches)
    n, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        n += next(batches)[1]
    return n / (time.perf_counter() - start)


def utilisation(batches, workload: Workload, n: float, seconds: float) -> tuple[float, float]:
    """Returns the utilisation of n accelerators, and how many of these cores other processes used meanwhile."""
    step = workload.step_s / n
    seconds = max(seconds, STEPS_MIN * step)
    for _ in range(WARM_STEPS):  # first takes the batches that are ready, because they would make the window look better than it is
        time.sleep(step)
        next(batches)
    meter, steps = runner.Meter(), 0
    while meter.seconds() < seconds:
        time.sleep(step)
        steps += 1
        next(batches)
    spent = meter.spent()
    return steps * step / spent.wall_s, spent.foreign_cores


def search(batches, workload: Workload, start: float, seconds: float) -> float:
    low, high = 0.88 * start, 1.28 * start
    for _ in range(4):
        middle = (low + high) / 2
        if utilisation(batches, workload, middle, seconds)[0] >= workload.utilisation:
            low = middle
        else:
            high = middle
    return low


def confirm(batches, workload: Workload, n: float, seconds: float, windows: int) -> tuple[float, list]:
    """Raises n while the median window is fed, and lowers n if it is not. Returns the greatest n that was fed."""
    best = None
    while True:
        found = [utilisation(batches, workload, n, seconds) for _ in range(windows)]
        above = statistics.median(au for au, _ in found) / workload.utilisation - 1
        if above >= 0:
            best = n, found
            n *= 1 + max(0.7 * above, 0.01)
        elif best is not None:
            return best
        else:
            n *= 0.98


def check_pixels(peer: str, workload: Workload, pixels) -> None:
    import numpy as np

    if peer in loaders.WITHOUT_PIXELS:
        return
    if workload.name == "resnet50":
        array = np.asarray(pixels)
        shape, kind = (workload.batch, 3, 224, 224), np.float32
        if array.shape != shape or array.dtype != kind or not 0.3 < float(array.std()) < 2:
            raise SystemExit(f"{peer}: batch is {array.shape} {array.dtype}, wanted normalised {shape} float32")
        return
    first = np.asarray(pixels[0])
    if sorted(first.shape) != [3, 683, 1024] or first.dtype != np.uint8 or len(pixels) != workload.batch:
        raise SystemExit(f"{peer}: images are {first.shape} {first.dtype}, {len(pixels)} of them")


def check_order(workload: Workload, source: Path, cores: int) -> str:
    """Compares the order of some batches with that of a loader without threads."""
    threads, alone = loaders.penstock_loader(workload, source, cores), loaders.penstock_loader(workload, source, 0)
    with threads, alone:
        for i, (a, b) in enumerate(zip(threads, alone, strict=True)):
            if (a["index"] != b["index"]).any() or (a["image"][0] != b["image"][0]).any():
                raise SystemExit(f"batch {i} differs from that of one thread")
            if i == 2:
                return "exact"
    return "exact"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=loaders.PEERS)
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("cores", type=int)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--windows", type=int, default=5)
    args = parser.parse_args()
    workload = WORKLOADS[args.workload]
    name, _, packs = loaders.PEERS[args.peer]
    found = {"peer": args.peer, "name": name, "workload": workload.name, "cores": args.cores}
    try:
        if args.peer.startswith("penstock"):
            folder = args.root / workload.name
            found["order"] = check_order(workload, loaders.packed(folder) if packs else folder, args.cores)
            import penstock as ps

            found["cpu_level"] = ps.show_config("dict")["cpu_used"]
        batches = iter(loaders.batches(args.peer, workload, args.root / workload.name, args.cores))
        check_pixels(args.peer, workload, next(batches)[0])
        rate = own_rate(batches, args.seconds)
        start = search(batches, workload, rate / workload.rate / workload.utilisation, args.seconds / 2)
        n, windows = confirm(batches, workload, start, args.seconds, args.windows)
        found |= {"images_per_s": round(rate, 1), "fed": round(n, 3), "fed_per_core": round(n / args.cores, 3),
                  "utilisation": [round(au, 4) for au, _ in windows], "limit": workload.utilisation,
                  "foreign_cores": round(statistics.median(foreign for _, foreign in windows), 3)}
    except (common.Unavailable, ImportError) as reason:
        found["absent"] = str(reason)
    runner.tell(found)


if __name__ == "__main__":
    main()
