#!/usr/bin/env python3
"""One cell: a loader in this process for some seconds. Argument: a JSON object; result: one on stdout.

    {"data": PATH, "seconds": 2, "batch_size": 32, "workers": 2, "prefetch": 2, "throttle": bytes/s or 0, "cache": bytes or 0,
     "rate": samples/s of the emulated accelerator or 0, "cgroup": directory to enter or "", "window": null, or [begin, end] of
     CLOCK_MONOTONIC: several jobs count the same time, and go on a little after it, "epoch": batches of an epoch,
     "gpu": a configuration of a Loader on a GPU, if it is to be one}
    {"torch": {"workers": 8, "spin": 0.0002, "sleep": 0.02}, ...}: a torch DataLoader of samples that spin and sleep

Batches of the first part of the run are not counted: it fills the cache and reaches the steady state.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

WARM_UP = 0.35  # part of the seconds
FEWEST = 8  # batches that are counted


def enter(cell: dict) -> None:
    if cell.get("cgroup"):
        Path(cell["cgroup"], "cgroup.procs").write_text(str(os.getpid()))


def loader_of(cell: dict, epochs: int):
    import numpy as np

    import penstock as ps
    from penstock import transforms as T

    data = ps.Dataset(cell["data"])
    order = np.random.default_rng(cell.get("seed", 0))
    indices = np.concatenate([order.permutation(len(data)) for _ in range(epochs)])
    place = cell.get("gpu") or {"output": "numpy"}
    return ps.Loader.from_config(
        place, dataset=data, batch_size=cell["batch_size"], indices=indices, num_workers=cell["workers"], prefetch=cell["prefetch"],
        drop_last=True,
        fields=["image"], cache=cell["cache"] or None, reading=ps.Reading(throttle=(cell["throttle"],
                                                                                    0) if cell["throttle"] else None),
        transforms=[T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)],
    )  # fmt: skip


def torch_loader_of(cell: dict):
    import torch

    import known

    return torch.utils.data.DataLoader(known.Known(**cell["torch"]["costs"]), batch_size=cell["batch_size"],
                                       num_workers=cell["torch"]["workers"])  # fmt: skip


def run(cell: dict, batches, n_first: int) -> tuple[float, int]:
    """Returns seconds and samples of the counted part, which begins after n_first samples at the earliest."""
    step = cell["batch_size"] / cell["rate"] if cell.get("rate") else 0.0
    start = time.perf_counter()
    begin, samples, before, done = None, 0, 0, None
    # Whole epochs are counted, so that each sample is in the mean; of torch's workers whole rounds, which end nearly together.
    turn = cell["torch"]["workers"] if "torch" in cell else cell["epoch"]
    first, last = cell.get("window") or (start + WARM_UP * cell["seconds"], None)
    for _ in batches:
        if step:
            end = time.perf_counter() + step
            while (left := end - time.perf_counter()) > 0:
                time.sleep(left)
        now = time.perf_counter()
        if begin is None:
            before += 1
            if now >= first and before * cell["batch_size"] >= n_first and before % turn == 0:
                begin = now
            continue
        samples += cell["batch_size"]
        n_batches = samples // cell["batch_size"]
        is_over = done is None and now >= (last or begin + (1 - WARM_UP) * cell["seconds"])
        if is_over and n_batches >= FEWEST and n_batches % turn == 0:
            done = now - begin, samples
        if done is not None and now >= (last or 0) + 0.4:
            return done
    raise SystemExit("the batches came to an end")


def main() -> None:
    cell = json.loads(sys.argv[1])
    enter(cell)
    if "torch" in cell:
        seconds, samples = run(cell, forever(torch_loader_of(cell)), 0)
    else:
        loader = loader_of(cell, 400)
        # A cache is full after an epoch.
        seconds, samples = run(cell, iter(loader), len(loader.dataset) if cell["cache"] else 0)
    print(json.dumps({"samples_per_second": samples / seconds, "seconds": seconds, "cpu_seconds": time.process_time()}))


def forever(loader):
    while True:
        yield from loader


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    main()
