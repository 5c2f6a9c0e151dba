"""cell.py LOADER FORMAT THREADS: one loader of one format: its images are checked, then epochs are timed. Prints a line of JSON.

Warm: the files are in the page cache. Cold: none of the files' pages is in the page cache when an epoch begins, and the pages of
delivered samples are dropped after each batch, so reads ahead for the next epoch also come from the disk. Pages that were read
ahead but are not delivered yet stay, both in files of records and in a folder (delivered.py). The control group of this process
limits the disk's rate. The first warm and the first cold epoch are not counted.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cache")]
import runner  # noqa: E402
import common  # noqa: E402
import delivered  # noqa: E402
import formats  # noqa: E402
import groups  # noqa: E402
import measure  # noqa: E402
import numpy as np  # noqa: E402
import shuffle  # noqa: E402

CHECKED = 8  # images of the set that are compared with Pillow
CLASSES = 10  # classes for the entropy of batches: groups of neighbouring class folders
BUFFER_PART = 8  # a shuffle buffer holds one part in so many of the set
Epoch = Iterator[tuple[np.ndarray, list[int]]]


def check_whole(found: list[int], n: int, what: str) -> None:
    if sorted(found) != list(range(n)):
        raise SystemExit(f"{what}: {len(found)} samples of {n}, {len(set(found))} of them different")


def check_images(epoch: Epoch, work: common.Work, what: str) -> dict[str, float]:
    """Decodes the whole set, counts the images, and compares some of them with Pillow."""
    files = work.files()
    wanted = dict.fromkeys(range(0, len(files), max(1, len(files) // CHECKED)))
    seen: list[int] = []
    for images, numbers in epoch:
        seen += numbers
        wanted.update({number: images[i].copy() for i, number in enumerate(numbers) if number in wanted})
    check_whole(seen, len(files), what)
    return measure.compare(what, work, [files[number] for number in wanted], np.stack(list(wanted.values())))


def timed(epochs: Iterator[Epoch], work: common.Work, store: Path, args: argparse.Namespace, cold: bool) -> list[dict]:
    """Returns seconds, order, and bytes read from the disk for each epoch except the first."""
    runs, files = [], work.files()
    stored = files if args.form == "folder" else [path for path in store.rglob("*") if path.is_file()]
    places = delivered.Delivered(formats.samples(work, args.form, store)) if cold else None
    for i in range(args.epochs + 1):
        if cold:
            groups.drop_pages(stored)
        disk, meter = runner.disk_nbytes(), runner.Meter()
        order: list[int] = []
        for images, numbers in next(epochs):
            if i == 0 and len(images) == work.batch:
                measure.check_batch(args, work, images)
            order += numbers
            if places:
                places.drop(numbers)
        spent = meter.spent()
        check_whole(order, len(files), f"{args.NAME}, epoch {i}")
        runs.append({"seconds": spent.wall_s, "order": order, "disk_nbytes": runner.disk_nbytes() - disk, "cpu_s": spent.cpu_s,
                     "foreign": spent.foreign_cores})
    return runs[1:]


def figures(runs: list[dict], n: int) -> dict:
    seconds = sorted(run["seconds"] for run in runs)
    return {"epoch_s": round(statistics.median(seconds), 4), "images_per_s": round(n / statistics.median(seconds), 1),
            "low": round(n / seconds[-1], 1), "high": round(n / seconds[0], 1),
            "cpu_ms_per_image": round(1e3 * statistics.median(run["cpu_s"] for run in runs) / n, 3),
            "disk_mb": round(statistics.median(run["disk_nbytes"] for run in runs) / 1e6, 1),
            "foreign_cores": round(statistics.median(run["foreign"] for run in runs), 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("loader")
    parser.add_argument("form", choices=formats.FORMATS, metavar="FORMAT")
    parser.add_argument("threads", type=int)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--kinds", nargs="+", choices=["warm", "cold"], required=True)
    args = parser.parse_args()
    module = importlib.import_module("with_" + args.loader)
    args.NAME = f"{module.NAME}, {args.form}"
    work = common.Work("imagenet", args.folder, 64, 224, True, True)
    n = len(work.files())
    classes = np.arange(n) * CLASSES // n

    def opened(fixed: bool, cold: bool) -> Iterator[Epoch]:
        return module.epochs(work, args.form, args.store, args.threads, n // BUFFER_PART, fixed, cold)

    found = {"name": module.NAME, "versions": module.versions(), "images": n}
    found["check"] = check_images(next(opened(True, False)), work, args.NAME)
    if hasattr(module, "written_s") and "warm" in args.kinds:
        found["written_s"] = module.written_s(work, args.form, args.store)
    for kind in args.kinds:
        runs = timed(opened(False, kind == "cold"), work, args.store, args, kind == "cold")
        found[kind] = figures(runs, n)
        found["shuffle"] = shuffle.quality([run["order"] for run in runs], classes, work.batch)
    runner.tell(found)


if __name__ == "__main__":
    main()
