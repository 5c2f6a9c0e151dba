#!/usr/bin/env python3
"""Plans beside a grid of all configurations, and predicted break-even beside real conversions: sweep.py --data DIR --work DIR --out
DIR.

For each data set and setting of mix.py: penstock.plan plans with a cache of half the set's own bytes, the folder is packed by the
plan, and a Loader with the plan is measured. Then each cell of a grid is measured: each form alone, with and without that cache and
in each form of the cache, with one thread and with one for each core, in shuffled and in page-aware order. The result is the plan's
rate divided by the best rate of the grid. Page-aware cells are shown, but do not count: the plan does not choose an order, because
the order changes how samples are mixed.

Conversions: a folder is packed by a plan; its predicted seconds and break-even are compared with the measured ones.
"""

from __future__ import annotations

import itertools
import os
import shutil
import statistics
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import mix  # noqa: E402
import runner  # noqa: E402, which mix has put in reach

import penstock as ps  # noqa: E402


THIRDS = "a third of the cache each: stored, decoded, augmented"


def measured(path: Path, group: dict[str, Any], storage: float, seconds: float, **options: Any) -> float:
    """Returns samples/s without an accelerator. With a cache, the first epoch is not counted."""
    given = {"cache": None, **options}
    with ps.Loader(path, group["batch"], shuffle=True, seed=1, transforms=group["chain"](), output="numpy",
                   reading=ps.Reading(throttle=(storage, 0.0)), **given) as loader:  # fmt: skip
        if given["cache"] is not None:
            for _ in loader:
                pass
        return mix.rate_of(loader, 1e9, seconds)


def grid(group: dict[str, Any], cores: int, cache: int) -> list[dict[str, Any]]:
    caches = [None, *(ps.CacheUse(cache, form=form) for form in ("stored", "pli", "raw"))]
    cells = []
    for form, kept, threads, order in itertools.product(group["forms"], caches, sorted({1, cores}), ("shuffled", "pages")):
        cells.append({"forms": ps.Forms(allowed={"image": [mix.variant(form)]}), "cache": kept, "num_workers": threads,
                      "order": order})
    return cells


def name_of(cell: dict[str, Any]) -> str:
    kept = "no cache" if cell["cache"] is None else f"cache of {cell['cache'].form}"
    return f"{cell['forms'].allowed['image'][0]}, {kept}, {cell['num_workers']} threads, {cell['order']}"


def thirds(path: Path, group: dict[str, Any], storage: float, cache: int, seconds: float) -> float:
    """Returns samples/s with a cache in three equal parts, as Seneca's: of stored bytes, decoded and augmented images.

    Emulated: each part of the samples has a loader of its own; augmented images are kept batches, which are returned without any
    work. Batches are taken in proportion to the samples of each part.
    """
    dataset = ps.Dataset(path)
    n = len(dataset)
    own = [i for i in range(dataset.fields["image"].n_variants) if dataset.item(0, "image", i)["form"] == group["own"]][0]
    stored = sum(dataset.item(i, "image", own)["nbytes"] for i in range(n)) / n
    item = dataset.item(0, "image")
    options = {"cache": None, "forms": ps.Forms(allowed={"image": [mix.variant(group["own"])]}), "prefetch": 2}
    first = next(iter(mix.loader_of(path, group, 0.0, forms=options["forms"])))["image"]
    sizes = [stored, item["height"] * item["width"] * item["channels"], first.nbytes / len(first)]
    counts = [min(int(cache / 3 / size), n // 4) for size in sizes]
    starts = list(itertools.accumulate([0, *counts]))
    parts: list[tuple[int, Any]] = []
    for k, changes in ((0, {"cache": "100%"}), (1, {"cache": ps.CacheUse(8 * cache + (1 << 28), form="raw")})):
        if counts[k]:
            parts.append((counts[k], _part(path, group, storage, range(starts[k], starts[k + 1]), {**options, **changes})))
    if counts[2]:
        kept = [next(iter(_part(path, group, 0.0, range(starts[2], starts[3]), options)))]
        parts.append((counts[2], itertools.cycle(kept)))
    parts.append((n - starts[3], _part(path, group, storage, range(starts[3], n), options)))
    streams = [(count, iter(part) if not isinstance(part, ps.Loader) else _forever(part)) for count, part in parts]
    for count, stream in streams:  # fills caches
        seen = 0
        while seen < count:
            seen += len(next(stream)["index"])
    taken = [0.0] * len(streams)
    begin, delivered = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds or delivered < mix.FEWEST * group["batch"]:
        k = min(range(len(streams)), key=lambda i: taken[i] / streams[i][0])
        rows = len(next(streams[k][1])["index"])
        taken[k] += rows
        delivered += rows
    rate = delivered / (time.perf_counter() - begin)
    for _, part in parts:
        if isinstance(part, ps.Loader):
            part.close()
    return rate


def _part(path: Path, group: dict[str, Any], storage: float, numbers: range, options: dict[str, Any]) -> ps.Loader:
    return ps.Loader(path, min(group["batch"], len(numbers)), shuffle=True, seed=1, transforms=group["chain"](), output="numpy",
                     reading=ps.Reading(throttle=(storage, 0.0)), indices=list(numbers), drop_last=True, **options)  # fmt: skip


def _forever(loader: ps.Loader) -> Any:
    while True:
        yield from loader


def setting(path: Path, folder: Path, group: dict[str, Any], cores: int, storage: float, args: Any) -> dict[str, Any]:
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    with ps.Loader(folder, group["batch"], shuffle=True, seed=1, transforms=group["chain"](), output="numpy", cache=None,
                   reading=ps.Reading(throttle=(storage, 0.0))) as loader:  # fmt: skip
        report = ps.analyze(loader, budget=args.budget, forms=group["forms"])
        cache = int(report.data["subject"]["nbytes"] // 2)
        found = ps.plan(loader, report=report, cache=cache, page_cache=0, layout=False, budget=args.budget)
    packed = path.with_name(path.stem + "-planned.pst")
    shutil.rmtree(packed, ignore_errors=True)
    start = time.perf_counter()
    written = args.work / "plan.json"
    found.to_json(written)
    ps.pack(folder, packed, plan=written, num_workers=cores)
    seconds = time.perf_counter() - start
    ways: dict[str, Any] = {"plan": (packed, {"plan": found, "cache": "auto"}), "as it was": (folder, {})}
    ways.update({name_of(cell): (path, cell) for cell in grid(group, cores, cache)})
    runs: dict[str, list[float]] = {name: [] for name in ways}
    runs[THIRDS] = []
    for _ in range(args.rounds):
        for name, (where, options) in ways.items():
            runs[name].append(measured(where, group, storage, args.seconds, **options))
        runs[THIRDS].append(thirds(path, group, storage, cache, args.seconds))
    rates = {name: statistics.median(values) for name, values in runs.items()}
    best = max((name for name in rates if name.endswith("shuffled")), key=lambda name: rates[name])
    n = found.data["data"]["samples"]
    saved = n / rates["as it was"] - n / rates["plan"]
    return {
        "plan": repr(found), "rates": rates, "best": best, "part_of_best": rates["plan"] / rates[best],
        "best_of_all": max(rates, key=lambda name: rates[name]), "predicted": found.data["predicted"]["samples_per_second"],
        "convert": {"predicted_seconds": found.data["convert"]["seconds"], "seconds": seconds,
                    "predicted_epochs": found.data["convert"]["break_even_epochs"],
                    "epochs": seconds / saved if saved > 0 else None},
    }  # fmt: skip


def table(rows: list[tuple[str, str, dict[str, Any]]]) -> str:
    lines = ["| data set, setting | plan | samples/s | predicted | best of the grid | | of the best | converting: s, predicted | "
             "break-even: epochs, predicted | over thirds of a cache |", "|---" * 10 + "|"]  # fmt: skip
    for group, title, row in rows:
        convert = row["convert"]
        epochs = "never" if convert["epochs"] is None else f"{convert['epochs']:.2g}"
        expected = "never" if convert["predicted_epochs"] is None else f"{convert['predicted_epochs']:.2g}"
        rate = row["rates"]["plan"]
        words = row["plan"][6:-2].split(":")[0]
        lines.append(f"| {group}: {title} | {words} | {rate:.0f} | {row['predicted'] / rate - 1:+.1%} | "
                     f"{row['best']} | {row['rates'][row['best']]:.0f} | "
                     f"{row['part_of_best']:.2f} | {convert['seconds']:.2g}, {convert['predicted_seconds']:.2g} | "
                     f"{epochs}, {expected} | {rate / row['rates'][THIRDS]:.2f} |")  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = runner.parser(__doc__, "data", "work", again=False)
    parser.add_argument("--groups", default=",".join(name for name in mix.GROUPS if "resize" not in mix.GROUPS[name]))
    parser.add_argument("--budget", default="20s", help="of each analysis")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.6, help="of a window")
    args = runner.parsed(parser)
    args.work.mkdir(parents=True, exist_ok=True)
    every = os.sched_getaffinity(0)
    rows = []
    for name in args.groups.split(","):
        group = mix.GROUPS[name]
        path = mix.store(args.data / group["source"], args.work / f"mix-{name}-{group['copies']}.pst", group)
        folder = mix.folder_of(args.data / group["source"], path, group)
        for title, (cores, storage) in group["settings"].items():
            os.sched_setaffinity(0, every)
            print(f"{name}: {title}", file=sys.stderr, flush=True)
            rows.append((name, title, setting(path, folder, group, cores, storage, args)))
            print(table(rows[-1:]).splitlines()[-1], flush=True)
    data = {"bench": "sweep", "machine": runner.machine(), "rounds": args.rounds,
            "settings": [{"group": group, "setting": title, **row} for group, title, row in rows]}  # fmt: skip
    runner.write(args.out / f"sweep-{data['machine']['date']}", data, table(rows) + "\n")


if __name__ == "__main__":
    main()
