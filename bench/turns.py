#!/usr/bin/env python3
"""turns.py OLD NEW: two source trees, measured in turns, for changes of a few per cent.

Each pair runs the same benchmark once with each tree, and the trees take turns at being first, so disturbances of the machine
affect both. For each figure the median of the pairs' ratios new : old and their quartiles are printed. On a machine that other
programs use, too, 15 pairs can detect a difference of 3 %.

    codec    bench_codec, one core: PLI's tiers on photographs, label maps and screenshots
    jpeg     bench_codec_jpeg, one core: JPEGs kept as PLI, whole and crops
    loader   bench/loader/measure.py, one core: plain folder, pli-jpeg, pli

A tree needs build/bench-codec (`make bench-codec` or `bash bench/codec/run.sh jpeg` makes it) for the first two, and
.venv with the package (`make build`) for the last.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
CODEC_GROUPS = "kodak,cityscapes,labels8,screens"
TIERS = "pli_fast,pli_small,pli_dense"
Figures = dict[str, float]


def run(command: list[str], **environment: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def results_of(command: list[str]) -> list[dict]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "figures.json"
        run(["taskset", "-c", "0", *command, "--json", str(path)])
        return json.loads(path.read_text())["results"]


def codec(tree: Path, args: argparse.Namespace) -> Figures:
    program = str(tree / "build/bench-codec/bench/bench_codec")
    rows = results_of([program, "--data", str(args.data), "--groups", args.groups, "--codecs", TIERS, "--seconds", "0.15",
                       "--repeats", "1", "--threads", "0", "--max-images", "4"])
    decode = {f"{row['group']} {row['codec']} decode": row["decode_undisturbed"] for row in rows}
    return decode | {f"{row['group']} {row['codec']} encode": row["encode"] for row in rows if "encode" in row}


def jpeg(tree: Path, args: argparse.Namespace) -> Figures:
    program = str(tree / "build/bench-codec/bench/bench_codec_jpeg")
    rows = results_of([program, "--data", str(args.data), "--repeats", "1", "--max-images", "24"])
    return {f"{row['group']} {what[:-len('_per_s')]}": row[what] for row in rows
            for what in ("from_jpeg_per_s", "to_jpeg_per_s", "pli_whole_per_s", "pli_crop_per_s")}


def loader(tree: Path, args: argparse.Namespace) -> Figures:
    found = {}
    python = str(tree / ".venv/bin/python")
    for peer, group in (("penstock_original", "imagenet"), ("penstock_pli_jpeg", "imagenet"), ("penstock_pli", "frames")):
        command = ["taskset", "-c", "0", python, str(tree / "bench/loader/measure.py"), peer, group, "1", "--root",
                   str(args.root / tree.name), "--windows", "1", "--retries", "0", "--seconds", "2"]
        line = json.loads(run(command).splitlines()[-1])
        if "absent" in line:
            sys.exit(f"{peer} of {tree}: {line['absent']}")
        found[f"{group} {line['name']}, images per CPU second"] = 1e3 / line["cpu_ms_per_image"]
    return found


def prepare(tree: Path, args: argparse.Namespace) -> None:
    run([str(tree / ".venv/bin/python"), str(HERE / "loader/prepare.py"), str(args.data), str(args.root / tree.name)])


MEASURES: dict[str, Callable[[Path, argparse.Namespace], Figures]] = {"codec": codec, "jpeg": jpeg, "loader": loader}


def quartiles(ratios: list[float]) -> tuple[float, float, float]:
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return low, middle, high


def measure(name: str, args: argparse.Namespace) -> dict[str, list[float]]:
    ratios: dict[str, list[float]] = {}
    for i in range(args.pairs):
        trees = [args.old, args.new] if i % 2 == 0 else [args.new, args.old]
        found = {tree: MEASURES[name](tree, args) for tree in trees}
        for figure, rate in found[args.new].items():
            if found[args.old].get(figure):
                ratios.setdefault(figure, []).append(rate / found[args.old][figure])
        print(f"{name}: pair {i + 1} of {args.pairs}", file=sys.stderr, flush=True)
    return ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--only", nargs="+", choices=MEASURES, default=list(MEASURES))
    parser.add_argument("--pairs", type=int, default=15)
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("PST_SHARED_DATA", "../shared/data")))
    parser.add_argument("--groups", default=CODEC_GROUPS, help="of bench_codec (%(default)s)")
    parser.add_argument("--root", type=Path, help="where the loader's files are laid out (a folder that is removed)")
    parser.add_argument("--json", type=Path, help="every pair's ratio")
    args = parser.parse_args()
    args.old, args.new = args.old.resolve(), args.new.resolve()
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        args.root = args.root or Path(folder)
        if "loader" in args.only:
            for tree in (args.old, args.new):
                prepare(tree, args)
        for name in args.only:
            found |= measure(name, args)
    print(f"{'new : old':>9}  {'quartiles':>13}  figure")
    for figure, ratios in found.items():
        low, middle, high = quartiles(ratios)
        print(f"{middle:9.3f}  {low:6.3f} {high:6.3f}  {figure}")
    if args.json:
        args.json.write_text(json.dumps({"pairs": args.pairs, "ratios": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
