#!/usr/bin/env python3
"""The cost of the index for tars with very many tiny members.

    python bench/sources/millions.py FOLDER [--samples 10000000] [--shards 100]

Writes the tars into FOLDER (1 KiB for each sample: a header, 8 bytes, padding), or takes those that are there. Then two processes
open the folder, one after another: the first makes the index. Prints a line of JSON for each: seconds, peak memory above that of
the interpreter with the package (VmHWM, which includes the mapped pages of the index that were read), microseconds of a random
sample; then the index's bytes per sample with one item, with the sample's name and without. Needs a Python with Penstock.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

OPEN = """
import contextlib, json, sys, time
import penstock as ps

def memory(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(name + ":"))

with contextlib.suppress(ps.errors.NotFoundError):
    ps.Dataset(sys.argv[1] + "/none")  # what the first data set imports

bare, begun = memory("VmRSS"), time.perf_counter()
dataset = ps.Dataset(sys.argv[1])
seconds = time.perf_counter() - begun
found = {"seconds": seconds, "peak_mib": memory("VmHWM") - bare, "n": len(dataset)}
begun, n = time.perf_counter(), len(dataset)
for i in range(100):
    place = i * 7919 % n
    assert dataset.read(place, "bin") == dataset.name(place).encode()
found["read_us"] = (time.perf_counter() - begun) * 1e4
print(json.dumps(found))
"""

NAME_NBYTES = 8  # bytes of a sample's name; the index's pointer to the name is not part of it


def members(first: int, n: int) -> Iterator[bytes]:
    """Yields headers and contents of a tar (ustar): NUMBER.bin, which contains its number in 8 digits."""
    head = bytearray(512)
    head[100:124] = b"0000644\0" b"0000000\0" b"0000000\0"
    head[124:156] = b"00000000010\0" b"00000000000\0" b"        "
    head[156:157], head[257:265] = b"0", b"ustar\x0000"
    head[8:12] = b".bin"
    base = sum(head)
    for number in range(first, first + n):
        name = b"%08d" % number
        head[:8], head[148:156] = name, b"%06o\0 " % (base + sum(name))
        yield bytes(head) + name.ljust(512, b"\0")


def write(folder: Path, n: int, shards: int) -> None:
    for shard in range(shards):
        path = folder / f"millions-{shard:06d}.tar"
        first, end = n * shard // shards, n * (shard + 1) // shards
        if path.exists() and path.stat().st_size == (end - first) * 1024 + 1024:
            continue
        with path.open("wb", buffering=1 << 20) as file:
            file.writelines(members(first, end - first))
            file.write(bytes(1024))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--samples", type=int, default=10_000_000, help="at most 100,000,000 (%(default)s)")
    parser.add_argument("--shards", type=int, default=100, help="(%(default)s)")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    begun = time.perf_counter()
    write(given.folder, given.samples, given.shards)
    print(json.dumps({"case": "make", "seconds": round(time.perf_counter() - begun, 1), "samples": given.samples}), flush=True)
    shutil.rmtree(given.folder / ".penstock", ignore_errors=True)
    for case in ("first", "again", "again", "again", "again", "again"):
        done = subprocess.run([sys.executable, "-c", OPEN, str(given.folder)], check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout)
        assert found["n"] == given.samples
        print(json.dumps({"case": case, **found}), flush=True)
    nbytes = sum(path.stat().st_size for path in (given.folder / ".penstock").glob("*.index"))
    each = nbytes / given.samples
    print(json.dumps({"case": "index", "nbytes_per_sample": round(each, 2), "beside_names": round(each - NAME_NBYTES, 2)}))


if __name__ == "__main__":
    main()
