"""job.py KIND ROOT N_JOBS JOB THREADS FOLDER [--epoch]: one job, which takes batches and does nothing else with them.

Makes its source of batches, prints {"made": true}, and waits for a line. Then it takes batches, counts them in the shared memory of
counts.py, and stops when the parent sets the request there; with --epoch, after as many batches as the set has. The first CHECKED
batches are checked and hashed, before anything is timed. At the end it prints one JSON line: hashes, number of images, the kind's
counters.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path

import numpy as np

import common
import kinds
from counts import Counts

CHECKED = 4


def check(name: str, work: common.Work, images) -> None:
    """Checks a batch as bench/loader does: shape and type, and values in the range of normalised images."""
    shape = (work.batch, 3, work.size, work.size)
    if images.shape != shape or images.dtype != np.float32 or not images.flags["C_CONTIGUOUS"]:
        raise SystemExit(f"{name}: batch is {images.shape} {images.dtype}, wanted contiguous float32 {shape}")
    if not (-2.2 < float(images.min()) and float(images.max()) < 2.7 and 0.3 < float(images.std()) < 2):
        raise SystemExit(f"{name}: batch is not a normalised image")


def hashed(images, labels) -> str:
    digest = hashlib.blake2b(memoryview(images).cast("B"), digest_size=8)
    digest.update(np.ascontiguousarray(labels, np.int64).tobytes())
    return digest.hexdigest()


def say(what: dict) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    name, root, n_jobs, job, threads, folder, *more = sys.argv[1:]
    kind = kinds.load(name)
    setting = kinds.setting_of(Path(root), int(n_jobs), int(job), int(threads), Path(folder))
    counts = Counts(Path(folder) / "counts", setting.n_jobs)
    try:
        batches = kind.jobs_batches(setting)
    except common.Unavailable as reason:
        say({"absent": str(reason)})
        return
    say({"made": True})
    sys.stdin.readline()
    wanted = len(setting.work.files()) // setting.work.batch if more else None
    hashes: list[str] = []
    n = 0
    for images, labels in batches:
        if n < CHECKED:
            check(kind.NAME, setting.work, np.asarray(images))
            hashes.append(hashed(np.asarray(images), labels))  # no variable keeps the batch, whose memory the loader may reuse
        n += 1
        counts.took(setting.job)
        if n == wanted or counts.stopped():
            break
    say({"hashes": hashes, "images": n * setting.work.batch, "name": kind.NAME, **kind.counters()})
    os._exit(0)  # some peers hang when they end their threads


if __name__ == "__main__":
    main()
