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
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOADER = HERE.parent / "loader"
sys.path.insert(0, str(LOADER))
import common  # noqa: E402
import environments  # noqa: E402
import measure  # noqa: E402

import recipes  # noqa: E402

# Loader -> its module, the form of its data set, its environment.
LOADERS = {"penstock_pli_jpeg": ("penstock", "pli-jpeg", "torch"), "penstock_pli": ("penstock", "pli", "torch"),
           "penstock_original": ("penstock", "original", "torch"), "penstock": ("penstock", "", "torch"),
           "dali": ("dali", "", "dali"), "torchvision": ("torchvision", "", "torch")}
TASKS = tuple(recipes.PATTERNS)
# What a task's files cannot be: pli-jpeg is for JPEGs, PLI for lossless images, and a plain folder has no VOC boxes.
LEFT_OUT = {"classify": {"penstock_pli"}, "detect": {"penstock_pli", "penstock"}, "segment": {"penstock_pli_jpeg"}}
GOALS = {"classify": 3, "detect": 3, "segment": 5}
LINE_LIMIT_S = 300  # including packing at first use


class Cell:
    """One loader of one task in its process."""

    def __init__(self, args: argparse.Namespace, name: str, task: str, cores: int):
        peer, form, environment = LOADERS[name]
        env = dict(os.environ, PYTHONPATH=f"{HERE}:{LOADER}", OMP_NUM_THREADS=str(cores))
        if environment == "torch":
            env["LD_LIBRARY_PATH"] = str(args.build / "stand_in")
        command = ["taskset", "-c", ",".join(map(str, args.cpus[:cores])), "timeout", str(args.limit),
                   str(environments.python_of(args.build, environment)), str(HERE / "cell.py"), peer, form, task, str(cores),
                   "--data", str(args.data), "--folder", str(args.folder), "--warm", str(args.warm), "--seconds", str(args.seconds)]
        self.errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (lives as long as the process)
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env=env, start_new_session=True)
        self.what = {"task": task, "cores": cores, "loader": name}
        self.found = self.line()
        self.windows: list[dict] = []

    def line(self) -> dict:
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        self.errors.seek(0)
        return {"absent": (self.errors.read().strip().splitlines() or ["no output"])[-1][:200]}

    def takes_part(self) -> bool:
        return "absent" not in self.found

    def needs(self, args: argparse.Namespace) -> bool:
        clean = sum(map(measure.is_clean, self.windows))
        return self.takes_part() and clean < args.windows and len(self.windows) < args.windows + args.retries

    def turn(self) -> None:
        try:
            print("window", file=self.process.stdin, flush=True)
            window = self.line()
        except BrokenPipeError:
            window = self.line()
        if "absent" in window:
            self.found = window
        else:
            self.windows.append(window)

    def figures(self) -> dict:
        if not self.takes_part():
            return {**self.what, **self.found}
        clean = [window for window in self.windows if measure.is_clean(window)]
        used = clean or self.windows
        rates = sorted(window["images_per_s"] for window in used)
        return {**self.what, **self.found, "images_per_s": round(statistics.median(rates), 1), "low": round(rates[0], 1),
                "high": round(rates[-1], 1), "cpu_ms_per_image": round(statistics.median(w["cpu_ms"] for w in used), 3),
                "peak_rss_mb": round(self.windows[-1]["peak_rss_mb"]), "clean": len(clean),
                "disturbed": len(self.windows) - len(clean),
                "foreign_cores": round(statistics.median(window["foreign"] for window in self.windows), 3)}

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)  # and its workers
        self.process.wait()


def group(args: argparse.Namespace, task: str, cores: int, absent: dict[str, str]) -> list[dict]:
    """Measures the loaders of one task on so many cores."""
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
            cell.end()
    found = [cell.figures() for cell in cells] + missing
    for figures in found:
        print(json.dumps(figures), file=sys.stderr, flush=True)
    return found


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
    return {"bench": "tasks", "machine": common.machine(), "settings": settings, "goals": GOALS, "cells": cells}


def best_peer(cells: list[dict]) -> float | None:
    return max((cell["images_per_s"] for cell in cells if "images_per_s" in cell and not cell["loader"].startswith("penstock")),
               default=None)


def row(cell: dict, best: float | None) -> str:
    if "absent" in cell:
        return f"| {cell['loader']} | {cell['absent'].replace('|', '/')} | | | | |"
    ratio = f"{cell['images_per_s'] / best:.2f}" if best else "-"
    clean = f"{cell['clean']}/{cell['clean'] + cell['disturbed']}" + ("" if cell["clean"] else " **disturbed**")
    return (f"| {cell['name']} | {cell['images_per_s']:.0f} ({cell['low']:.0f}-{cell['high']:.0f}) | {ratio} | "
            f"{cell['cpu_ms_per_image']:.2f} | {cell['peak_rss_mb']} | {clean} |")


def table(merged: dict) -> str:
    machine, settings = merged["machine"], merged["settings"]
    out = [f"{machine['cpu']}, {machine['cores']} cores; commit {machine['commit'] or 'unknown'}; {machine['date']}. Medians of "
           f"{settings['windows']} windows of {settings['seconds']:g} s or longer, in turns, disturbed ones timed again at most "
           f"{settings['retries']} times.",
           "x peer: relative to the fastest other loader. MB: sum of the peaks of all processes; what is mapped counts. Clean: "
           "windows undisturbed, of those timed."]
    for task in dict.fromkeys(cell["task"] for cell in merged["cells"]):
        for cores in dict.fromkeys(cell["cores"] for cell in merged["cells"]):
            rows = [cell for cell in merged["cells"] if (cell["task"], cell["cores"]) == (task, cores)]
            rows.sort(key=lambda cell: -cell.get("images_per_s", 0))
            out += ["", f"### {task}, {cores} core{'s' if cores > 1 else ''} (goal: {merged['goals'][task]} x)", "",
                    "| loader | images/s (low-high) | x peer | CPU ms/image | peak MB | clean |", "|---|---|---|---|---|---|"]
            out += [row(cell, best_peer(rows)) for cell in rows]
    versions = {name: text for cell in merged["cells"] for name, text in cell.get("versions", {}).items()}
    return "\n".join([*out, "", "versions: " + ", ".join(f"{name} {text}" for name, text in sorted(versions.items()))]) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", type=Path, dest="source", metavar="FILE.json", help="measure nothing, show these figures")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", default="*", help=f"of {', '.join(TASKS)}")
    parser.add_argument("--loaders", default="*", help=f"of {', '.join(LOADERS)}")
    parser.add_argument("--cores", default="1,2")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a window, at least (%(default)s)")
    parser.add_argument("--warm", type=float, default=1.0, help="before each window, not counted (%(default)s)")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--retries", type=int, default=4, help="windows timed again because of other work, at most")
    parser.add_argument("--short", action="store_true", help="one window of 0.3 s on one core: whether all works")
    parser.add_argument("--installed", action="store_true", help="take the Penstock that is in the environment of torch")
    args = parser.parse_args()
    if not args.source and not (args.data and args.build):
        parser.error("--data and --build, or --from")
    if args.short:
        args.seconds, args.warm, args.windows, args.retries, args.cores = 0.3, 0.1, 1, 0, "1"
    args.tasks, args.loaders = common.chosen(args.tasks, TASKS), common.chosen(args.loaders, tuple(LOADERS))
    args.cores = [int(n) for n in args.cores.split(",")]
    args.cpus = sorted(os.sched_getaffinity(0))
    if args.data:
        args.data, args.build = args.data.resolve(), args.build.resolve()
        args.folder = args.build / f"tasks-{zlib.crc32(str(args.data).encode()):08x}"
        args.limit = LINE_LIMIT_S + len(LOADERS) * (args.windows + args.retries) * (args.warm + args.seconds) * 4
    return args


def main() -> None:
    args = arguments()
    merged = json.loads(args.source.read_text()) if args.source else measure_all(args)
    stem = args.out / f"tasks-{merged['machine']['date']}"
    common.write(stem, merged, table(merged))
    print(f"{stem}.json, .md")


if __name__ == "__main__":
    main()
