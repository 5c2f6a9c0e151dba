"""cell.py PEER FORM TASK CORES: one loader in a process of its own. Checks its output, then times a window for each line of input.

Prints a line of JSON after the checks, and one for each window. tasks.py runs it pinned and tells it when: the loaders of one task
take turns. A loader that waits for its turn fills its queue of batches, so the first second of each turn is not counted.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import runner  # noqa: E402
import common  # noqa: E402
import measure  # noqa: E402

import recipes  # noqa: E402

FIXED_FILES = 8


def checked(peer, task: recipes.Task, store: Path) -> dict:
    """Compares the output with Pillow's. Penstock's is also compared with torchvision's, with equal parameters."""
    found = measure.check(peer, task, store, FIXED_FILES)
    files = task.files()
    if hasattr(peer, "compare"):
        found["torchvision"] = peer.compare(task, store, files[:: max(1, len(files) // FIXED_FILES)][:FIXED_FILES])
    return found


def opened(peer, task: recipes.Task, args: argparse.Namespace):
    """Returns the endless batches, and the results of the checks."""
    store = peer.prepare(task, args.form) if hasattr(peer, "prepare") else task.root
    found = checked(peer, task, store)
    runner.forget_peak_rss()
    begun = time.perf_counter()
    batches = iter(peer.batches(task, store, args.cores))
    first = next(batches)
    found = {"check": found, "first_batch_s": round(time.perf_counter() - begun, 2)}
    for batch in (first, next(batches)):
        if problem := recipes.wrong(task, batch, peer.MIXED):
            raise SystemExit(f"{peer.NAME}, {task.name}: {problem}")
    return batches, {"name": peer.name(task, args.form), "versions": peer.versions(), **found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer")
    parser.add_argument("form")
    parser.add_argument("task")
    parser.add_argument("cores", type=int)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--warm", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    args = parser.parse_args()
    task = recipes.tasks(args.data, args.folder)[args.task]
    try:
        batches, found = opened(importlib.import_module("with_" + args.peer), task, args)
    except common.Unavailable as reason:
        batches, found = None, {"absent": str(reason)}
    print(json.dumps(found), flush=True)
    for _ in sys.stdin:
        measure.window(batches, args.warm, 1)
        print(json.dumps({**measure.window(batches, args.seconds), "peak_rss_mb": runner.peak_rss_mb()}), flush=True)
    runner.end_at_once()


if __name__ == "__main__":
    main()
