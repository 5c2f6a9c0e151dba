#!/usr/bin/env python3
"""Containers in place, each beside its own library: containers.py --data DIR --build DIR --out DIR.

    containers.py ... [--groups parquet,mds] [--sources penstock,rowgroups] [--copies 8] [--epochs 3] [--cores 1 2] [--rounds 5]
    containers.py ... --short
    containers.py --from FILE.json --out DIR

ImageNet JPEGs, some copies of each, lie in containers that their own libraries write once (make_containers.py). They become
float32 NCHW by RandomResizedCrop(224), a flip, and normalisation; in the groups of rows, the encoded bytes are delivered. A cell is
a container, a loader that reads it, and a number of cores. Each cell has its own links to the files, because an index of another
loader must not lie beside them. If a loader needs an index or a conversion, it is made and timed first. Then, each in a process of
its own that is pinned to its cores (cell.py): all images are counted, some are compared with Pillow, and the mean colours of all
are compared (for rows, all bytes); the container is opened and epochs are timed, of which the first begins without an index of
Penstock; it is opened again. Files are in the page cache. Rounds go over all cells, so a change of the machine's speed affects all
of them; the median is shown. Penstock's order is an exact random one over all samples. The other loaders use the settings that
their documents advise (source_NAME.py). --short proves that each cell runs: one copy, one round, one later epoch, all cores at
once; its figures are no figures.

Goals of Penstock: GOALS below. Writes containers-<date>.json, .md and .svg.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "records"), str(HERE.parent / "fed")]
import runner  # noqa: E402
import common  # noqa: E402
import environments  # noqa: E402
import make_containers  # noqa: E402
import measure  # noqa: E402
import sources  # noqa: E402
from workloads import copy_imagenet  # noqa: E402

# Name of the module source_NAME -> the environment that it needs.
SOURCES = {"penstock": environments.OWN, "rowgroups": "hub", "datasets": "hub", "lance": "hub", "litdata": "litdata",
           "mosaic": "mosaic", "tfrecord": "tf", "lmdb": "hub", "mxnet": "mxnet", "dali_recordio": "dali", "ffcv": "ffcv"}
FORMS = {"lance": "lance"}  # sources that do not read the form of their group, and the form that they read


class Group(NamedTuple):
    title: str
    form: str
    sources: tuple[str, ...]  # names of the sources; the first is Penstock
    rows: bool = False  # whether encoded bytes are delivered instead of crops


PARQUET = ("penstock", "rowgroups", "lance", "datasets", "litdata")
GROUPS = {
    "parquet": Group("Parquet, not compressed", "parquet", PARQUET),
    "parquet_snappy": Group("Parquet, Snappy", "parquet_snappy", PARQUET),
    "rows": Group("Parquet, not compressed: rows without decoding", "parquet", PARQUET, True),
    "rows_snappy": Group("Parquet, Snappy: rows without decoding", "parquet_snappy", PARQUET, True),
    "arrow": Group("Arrow", "arrow", ("penstock", "datasets")),
    "mds": Group("MDS", "mds", ("penstock", "mosaic")),
    "tfrecord": Group("TFRecord", "tfrecord", ("penstock", "tfrecord")),
    "lmdb": Group("LMDB", "lmdb", ("penstock", "lmdb")),
    "recordio": Group("RecordIO", "recordio", ("penstock", "mxnet", "dali_recordio")),
    "beton": Group("FFCV beton", "beton", ("penstock", "ffcv")),
}


class Goal(NamedTuple):
    group: str
    source: str
    cores: int
    times: float  # goal: at least this many times the source's rate in later epochs


GOALS = [*(Goal(group, source, 2, times) for group in ("parquet", "parquet_snappy", "rows", "rows_snappy")
           for source, times in (("rowgroups", 8.0), ("lance", 1.0))),
         *(Goal(group, "litdata", 2, 2.0) for group in ("rows", "rows_snappy")),
         Goal("mds", "mosaic", 2, 3.0), Goal("tfrecord", "tfrecord", 2, 3.0)]
CELL_LIMIT_S = 900
WHOLE = {"copies": 8, "epochs": 3, "rounds": 5}
SHORT = {"copies": 1, "epochs": 1, "rounds": 1}
Cell = tuple[str, str, int]


def form_of(group: str, source: str) -> str:
    return FORMS.get(source, GROUPS[group].form)


def link(made: Path, store: Path) -> None:
    """Makes a folder with links to the files of a container, for one cell alone."""
    shutil.copytree(made, store, copy_function=os.link)


def make_forms(args: argparse.Namespace, work: common.Work, forms: list[str], absent: dict[str, str]) -> dict[str, dict]:
    """Makes the containers. Returns a description of each, or {"absent": reason}."""
    found = {}
    for form in forms:
        kind = make_containers.KINDS[form]
        if kind in absent:
            found[form] = {"absent": f"its library did not install: {absent[kind]}"}
            continue
        command = [str(environments.python_of(args.build, kind)), str(HERE / "make_containers.py"), form, str(args.folder),
                   str(work.store(form))]
        made = runner.run_cell(command, environments.variables(args.build, kind), CELL_LIMIT_S)
        found[form] = {"absent": f"was not made: {made['absent']}"} if "absent" in made else made
        runner.said({"form": form, **found[form]})
    return found


def run_process(args: argparse.Namespace, cell: Cell, store: Path, what: str) -> dict:
    group, source, cores = cell
    kind = SOURCES[source]
    python = str(environments.python_of(args.build, kind))
    command = [*runner.pinned(args.cpus, cores), python, str(HERE / "cell.py"), source, what, str(cores), "--folder",
               str(args.folder), "--store", str(store), "--epochs", str(args.epochs), "--expected", str(args.expected),
               *(["--rows"] if GROUPS[group].rows else [])]
    more = {"OMP_NUM_THREADS": str(cores), "HF_HUB_OFFLINE": "1"}
    return runner.run_cell(command, environments.variables(args.build, kind, **more), CELL_LIMIT_S)


def run_one(args: argparse.Namespace, work: common.Work, cell: Cell) -> dict:
    """Runs the processes of one cell until one of them has no figures. The cell's folder is made anew first, and again after
    Penstock's check.
    """
    group, source, _ = cell
    store, found = work.store(f"{group}.{source}"), {}
    for what in ("prepare", "check", "first", "again"):
        if what == "prepare" or (what == "first" and source == "penstock"):
            common.remove(store)
            link(work.store(form_of(group, source)), store)
        more = run_process(args, cell, store, what)
        if "absent" in more:
            common.remove(store)
            return {"absent": f"{what}: {more['absent']}"}
        if what == "again":
            more["again_s"] = more.pop("opened_s")
        found |= more
    common.remove(store)
    return found


def reason_of(cell: Cell, absent: dict[str, str], made: dict[str, dict]) -> str | None:
    """Returns the reason why a cell cannot run, else None."""
    group, source, _ = cell
    if SOURCES[source] in absent:
        return f"did not install: {absent[SOURCES[source]]}"
    return made[form_of(group, source)].get("absent")


def with_ratios(cells: list[dict]) -> None:
    """Adds to each cell how many times as fast Penstock is, in the first epoch and in later ones."""
    ours = {(cell["group"], cell["cores"]): cell for cell in cells if cell["source"] == "penstock" and "first" in cell}
    for cell in cells:
        own = ours.get((cell["group"], cell["cores"]))
        if own and "first" in cell:
            cell["behind_first"], cell["behind_later"] = (round(own[name] / cell[name], 2) for name in ("first", "later"))


def cells_of(groups: list[str], chosen: list[str], cores: list[int]) -> list[Cell]:
    return [(group, source, n) for n in cores for group in groups for source in GROUPS[group].sources if source in chosen]


def measure_all(args: argparse.Namespace) -> dict:
    cells = cells_of(args.groups, args.sources, args.cores)
    forms = list(dict.fromkeys(form_of(group, source) for group, source, _ in cells))
    kinds = {SOURCES[source] for _, source, _ in cells} | {make_containers.KINDS[form] for form in forms}
    absent = environments.install(args.build, kinds, False)
    common.made(args.folder, lambda path: copy_imagenet(args.data, path, args.copies))
    work = common.Work("imagenet", args.folder, 64, 224, True, True)
    made = make_forms(args, work, ["expected", *forms], absent)
    if "absent" in made["expected"]:
        sys.exit(f"the expected images: {made['expected']['absent']}")
    args.expected = work.store("expected") / make_containers.EXPECTED
    found: dict[Cell, list[dict]] = {}
    for _ in range(args.rounds):
        for cell in cells:
            reason = reason_of(cell, absent, made)
            group, source, cores = cell
            one = {"absent": reason} if reason else run_one(args, work, cell)
            found.setdefault(cell, []).append(runner.said({"group": group, "source": source, "cores": cores, **one}))
    merged = [{"group": group, "source": source, "cores": cores, **sources.middle(rounds)}
              for (group, source, cores), rounds in found.items()]
    with_ratios(merged)
    settings = {"copies": args.copies, "epochs": args.epochs, "rounds": args.rounds, "images": len(work.files()),
                "set_mb": round(runner.stored_mb(args.folder), 1), "short": args.short}
    return {"bench": "containers", "machine": runner.machine(), "settings": settings, "forms": made, "cells": merged}


# Tables and pictures -------------------------------------------------------------------------------------


def row(cell: dict) -> str:
    if "absent" in cell:
        return runner.absent(cell["source"], cell["absent"], n=8)
    noisy = "" if cell["foreign_cores"] <= measure.FOREIGN_LIMIT else " (other programs ran)"
    behind = [f"{cell[name]:.2f}" if cell["source"] != "penstock" and name in cell else "-"
              for name in ("behind_first", "behind_later")]
    return (f"| {cell['name']}{noisy} | {cell['first']:.0f} | {cell['later']:.0f} ({cell['low']:.0f}-{cell['high']:.0f}) | "
            f"{' | '.join(behind)} | {cell['peak_mb']:.0f} | {cell['prepared_s']:.2f} | {cell['opened_s']:.3f} | "
            f"{cell['again_s']:.3f} |")


def verdict(merged: dict) -> list[str]:
    """Returns a line for each goal that was measured."""
    out, settings = [], merged["settings"]
    for group, source, cores, times in GOALS:
        cell = next((c for c in merged["cells"] if (c["group"], c["source"], c["cores"]) == (group, source, cores)), {})
        if "behind_later" in cell:
            said = "reached" if cell["behind_later"] >= times else "missed"
            said = "a short run, which says nothing" if settings["short"] else said
            out.append(f"Goal, {GROUPS[group].title}, {cores} cores: {times:g} x {cell['name']}; {cell['behind_later']} x: {said}.")
    return out


def table(merged: dict) -> str:
    settings, cells = merged["settings"], merged["cells"]
    out = [f"{runner.where(merged)} {settings['images']} JPEGs, {settings['set_mb']} MB; median of {settings['rounds']} rounds, "
           f"each of the first epoch and {settings['epochs']} later ones; float32 NCHW, normalised, or the encoded bytes; all "
           "images compared and counted first. The first epoch counts from the opening; opening is the time to the first batch, "
           "without imports. Made before: what the loader's own tools take to index or convert the container."]
    if settings["short"]:
        out.append("A short run: it shows that cells run, and no speeds.")
    for cores in dict.fromkeys(cell["cores"] for cell in cells):
        for group in dict.fromkeys(cell["group"] for cell in cells):
            stored = merged["forms"][GROUPS[group].form].get("stored_mb")
            size = f" ({stored} MB)" if stored else ""
            out += ["", f"### {GROUPS[group].title}, {cores} core{'s' if cores > 1 else ''}{size}", "",
                    *runner.heads("loader", "first epoch, images/s", "later (low-high)", "Penstock has times, first", "later",
                                  "peak memory, MB", "made before, s", "first batch, s", "opened again, s")]
            out += [row(cell) for cell in cells if (cell["cores"], cell["group"]) == (cores, group)]
    return "\n".join([*out, "", *verdict(merged), "", runner.versions(merged)]) + "\n"


def picture(merged: dict) -> str:
    cells = [{**cell, "peer": cell["source"], "decodes": True, "images_per_s": cell["later"], "group": GROUPS[cell["group"]].title,
              "clean": cell["foreign_cores"] <= measure.FOREIGN_LIMIT} for cell in merged["cells"] if "absent" not in cell]
    return runner.bars({**merged, "cells": cells}, "Containers in place: images per second in later epochs, CPU only")


def arguments() -> argparse.Namespace:
    parser = runner.parser(__doc__, "data", "build")
    parser.add_argument("--groups", default="*", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--sources", default="*", help=f"of {', '.join(SOURCES)}")
    parser.add_argument("--copies", type=int, help=f"of each image ({WHOLE['copies']})")
    parser.add_argument("--epochs", type=int, help=f"that are timed after the first ({WHOLE['epochs']})")
    parser.add_argument("--rounds", type=int, help=f"({WHOLE['rounds']})")
    parser.add_argument("--cores", type=int, nargs="+")
    parser.add_argument("--short", action="store_true", help="prove that each cell runs, and measure nothing")
    args = runner.parsed(parser)
    for name, value in (SHORT if args.short else WHOLE).items():
        setattr(args, name, value if getattr(args, name) is None else getattr(args, name))
    args.groups, args.sources = runner.chosen(args.groups, tuple(GROUPS)), runner.chosen(args.sources, tuple(SOURCES))
    args.cores = [n for n in args.cores or ([2] if args.short else [1, 2]) if n <= len(args.cpus)] or [1]
    if args.data:
        args.folder = runner.copies_folder(args.build, args.data, "containers", args.copies)
    return args


def main() -> None:
    runner.finish(arguments(), "containers", measure_all, table, picture)


if __name__ == "__main__":
    main()
