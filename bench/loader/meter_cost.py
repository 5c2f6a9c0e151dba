#!/usr/bin/env python3
"""meter_cost.py DATA [--python OTHER]...: how often a loader reads the clock for a row, and the share of CPU time that this takes.

The cost of the meter is its clock reads. A preloaded library (LD_PRELOAD) counts the calls of clock_gettime; the time of one call
is measured here, too. DATA is a data set or folder of images (RandomResizedCrop(224), flip, normalise); raw images of 64 x 64 are
made beside it. --python: another interpreter with another version of Penstock, such as one without the meter. Needs cc.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

COUNTER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <time.h>
static atomic_long n;
static int (*real)(clockid_t, struct timespec *);
int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    atomic_fetch_add_explicit(&n, 1, memory_order_relaxed);
    return real(clock, time);
}
long clock_calls(void) { return n; }
double clock_cost_ns(void) /* the least of many trials: others use the machine, too */
{
    double least = 1e9;
    for (int trial = 0; trial < 500; trial++) {
        struct timespec a, b, now;
        real(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < 1000; i++)
            real(CLOCK_MONOTONIC, &now);
        real(CLOCK_MONOTONIC, &b);
        double ns = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / 1e3;
        least = ns < least ? ns : least;
    }
    return least;
}
"""
EPOCHS, N_RAW = 3, 4096


def make_raw(path: Path) -> None:
    import numpy as np
    import penstock as ps

    rng = np.random.default_rng(0)
    with ps.Writer(path, {"image": ps.Image(), "label": ps.Int()}) as writer:
        for i in range(N_RAW):
            writer.write({"image": rng.integers(0, 255, (64, 64, 3), dtype=np.uint8), "label": i % 10}, name=str(i))


def measure(source: str, crop: bool, storage: str) -> dict:
    import penstock as ps
    from penstock import transforms as T

    counter = ctypes.CDLL(None)
    counter.clock_cost_ns.restype = ctypes.c_double
    chain = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)] if crop else None
    loader = ps.Loader(source, batch_size=64, shuffle=True, seed=1, num_workers=1, transforms=chain, output="numpy",
                       reading=ps.Reading(storage=storage), cache=None)
    for _ in loader:
        pass
    calls, cpu, rows = counter.clock_calls(), time.process_time(), 0
    for _ in range(EPOCHS):
        for batch in loader:
            rows += len(batch["index"])
    cpu = time.process_time() - cpu
    calls = counter.clock_calls() - calls
    cost = counter.clock_cost_ns()
    return {"calls_per_row": calls / rows, "us_per_row": 1e6 * cpu / rows, "share": calls * cost * 1e-9 / cpu, "call_ns": cost}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--python", type=Path, action="append", default=[])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(str(args.data), args.one[0] == "crop", args.one[1])))
        return
    with tempfile.TemporaryDirectory() as folder:
        source, library, raw = Path(folder, "count.c"), Path(folder, "count.so"), Path(folder, "raw.pst")
        source.write_text(COUNTER)
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
        make_raw(raw)
        print("| Penstock of | rows | storage | clock calls a row | CPU us a row | clocks' share |\n|---|---|---|---|---|---|")
        for data, kind in ((args.data, "crop"), (raw, "raw")):
            for storage in ("threads", "memory"):
                for python in (*args.python, Path(sys.executable)):
                    done = subprocess.run([python, __file__, data, "--one", kind, storage], check=True, capture_output=True,
                                          text=True, env=dict(os.environ, LD_PRELOAD=str(library)))
                    found = json.loads(done.stdout.splitlines()[-1])
                    print(f"| {python} | {kind} | {storage} | {found['calls_per_row']:.1f} | {found['us_per_row']:.1f} | "
                          f"{100 * found['share']:.2f} % |", flush=True)


if __name__ == "__main__":
    main()
