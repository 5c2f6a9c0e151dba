"""epochs.py: epochs over a set that is larger than memory. Prints a table; writes cache-<date>.json and .md.

    epochs.py --images DIR --build DIR --out DIR [--mib N] [--shares 25,50,75] [--rates 15,530,0] [--kinds LIST] [--epochs N]

The data set is copies of the images of DIR, N MiB in all. Each cell is a process of its own in a control group. Its memory limit is
the peak of the process without a cache, measured before, plus `share` per cent of the set. That share is the size of Penstock's
cache, or what remains for the page cache. If the kernel kills the process, it runs again with 24 MiB more, and the table says so.
The disk rate is MB/s: those of the two servers of the CoorDL paper (VLDB 2021) are 15 to 50 at random (HDD-1080Ti) and 530
(SSD-V100); 0: no limit. There 35 % of ImageNet-22k and 65 % of OpenImages were in memory (--shares 35,65). The set's pages are
dropped from the page cache before each cell. Epoch 1 fills caches; figures are medians of the epochs after it. The bench checks, to
the byte, that Penstock's loader reads exactly the items that its cache does not hold.

Expected share of hits for a cache that holds the share c of the set. A cache that evicts nothing (MinIO): c. The page cache, if
it evicts what was used longest ago (LRU): an item is a hit if less than the part c of the set was read since its last use. In
independent random orders this has the probability c + (1 - c) ln(1 - c); if the order is always the same, 0. The page cache, if it
evicts at random: an item survives d epochs with the probability exp(-d s), s = (1 - h) / c, because (1 - h) of the set is read anew
in each epoch. The time from one use to the next is the sum of two uniform ones, so h = ((1 - exp(-s)) / s)^2, which is solved by
iteration. Linux lies between LRU and random eviction.
"""

from __future__ import annotations

import json
import math
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import zlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import runner  # noqa: E402
import environments  # noqa: E402
import groups  # noqa: E402

MIB = 1 << 20
KINDS = ("penstock-cache", "penstock", "dali-shuffled", "dali-sequential")
NAMES = {"penstock-cache": "Penstock, its cache", "penstock": "Penstock, page cache",
         "dali-shuffled": "DALI, page cache, shuffled", "dali-sequential": "DALI, page cache, sequential"}
TITLES = {15: "hard disk, 15 MB/s: HDD-1080Ti of the paper where reads are most random",
          50: "hard disk, 50 MB/s: HDD-1080Ti of the paper at its best", 530: "SATA SSD, 530 MB/s: SSD-V100 of the paper",
          0: "the machine's disk"}
SLACK = 24 * MIB  # more for Penstock's cells: if their own memory grew past the limit they would swap; the page cache just shrinks


class Killed(Exception):
    """The kernel killed a cell's process because it reached its memory limit."""


def make_set(images: Path, folder: Path, nbytes: int) -> dict:
    """Copies images into `folder` until they have that many bytes. Returns their number, bytes and the sum of their CRC-32s."""
    found_files = sorted(path for path in images.rglob("*") if path.suffix.lower() in (".jpg", ".jpeg") and path.is_file())
    sources = [(path, path.read_bytes()) for path in found_files]
    if not sources:
        raise SystemExit(f"{images}: no JPEG")
    shutil.rmtree(folder, ignore_errors=True)
    found = {"files": 0, "nbytes": 0, "crcs": 0}
    largest = max(len(content) for _, content in sources)
    while found["nbytes"] < nbytes:
        path, content = sources[found["files"] % len(sources)]
        target = folder / path.parent.name / f"{found['files']:06d}{path.suffix}"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        found["files"] += 1
        found["nbytes"] += len(content)
        found["crcs"] += zlib.crc32(content)
    return {**found, "largest": largest}


def random_replacement(share: float) -> float:
    hits = share
    for _ in range(200):
        s = (1 - hits) / share
        hits = ((1 - math.exp(-s)) / s) ** 2
    return hits


def expected_hits(kind: str, share: float) -> dict[str, float]:
    if kind == KINDS[0]:
        return {"minio": share}
    if kind == "dali-sequential":
        return {"lru": 0.0}
    return {"lru": share + (1 - share) * math.log(1 - share), "random": random_replacement(share)}


def watch(group: groups.Group, process: subprocess.Popen, own: list[int]) -> None:
    """Records the peak of the control group's memory without the page cache, until the process ends."""
    while process.poll() is None:
        own[0] = max(own[0], group.own_nbytes())
        time.sleep(0.02)


def run(args, kind: str, memory: int | None, rate: int, cache: int, epochs: int) -> tuple[list[dict], int]:
    """Runs one cell. Returns the figures of its epochs, and the peak bytes of the process's own memory."""
    python = environments.python_of(args.build, "dali" if kind.startswith("dali") else "torch")
    groups.drop_page_cache(args.folder)
    with groups.group(memory, rate * 1_000_000 or None, args.disk) as group:
        process = subprocess.Popen([str(python), str(HERE / "reader.py"), kind, str(args.folder), str(epochs), str(cache),
                                    str(args.threads)], stdout=subprocess.PIPE, text=True, preexec_fn=group.join)
        own = [0]
        watcher = threading.Thread(target=watch, args=(group, process, own))
        watcher.start()
        rows = [json.loads(line) for line in process.stdout]
        process.wait()
        watcher.join()
        if process.returncode == -signal.SIGKILL:
            raise Killed(f"killed after {len(rows)} epochs: its own need and the share were not enough")
        if process.returncode != 0 or len(rows) != epochs:
            raise SystemExit(f"{kind}: exit status {process.returncode} after {len(rows)} epochs")
    return rows, own[0]


def check(kind: str, rows: list[dict], made: dict) -> None:
    for row in rows:
        wanted = {**made, "crcs": made["crcs"] if row["epoch"] == 0 else 0}
        if any(row[name] != wanted[name] for name in ("files", "nbytes", "crcs")):
            raise SystemExit(f"{kind}: epoch {row['epoch']} delivered {row}, wanted {wanted}")


def check_exact(rows: list[dict], made: dict, budget: int) -> None:
    """Checks that each epoch after the first hits every cached item and reads every other item, to the byte, and that the cache is
    full.
    """
    for row in rows:
        if row["hits"] != row["items"] or row["misses"] != made["files"] - row["items"]:
            raise SystemExit(f"{row['hits']} hits, {row['misses']} misses: {row['items']} of {made['files']} items are cached")
        if row["nbytes_read"] != made["nbytes"] - row["nbytes_hit"]:
            raise SystemExit(f"read {row['nbytes_read']} bytes; of the set's {made['nbytes']}, {row['nbytes_hit']} were hits")
        if row["used"] > budget or budget - row["used"] > made["largest"] + MIB:
            raise SystemExit(f"the cache has {row['used']} of {budget} bytes in use; the largest item has {made['largest']}")


def cell(args, kind: str, share: int, rate: int, own: int, made: dict, more: int = 0) -> dict:
    budget = made["nbytes"] * share // 100
    has_cache = kind == KINDS[0]
    rows, _ = run(args, kind, own + budget + more + (SLACK if has_cache else 0), rate, budget if has_cache else 0, args.epochs)
    check(kind, rows, made)
    later = rows[1:]
    found = {"kind": kind, "share": share, "rate": rate, "own_nbytes": own, "more_nbytes": more,
             "seconds": statistics.median(row["seconds"] for row in later),
             "disk_nbytes": statistics.median(row["disk_nbytes"] for row in later),
             "expected_hits": expected_hits(kind, share / 100), "epochs": rows}
    found["hits"] = 1 - found["disk_nbytes"] / made["nbytes"]
    if has_cache:
        found["nbytes_read"] = [row["nbytes_read"] for row in rows]
        check_exact(later, made, budget)
    return found


def expected_text(row: dict) -> str:
    return ", ".join(f"{hits:.3f} ({rule})" for rule, hits in row["expected_hits"].items())


def exact_lines(results: dict) -> list[str]:
    """Returns the table's lines about the bytes that Penstock's loader read in each epoch after the first. check_exact has verified
    them.
    """
    made, lines = results["set"], ["| budget | items cached | items read per epoch | their bytes = set - cached | set - budget |",
                                   "|---|---|---|---|---|"]
    for row in {row["share"]: row for row in results["rows"] if row["kind"] == KINDS[0]}.values():
        budget, last = made["nbytes"] * row["share"] // 100, row["epochs"][-1]
        lines.append(f"| {budget:,} ({row['share']} %) | {last['items']} | {last['misses']} | {last['nbytes_read']:,} = "
                     f"{made['nbytes']:,} - {last['nbytes_hit']:,} | {made['nbytes'] - budget:,} |")
    return lines if len(lines) > 2 else []


def table(results: dict) -> str:
    made, lines = results["set"], []
    lines.append(f"{made['files']} JPEG files, {made['nbytes'] / MIB:.0f} MiB; {results['threads']} threads; median of "
                 f"{results['n_epochs'] - 1} epochs after the first; {results['machine']['cpu']}, {results['date']}.\n")
    for rate in dict.fromkeys(row["rate"] for row in results["rows"]):
        lines.append(f"**{TITLES.get(rate, f'{rate} MB/s')}**\n")
        lines.append("| | memory | read from disk per epoch | hits | expected | seconds per epoch | Penstock's cache is |")
        lines.append("|---|---|---|---|---|---|---|")
        rows = [row for row in results["rows"] if row["rate"] == rate]
        for row in sorted(rows, key=lambda row: (row["share"], KINDS.index(row["kind"]))):
            own = next((r["seconds"] for r in rows if r["share"] == row["share"] and r["kind"] == KINDS[0]), None)
            ratio = "" if own is None or row["kind"] == KINDS[0] else f"{row['seconds'] / own:.2f} x as fast"
            more = f" and {row['more_nbytes'] // MIB} MiB" if row["more_nbytes"] else ""
            lines.append(f"| {NAMES[row['kind']]} | {row['share']} %{more} | {row['disk_nbytes'] / MIB:.1f} MiB "
                         f"| {row['hits']:.3f} | {expected_text(row)} | {row['seconds']:.2f} | {ratio} |")
        lines.append("")
    return "\n".join([*lines, *exact_lines(results)]) + "\n"


def installed(build: Path, kinds: list[str]) -> list[str]:
    """Makes the environments. Returns the kinds of readers that could be installed."""
    absent = environments.install(build, ["dali"] if any(kind.startswith("dali") for kind in kinds) else [])
    if "dali" in absent:
        print(f"DALI is left out: {absent['dali']}", file=sys.stderr)
        kinds = [kind for kind in kinds if not kind.startswith("dali")]
    return kinds


def main() -> None:
    parser = runner.parser(__doc__, "images", "build", again=False)
    parser.add_argument("--mib", type=int, default=256)
    parser.add_argument("--shares", default="25,50,75")
    parser.add_argument("--rates", default="0,15,530")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--no-install", action="store_true", help="the environments are as they should be")
    args = runner.parsed(parser)
    args.build.mkdir(parents=True, exist_ok=True)
    args.folder = args.build / "cache-set"
    kinds = args.kinds.split(",")
    if not args.no_install:
        kinds = installed(args.build, kinds)
    made = make_set(args.images, args.folder, args.mib * MIB)
    try:
        args.disk = groups.disk_of(args.folder)
        # Penstock needs as much memory of its own as without a cache. The cache's memory is the share of the set.
        own = {kind: run(args, "penstock" if kind == KINDS[0] else kind, None, 0, 0, 2)[1] for kind in kinds}
    except groups.NoGroups as error:
        sys.exit(f"bench/cache: {error}")
    results = {"benchmark": "cache", "date": time.strftime("%Y-%m-%d"), "machine": runner.machine(), "set": made,
               "threads": args.threads, "n_epochs": args.epochs, "rows": []}
    for rate in map(int, args.rates.split(",")):
        for share in map(int, args.shares.split(",")):
            for kind in kinds:
                try:
                    row = cell(args, kind, share, rate, own[kind], made)
                except Killed:
                    row = cell(args, kind, share, rate, own[kind], made, SLACK)
                results["rows"].append(row)
                print(f"{rate:4d} MB/s {share:3d} % {kind:16s} {row['disk_nbytes'] / MIB:8.1f} MiB {row['hits']:6.3f} "
                      f"(expected {expected_text(row)}) {row['seconds']:7.2f} s", file=sys.stderr, flush=True)
    shutil.rmtree(args.folder)
    runner.write(args.out / f"cache-{results['date']}", results, table(results))


if __name__ == "__main__":
    main()
