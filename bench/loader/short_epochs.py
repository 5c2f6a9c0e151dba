#!/usr/bin/env python3
"""short_epochs.py --data FOLDER --out DIR: epochs of one to eight batches, one after another, with an emulated step that sleeps.

Between two epochs a loader can be idle: an epoch's first batches are then waited for. FOLDER is a folder of images; an epoch is
32, 64 or 256 of them in batches of 32. The step is emulated at half, the same and twice the rate of preparation, which is measured
by epochs without steps over 256 images. Then, for each cell:

    of the lower rate    samples/s of 12 epochs or more / the lower of both rates, that of steps and that of preparation

In `while validating` the caller pauses between two epochs for the time of preparing a batch: the first batch should be ready when
it returns. The figure is the wait for that batch, divided by the time of preparing a batch. Rounds take turns over all cells;
figures are medians. Goal: 0.97 of the lower rate.
"""

from __future__ import annotations

import argparse
import itertools
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402

BATCH, LONG, SIZES, STEPS, EPOCHS, GOAL = 32, 256, (32, 64, 256), (0.5, 1.0, 2.0), 12, 0.97
WARM = 3  # epochs before the clock starts


def loader_of(folder: Path, n: int, workers: int) -> Any:
    import penstock as ps
    from penstock import transforms as T

    dataset = ps.Dataset(str(folder))
    if len(dataset) < LONG:
        sys.exit(f"{folder} has {len(dataset)} images, {LONG} are needed")
    return ps.Loader(dataset, BATCH, shuffle=True, seed=1, num_workers=workers, output="numpy", cache=None, indices=range(n),
                     transforms=[T.RandomResizedCrop(224), T.RandomHorizontalFlip()])


def epoch_of(loader: Any, n: int, step_s: float) -> None:
    """Runs one epoch. A step's end is computed from the planned end of the step before it, so oversleeping does not add up."""
    seen, free = [], time.perf_counter()
    for batch in loader:
        free = max(free, time.perf_counter()) + step_s
        seen += batch["index"].tolist()
        time.sleep(max(0.0, free - time.perf_counter()))
    if sorted(seen) != list(range(n)):
        sys.exit(f"an epoch of {n} samples delivered {len(seen)}, {len(set(seen))} of them different")


def rate(loader: Any, n: int, step_s: float) -> float:
    """Returns the samples per second over some epochs."""
    for _ in range(WARM):
        epoch_of(loader, n, step_s)
    n_epochs, begun = max(EPOCHS, 2 * LONG // n), time.perf_counter()
    for _ in range(n_epochs):
        epoch_of(loader, n, step_s)
    return n_epochs * n / (time.perf_counter() - begun)


def wait_after_pause(loader: Any, n: int, pause_s: float) -> float:
    """Returns the wait for an epoch's first batch after a pause: the median over epochs."""
    waits = []
    for i in range(WARM + EPOCHS):
        time.sleep(pause_s)
        begun = time.perf_counter()
        batches = iter(loader)
        first = next(batches)
        waits += [time.perf_counter() - begun] * (i >= WARM)
        if sum(len(batch["index"]) for batch in itertools.chain([first], batches)) != n:
            sys.exit("an epoch is not whole")
    return statistics.median(waits)


def measure_all(args: argparse.Namespace) -> dict:
    loaders = {n: loader_of(args.data, n, args.workers) for n in SIZES}
    found: dict[tuple[int, float], list[float]] = {(n, step): [] for n in SIZES for step in STEPS}
    pauses: dict[int, list[float]] = {n: [] for n in SIZES}
    alone = []
    for _ in range(args.rounds):
        meter = runner.Meter()
        alone.append(rate(loaders[LONG], LONG, 0.0))
        for (n, step), rates in found.items():
            wanted = step * alone[-1]
            rates.append(rate(loaders[n], n, BATCH / wanted) / min(wanted, alone[-1]))
        for n, waits in pauses.items():
            waits.append(wait_after_pause(loaders[n], n, 2 * BATCH / alone[-1]) * alone[-1] / BATCH)
        meter.spent()
    cells = [runner.said({"samples": n, "step": step, "rounds": [round(each, 4) for each in rates],
                          "part": round(statistics.median(rates), 4)}) for (n, step), rates in found.items()]
    waits = [runner.said({"samples": n, "wait": round(statistics.median(each), 4)}) for n, each in pauses.items()]
    settings = {"batch": BATCH, "workers": args.workers, "rounds": args.rounds, "goal": GOAL}
    return {"bench": "short_epochs", "machine": runner.machine(), "settings": settings, "alone": round(statistics.median(alone), 1),
            "cells": cells, "waits": waits}


def table(result: dict) -> str:
    settings = result["settings"]
    out = [f"{runner.where(result)} Batches of {settings['batch']}, {settings['workers']} workers; preparation alone: "
           f"{result['alone']:.0f} samples/s. Medians of {settings['rounds']} rounds.", "",
           *runner.heads("samples of an epoch", "steps, of the rate of preparation", "of the lower rate", f"goal, {GOAL}")]
    out += [f"| {cell['samples']} | {cell['step']:g} | {cell['part']:.3f} | {'met' if cell['part'] >= GOAL else 'missed'} |"
            for cell in result["cells"]]
    out += ["", *runner.heads("samples of an epoch", "wait for the first batch after a pause, of a batch's preparation")]
    out += [f"| {cell['samples']} | {cell['wait']:.3f} |" for cell in result["waits"]]
    return "\n".join(out) + "\n"


def main() -> None:
    parser = runner.parser(__doc__, "data")
    parser.add_argument("--workers", type=int, default=2, help="(%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    runner.finish(runner.parsed(parser), "short_epochs", measure_all, table)


if __name__ == "__main__":
    main()
