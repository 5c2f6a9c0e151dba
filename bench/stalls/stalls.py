#!/usr/bin/env python3
"""The share of an epoch that is a stall: nine models, four data sets, caches of 25 to 100 %, before and with Penstock.

    stalls.py --data DIR --work DIR --out DIR [--accelerators 8] [--seconds 2.0] [--checks 6] [--sets LIST]

DS-Analyzer's (PVLDB 14(5), 2021) tables for this machine. run.sh calls it.

1. The costs of a sample are measured: CPU seconds of preparation on one and on two cores, and bytes read, by differential phases
   (without storage, without a step). "Before" is torch's DataLoader with torchvision and the page cache. "With" is Penstock with
   its own cache of the same bytes, from the files or from pli-jpeg, whichever has the higher predicted rate. Jobs share nothing.
2. Stalls of all cells follow from these costs by the analyser's what-if model (model.py). The accelerators of a server share its
   storage, and each has its own cores: the paper's server has 8, with 3 cores each.
3. Some cells are run: the loader, a throttled storage, and a step of stated duration. Predicted stands beside measured. 4. The
paper's result stands beside each figure, with its machine.

Rates of the steps are in rates.py with their sources. A rate without a source is a point of a sweep, and the tables say so. Where
torch has a GPU, its own steps of torchvision's networks are measured and come first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import runner  # noqa: E402
import model  # noqa: E402
import picture  # noqa: E402
import rates  # noqa: E402
import sets  # noqa: E402
import steps  # noqa: E402
import tables  # noqa: E402
from tables import STORAGE  # noqa: E402

CACHED = (0.25, 0.35, 0.65, 1.0)
CORES = (1, 2, 3)
TASK = {"imagenet-1k": ("classify",), "imagenet-22k": ("classify",), "openimages": ("classify", "detect"), "fma": ("audio",)}
WAYS = {"before": ("torch", False), "files": ("penstock", False), "pli-jpeg": ("penstock", True)}
CELL_LIMIT_S = 600


@dataclass(frozen=True)
class Check:
    """A cell that is run. accelerators: number of accelerators that share the storage."""

    model: str
    rate: rates.Rate
    set: str
    storage: str
    accelerators: int
    cached: float
    cores: int


def checks() -> list[Check]:
    def of(name: str, number: int, *rest: Any) -> Check:
        return Check(name, rates.rates_of(name)[number], *rest)

    return [
        of("ResNet-18", 0, "imagenet-1k", "SSD", 8, 0.35, 2),
        of("ResNet-50", 0, "imagenet-1k", "HDD", 1, 0.65, 2),
        of("SSD300-ResNet18", 0, "openimages", "SSD", 8, 0.65, 2),
        of("M5", 0, "fma", "SSD", 8, 0.35, 2),
        of("VGG-11", 0, "imagenet-22k", "SSD", 8, 0.25, 1),
        of("AlexNet", 0, "imagenet-1k", "SSD", 1, 1.0, 1),
    ]


# Measuring -----------------------------------------------------------------------------------------------


def cell(args: argparse.Namespace, found: sets.Set, way: str, task: str, cores: int, **changes: Any) -> dict[str, float]:
    loader, packed = WAYS[way]
    words = {"way": loader, "path": str(found.store(packed)), "task": task, "samples": found.samples, "batch": found.batch,
             "cores": cores, "storage": 0, "cached": 0, "rate": 0, "seconds": args.seconds, **changes}  # fmt: skip
    got = runner.run_cell([sys.executable, str(HERE / "cell.py"), json.dumps(words)], dict(os.environ, OMP_NUM_THREADS="1"),
                          CELL_LIMIT_S)  # fmt: skip
    if "absent" in got:
        sys.exit(f"{found.name}, {way}, {task}: {got['absent']}")
    return got


def ways_of(name: str) -> list[str]:
    return [way for way in WAYS if way != "pli-jpeg" or name != "fma"]


def measure_costs(args: argparse.Namespace, made: dict[str, sets.Set]) -> list[dict[str, Any]]:
    """Measures preparation: a row for each set, task, way of loading and number of cores."""
    rows = []
    for name, found in made.items():
        for task in TASK[name]:
            for way in ways_of(name):
                stored = runner.stored_mb(found.store(WAYS[way][1])) * 1e6 if way == "pli-jpeg" else found.nbytes
                item = stored / (found.samples if way != "pli-jpeg" else len(list(found.folder.glob("*/*"))))
                for cores in (1, 2)[: args.cores]:
                    got = cell(args, found, way, task, cores)
                    rows.append({"set": name, "task": task, "way": way, "cores": cores, "item_nbytes": item,
                                 "nbytes": got["nbytes"] if way != "before" else item, "cpu_seconds": got["cpu_seconds"],
                                 "samples_per_second": got["samples_per_second"]})  # fmt: skip
                    say(f"{name}, {task}, {way}, {cores} cores: {got['samples_per_second']:.0f}/s, "
                        f"{1e3 * got['cpu_seconds']:.2f} CPU ms each")  # fmt: skip
    return rows


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


class Costs:
    """The measured costs, by set, task, way and cores. For more cores than were measured, it returns the CPU seconds of the largest
    number measured.
    """

    def __init__(self, rows: list[dict[str, Any]], made: dict[str, sets.Set]) -> None:
        self.rows, self.made = rows, made

    def of(self, name: str, task: str, way: str, cores: int) -> model.Costs:
        some = [row for row in self.rows if (row["set"], row["task"], row["way"]) == (name, task, way)]
        row = max((row for row in some if row["cores"] <= cores), key=lambda row: int(row["cores"]))
        return model.Costs(row["cpu_seconds"], row["nbytes"], row["item_nbytes"])

    def misses(self, name: str, way: str, cached: float, costs: model.Costs) -> list[float]:
        if way == "before":
            return model.page_misses(cached)
        return model.cache_misses(cached, costs, self.made[name].item_nbytes)

    def predict(self, name: str, task: str, way: str, place: model.Place, rate: float, cached: float) -> model.Split:
        costs = self.of(name, task, way, int(place.cores))
        return model.predict(costs, place, rate, self.misses(name, way, cached, costs), self.made[name].batch)

    def with_cache(self, name: str, task: str, place: model.Place, rate: float, cached: float) -> model.Split:
        """Returns the loader of "before" with a cache that evicts nothing."""
        costs = self.of(name, task, "before", int(place.cores))
        misses = model.cache_misses(cached, costs, self.made[name].item_nbytes)
        return model.predict(costs, place, rate, misses, self.made[name].batch)

    def to_hide(self, name: str, rate: float) -> dict[str, float]:
        """Returns for each way the cores that prepare images of imagenet-1k as fast as the model takes them."""
        most = max(int(row["cores"]) for row in self.rows)
        return {way: model.cores_to_hide(self.of("imagenet-1k", "classify", way, most), rate) for way in WAYS}

    def best(self, name: str, task: str, place: model.Place, rate: float, cached: float) -> tuple[str, model.Split]:
        """Returns the form with the higher predicted rate, and its split. If both are equal: the files, which need no packing."""
        found = [(way, self.predict(name, task, way, place, rate, cached)) for way in ways_of(name) if way != "before"]
        return max(found, key=lambda one: one[1].samples_per_second * (1.001 if one[0] == "files" else 1))


# Cells ---------------------------------------------------------------------------------------------------


def short(found: model.Split) -> dict[str, float]:
    return {name: float(f"{value:.4g}") for name, value in asdict(found).items()}


def all_cells(costs: Costs, accelerators: int) -> list[dict[str, Any]]:
    cells = []
    for rate in rates.RATES:
        about = rates.MODELS[rate.model]
        for name in (name for name in about.sets if name in costs.made):
            for storage, speed in STORAGE.items():
                for cached in CACHED:
                    for cores in CORES:
                        place = model.Place(cores, speed / accelerators)
                        before = costs.predict(name, about.task, "before", place, rate.samples_per_second, cached)
                        form, after = costs.best(name, about.task, place, rate.samples_per_second, cached)
                        alone = costs.with_cache(name, about.task, place, rate.samples_per_second, cached)
                        cells.append({"model": rate.model, "accelerator": rate.accelerator, "rate": rate.samples_per_second,
                                      "sweep": not rate.source, "set": name, "storage": storage, "cached": cached, "cores": cores,
                                      "before": short(before), "with": {"form": form, **short(after)},
                                      "cache_alone": round(alone.samples_per_second / before.samples_per_second, 3),
                                      "times": round(after.samples_per_second / before.samples_per_second, 3)})  # fmt: skip
    return cells


def measure_fetch(args: argparse.Namespace, costs: Costs) -> list[dict[str, Any]]:
    """Measures loading without preparation: stored bytes from storage and cache, for each cached share."""
    name, rows = "imagenet-1k", []
    found = costs.made[name]
    for storage, speed in STORAGE.items():
        for way in ("before", "files"):
            for cached in CACHED[:-1]:
                item = model.Costs(0.0, found.item_nbytes, found.item_nbytes)
                got = cell(args, found, way, "bytes", min(2, args.cores), storage=speed / (8 if storage == "SSD" else 1),
                           cached=cached * found.nbytes)  # fmt: skip
                misses = statistics.mean(costs.misses(name, way, cached, item))
                wanted = speed / (8 if storage == "SSD" else 1) / (misses * found.item_nbytes)
                rows.append({"storage": storage, "way": way, "cached": cached, "predicted": wanted,
                             "measured": got["samples_per_second"]})  # fmt: skip
                say(f"fetch: {storage}, {way}, {100 * cached:.0f} %: {got['samples_per_second']:.0f}/s, predicted {wanted:.0f}")
    return rows


def run_check(args: argparse.Namespace, costs: Costs, check: Check) -> list[dict[str, Any]]:
    """Runs a cell before and with Penstock, each first without storage, and splits the time as the model does."""
    about, found, rows = rates.MODELS[check.model], costs.made[check.set], []
    rate, cores = check.rate.samples_per_second, min(check.cores, args.cores)
    place = model.Place(cores, STORAGE[check.storage] / check.accelerators)
    after = costs.best(check.set, about.task, place, rate, check.cached)[0]
    for way in ("before", after):
        prepared = cell(args, found, way, about.task, cores, rate=rate)
        everything = 2 * found.nbytes if check.cached >= 1 else check.cached * found.nbytes
        got = cell(args, found, way, about.task, cores, rate=rate, storage=place.storage, cached=everything)
        measured = model.split(1 / rate, 1 / prepared["samples_per_second"], 1 / got["samples_per_second"])
        predicted = costs.predict(check.set, about.task, way, place, rate, check.cached)
        rows.append({"model": check.model, "rate": rate, "sweep": not check.rate.source, "set": check.set, "storage": check.storage,
                     "accelerators": check.accelerators, "cached": check.cached, "cores": cores, "way": way,
                     "predicted": short(predicted), "measured": short(measured),
                     "error": predicted.samples_per_second / measured.samples_per_second - 1})  # fmt: skip
        say(f"check: {check.model}, {check.set}, {way}: {measured.samples_per_second:.0f}/s, "
            f"predicted {predicted.samples_per_second:.0f}")  # fmt: skip
    return rows


def as_json(result: dict[str, Any]) -> str:
    """Returns JSON with a line for each of the many cells."""
    lines = ",\n  ".join(json.dumps(one) for one in result["cells"])
    return json.dumps({**result, "cells": []}, indent=1).replace('"cells": []', f'"cells": [\n  {lines}\n ]') + "\n"


def main() -> None:
    parser = runner.parser(__doc__, "data", "work", again=False)
    parser.add_argument("--accelerators", type=int, default=8, help="that share the storage (%(default)s, as in the paper)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a cell (%(default)s)")
    parser.add_argument("--checks", type=int, default=len(checks()), help="cells that are run (%(default)s)")
    parser.add_argument("--images", type=int, default=256, help="of a set (%(default)s)")
    parser.add_argument("--sets", default="*", help="of the sets, separated by commas")
    parser.add_argument("--no-fetch", action="store_true", help="fetching alone is not measured")
    args = runner.parsed(parser)
    args.cores = len(os.sched_getaffinity(0))
    args.work.mkdir(parents=True, exist_ok=True)
    rates.RATES = (*steps.measured(), *rates.RATES)
    made = {}
    for name in runner.chosen(args.sets, list(sets.ITEM_NBYTES)):
        found = sets.prepare(args.data, args.work, name, args.images)
        if found is None:
            say(f"{name} is left out: {args.data} has no clic2025")
        else:
            made[name] = found
    if "imagenet-1k" not in made:
        sys.exit("imagenet-1k is needed")
    costs = Costs(measure_costs(args, made), made)
    fetch = [] if args.no_fetch else measure_fetch(args, costs)
    run = [check for check in checks() if check.set in made][: args.checks]
    checked = [row for check in run for row in run_check(args, costs, check)]
    cells = all_cells(costs, args.accelerators)
    result = {"bench": "stalls", "machine": runner.machine(), "accelerators": args.accelerators, "seconds": args.seconds,
              "sets": {name: {"samples": one.samples, "nbytes": one.nbytes} for name, one in made.items()},
              "costs": costs.rows, "fetch": fetch, "checks": checked, "beside": tables.ours(cells, costs.to_hide, checked),
              "paper": [asdict(claim) for claim in rates.PAPER], "rates": [asdict(rate) for rate in rates.RATES],
              "cells": cells}  # fmt: skip
    panels = {name: tables.main_cells(cells, name) for name in STORAGE}
    runner.write(args.out / "stalls", result, tables.text_of(result), picture.draw(panels, result["machine"]))
    (args.out / "stalls.json").write_text(as_json(result))


if __name__ == "__main__":
    main()
