#!/usr/bin/env python3
"""The speed of N parts on N cores beside one part on one core: parts.py --penstock FILE --data DIR --build DIR --out DIR.

    parts.py ... [--verbs pack repack verify index] [--copies 8] [--rounds 7] [--cores 0 1] [--neighbours]
    parts.py --from FILE.json --out DIR

DIR of --data has imagenet_folder; some copies of its images are packed, so that a part takes seconds and its start is small beside
that. FILE of --penstock is the program. The goal is 0.95 N.

Each round packs a folder of images (or repacks or verifies a data set of it, or indexes tars of it with sums) once by one part on
one core, and once by N parts, each on a core of its own. Both are timed from the first process's start to the last one's end, and
take turns at being first. The plan of shards is made before and the merge after; each runs only once, so their times are stated
separately. The merged data set or index is compared byte for byte.

    ratio   time of one part : time of N parts, the median of the rounds and their range

One core is measured while the others are idle. A processor that clocks higher then makes the ratio lower. `--neighbours` lets busy
loops run on the other N - 1 cores meanwhile.

Writes parts-<date>.json and .md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "fed"))
import runner  # noqa: E402
import common  # noqa: E402
from workloads import copy_imagenet  # noqa: E402

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
    """Runs one part on each of the cores. Afterwards `destination` is a complete data set."""
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
    """Writes the images into tars with equal numbers of samples, several tars for each part. Images are repeated until there are
    enough bytes to measure.
    """
    images = sorted(path for path in args.folder.rglob("*") if path.is_file())
    n_tars = 16 * len(args.cores)
    copies = max(1, -(-args.tar_bytes // sum(path.stat().st_size for path in images)))
    folder.mkdir()
    members = [(f"{copy}/{path.relative_to(args.folder)}", path) for copy in range(copies) for path in images]
    for i in range(n_tars):
        with tarfile.open(folder / f"{i:04}.tar", "w") as tar:
            for name, path in members[i::n_tars]:
                tar.add(path, name)
    return folder


def measure(args: argparse.Namespace, verb: str, scratch: Path) -> dict[str, object]:
    source = args.folder
    if verb == "index":
        source = make_tars(args, scratch / "tars")
    elif verb != "pack":
        source = scratch / "source.pst"
        ends([run([args.penstock, "pack", str(args.folder), str(source), "--shard-size", args.shard_size, "--quiet"])])
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


def measure_all(args: argparse.Namespace) -> dict[str, object]:
    results = []
    common.made(args.folder, lambda path: copy_imagenet(args.data, path, args.copies))
    for verb in args.verbs:
        with tempfile.TemporaryDirectory(prefix="parts-", dir=args.folder.parent) as scratch:
            results.append(measure(args, verb, Path(scratch)))
        print(row(results[-1]), flush=True)
    settings = {"copies": args.copies, "rounds": args.rounds, "form": args.form, "set_mb": round(runner.stored_mb(args.folder), 1)}
    return {"bench": "parts", "machine": runner.machine(), "settings": settings, "results": results}


def row(result: dict) -> str:
    ratios, goal = result["ratios"], result["goal"]
    one, merge = (statistics.median(times[name] for times in result[of]) for name, of in (("parts_s", "one"), ("merge_s", "many")))
    said = "reached" if result["ratio"] >= goal else "missed"
    return (f"| {result['verb']} | {result['ratio']:.3f} | {min(ratios):.3f} to {max(ratios):.3f} | {one:.2f} | {merge:.2f} | "
            f"{goal:.2f}: {said} |")


def table(found: dict) -> str:
    n, rounds = found["results"][0]["n"], found["settings"]["rounds"]
    head = f"{runner.where(found)} {n} parts on {n} cores beside one part on one core; medians of {rounds} rounds."
    heads = runner.heads("verb", f"{n} parts: times as fast", "range", "one part, s", "merge, s", "goal")
    return "\n".join([head, "", *heads, *map(row, found["results"])]) + "\n"


def main() -> None:
    parser = runner.parser(__doc__, "penstock", "data", "build")
    parser.add_argument("--verbs", nargs="+", choices=VERBS, default=VERBS)
    parser.add_argument("--copies", type=int, default=8, help="of each image (%(default)s)")
    parser.add_argument("--tar-bytes", type=int, default=1 << 32, help="what index reads, at least (4 GiB)")
    parser.add_argument("--form", default="pli-jpeg", help="what pack and repack store (pli-jpeg)")
    parser.add_argument("--shard-size", default="1MiB", help="so that each part has many planned shards (1MiB)")
    parser.add_argument("--cores", type=int, nargs="+", default=[0, 1], help="one for each part (0 1)")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--neighbours", action="store_true", help="keep the other cores busy while one part runs")
    args = runner.parsed(parser)
    if args.data:
        args.folder = runner.copies_folder(args.build, args.data, "parts", args.copies)
    runner.finish(args, "parts", measure_all, table)


if __name__ == "__main__":
    main()
