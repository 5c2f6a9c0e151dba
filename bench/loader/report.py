"""report.py: runs the matrix of groups x cores x peers; one table, one picture, one JSON per run.

    report.py --data DIR --build DIR --out DIR [--groups LIST] [--peers LIST] [--cores LIST] ...
    report.py --from FILE.json --out DIR

Lists are separated by commas; a peer may be a pattern ("penstock*"). Every cell is a process of its own, pinned to the cores it
may use; cells of one group and core count follow each other directly. Writes loader-<date>.json, .md and .svg.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import runner  # noqa: E402
import common  # noqa: E402
import environments  # noqa: E402

# peer -> its environment
PEERS = {"penstock": "torch", "penstock_original": "torch", "penstock_pli": "torch", "penstock_pli_jpeg": "torch",
         "dali": "dali", "tfdata": "tf", "torchvision": "torch", "torchcodec": "torchcodec", "pillow": "torch",
         "webdataset": "torch", "litdata": "litdata", "spdl": "spdl", "ffcv": "ffcv", "ffcv_raw": "ffcv"}
GROUPS = tuple(common.works(Path()))
CELL_LIMIT_S = 400  # seconds, including the peer's conversion at first use


def command_of(args, peer: str, group: str, cores: int) -> list[str]:
    python = environments.python_of(args.build, PEERS[peer])
    return [*runner.pinned(args.cpus, cores), str(python), str(HERE / "measure.py"), peer, group, str(cores), "--root",
            str(args.folder), "--seconds", str(args.seconds), "--windows", str(args.windows), "--retries", str(args.retries)]


def run_cell(args, peer: str, group: str, cores: int) -> dict:
    """Returns the figures of one cell, or {"absent": reason}."""
    env = environments.variables(args.build, PEERS[peer], OMP_NUM_THREADS=str(cores))
    return runner.run_cell(command_of(args, peer, group, cores), env, CELL_LIMIT_S)


def install(args) -> dict[str, str]:
    """Installs the environments of the chosen peers. Returns those that could not be made, with the reasons."""
    absent = environments.install(args.build, (PEERS[peer] for peer in args.peers),
                                  any(peer.startswith("penstock") for peer in args.peers))
    # prepare.py needs Pillow from the torch environment
    subprocess.run([environments.python_of(args.build, "torch"), HERE / "prepare.py", args.data, args.folder], check=True)
    return absent


def measure_all(args) -> dict:
    absent = install(args)
    cells = []
    for group in args.groups:
        if not common.works(args.folder)[group].files():
            print(f"{group}: no data, left out", file=sys.stderr)
            continue
        for cores in (n for n in args.cores if n <= len(args.cpus)):
            for peer in args.peers:
                environment, begun = PEERS[peer], time.monotonic()
                found = ({"absent": f"did not install: {absent[environment]}"} if environment in absent
                         else run_cell(args, peer, group, cores))
                cells.append(runner.said({"group": group, "cores": cores, "peer": peer, **found,
                                          "cell_s": round(time.monotonic() - begun, 1)}))
    settings = {"seconds": args.seconds, "windows": args.windows, "retries": args.retries}
    return {"bench": "loader", "machine": runner.machine(), "settings": settings, "cells": cells}


def row(cell: dict, best: float | None) -> str:
    if "absent" in cell:
        return runner.absent(cell["peer"], cell["absent"], n=8)
    ratio = f"{cell['images_per_s'] / best:.2f}" if best else "-"
    if "clean" not in cell:  # the row of a run whose figures were entered by hand
        return f"| {cell['name']} | {cell['images_per_s']:g} | {ratio} |" + " - |" * 5
    windows = f"{cell['clean']}/{cell['clean'] + cell['disturbed']}" + (" **disturbed**" if not cell["clean"] else "")
    return (f"| {cell['name']} | {cell['images_per_s']:.0f} ({cell['low']:.0f}-{cell['high']:.0f}) | {ratio} | "
            f"{cell['cpu_ms_per_image']:.2f} | {cell['peak_rss_mb']} | {cell['stored_mb']:.0f} | "
            f"{cell['check']['mean_levels']} | {windows} |")


def best_peer(cells: list[dict]) -> float | None:
    """Returns the fastest peer that decodes, Penstock excluded."""
    return max((c["images_per_s"] for c in cells if c.get("decodes") and not c["peer"].startswith("penstock")), default=None)


def table(merged: dict) -> str:
    settings = merged["settings"]
    out = [f"{runner.where(merged)} Medians of "
           f"{settings['windows']} windows of {settings['seconds']:g} s or longer, disturbed ones timed again at most "
           f"{settings['retries']} times; float32 NCHW, normalised; output compared with Pillow first.",
           "x peer: relative to the fastest peer that decodes. MB: sum of the peaks of all processes; what is mapped counts. "
           "Off by: mean difference from Pillow, in levels of 255. Clean: windows undisturbed, of those timed."]
    for group in dict.fromkeys(c["group"] for c in merged["cells"]):
        for cores in dict.fromkeys(c["cores"] for c in merged["cells"]):
            rows = [c for c in merged["cells"] if (c["group"], c["cores"]) == (group, cores)]
            out += ["", f"### {group}, {cores} core{'s' if cores > 1 else ''}", "",
                    *runner.heads("loader", "images/s (low-high)", "x peer", "CPU ms/image", "peak MB", "stored MB", "off by",
                                  "clean")]
            rows.sort(key=lambda c: -c.get("images_per_s", 0))
            out += [row(cell, best_peer(rows)) for cell in rows]
    return "\n".join([*out, "", merged.get("note", runner.versions(merged))]) + "\n"


def arguments() -> argparse.Namespace:
    parser = runner.parser(__doc__, "data", "build")
    parser.add_argument("--groups", default="*", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--peers", default="*", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--cores", default="1,2")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a window, at least")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--retries", type=int, default=5, help="windows timed again because of other work, at most")
    args = runner.parsed(parser)
    args.groups, args.peers = runner.chosen(args.groups, GROUPS), runner.chosen(args.peers, tuple(PEERS))
    args.cores = runner.by_commas(args.cores)
    args.folder = runner.work_folder(args.build, args.data, "data")
    return args


def main() -> None:
    runner.finish(arguments(), "loader", measure_all, table, runner.bars)


if __name__ == "__main__":
    main()
