"""measure.py PEER GROUP THREADS: check one peer's output, then time it. Prints one JSON line.

Run it pinned (taskset) with a fresh process per cell. If other processes take more CPU time of its cores (including stolen
time) in a window than FOREIGN_LIMIT of a core, the window is timed again, up to --retries times. If no window is clean, the
cell says so (clean = 0).
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
import common  # noqa: E402

# Mean difference from Pillow, in levels of 255, that passes as "the same picture". Decoders differ in chroma upsampling,
# resizers in rounding; a missing antialias or a wrong crop is far beyond it.
TOLERANCE_LEVELS = 2.0
FOREIGN_LIMIT = 0.05
# Minimum length of a measured window, in seconds. Loaders that read ahead deliver batches in bursts; a burst would distort a
# shorter window.
MIN_BATCHES = 4
WARM_S = 1.0


def compare(name: str, work: common.Work, files: list[Path], images, area: bool = False) -> dict:
    """Compares a peer's images of these files with Pillow's. Ends the process if they are different pictures."""
    import numpy as np

    got, want = np.asarray(images), common.reference(work, files, area)
    if got.shape != want.shape or got.dtype != np.float32:
        raise SystemExit(f"{name}: evaluate gives {got.shape} {got.dtype}, wanted {want.shape} float32")
    levels = np.abs(got - want) * np.array(common.STD, np.float32).reshape(1, 3, 1, 1) * 255
    found = {"mean_levels": round(float(levels.mean()), 3), "max_levels": round(float(levels.max()), 1)}
    if not levels.mean() <= TOLERANCE_LEVELS:
        raise SystemExit(f"{name}: output differs from Pillow by {found}")
    return found


def check(peer, work: common.Work, store: Path, n: int = 8) -> dict:
    files = work.files()
    files = files[:: max(1, len(files) // n)][:n]
    return compare(peer.NAME, work, files, peer.evaluate(work, store, files), getattr(peer, "AREA", False))


def check_batch(peer, work: common.Work, images) -> None:
    import numpy as np

    array = np.asarray(images)
    shape = (work.batch, 3, work.size, work.size)
    if array.shape != shape or array.dtype != np.float32 or not array.flags["C_CONTIGUOUS"]:
        raise SystemExit(f"{peer.NAME}: batch is {array.shape} {array.dtype}, wanted contiguous float32 {shape}")
    if not (-2.2 < float(array.min()) and float(array.max()) < 2.7 and 0.3 < float(array.std()) < 2):
        raise SystemExit(f"{peer.NAME}: batch is not a normalised image")


def window(batches, seconds: float, min_batches: int = MIN_BATCHES) -> dict:
    images, n, meter = 0, 0, runner.Meter()
    while meter.seconds() < seconds or n < min_batches:
        images += len(next(batches)[0])
        n += 1
    spent = meter.spent()
    return {"images_per_s": images / spent.wall_s, "cpu_ms": spent.cpu_s / images * 1e3, "foreign": spent.foreign_cores}


def is_clean(run: dict) -> bool:
    return run["foreign"] <= FOREIGN_LIMIT


def time_windows(batches, args) -> list[dict]:
    runs: list[dict] = []
    while sum(map(is_clean, runs)) < args.windows and len(runs) < args.windows + args.retries:
        runs.append(window(batches, args.seconds))
    return runs


def summed(runs: list[dict]) -> dict:
    """Returns the medians over the clean windows, or over all windows if none is clean."""
    clean = [r for r in runs if is_clean(r)]
    used = clean or runs
    rates = sorted(r["images_per_s"] for r in used)
    return {"images_per_s": round(statistics.median(rates), 1), "low": round(rates[0], 1), "high": round(rates[-1], 1),
            "cpu_ms_per_image": round(statistics.median(r["cpu_ms"] for r in used), 3), "clean": len(clean),
            "disturbed": len(runs) - len(clean), "foreign_cores": round(statistics.median(r["foreign"] for r in runs), 3)}


def measure(peer, work: common.Work, args) -> dict:
    store = peer.prepare(work) if hasattr(peer, "prepare") else work.root
    checked = check(peer, work, store)
    runner.forget_peak_rss()
    begun = time.perf_counter()
    batches = iter(peer.batches(work, store, args.threads))
    check_batch(peer, work, next(batches)[0])
    first = time.perf_counter() - begun
    window(batches, WARM_S, 1)
    found = summed(time_windows(batches, args))
    return {"name": peer.NAME, "decodes": getattr(peer, "DECODES", True), **found, "peak_rss_mb": round(runner.peak_rss_mb()),
            "stored_mb": round(runner.stored_mb(store), 1), "first_batch_s": round(first, 2), "check": checked,
            "versions": peer.versions()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer")
    parser.add_argument("group")
    parser.add_argument("threads", type=int)
    parser.add_argument("--root", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--retries", type=int, default=5)
    args = parser.parse_args()
    try:
        peer = importlib.import_module("peer_" + args.peer)
        found = measure(peer, common.works(args.root)[args.group], args)
    except common.Unavailable as reason:
        found = {"absent": str(reason)}
    runner.tell(found)


if __name__ == "__main__":
    main()
