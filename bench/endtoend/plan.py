"""plan.py SET CORES STORE: plans with Penstock for the cores that this process may use, and packs STORE by the plan. Prints a line
of JSON, and writes the options with which cell.py opens it."""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import sets  # makes the modules of the other benches importable
import sources


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("set")
    parser.add_argument("cores", type=int)
    parser.add_argument("store", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--rate", type=float, help="of storage, MB/s")
    parser.add_argument("--memory", type=int, required=True, help="bytes of data that stay in memory")
    parser.add_argument("--budget", required=True)
    parser.add_argument("--write", type=Path, required=True)
    args = parser.parse_args()
    each = sets.sets(args.data, args.folder)[args.set]
    begun = time.perf_counter()
    rate = None if args.rate is None else args.rate * 1e6
    found = sources.planned(each, args.store, args.cores, rate, args.memory, args.budget)
    args.write.write_text(json.dumps(found | {"source": str(found["source"])}))
    print(json.dumps({"words": found["words"], "seconds": round(time.perf_counter() - begun, 1)}))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
