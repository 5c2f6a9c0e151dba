#!/usr/bin/env python3
"""tasks.py: images per second of the training recipes of three tasks, through Penstock and through other loaders.

    tasks.py --data DIR --build DIR --out DIR [--tasks LIST] [--loaders LIST] [--cores LIST] [--short] ...
    tasks.py --from FILE.json --out DIR

recipes.py has the recipes. Lists are separated by commas; a name may be a pattern ("penstock*"). Each loader is a process of its
own, pinned to the cores it may use. Those of one task and core count are open together and time windows in turns; all but one wait.
A window in which other processes took CPU time is timed again, at most --retries times. Writes tasks-<date>.json and .md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import runner  # noqa: E402
import environments  # noqa: E402
import measure  # noqa: E402

import recipes  # noqa: E402

# Loader -> its module, the form of its data set, its environment.
LOADERS = {"penstock_pli_jpeg": ("penstock", "pli-jpeg", "torch"), "penstock_pli": ("penstock", "pli", "torch"),
           "penstock_original": ("penstock", "original", "torch"), "penstock": ("penstock", "", "torch"),
           "dali": ("dali", "", "dali"), "torchvision": ("torchvision", "", "torch")}
TASKS = tuple(recipes.PATTERNS)
# Combinations that are impossible: pli-jpeg needs JPEGs, PLI needs lossless images, and a plain folder has no VOC boxes.
LEFT_OUT = {"classify": {"penstock_pli"}, "detect": {"penstock_pli", "penstock"}, "segment": {"penstock_pli_jpeg"}}
GOALS = {"classify": 3, "detect": 3, "segment": 5}
LINE_LIMIT_S = 300  # seconds, including packing at first use


class Cell:
    """A loader of one task, in a process of its own."""

    def __init__(self, args: argparse.Namespace, name: str, task: str, cores: int):
        peer, form, environment = LOADERS[name]
        command = [*runner.pinned(args.cpus, cores), str(environments.python_of(args.build, environment)), str(HERE / "cell.py"),
                   peer, form, task, str(cores), "--data", str(args.data), "--folder", str(args.folder), "--warm", str(args.warm),
                   "--seconds", str(args.seconds)]
        self.process = runner.Process(name, command, environments.variables(args.build, environment, OMP_NUM_THREADS=str(cores)))
        self.deadline = time.monotonic() + args.limit
        self.what = {"task": task, "cores": cores, "loader": name}
        self.found = self.line()
        self.windows: list[dict] = []

    def line(self) -> dict:
        try:
            return json.loads(self.process.line("{", self.deadline))
        except runner.Unavailable as reason:
            return {"absent": str(reason)}

    def takes_part(self) -> bool:
        return "absent" not in self.found

    def needs(self, args: argparse.Namespace) -> bool:
        clean = sum(map(measure.is_clean, self.windows))
        return self.takes_part() and clean < args.windows and len(self.windows) < args.windows + args.retries

    def turn(self) -> None:
        self.process.say("window")
        window = self.line()
        if "absent" in window:
            self.found = window
        else:
            self.windows.append(window)

    def figures(self) -> dict:
        if not self.takes_part():
            return {**self.what, **self.found}
        return {**self.what, **self.found, **measure.summed(self.windows),
                "peak_rss_mb": round(self.windows[-1]["peak_rss_mb"])}


def group(args: argparse.Namespace, task: str, cores: int, absent: dict[str, str]) -> list[dict]:
    """Measures all loaders of one task with so many cores."""
    cells: list[Cell] = []
    names = [name for name in args.loaders if name not in LEFT_OUT[task]]
    missing = [{"task": task, "cores": cores, "loader": name, "absent": f"did not install: {absent[LOADERS[name][2]]}"}
               for name in names if LOADERS[name][2] in absent]
    try:
        for name in names:
            if LOADERS[name][2] not in absent:
                cells.append(Cell(args, name, task, cores))
        while any(cell.needs(args) for cell in cells):
            for cell in cells:
                if cell.needs(args):
                    cell.turn()
    finally:
        for cell in cells:
            cell.process.kill()
    return [runner.said(found) for found in [cell.figures() for cell in cells] + missing]


def measure_all(args: argparse.Namespace) -> dict:
    absent = environments.install(args.build, {LOADERS[name][2] for name in args.loaders}, not args.installed)
    recipes.lay_out(args.data, args.folder)
    cells: list[dict] = []
    for name in args.tasks:
        if not recipes.tasks(args.data, args.folder)[name].files():
            print(f"{name}: no files, left out", file=sys.stderr)
            continue
        for cores in (n for n in args.cores if n <= len(args.cpus)):
            cells += group(args, name, cores, absent)
    settings = {"seconds": args.seconds, "warm": args.warm, "windows": args.windows, "retries": args.retries}
    return {"bench": "tasks", "machine": runner.machine(), "settings": settings, "goals": GOALS, "cells": cells}


def best_peer(cells: list[dict]) -> float | None:
    return max((cell["images_per_s"] for cell in cells if "images_per_s" in cell and not cell["loader"].startswith("penstock")),
               default=None)


def row(cell: dict, best: float | None) -> str:
    if "absent" in cell:
        return runner.absent(cell["loader"], cell["absent"], n=6)
    ratio = f"{cell['images_per_s'] / best:.2f}" if best else "-"
    clean = f"{cell['clean']}/{cell['clean'] + cell['disturbed']}" + ("" if cell["clean"] else " **disturbed**")
    return (f"| {cell['name']} | {cell['images_per_s']:.0f} ({cell['low']:.0f}-{cell['high']:.0f}) | {ratio} | "
            f"{cell['cpu_ms_per_image']:.2f} | {cell['peak_rss_mb']} | {clean} |")


def table(merged: dict) -> str:
    settings = merged["settings"]
    out = [f"{runner.where(merged)} Medians of "
           f"{settings['windows']} windows of {settings['seconds']:g} s or longer, in turns, disturbed ones timed again at most "
           f"{settings['retries']} times.",
           "x peer: relative to the fastest other loader. MB: sum of the peaks of all processes; what is mapped counts. Clean: "
           "windows undisturbed, of those timed."]
    for task in dict.fromkeys(cell["task"] for cell in merged["cells"]):
        for cores in dict.fromkeys(cell["cores"] for cell in merged["cells"]):
            rows = [cell for cell in merged["cells"] if (cell["task"], cell["cores"]) == (task, cores)]
            rows.sort(key=lambda cell: -cell.get("images_per_s", 0))
            out += ["", f"### {task}, {cores} core{'s' if cores > 1 else ''} (goal: {merged['goals'][task]} x)", "",
                    *runner.heads("loader", "images/s (low-high)", "x peer", "CPU ms/image", "peak MB", "clean")]
            out += [row(cell, best_peer(rows)) for cell in rows]
    return "\n".join([*out, "", runner.versions(merged)]) + "\n"


def arguments() -> argparse.Namespace:
    parser = runner.parser(__doc__, "data", "build")
    parser.add_argument("--tasks", default="*", help=f"of {', '.join(TASKS)}")
    parser.add_argument("--loaders", default="*", help=f"of {', '.join(LOADERS)}")
    parser.add_argument("--cores", default="1,2")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a window, at least (%(default)s)")
    parser.add_argument("--warm", type=float, default=1.0, help="before each window, not counted (%(default)s)")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--retries", type=int, default=4, help="windows timed again because of other work, at most")
    parser.add_argument("--short", action="store_true", help="one window of 0.3 s on one core: whether all works")
    parser.add_argument("--installed", action="store_true", help="take the Penstock that is in the environment of torch")
    args = runner.parsed(parser)
    if args.short:
        args.seconds, args.warm, args.windows, args.retries, args.cores = 0.3, 0.1, 1, 0, "1"
    args.tasks, args.loaders = runner.chosen(args.tasks, TASKS), runner.chosen(args.loaders, tuple(LOADERS))
    args.cores = runner.by_commas(args.cores)
    args.folder = runner.work_folder(args.build, args.data, "tasks")
    args.limit = LINE_LIMIT_S + len(LOADERS) * (args.windows + args.retries) * (args.warm + args.seconds) * 4
    return args


def main() -> None:
    runner.finish(arguments(), "tasks", measure_all, table)


if __name__ == "__main__":
    main()
