"""Peak and steady memory of a process that loads images: Python, numpy and a loader with its defaults.

    python bench/loader/memory.py DATA... [--workers 2] [--batch-size 64] [--epochs 3]

Each DATA (a folder of images or a packed data set) is loaded in a process of its own: RandomResizedCrop(224), flip, normalise,
float32, NCHW. Peak is VmHWM of that process, steady is VmRSS at the end of the last epoch. Both include the interpreter, numpy
and mapped libraries. Results go to stdout as a table.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

RUN = """
import sys
import numpy
import penstock as ps
from penstock import transforms as T

path, workers, batch_size, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
chain = [T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]

def memory(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith(name + ":"))

bare = memory("VmRSS")
loader = ps.Loader(path, batch_size=batch_size, num_workers=workers, transforms=chain, order="shuffled", output="numpy")
for _ in range(epochs):
    for batch in loader:
        batch["image"].sum()
print(bare, memory("VmRSS"), memory("VmHWM"), loader.stats()["memory"]["peak"] / 2**20)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="+")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    given = parser.parse_args()
    print("| data | Python and numpy | steady | peak | of it counted against host_memory |")
    print("|---|---|---|---|---|")
    for path in given.data:
        arguments = [path, str(given.workers), str(given.batch_size), str(given.epochs)]
        done = subprocess.run([sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=True)
        bare, steady, peak, counted = (float(number) for number in done.stdout.split())
        print(f"| {path} | {bare:.0f} MiB | {steady:.0f} MiB | {peak:.0f} MiB | {counted:.0f} MiB |", flush=True)


if __name__ == "__main__":
    main()
