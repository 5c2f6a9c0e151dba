#!/usr/bin/env python3
"""One job of a cell, a loader in this process: cell.py WORK JSON, where WORK is the folder of the sets.

    {"set": "imagenet", "data": name in WORK, "seconds": 4, "throttle": bytes/s or 0, "cache": bytes or 0, "jobs": of the cell,
     "step": samples/s of an accelerator that sleeps or 0, "cgroup": directory to enter or "",
     "gpu_part": part of the rows that an emulated GPU decodes, if there is one}
    {"torch": {"workers": 8, "spin": 0.0002, "sleep": 0.02}, "batch_size": 4, "seconds": ...}: a torch DataLoader of samples that
     spin and sleep

It trains epoch after epoch. The first epoch fills caches and is not counted. After it the job prints "warm". Where the cell has
other jobs, it waits for a line before it counts, so that all jobs count while all run. Whole epochs are counted, because images
differ. The job prints its figures as a line of JSON and goes on until it is killed, so that others can end their count. It also
ends when its standard input ends, which is when the bench ends.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

WARM_UP_S = 1.0
FEWEST = 8  # minimum number of batches that are counted


def torch_loader_of(cell: dict[str, Any]) -> Any:
    import torch

    import known

    costs = {name: cell["torch"][name] for name in ("spin", "sleep")}
    return torch.utils.data.DataLoader(known.Known(**costs), batch_size=cell["batch_size"], num_workers=cell["torch"]["workers"])


def loader_of(work: Path, cell: dict[str, Any]) -> Any:
    import hybrid
    import penstock as ps
    import sets

    place = hybrid.on_gpu(cell["gpu_part"]) if "gpu_part" in cell else None
    reading = ps.Reading(throttle=(cell["throttle"], 0.0)) if cell["throttle"] else None
    return sets.loader_of(cell["set"], work / cell["data"], place, cache=cell["cache"] or None, reading=reading)


def forever(loader: Any) -> Iterator[Any]:
    while True:
        yield from loader


class Count:
    """Counts whole rounds of batches as soon as it may begin, and computes the rate."""

    def __init__(self, turn: int, batch_size: int, seconds: float) -> None:
        self.turn, self.batch_size, self.seconds = turn, batch_size, seconds
        self.may_begin = threading.Event()
        self.is_warm, self.first, self.begin = False, 0, 0.0

    def counted(self, n: int, now: float, since: float) -> dict[str, float] | None:
        """Called after each round: n batches have been taken, at the time `now`, `since` seconds after the first. Returns the
        figures when the count is done.
        """
        if not self.is_warm and since >= WARM_UP_S:
            self.is_warm = True
            print("warm", flush=True)
        if not self.begin:
            if self.is_warm and self.may_begin.is_set():
                self.first, self.begin = n, now
            return None
        if now - self.begin < self.seconds or n - self.first < FEWEST:
            return None
        seconds = now - self.begin
        return {"samples_per_second": (n - self.first) * self.batch_size / seconds, "seconds": seconds,
                "batches": n - self.first}  # fmt: skip


def run(batches: Iterable[Any], step_s: float, count: Count) -> None:
    """Takes batches for ever; an emulated step sleeps."""
    start, is_done = time.perf_counter(), False
    for n, _ in enumerate(batches, 1):
        end = time.perf_counter() + step_s
        while step_s and (left := end - time.perf_counter()) > 0:
            time.sleep(left)
        if n % count.turn or is_done:
            continue
        now = time.perf_counter()
        if (found := count.counted(n, now, now - start)) is not None:
            print(json.dumps(found), flush=True)
            is_done = True


def listen(count: Count, source: int = 0) -> None:
    """A line on standard input, the descriptor `source`, lets the count begin. Its end, the end of the bench, ends this process.

    It does not read sys.stdin, which is locked while a thread reads it: a worker that is forked meanwhile would wait for that lock
    for ever.
    """
    while os.read(source, 4096):
        count.may_begin.set()
    os._exit(1)


def main() -> None:
    work, cell = Path(sys.argv[1]), json.loads(sys.argv[2])
    if cell.get("cgroup"):
        Path(cell["cgroup"], "cgroup.procs").write_text(str(os.getpid()))
    loader = torch_loader_of(cell) if "torch" in cell else loader_of(work, cell)
    # Batches of torch's workers are counted in whole rounds, one batch of each worker, because the batches of a round end nearly
    # together.
    turn = cell["torch"]["workers"] if "torch" in cell else len(loader)
    count = Count(turn, cell["batch_size"] if "torch" in cell else loader.batch_size, cell["seconds"])
    if cell.get("jobs", 1) == 1:
        count.may_begin.set()
    threading.Thread(target=listen, args=(count,), daemon=True).start()
    run(forever(loader), count.batch_size / cell["step"] if cell.get("step") else 0.0, count)


if __name__ == "__main__":
    main()
