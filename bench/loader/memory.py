"""Memory and time of a process that loads images, stage by stage, and until its first batch.

    python bench/loader/memory.py DATA... [--workers 2] [--batch-size 64] [--epochs 3] [--rounds 5] [--json FILE]

Each DATA (a folder of images or a packed data set) is loaded in processes of their own, one for each round: RandomResizedCrop(224),
flip, normalise, float32, NCHW, numpy arrays. Stages: Python with numpy; `import penstock` and what a loader imports; opening data
set and loader; the first batch; the rest of the epochs. Of each the median of the rounds: milliseconds, those of CPU of all
threads, and MiB of the process's own memory (Private_Clean and Private_Dirty of smaps_rollup; libraries that others map, too,
are not in it). Batch slots are the memory of batches; "beyond" is the process's memory at its end, less the slots and less Python
with numpy. "later batch" is the CPU time of a batch of the last epoch, which the first batch cannot be faster than.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

RUN = """
import json, sys, time
import numpy

def memory():
    with open("/proc/self/smaps_rollup") as file:
        return sum(int(line.split()[1]) for line in file if line.startswith("Private_")) / 1024

def status(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name + ":")) / 1024

stages, last = {}, (time.perf_counter(), time.process_time())

def note(stage):
    global last
    now = time.perf_counter(), time.process_time()
    stages[stage] = {"ms": 1e3 * (now[0] - last[0]), "cpu_ms": 1e3 * (now[1] - last[1]), "mib": memory()}
    last = time.perf_counter(), time.process_time()

path, workers, batch_size, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
note("python")
import penstock as ps
from penstock import transforms as T
ps.Loader
note("import")
chain = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
loader = ps.Loader(path, batch_size=batch_size, num_workers=workers, transforms=chain, order="shuffled", output="numpy")
note("open")
nbytes = n = 0
for epoch in range(epochs):
    begun = time.process_time()
    for i, batch in enumerate(loader):
        if epoch == 0 and i == 0:
            note("first")
        batch["image"].sum()
        nbytes, n = max(nbytes, batch["image"].nbytes), i + 1
    took = 1e3 * (time.process_time() - begun) / n
note("end")
stats = loader.stats()["memory"]
print(json.dumps({"stages": stages, "later_cpu_ms": took, "peak_mib": status("VmHWM"), "steady_mib": status("VmRSS"),
                  "counted_mib": stats["peak"] / 2**20, "slots": stats["slots"],
                  "slots_mib": stats["slots"] * nbytes / 2**20}))
"""
STAGES = ("python", "import", "open", "first", "end")


def median_of(found: list, *path: str) -> float:
    """Returns the median of a member over all rounds."""
    values = []
    for one in found:
        for name in path:
            one = one[name]
        values.append(one)
    return round(statistics.median(values), 2)


def measure(path: str, given: argparse.Namespace) -> dict:
    arguments = [path, str(given.workers), str(given.batch_size), str(given.epochs)]
    found = [json.loads(subprocess.run([sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=True).stdout)
             for _ in range(given.rounds)]
    cell: dict = {"data": Path(path).name, "stages": {stage: {unit: median_of(found, "stages", stage, unit)
                                                              for unit in ("ms", "cpu_ms", "mib")} for stage in STAGES}}
    names = ("later_cpu_ms", "peak_mib", "steady_mib", "counted_mib", "slots", "slots_mib")
    cell |= {name: median_of(found, name) for name in names}
    end, bare = cell["stages"]["end"]["mib"], cell["stages"]["python"]["mib"]
    started = [cell["stages"][stage] for stage in ("import", "open", "first")]
    return cell | {"beyond_mib": round(end - bare - cell["slots_mib"], 2),
                   "first_batch_ms": round(sum(stage["ms"] for stage in started), 2),
                   "first_batch_cpu_ms": round(sum(stage["cpu_ms"] for stage in started), 2)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    cells = []
    for path in given.data:
        cells.append(cell := measure(path, given))
        print(f"{path}: beyond {cell['beyond_mib']} MiB; first batch {cell['first_batch_ms']:.0f} ms, "
              f"CPU {cell['first_batch_cpu_ms']:.0f} ms, later batch {cell['later_cpu_ms']:.0f} ms; "
              f"steady {cell['steady_mib']:.0f} MiB, peak {cell['peak_mib']:.0f} MiB, counted {cell['counted_mib']:.0f} MiB, "
              f"{cell['slots']:.0f} slots {cell['slots_mib']:.0f} MiB")
        for name, stage in cell["stages"].items():
            print(f"    {name:8}{stage['ms']:9.1f} ms{stage['cpu_ms']:9.1f} ms CPU{stage['mib']:9.1f} MiB", flush=True)
    if given.json:
        settings = {"workers": given.workers, "batch_size": given.batch_size, "epochs": given.epochs, "rounds": given.rounds}
        given.json.write_text(json.dumps({"settings": settings, "cells": cells}, indent=1) + "\n")


if __name__ == "__main__":
    main()
