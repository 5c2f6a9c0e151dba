"""report.py: runs the matrix of groups x cores x peers; one table, one picture, one JSON per run.

    report.py --data DIR --build DIR --out DIR [--groups LIST] [--peers LIST] [--cores LIST] ...
    report.py --from FILE.json --out DIR

Lists are separated by commas; a peer may be a pattern ("penstock*"). Every cell is a process of its own, pinned to the cores it
may use; cells of one group and core count follow each other directly. Writes loader-<date>.json, .md and .svg.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import bars
import common
import environments

HERE = Path(__file__).parent
# peer -> its environment
PEERS = {"penstock": "torch", "penstock_original": "torch", "penstock_pli": "torch", "penstock_pli_jpeg": "torch",
         "dali": "dali", "tfdata": "tf", "torchvision": "torch", "pillow": "torch", "webdataset": "torch", "spdl": "spdl",
         "ffcv": "ffcv", "ffcv_raw": "ffcv"}
GROUPS = tuple(common.works(Path()))
CELL_LIMIT_S = 400  # including the peer's conversion at first use


def prepared(args) -> Path:
    """Returns the folder of the groups made of --data, one for each such folder."""
    return args.build / f"data-{zlib.crc32(str(args.data.resolve()).encode()):08x}"


def command_of(args, peer: str, group: str, cores: int) -> list[str]:
    python = environments.python_of(args.build, PEERS[peer])
    return ["taskset", "-c", ",".join(map(str, args.cpus[:cores])), str(python), str(HERE / "measure.py"),
            peer, group, str(cores), "--root", str(prepared(args)), "--seconds", str(args.seconds),
            "--windows", str(args.windows), "--retries", str(args.retries)]


def run_cell(args, peer: str, group: str, cores: int) -> dict:
    """Returns the figures of one cell, or {"absent": reason}."""
    env = dict(os.environ, PYTHONPATH=str(HERE), OMP_NUM_THREADS=str(cores))
    if peer in ("torchvision", "webdataset"):
        env["LD_LIBRARY_PATH"] = str(args.build / "stand_in")
    return common.run_cell(command_of(args, peer, group, cores), env, CELL_LIMIT_S)


def install(args) -> dict[str, str]:
    """Returns environments of the chosen peers that cannot be made, with the reasons."""
    absent = environments.install(args.build, (PEERS[peer] for peer in args.peers),
                                  any(peer.startswith("penstock") for peer in args.peers))
    # prepare.py needs torch's Pillow
    subprocess.run([environments.python_of(args.build, "torch"), HERE / "prepare.py", args.data, prepared(args)], check=True)
    return absent


def measure_all(args) -> dict:
    absent = install(args)
    cells = []
    for group in args.groups:
        if not common.works(prepared(args))[group].files():
            print(f"{group}: no data, left out", file=sys.stderr)
            continue
        for cores in (n for n in args.cores if n <= len(args.cpus)):
            for peer in args.peers:
                environment, begun = PEERS[peer], time.monotonic()
                found = ({"absent": f"did not install: {absent[environment]}"} if environment in absent
                         else run_cell(args, peer, group, cores))
                cells.append({"group": group, "cores": cores, "peer": peer, **found, "cell_s": round(time.monotonic() - begun, 1)})
                print(json.dumps(cells[-1]), file=sys.stderr, flush=True)
    settings = {"seconds": args.seconds, "windows": args.windows, "retries": args.retries}
    return {"bench": "loader", "machine": common.machine(), "settings": settings, "cells": cells}


def row(cell: dict, best: float | None) -> str:
    if "absent" in cell:
        return f"| {cell['peer']} | {cell['absent'].replace('|', '/')} | | | | | | |"
    windows = f"{cell['clean']}/{cell['clean'] + cell['disturbed']}" + (" **disturbed**" if not cell["clean"] else "")
    ratio = f"{cell['images_per_s'] / best:.2f}" if best else "-"
    return (f"| {cell['name']} | {cell['images_per_s']:.0f} ({cell['low']:.0f}-{cell['high']:.0f}) | {ratio} | "
            f"{cell['cpu_ms_per_image']:.2f} | {cell['peak_rss_mb']} | {cell['stored_mb']:.0f} | "
            f"{cell['check']['mean_levels']} | {windows} |")


def best_peer(cells: list[dict]) -> float | None:
    """Returns the fastest peer that decodes, without Penstock."""
    return max((c["images_per_s"] for c in cells if c.get("decodes") and not c["peer"].startswith("penstock")), default=None)


def table(merged: dict) -> str:
    machine, settings = merged["machine"], merged["settings"]
    out = [f"{machine['cpu']}, {machine['cores']} cores; commit {machine['commit'] or 'unknown'}; {machine['date']}. Medians of "
           f"{settings['windows']} windows of {settings['seconds']:g} s or longer, disturbed ones timed again at most "
           f"{settings['retries']} times; float32 NCHW, normalised; output compared with Pillow first.",
           "x peer: relative to the fastest peer that decodes. MB: sum of the peaks of all processes; what is mapped counts. "
           "Off by: mean difference from Pillow, in levels of 255. Clean: windows undisturbed, of those timed."]
    for group in dict.fromkeys(c["group"] for c in merged["cells"]):
        for cores in dict.fromkeys(c["cores"] for c in merged["cells"]):
            rows = [c for c in merged["cells"] if (c["group"], c["cores"]) == (group, cores)]
            out += ["", f"### {group}, {cores} core{'s' if cores > 1 else ''}", "",
                    "| loader | images/s (low-high) | x peer | CPU ms/image | peak MB | stored MB | off by | clean |",
                    "|---|---|---|---|---|---|---|---|"]
            rows.sort(key=lambda c: -c.get("images_per_s", 0))
            out += [row(cell, best_peer(rows)) for cell in rows]
    versions = {name: text for cell in merged["cells"] for name, text in cell.get("versions", {}).items()}
    return "\n".join([*out, "", "versions: " + ", ".join(f"{name} {text}" for name, text in sorted(versions.items()))]) + "\n"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", type=Path, dest="source", metavar="FILE.json", help="measure nothing, show these figures")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--build", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--groups", default="*", help=f"of {', '.join(GROUPS)}")
    parser.add_argument("--peers", default="*", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--cores", default="1,2")
    parser.add_argument("--seconds", type=float, default=1.0, help="of a window, at least")
    parser.add_argument("--windows", type=int, default=3)
    parser.add_argument("--retries", type=int, default=5, help="windows timed again because of other work, at most")
    args = parser.parse_args()
    if not args.source and not (args.data and args.build):
        parser.error("--data and --build, or --from")
    args.groups, args.peers = common.chosen(args.groups, GROUPS), common.chosen(args.peers, tuple(PEERS))
    args.cores = [int(n) for n in args.cores.split(",")]
    args.cpus = sorted(os.sched_getaffinity(0))
    args.build = args.build and args.build.resolve()
    return args


def main() -> None:
    args = arguments()
    merged = json.loads(args.source.read_text()) if args.source else measure_all(args)
    stem = args.out / f"loader-{merged['machine']['date']}"
    common.write(stem, merged, table(merged))
    stem.with_suffix(".svg").write_text(bars.draw(merged))
    print(f"{stem}.json, .md, .svg")


if __name__ == "__main__":
    main()
