"""report.py: run the matrix of peers x workloads x cores, print one table, write JSON.

Every cell is a process of its own, pinned to the cores it may use; cells of one workload and core count follow each
other directly.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import common

# peer -> the virtual environment that holds it
PEERS = {"penstock": "torch", "penstock_pst": "torch", "torchvision": "torch", "pillow": "torch", "dali": "dali"}


def run_cell(args, peer: str, work: str, cores: int) -> dict:
    here = Path(__file__).parent
    python = args.build / "venv" / PEERS[peer] / "bin" / "python"
    if not python.exists():
        return {"peer": peer, "work": work, "cores": cores, "failed": "not installed"}
    env = dict(os.environ, PYTHONPATH=str(here), OMP_NUM_THREADS=str(cores))
    if peer == "torchvision":
        env["LD_LIBRARY_PATH"] = str(args.build / "stand_in")
    command = ["taskset", "-c", ",".join(map(str, range(cores))), str(python), str(here / "measure.py"), peer, work,
               str(cores), "--root", str(args.build / "data"), "--seconds", str(args.seconds), "--windows",
               str(args.windows)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=args.seconds * 30 + 120,
                              check=False)
    except subprocess.TimeoutExpired:
        return {"peer": peer, "work": work, "cores": cores, "failed": "no result in time"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return {"peer": peer, "work": work, "cores": cores, "failed": reason[-300:]}
    return {**json.loads(lines[-1]), "cores": cores}


def table(cells: list[dict]) -> str:
    out = []
    for work in dict.fromkeys(c["work"] for c in cells):
        for cores in dict.fromkeys(c["cores"] for c in cells):
            rows = [c for c in cells if c["work"] == work and c["cores"] == cores]
            good = [c for c in rows if "failed" not in c]
            peers = [c for c in good if not c["peer"].startswith("penstock")]
            best = max((c["images_per_s"] for c in peers), default=None)
            out.append(f"\n### {work}, {cores} core{'s' if cores > 1 else ''}\n")
            out.append("| loader | images/s (low-high) | x best peer | CPU ms/image | peak MB | off by (levels) | clean |")
            out.append("|---|---|---|---|---|---|---|")
            for c in sorted(good, key=lambda c: -c["images_per_s"]):
                ratio = f"{c['images_per_s'] / best:.2f}" if best else "-"
                out.append(f"| {c['name']} | {c['images_per_s']:.0f} ({c['low']:.0f}-{c['high']:.0f}) | {ratio} | "
                           f"{c['cpu_ms_per_image']:.2f} | {c['peak_rss_mb']} | {c['check']['mean_levels']} | "
                           f"{c['clean']}/{c['windows']} |")
            out += [f"| {c['peer']} | - | - | - | - | {c['failed']} | - |" for c in rows if "failed" in c]
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--json")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--works", default="jpeg,frames,photos")
    parser.add_argument("--peers", default="penstock,penstock_pst,torchvision,pillow,dali")
    parser.add_argument("--cores", default="1,2")
    args = parser.parse_args()
    args.build = args.build.resolve()
    allowed = len(os.sched_getaffinity(0))
    cells = []
    for work in args.works.split(","):
        if not common.works(args.build / "data")[work].files():
            print(f"{work}: no data, left out", file=sys.stderr)
            continue
        for cores in (int(c) for c in args.cores.split(",")):
            if cores > allowed:
                continue
            for peer in args.peers.split(","):
                cell = run_cell(args, peer, work, cores)
                print(json.dumps(cell), file=sys.stderr, flush=True)
                cells.append(cell)
    print(table(cells))
    common.write_json(args.json, {"machine": common.machine(), "cells": cells})


if __name__ == "__main__":
    main()
