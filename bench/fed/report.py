#!/usr/bin/env python3
"""Runs fed.py for each loader and workload on the same core, in turns, and writes a table and JSON. run.sh calls it.

    report.py --data FOLDER --build FOLDER --out FOLDER [--workloads resnet50] [--peers penstock*,dali] [--rounds 3]

Each cell is measured once in every round; the table has the median of the rounds and their range.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import runner  # noqa: E402
import environments  # noqa: E402
from workloads import WORKLOADS  # noqa: E402

PEERS = {"penstock_pli_jpeg": "torch", "penstock": "torch", "dali": "dali", "torchvision": "torch", "dlio": "dlio"}
CELL_LIMIT_S = 900


def install(args: argparse.Namespace) -> dict[str, str]:
    """Installs the environments. Returns those that could not be made, with the reasons."""
    absent = {}
    if not Path(os.environ.get("DLIO", ""), "dlio_benchmark").is_dir():
        absent["dlio"] = "DLIO does not name a checkout of github.com/argonne-lcf/dlio_benchmark"
    wanted = (PEERS[peer] for peer in args.peers if PEERS[peer] not in absent)
    return absent | environments.install(args.build, wanted, not args.penstock)


def run_cell(args: argparse.Namespace, peer: str, workload: str, cores: int) -> dict:
    python = environments.python_of(args.build, PEERS[peer])
    if args.penstock and peer.startswith("penstock"):
        python = args.penstock
    command = [*args.under.split(), *runner.pinned(args.cpus, cores), str(python), str(HERE / "fed.py"), peer, workload,
               str(cores), "--root", str(args.build / "fed"), "--seconds", str(args.seconds), "--windows", str(args.windows)]
    return runner.run_cell(command, environments.variables(args.build, PEERS[peer], OMP_NUM_THREADS="1"), CELL_LIMIT_S)


def merge(rounds: list[dict]) -> dict:
    """Returns one cell that combines the measurements of all rounds."""
    good = [found for found in rounds if "absent" not in found]
    if not good:
        return rounds[-1]
    fed = sorted(found["fed_per_core"] for found in good)
    return good[0] | {"fed_per_core": statistics.median(fed), "low": fed[0], "high": fed[-1], "rounds": len(good),
                      "images_per_s": statistics.median(found["images_per_s"] for found in good),
                      "utilisation": [au for found in good for au in found["utilisation"]],
                      "foreign_cores": [found["foreign_cores"] for found in good]}


def table(found: dict) -> str:
    machine = found["machine"]
    out = [f"{machine['cpu']}; commit {machine['commit'] or 'unknown'}; {machine['date']}. Accelerators of MLPerf Storage that a "
           "core feeds, pixels included, utilisation at least the limit; median of the rounds (lowest and highest)."]
    for workload in dict.fromkeys(cell["workload"] for cell in found["cells"]):
        about = WORKLOADS[workload]
        out += ["", f"### {workload} on {about.accelerator}: {about.batch} samples a step of {1e3 * about.step_s:g} ms, "
                    f"utilisation {about.utilisation}; {about.what}", "",
                *runner.heads("loader", "cores", "fed per core", "images/s of an idle caller", "utilisation")]
        for cell in found["cells"]:
            if cell["workload"] != workload:
                continue
            if "absent" in cell:
                out.append(runner.absent(cell["peer"], str(cell["cores"]), cell["absent"], n=5))
                continue
            out.append(f"| {cell['name']} | {cell['cores']} | {cell['fed_per_core']:.2f} ({cell['low']:.2f}-{cell['high']:.2f}) | "
                       f"{cell['images_per_s']:.0f} | {statistics.median(cell['utilisation']):.3f} |")
    return "\n".join(out) + "\n"


def main() -> None:
    parser = runner.parser(__doc__, "data", "build", again=False)
    parser.add_argument("--workloads", default="*")
    parser.add_argument("--peers", default="*")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--under", default="", help="command that runs each cell, as on a machine that others use, too")
    parser.add_argument("--penstock", type=Path, help="a Python with Penstock, instead of installing this tree")
    args = runner.parsed(parser)
    args.peers, args.workloads = runner.chosen(args.peers, list(PEERS)), runner.chosen(args.workloads, list(WORKLOADS))
    args.out = args.out.resolve()
    absent = install(args)
    (args.build / "fed").mkdir(parents=True, exist_ok=True)
    code = f"import sys; sys.path.insert(0, {str(HERE)!r}); from pathlib import Path; from workloads import prepare; " \
           f"prepare(Path({str(args.data)!r}), Path({str(args.build / 'fed')!r}))"
    subprocess.run([environments.python_of(args.build, "torch"), "-c", code], check=True)
    measured: dict[tuple[str, str], list[dict]] = {(w, p): [] for w in args.workloads for p in args.peers}
    for i in range(args.rounds):
        for workload, peer in measured:
            found = ({"absent": f"did not install: {absent[PEERS[peer]]}"} if PEERS[peer] in absent
                     else run_cell(args, peer, workload, args.cores))
            found = {"peer": peer, "workload": workload, "cores": args.cores} | found
            measured[workload, peer].append(found)
            runner.said({"round": i + 1} | found)
    settings = {"seconds": args.seconds, "windows": args.windows, "rounds": args.rounds}
    result = {"bench": "fed", "machine": runner.machine(), "settings": settings,
              "cells": [merge(rounds) for rounds in measured.values()]}
    runner.write(args.out / "fed", result, table(result))


if __name__ == "__main__":
    main()
