#!/usr/bin/env python3
"""parts.py: what parts on N cores reach beside one part on one core. The goal is 0.95 N.

Each round packs a folder of images (or repacks or verifies a data set of it, or indexes tars of it with sums) once by one part on
one core, and once by N parts, each on a core of its own. Both are timed from the first process's start to the last one's end, and
take turns at being first. The plan of shards is made before, and the merge after, because each runs once: their times stand beside.
What is merged is compared byte for byte: data sets, or the index.

    ratio   time of one part : time of N parts, the median of the rounds and their range

One core is measured while the others are idle. On a processor that then clocks higher the ratio falls by that. `--neighbours` lets
busy loops run on the other N - 1 cores meanwhile.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

Times = dict[str, float]
VERBS = ("pack", "repack", "verify", "index")


def run(command: list[str], core: int | None = None) -> subprocess.Popen[bytes]:
    pinned = command if core is None else ["taskset", "-c", str(core), *command]
    return subprocess.Popen(pinned, stdout=subprocess.DEVNULL)


def ends(processes: list[subprocess.Popen[bytes]]) -> None:
    if codes := [code for process in processes if (code := process.wait())]:
        sys.exit(f"a part ended with {codes}")


def timed(commands: list[list[str]], cores: list[int]) -> float:
    begun = time.monotonic()
    ends([run(command, core) for command, core in zip(commands, cores, strict=True)])
    return time.monotonic() - begun


def part_commands(args: argparse.Namespace, verb: str, source: Path, destination: Path, n: int) -> list[list[str]]:
    parts = [["--part", f"{i + 1}/{n}", "--quiet"] for i in range(n)]
    if verb == "index":
        return [[args.penstock, "index", str(source), "--sums", *part] for part in parts]
    parts = [[*part, "--workers", "1"] for part in parts]
    if verb == "verify":
        return [[args.penstock, "verify", str(source), "--decode", *part] for part in parts]
    return [[args.penstock, verb, str(source), str(destination), *options(args), *part] for part in parts]


def options(args: argparse.Namespace) -> list[str]:
    return ["--form", args.form, "--shard-size", args.shard_size]


def one_run(args: argparse.Namespace, verb: str, source: Path, destination: Path, cores: list[int]) -> Times:
    """Runs len(cores) parts; destination is a data set afterwards."""
    times = {}
    packs = verb in ("pack", "repack")
    begun = time.monotonic()
    if packs:
        ends([run([args.penstock, verb, str(source), str(destination), *options(args), "--prepare", "--quiet"])])
    times["plan_s"] = time.monotonic() - begun
    busy = [run([sys.executable, "-c", "while True: pass"], core) for core in args.cores if args.neighbours and core not in cores]
    try:
        times["parts_s"] = timed(part_commands(args, verb, source, destination, len(cores)), cores)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    begun = time.monotonic()
    if packs:
        ends([run([args.penstock, "merge", str(destination), "--quiet"])])
    if verb == "index":
        ends([run([args.penstock, "index", str(source), "--sums", "--merge", "--quiet"])])
    times["merge_s"] = time.monotonic() - begun
    if verb == "index":
        (source / ".penstock").rename(destination)
    return times


def same(a: Path, b: Path) -> bool:
    names = sorted(os.listdir(a))
    return names == sorted(os.listdir(b)) and all((a / name).read_bytes() == (b / name).read_bytes() for name in names)


def make_tars(args: argparse.Namespace, folder: Path) -> Path:
    """Writes the images into tars of equal numbers, many for each part, copy after copy until there are enough bytes to measure."""
    images = sorted(path for path in args.data.rglob("*") if path.is_file())
    n_tars = 16 * len(args.cores)
    copies = max(1, -(-args.tar_bytes // sum(path.stat().st_size for path in images)))
    folder.mkdir()
    members = [(f"{copy}/{path.relative_to(args.data)}", path) for copy in range(copies) for path in images]
    for i in range(n_tars):
        with tarfile.open(folder / f"{i:04}.tar", "w") as tar:
            for name, path in members[i::n_tars]:
                tar.add(path, name)
    return folder


def measure(args: argparse.Namespace, verb: str, scratch: Path) -> dict[str, object]:
    source = args.data
    if verb == "index":
        source = make_tars(args, scratch / "tars")
    elif verb != "pack":
        source = scratch / "source.pst"
        ends([run([args.penstock, "pack", str(args.data), str(source), "--shard-size", args.shard_size, "--quiet"])])
    one, many = [], []
    for i in range(args.rounds):
        order = [(one, args.cores[:1], scratch / "one.pst"), (many, args.cores, scratch / "many.pst")]
        for times, cores, destination in order if i % 2 == 0 else order[::-1]:
            times.append(one_run(args, verb, source, destination, cores))
        if verb != "verify" and not same(scratch / "one.pst", scratch / "many.pst"):
            sys.exit("the parts made other bytes than one part")
        for name in ("one.pst", "many.pst"):
            shutil.rmtree(scratch / name, ignore_errors=True)
    ratios = [a["parts_s"] / b["parts_s"] for a, b in zip(one, many, strict=True)]
    n = len(args.cores)
    return {"verb": verb, "form": args.form, "n": n, "rounds": args.rounds, "neighbours": args.neighbours, "one": one,
            "many": many, "ratios": ratios, "ratio": statistics.median(ratios), "goal": 0.95 * n}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--penstock", required=True, help="the program")
    parser.add_argument("--data", type=Path, required=True, help="a folder of images, a thousand or more")
    parser.add_argument("--out", type=Path, help="folder of the figures, as parts.json")
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=VERBS)
    parser.add_argument("--tar-bytes", type=int, default=1 << 30, help="what index reads, at least (1 GiB)")
    parser.add_argument("--form", default="pli-jpeg", help="what pack and repack store (pli-jpeg)")
    parser.add_argument("--shard-size", default="1MiB", help="so that each part has many planned shards (1MiB)")
    parser.add_argument("--cores", type=int, nargs="+", default=[0, 1], help="one for each part (0 1)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--neighbours", action="store_true", help="keep the other cores busy while one part runs")
    args = parser.parse_args()
    results = []
    for verb in args.verbs:
        with tempfile.TemporaryDirectory(prefix="pst-parts-") as scratch:
            result = measure(args, verb, Path(scratch))
        results.append(result)
        ratios, n = result["ratios"], result["n"]
        merge = statistics.median(times["merge_s"] for times in result["many"])
        print(f"{verb:7} {n} parts: {result['ratio']:.3f} times one part ({min(ratios):.3f} to {max(ratios):.3f}), "
              f"goal {result['goal']:.2f}: {'reached' if result['ratio'] >= result['goal'] else 'MISSED'}; "
              f"one part {statistics.median(times['parts_s'] for times in result['one']):.2f} s, merge {merge:.2f} s")  # fmt: skip
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "parts.json").write_text(json.dumps({"results": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
