#!/usr/bin/env python3
"""Folders of files and formats of records, each read by the loaders that support it: records.py --data DIR --build DIR --out DIR.

    records.py ... [--forms tar,pst*] [--loaders dali,penstock] [--rates 30] [--copies 3] [--epochs 2] [--cores 2] [--long]
    records.py --from FILE.json --out DIR

ImageNet JPEGs, some copies of each, become float32 NCHW by RandomResizedCrop(224), a flip, and normalisation. Each cell is a
process of its own, pinned to its cores: its images are compared with Pillow and counted, then whole epochs are timed, warm and
cold (cell.py). Cold means that each byte comes from the disk in each epoch, at a stated rate: that of a control group, as in
bench/cache. Penstock's own throttle, as in bench/pages, would not limit other loaders. Only bytes are limited: a seek costs
nothing, as on an SSD or a network volume; on a hard disk, records would gain more over files.

Converting pays after `conversion / (epoch of the folder - epoch of the records)` epochs, by the same loader; WebDataset cannot read
a folder, so torch's time for the folder is taken. TFRecord is written by the faster of this bench's writer and TensorFlow's; both
write the same bytes. Writes records-<date>.json, .md and .svg.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "cache"), str(HERE.parent / "fed")]
import runner  # noqa: E402
import common  # noqa: E402
import environments  # noqa: E402
import formats  # noqa: E402
import groups  # noqa: E402
import measure  # noqa: E402
from workloads import copy_imagenet  # noqa: E402

LOADERS = {"penstock": environments.OWN, "dali": "dali", "tfdata": "tf", "torch": "torch", "webdataset": "torch"}
READS = {"penstock": ("folder", "pst", "pst_pli_jpeg"), "dali": ("folder", "tfrecord", "recordio", "tar"),
         "tfdata": ("folder", "tfrecord"), "torch": ("folder", "tfrecord", "recordio", "tar"), "webdataset": ("tar",)}
FOLDER_OF = {"webdataset": "torch"}  # loader -> the loader whose time for the folder is compared; default: the loader itself
TITLES = {"folder": "plain folder", "tfrecord": "TFRecord", "recordio": "RecordIO", "tar": "tar",
          "pst": ".pst, the files' bytes", "pst_pli_jpeg": ".pst, pli-jpeg"}
CELL_LIMIT_S = 600
PAPER = """Paper: "Understand Data Preprocessing for Effective End-to-End Training of Deep Neural Networks" (Gong and others, 2023,
arXiv 2304.08925; GPU machines of a public cloud; TensorFlow, MXNet, PyTorch, DALI). It states that records load faster than raw
files, need a conversion beforehand and weaken the shuffle, and that preparation stays the bottleneck even with DALI. No number of
its charts is known here to set beside ours. CoorDL's paper adds for TFRecord read in sequence: 91, 94 and 97 % of reads miss a page
cache that holds 50, 35 and 25 % of the set (8 x V100, 24 cores)."""


def break_even(conversion_s: float, folder_s: float, records_s: float) -> float | None:
    """Returns the number of epochs after which a conversion has saved its own time; None: never."""
    saved = folder_s - records_s
    return conversion_s / saved if saved > 0 else None


def converted(args: argparse.Namespace, form: str) -> dict:
    command = [*runner.pinned(args.cpus, max(args.cores)), sys.executable, str(HERE / "formats.py"), form, str(args.folder),
               str(args.stores[form])]
    return runner.run_cell(command, dict(os.environ), CELL_LIMIT_S)


def read_all(path: Path) -> None:
    """Brings files into the page cache."""
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file():
            file.read_bytes()


def run_cell(args: argparse.Namespace, form: str, loader: str, cores: int, rate: int | None, kinds: list[str]) -> dict:
    """Runs one cell in a control group with this disk rate (MB/s). None: without a control group."""
    store = args.stores[form]
    read_all(store)
    command = [*runner.pinned(args.cpus, cores), str(environments.python_of(args.build, LOADERS[loader])),
               str(HERE / "cell.py"), loader, form, str(cores),
               "--folder", str(args.folder), "--store", str(store), "--epochs", str(args.epochs), "--kinds", *kinds]
    with groups.slowed(rate, args.folder) as join:
        env = environments.variables(args.build, LOADERS[loader], OMP_NUM_THREADS=str(cores))
        found = runner.run_cell(command, env, CELL_LIMIT_S, join)
    return {"form": form, "loader": loader, "cores": cores, "rate": rate} | found


def cells_of(args: argparse.Namespace, absent: dict[str, str]) -> list[dict]:
    cells = []
    for cores in args.cores:
        for form in args.forms:
            for loader in (name for name in args.loaders if form in READS[name]):
                for i, rate in enumerate(args.rates):
                    kinds = (["warm"] if i == 0 else []) + (["cold"] if rate is not None else [])
                    reason = absent.get(LOADERS[loader])
                    cell = ({"form": form, "loader": loader, "cores": cores, "rate": rate, "absent": f"did not install: {reason}"}
                            if reason else run_cell(args, form, loader, cores, rate, kinds))
                    cells.append(runner.said(cell))
    return cells


def with_break_even(cells: list[dict], conversions: dict[str, dict]) -> None:
    """Adds to each cell of records the seconds of its conversion and the epochs until break-even, warm and cold."""
    written = [cell["written_s"] for cell in cells if cell.get("written_s")]
    for cell in (cell for cell in cells if "absent" not in cell and cell["form"] != "folder"):
        took = conversions[cell["form"]].get("seconds")
        if cell["form"] == "tfrecord" and took is not None:
            took = min([took, *written])
        cell["conversion_s"] = took
        like = (FOLDER_OF.get(cell["loader"], cell["loader"]), "folder", cell["cores"], cell["rate"])
        base = next((c for c in cells if (c["loader"], c["form"], c["cores"], c["rate"]) == like and "absent" not in c), None)
        cell["break_even"] = {kind: break_even(took, base[kind]["epoch_s"], cell[kind]["epoch_s"]) for kind in ("warm", "cold")
                              if base and took is not None and kind in cell and kind in base}


def measure_all(args: argparse.Namespace) -> dict:
    absent = environments.install(args.build, {LOADERS[name] for name in args.loaders}, False)
    common.made(args.folder, lambda path: copy_imagenet(args.data, path, args.copies))
    work = common.Work("imagenet", args.folder, 64, 224, True, True)
    args.stores = {form: args.folder if form == "folder" else work.store(form) for form in formats.FORMATS}
    conversions = {form: converted(args, form) for form in args.forms if form != "folder"}
    try:
        with groups.slowed(1, args.folder):
            pass
    except groups.NoGroups as reason:
        print(f"no cold epochs: {reason}", file=sys.stderr)
        args.rates = [None]
    cells = cells_of(args, absent)
    with_break_even(cells, conversions)
    settings = {"copies": args.copies, "epochs": args.epochs, "rates": args.rates, "images": len(work.files()),
                "set_mb": round(runner.stored_mb(args.folder), 1)}
    return {"bench": "records", "machine": runner.machine(), "settings": settings, "conversions": conversions, "cells": cells}


def epochs_text(value: float | None) -> str:
    return "never" if value is None else f"{value:.1f}"


def row(cell: dict) -> str:
    name = TITLES[cell["form"]], cell.get("name", cell["loader"])
    if "absent" in cell:
        return runner.absent(*name, cell["absent"], n=12)
    kinds = [cell.get(kind, {}) for kind in ("warm", "cold")]
    rates = " | ".join(f"{kind['images_per_s']:.0f} ({kind['low']:.0f}-{kind['high']:.0f})" if kind else "-" for kind in kinds)
    pays = " | ".join(epochs_text(cell["break_even"][kind]) if kind in cell.get("break_even", {}) else "-"
                      for kind in ("warm", "cold"))
    took = f"{cell['conversion_s']:.2f}" if cell.get("conversion_s") is not None else "-"
    mixed = cell["shuffle"]
    order = " | ".join(str(mixed.get(what, "-")) for what in ("displacement", "serial", "repeats", "entropy"))
    return f"| {' | '.join(name)} | {rates} | {kinds[1].get('disk_mb', '-')} | {took} | {pays} | {order} |"


def table(merged: dict) -> str:
    settings = merged["settings"]
    out = [f"{runner.where(merged)} "
           f"{settings['images']} JPEGs, {settings['set_mb']} MB; median of {settings['epochs']} epochs after the first; float32 "
           "NCHW, normalised; images compared with Pillow, and counted, before and in each epoch.",
           "Cold: no page of the set in the page cache when an epoch begins, all reads at the stated rate (a control group). Pays "
           "after: epochs until conversion has paid, beside the same loader's folder (WebDataset: torch's). Of the order: "
           "displacement and entropy of classes in batches, 1 is as good as a random permutation; correlation of neighbours and "
           "of two epochs, 0 is. Records lie by class, as the folder does."]
    for rate in settings["rates"]:
        for cores in dict.fromkeys(cell["cores"] for cell in merged["cells"]):
            title = f"{cores} core{'s' if cores > 1 else ''}" + ("" if rate is None else f", cold at {rate} MB/s")
            out += ["", f"### {title}", "",
                    *runner.heads("format", "loader", "warm, images/s (low-high)", "cold", "MB read per cold epoch",
                                  "conversion, s", "pays after, warm", "cold", "displacement", "neighbours", "epochs", "entropy")]
            out += [row(cell) for cell in merged["cells"] if (cell["rate"], cell["cores"]) == (rate, cores)]
    return "\n".join([*out, "", PAPER, "", runner.versions(merged)]) + "\n"


def picture(merged: dict) -> str:
    cells = []
    for cell in merged["cells"]:
        for kind in (kind for kind in ("warm", "cold") if kind in cell):
            group = "warm: files in the page cache" if kind == "warm" else f"cold: all bytes from a disk of {cell['rate']} MB/s"
            cells.append({"group": group, "peer": f"{cell['loader']} {cell['form']}", "cores": cell["cores"], "decodes": True,
                          "name": f"{cell['name']}, {TITLES[cell['form']]}", "images_per_s": cell[kind]["images_per_s"],
                          "clean": cell[kind]["foreign_cores"] <= measure.FOREIGN_LIMIT})
    return runner.bars({**merged, "cells": cells}, "Raw files and records: images per second, float32 NCHW, CPU only", "")


def arguments() -> argparse.Namespace:
    parser = runner.parser(__doc__, "data", "build")
    parser.add_argument("--forms", default="*", help=f"of {', '.join(formats.FORMATS)}")
    parser.add_argument("--loaders", default="*", help=f"of {', '.join(LOADERS)}")
    parser.add_argument("--rates", type=int, nargs="+", default=[30], help="of the disk in cold epochs, MB/s (%(default)s)")
    parser.add_argument("--copies", type=int, default=3, help="of each image (%(default)s)")
    parser.add_argument("--epochs", type=int, default=2, help="that are timed (%(default)s)")
    parser.add_argument("--cores", type=int, nargs="+", default=[2])
    parser.add_argument("--long", action="store_true", help="8 copies, 4 epochs, 1 and 2 cores, disks of 30 and 200 MB/s")
    args = runner.parsed(parser)
    if args.long:
        args.copies, args.epochs, args.cores, args.rates = 8, 4, [1, 2], [30, 200]
    args.forms, args.loaders = runner.chosen(args.forms, formats.FORMATS), runner.chosen(args.loaders, tuple(LOADERS))
    args.cores = [n for n in args.cores if n <= len(args.cpus)]
    if args.data:
        args.folder = runner.copies_folder(args.build, args.data, "records", args.copies)
    return args


def main() -> None:
    runner.finish(arguments(), "records", measure_all, table, picture)


if __name__ == "__main__":
    main()
