#!/usr/bin/env python3
"""JPEGs that idle workers re-code into the cache: recode.py --data DIR --build DIR --out DIR.

    recode.py ... [--copies 4] [--rounds 5] [--epochs 3] [--cores 2]
    recode.py ... --short
    recode.py --from FILE.json --out DIR

DIR of --data has imagenet_folder. Its JPEGs, some copies of each, lie in a folder and in tars. Loaders make them float32 NCHW by
RandomResizedCrop(224), a flip, and normalisation. Each cell is a process that is pinned to its cores, with as many workers
(recode_cell.py). First the pixels of three epochs are compared, to the bit, with those of a loader without a cache. Then these run
in turns:

    files     no cache, as fast as it goes: the loader's rate, and the CPU time of an image
    stored    a cache that keeps the stored bytes
    idle      CacheUse(form="pli-jpeg", recode="idle")
    at-once   CacheUse(form="pli-jpeg"): re-coded when they are admitted
    packed    a cache of stored bytes over the same images packed as pli-jpeg

The first epoch of all but `files` has an emulated accelerator that takes half the rate of `files` in the same round. Then `idle`
waits until all items are re-coded, and later epochs are as fast as they go. CPU time is that of the whole process. Medians of
rounds. --short proves that each cell runs: one copy, one round; its figures are no figures.

Goals: GOALS below. Writes recode-<date>.json and .md.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), *(str(HERE.parent / folder) for folder in ("loader", "records", "fed", "sources"))]
import runner  # noqa: E402
import common  # noqa: E402
import measure  # noqa: E402
import sources  # noqa: E402
from workloads import copy_imagenet  # noqa: E402

BATCH, SHARDS, CELL_LIMIT_S = 32, 4, 300
PACE = 0.5  # rate of the emulated accelerator, as a part of the loader's rate.
# The goals: rate of the first epoch beside an epoch without re-coding, the share of items that is re-coded when it ends, and the
# CPU time of later epochs beside that of packed pli-jpeg.
GOALS = {"first": 1.2, "recoded": 0.8, "later": 1.1}
SETS = {"folder": ("files", "stored", "idle", "at-once", "packed"), "tars": ("files", "stored", "idle")}
WHOLE = {"copies": 4, "epochs": 3, "rounds": 5}
SHORT = {"copies": 1, "epochs": 1, "rounds": 1}
Cell = tuple[str, str]


def run_cell(args: argparse.Namespace, cell: Cell, *options: str) -> dict:
    kind, way = cell
    command = [*runner.pinned(args.cpus, args.cores), sys.executable, str(HERE / "recode_cell.py"),
               "stored" if way == "packed" else way, str(args.stores["packed" if way == "packed" else kind]), "--workers",
               str(args.cores), "--epochs", str(args.epochs), "--batch", str(BATCH), *options]
    found = runner.run_cell(command, {**os.environ, "OMP_NUM_THREADS": "1"}, CELL_LIMIT_S)
    if "absent" in found:
        sys.exit(f"{kind}, {way}: {found['absent']}")
    return found


def one_round(args: argparse.Namespace) -> list[dict]:
    found = []
    for kind, ways in SETS.items():
        rate = 0.0
        for way in ways:
            pace = [] if way == "files" else ["--step", str(BATCH / rate / PACE)]
            cell = run_cell(args, (kind, way), *pace)
            rate = rate or cell["later"]
            found.append(runner.said({"set": kind, "way": way, **cell}))
    return found


def make_stores(args: argparse.Namespace) -> None:
    from peer_penstock import packed

    common.made(args.folder, lambda path: copy_imagenet(args.data, path, args.copies))
    work = common.Work("imagenet", args.folder, BATCH, 224, True, True)
    tars = common.made(work.store(f"{SHARDS}.tars"), lambda path: sources.write_tars(work, path, SHARDS))
    args.stores = {"folder": args.folder, "tars": tars, "packed": packed(work, "pli-jpeg")}


def summed(rounds: list[list[dict]]) -> list[dict]:
    """Returns the medians over the rounds: of each cell, and of each ratio within a round."""
    cells = []
    for i, first in enumerate(rounds[0]):
        each = [one[i] for one in rounds]
        found = {name: round(statistics.median(one[name] for one in each), 4) for name, value in first.items()
                 if isinstance(value, (int, float))}
        beside = [ratios(one, first["set"], first["way"]) for one in rounds]
        found.update({name: round(statistics.median(one[name] for one in beside), 4) for name in beside[0]})
        cells.append({"set": first["set"], "way": first["way"], **found, "rounds": each})
    return cells


def ratios(cells: list[dict], kind: str, way: str) -> dict[str, float]:
    """Returns the ratios of one round: each cell beside the others of that round."""
    found = {(cell["set"], cell["way"]): cell for cell in cells}
    cell, files = found[kind, way], found[kind, "files"]
    made = {"of_files": cell["later_cpu_ms"] / files["later_cpu_ms"]}
    if way != "files":
        made["of_packed"] = cell["later_cpu_ms"] / found["folder", "packed"]["later_cpu_ms"]
        made["of_stored_s"] = cell["first_s"] / found[kind, "stored"]["first_s"]
        made["part"] = cell["recoded"] / max(1, cell["images"])
    return made


def measure_all(args: argparse.Namespace) -> dict:
    make_stores(args)
    compared = {kind: run_cell(args, (kind, "idle"), "--check") for kind in SETS}
    rounds = [one_round(args) for _ in range(args.rounds)]
    settings = {name: getattr(args, name) for name in ("copies", "epochs", "rounds", "cores", "short")}
    settings.update(images=rounds[0][0]["images"], pace=PACE, set_mb=round(runner.stored_mb(args.folder), 1))
    return {"bench": "recode", "machine": runner.machine(), "settings": settings, "compared": compared, "goals": GOALS,
            "cells": summed(rounds)}


# The table -----------------------------------------------------------------------------------------------


def row(cell: dict) -> str:
    paced = cell["way"] != "files"
    noisy = "" if cell["foreign_cores"] <= measure.FOREIGN_LIMIT else " (other programs ran)"
    of_stored, part, rest, of_packed = (f"{cell['of_stored_s']:.2f}", f"{100 * cell['part']:.0f} %", f"{cell['rest_s']:.1f}",
                                        f"{cell['of_packed']:.2f}") if paced else "----"
    columns = (cell["set"], cell["way"] + noisy, f"{cell['first_s']:.2f}", of_stored, f"{cell['first_cpu_ms']:.2f}", part, rest,
               f"{cell['later_cpu_ms']:.3f}", f"{cell['of_files']:.2f}", of_packed, f"{cell['later']:.0f}")
    return f"| {' | '.join(columns)} |"


def verdict(result: dict) -> list[str]:
    """Returns a line for each goal and set, which says whether the goal is met."""
    out, goals = [], result["goals"]
    for cell in (cell for cell in result["cells"] if cell["way"] == "idle"):
        for words, value, met in (
            (f"the first epoch takes at most {goals['first']} x that of the cache of stored bytes", cell["of_stored_s"],
             cell["of_stored_s"] <= goals["first"]),
            (f"at least {goals['recoded']} of the items are re-coded by its end", cell["part"], cell["part"] >= goals["recoded"]),
            (f"later epochs take at most {goals['later']} x the CPU time of packed pli-jpeg", cell["of_packed"],
             cell["of_packed"] <= goals["later"]),
        ):  # fmt: skip
            said = "a short run, which says nothing" if result["settings"]["short"] else "met" if met else "missed"
            out.append(f"Goal, {cell['set']}: {words}: {value:.2f}: {said}.")
    return out


def table(result: dict) -> str:
    settings = result["settings"]
    compared = sum(one["compared"] for one in result["compared"].values())
    out = [f"{runner.where(result)} {settings['images']} JPEGs, {settings['set_mb']} MB, on {settings['cores']} cores; medians of "
           f"{settings['rounds']} rounds. The first epoch is paced at {settings['pace']:g} of the rate of `files`, later ones are "
           f"as fast as they go. Before: {compared} samples compared with a loader without a cache, equal to the bit.", "",
           *runner.heads("set", "cache", "first epoch, s", "of stored", "CPU ms of an image", "re-coded by its end", "rest, s",
                         "later: CPU ms of an image", "of files", "of packed", "images/s")]
    out += [row(cell) for cell in result["cells"]]
    return "\n".join([*out, "", *verdict(result)]) + "\n"


def arguments() -> argparse.Namespace:
    parser = runner.parser(__doc__, "data", "build")
    parser.add_argument("--copies", type=int, help=f"of each image ({WHOLE['copies']})")
    parser.add_argument("--epochs", type=int, help=f"after the first ({WHOLE['epochs']})")
    parser.add_argument("--rounds", type=int, help=f"({WHOLE['rounds']})")
    parser.add_argument("--cores", type=int, default=2, help="(%(default)s)")
    parser.add_argument("--short", action="store_true", help="prove that each cell runs, and measure nothing")
    args = runner.parsed(parser)
    for name, value in (SHORT if args.short else WHOLE).items():
        setattr(args, name, value if getattr(args, name) is None else getattr(args, name))
    if args.data:
        args.folder = runner.copies_folder(args.build, args.data, "recode", args.copies)
    return args


def main() -> None:
    runner.finish(arguments(), "recode", measure_all, table)


if __name__ == "__main__":
    main()
