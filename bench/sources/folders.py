"""folders.py FOLDER [--files N] [--directories D] [--keep] [--cold]: time and memory of opening a folder of many files.

Makes N empty files in D class folders below FOLDER (5,000,000 in 5,000), which takes minutes and as many inodes, and opens
them in a process of its own each time:

    first           no listing is saved: all directories are read
    again           with the saved listing
    one-new         with the saved listing, after a file was added to one directory
    scan            without a saved listing (PENSTOCK_LISTING_FILES=0)

Prints a line of JSON for each: seconds, and the memory that the process holds more than before, with and without the bytes
of the names, also for each file; the same at its peak. --cold drops the page cache before each (root only). Removes the files
at the end, unless --keep. The goals: at most 64 MiB beside the names, less than a second for "again".
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

# A program for a process of its own: opens the folder argv[1], and prints time and memory.
OPEN = """
import contextlib, json, sys, time
import penstock as ps

def memory(field):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(field))

with contextlib.suppress(ps.errors.NotFoundError):
    ps.Dataset(sys.argv[1] + "/none")  # what the first data set imports

before = memory("VmRSS:")
started = time.perf_counter()
dataset = ps.Dataset(sys.argv[1])
seconds = time.perf_counter() - started
print(json.dumps({"seconds": seconds, "held": memory("VmRSS:") - before, "peak": memory("VmHWM:") - before,
                  "samples": len(dataset), "identity": dataset.bytes_identity}))
"""


def name(i: int, directories: int) -> str:
    return f"class_{i % directories:05d}/image_{i:08d}.jpg"


def make(folder: Path, files: int, directories: int) -> None:
    for k in range(directories):
        (folder / f"class_{k:05d}").mkdir(parents=True)
    for i in range(files):
        os.close(os.open(folder / name(i, directories), os.O_WRONLY | os.O_CREAT, 0o666))


def measure(case: str, folder: Path, names_nbytes: int, cold: bool, **environment: str) -> dict[str, object]:
    if cold:
        subprocess.run(["sync"], check=True)
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    done = subprocess.run([sys.executable, "-c", OPEN, str(folder)], check=True, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, **environment})
    told = json.loads(done.stdout)
    mib, n = 1024 * 1024, told["samples"]
    return {"case": case, "seconds": round(told["seconds"], 3), "samples": told["samples"],
            "held_mib": round(told["held"] / mib, 1), "beside_names_mib": round((told["held"] - names_nbytes) / mib, 1),
            "peak_mib": round(told["peak"] / mib, 1), "peak_beside_names_mib": round((told["peak"] - names_nbytes) / mib, 1),
            "beside_names_per_file": round((told["held"] - names_nbytes) / n, 1),
            "peak_beside_names_per_file": round((told["peak"] - names_nbytes) / n, 1),
            "identity": told["identity"]}


def run(folder: Path, files: int, directories: int, cold: bool) -> None:
    names_nbytes = sum(len(name(i, directories)) + 1 for i in range(files))
    started = time.perf_counter()
    make(folder, files, directories)
    print(json.dumps({"case": "make", "seconds": round(time.perf_counter() - started, 1), "files": files,
                      "directories": directories, "names_mib": round(names_nbytes / (1 << 20), 1)}), flush=True)
    time.sleep(3)  # waits because a directory whose time is very recent is not trusted yet
    first = measure("first", folder, names_nbytes, cold)
    print(json.dumps(first), flush=True)
    print(json.dumps(measure("again", folder, names_nbytes, cold)), flush=True)
    (folder / "class_00000" / "new.jpg").touch()
    changed = measure("one-new", folder, names_nbytes, cold)
    print(json.dumps(changed), flush=True)
    scanned = measure("scan", folder, names_nbytes, cold, PENSTOCK_LISTING_FILES="0")
    print(json.dumps(scanned), flush=True)
    if changed["identity"] != scanned["identity"]:
        sys.exit("the saved listing and the scan differ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=5_000_000)
    parser.add_argument("--directories", type=int, default=5_000)
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--cold", action="store_true")
    args = parser.parse_args()
    folder = args.folder / "penstock-folders"
    try:
        run(folder, args.files, args.directories, args.cold)
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
