#!/usr/bin/env python3
"""Tars read in place, by the loaders that support them: sources.py --data DIR --build DIR --out DIR.

    sources.py ... [--sources penstock,webdataset] [--copies 8] [--shards 8] [--epochs 3] [--cores 1 2] [--rounds 3]
    sources.py --from FILE.json --out DIR

ImageNet JPEGs, some copies of each, lie in tars as NUMBER.jpg and NUMBER.cls. They become float32 NCHW by RandomResizedCrop(224), a
flip, and normalisation. Each loader has its own copy of the tars, because an index of another loader must not lie beside them. If a
loader needs an index or a conversion, it is made and timed first. Then, each in a process of its own that is pinned to its cores
(cell.py): images are compared with Pillow and counted; the tars are opened and epochs are timed, of which the first begins without
an index of Penstock; the tars are opened again. Rounds go over all loaders, so a change of the machine's speed affects all of them;
the median is shown. Penstock, torch and wids deliver an exact random order; the others shuffle shards and a buffer of an eighth of
the set.

The sources penstock_recoded and penstock_recoded_folder have a cache and an emulated accelerator: see source_penstock_recoded.py.
They need the source penstock: the accelerator takes half of that source's rate in the same round. Their first epoch runs at the
accelerator's rate, and does not measure the loader.

Goals of Penstock: in the first epoch 2.7 times WebDataset on one core, 3.3 times on two; re-coded, 6 times in later epochs. Writes
sources-<date>.json and .md.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "records"), str(HERE.parent / "fed")]
import runner  # noqa: E402
import common  # noqa: E402
import environments  # noqa: E402
import formats  # noqa: E402
import measure  # noqa: E402
from workloads import copy_imagenet  # noqa: E402

RECODED = ("penstock_recoded", "penstock_recoded_folder")
SOURCES = {"penstock": environments.OWN, **dict.fromkeys(RECODED, environments.OWN), "webdataset": "torch", "wids": "energon",
           "energon": "energon", "dali": "dali", "tfdata": "tf", "torch": "torch"}
GOALS = {1: 2.7, 2: 3.3}  # cores -> least multiple of WebDataset's rate in the first epoch
GOAL_RECODED = 6.0  # goal: at least this many times WebDataset's rate in later epochs
ACCELERATOR = 0.5  # rate of the emulated accelerator, as a part of the rate of the source penstock
CELL_LIMIT_S = 900


def write_tars(work: common.Work, store: Path, n: int) -> None:
    store.mkdir(parents=True)
    files = list(enumerate(work.files()))
    for shard in range(n):
        part = files[len(files) * shard // n:len(files) * (shard + 1) // n]
        formats.write_tar(store / f"train-{shard:06d}.tar", ((number, path.read_bytes()) for number, path in part))


def forget_indexes(store: Path) -> None:
    """Removes the indexes that Penstock and other loaders have written beside the tars."""
    for path in store.iterdir():
        if path.suffix != ".tar":
            common.remove(path)


def run_cell(args: argparse.Namespace, source: str, cores: int, what: str, rate: float) -> dict:
    kind = SOURCES[source]
    python = str(environments.python_of(args.build, kind))
    command = [*runner.pinned(args.cpus, cores), python, str(HERE / "cell.py"), source, what, str(cores), "--folder",
               str(args.folder), "--store", str(args.stores[source]), "--epochs", str(args.epochs)]
    env = environments.variables(args.build, kind, OMP_NUM_THREADS=str(cores), ACCELERATOR_IMAGES_PER_S=str(rate))
    return runner.run_cell(command, env, CELL_LIMIT_S)


def run_source(args: argparse.Namespace, source: str, cores: int, rate: float) -> dict:
    """Runs the processes of one loader until one of them has no figures. `rate`: images per second of an emulated accelerator."""
    forget_indexes(args.stores[source])
    found: dict = {}
    for what in ("prepare", "check", "first", "again"):
        if what == "first" and source == "penstock":
            forget_indexes(args.stores[source])  # the check has made an index
        more = run_cell(args, source, cores, what, rate)
        if "absent" in more:
            return {"absent": f"{what}: {more['absent']}"}
        if what == "again":
            more["again_s"] = more.pop("opened_s")
        found |= more
    return found


def cell_of(args: argparse.Namespace, source: str, cores: int, absent: dict[str, str], rate: float) -> dict:
    """Runs one loader if it can run here. rate: images per second of the emulated accelerator; 0: not known."""
    if SOURCES[source] in absent:
        return {"absent": f"did not install: {absent[SOURCES[source]]}"}
    if source in RECODED and not rate:
        return {"absent": "penstock has no rate in this round"}
    return run_source(args, source, cores, rate)


def middle(rounds: list[dict]) -> dict:
    """Returns the median of the figures of several rounds; each round's figures are kept."""
    whole = [found for found in rounds if "absent" not in found]
    if not whole:
        return rounds[0]
    names = [name for name, value in whole[0].items() if isinstance(value, (int, float))]
    return {**whole[0], **{name: statistics.median(found[name] for found in whole) for name in names},
            "n_rounds": len(whole), "rounds": rounds}


def with_ratios(cells: list[dict]) -> None:
    """Adds to each cell how many times WebDataset's rates it has."""
    for cell in cells:
        base = next((c for c in cells if c["source"] == "webdataset" and c["cores"] == cell["cores"] and "first" in c), None)
        if base and "first" in cell:
            cell["times_first"] = round(cell["first"] / base["first"], 2)
            cell["times_later"] = round(cell["later"] / base["later"], 2)


def measure_all(args: argparse.Namespace) -> dict:
    absent = environments.install(args.build, {SOURCES[name] for name in args.sources}, False)
    common.made(args.folder, lambda path: copy_imagenet(args.data, path, args.copies))
    work = common.Work("imagenet", args.folder, 64, 224, True, True)
    first = common.made(work.store(f"{args.shards}.tars"), lambda path: write_tars(work, path, args.shards))
    args.stores = {name: common.made(work.store(f"{args.shards}.{name}.tars"), lambda path: shutil.copytree(first, path))
                   for name in args.sources}
    found: dict[tuple[str, int], list[dict]] = {}
    for _ in range(args.rounds):
        for cores in args.cores:
            rate = 0.0
            for name in args.sources:
                cell = cell_of(args, name, cores, absent, rate)
                if name == "penstock":
                    rate = ACCELERATOR * cell.get("later", 0.0)
                found.setdefault((name, cores), []).append(runner.said({"source": name, "cores": cores, **cell}))
    cells = [{"source": name, "cores": cores, **middle(rounds)} for (name, cores), rounds in found.items()]
    with_ratios(cells)
    settings = {"copies": args.copies, "epochs": args.epochs, "rounds": args.rounds, "shards": args.shards,
                "images": len(work.files()), "set_mb": round(runner.stored_mb(first), 1)}
    return {"bench": "sources", "machine": runner.machine(), "settings": settings, "cells": cells}


def row(cell: dict) -> str:
    if "absent" in cell:
        return runner.absent(cell["source"], cell["absent"], n=8)
    noisy = "" if cell["foreign_cores"] <= measure.FOREIGN_LIMIT else " (other programs ran)"
    return (f"| {cell['name']}{noisy} | {cell['first']:.0f} | {cell['later']:.0f} ({cell['low']:.0f}-{cell['high']:.0f}) | "
            f"{cell.get('times_first', '-')} | {cell.get('times_later', '-')} | {cell['peak_mb']:.0f} | {cell['prepared_s']:.2f} | "
            f"{cell['opened_s']:.3f} | {cell['again_s']:.3f} |")


def verdict(cells: list[dict]) -> list[str]:
    out = []
    for cores, goal in GOALS.items():
        ours = next((c for c in cells if c["source"] == "penstock" and c["cores"] == cores), {})
        if "times_first" in ours:
            said = "reached" if ours["times_first"] >= goal else "missed"
            out.append(f"Goal on {cores} core{'s' if cores > 1 else ''}: {goal} x WebDataset in the first epoch; "
                       f"{ours['times_first']} x: {said}.")
    for cell in cells:
        if cell["source"] in RECODED and "times_later" in cell:
            said = "reached" if cell["times_later"] >= GOAL_RECODED else "missed"
            out.append(f"Goal of {cell['name']} on {cell['cores']} core{'s' if cell['cores'] > 1 else ''}: {GOAL_RECODED:g} x "
                       f"WebDataset in later epochs; {cell['times_later']} x: {said}.")
    return out


def table(merged: dict) -> str:
    settings = merged["settings"]
    out = [f"{runner.where(merged)} "
           f"{settings['images']} JPEGs in {settings['shards']} tars, {settings['set_mb']} MB; median of {settings['rounds']} "
           f"rounds, each of the first epoch and {settings['epochs']} later ones; float32 NCHW, normalised; images compared with "
           "Pillow, and counted. The first epoch counts from the opening; opening is the time to the first batch, without imports. "
           "Made before: what the loader's own tools take to index the tars."]
    for cores in dict.fromkeys(cell["cores"] for cell in merged["cells"]):
        out += ["", f"### {cores} core{'s' if cores > 1 else ''}", "",
                *runner.heads("loader", "first epoch, images/s", "later (low-high)", "times WebDataset, first", "later",
                              "peak memory, MB", "made before, s", "first batch, s", "opened again, s")]
        out += [row(cell) for cell in merged["cells"] if cell["cores"] == cores]
    return "\n".join([*out, "", *verdict(merged["cells"]), "", runner.versions(merged)]) + "\n"


def arguments() -> argparse.Namespace:
    parser = runner.parser(__doc__, "data", "build")
    parser.add_argument("--sources", default="*", help=f"of {', '.join(SOURCES)}")
    parser.add_argument("--copies", type=int, default=8, help="of each image (%(default)s)")
    parser.add_argument("--shards", type=int, default=8, help="(%(default)s)")
    parser.add_argument("--epochs", type=int, default=3, help="that are timed after the first (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(%(default)s)")
    parser.add_argument("--cores", type=int, nargs="+", default=[1, 2])
    args = runner.parsed(parser)
    args.sources = runner.chosen(args.sources, tuple(SOURCES))
    args.cores = [n for n in args.cores if n <= len(args.cpus)]
    if args.data:
        args.folder = runner.copies_folder(args.build, args.data, "sources", args.copies)
    return args


def main() -> None:
    runner.finish(arguments(), "sources", measure_all, table)


if __name__ == "__main__":
    main()
