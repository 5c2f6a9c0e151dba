#!/usr/bin/env python3
"""Runs every benchmark program of a build and collects its figures.

    scripts/bench.py BUILD OUT_FOLDER [--only bench_x ...]

Each program is called with --json OUT_FOLDER/<name>.json and prints its table. The script adds "machine" to the figures: the
machine, versions, commit and date.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "bench"))
from runner import machine  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME")
    arguments = parser.parse_args()
    names = (arguments.build / "bench" / "list.txt").read_text().split()
    names = [name for name in names if not arguments.only or name in arguments.only]
    if not names:
        sys.exit(f"{arguments.build}: no benchmark there")
    arguments.out.mkdir(parents=True, exist_ok=True)
    failed = []
    for name in names:
        figures = arguments.out / f"{name}.json"
        figures.unlink(missing_ok=True)
        print(f"\n== {name}", flush=True)
        done = subprocess.run([str(arguments.build / "bench" / name), "--json", str(figures)], stdin=subprocess.DEVNULL)
        try:
            result = json.loads(figures.read_text())
            figures.write_text(json.dumps({**result, "machine": machine()}, indent=1) + "\n")
        except (OSError, ValueError, TypeError) as error:
            print(f"{name}: no figures: {error}", file=sys.stderr)
            failed.append(name)
            continue
        if done.returncode != 0:
            failed.append(name)
    print(f"\nfigures in {arguments.out}" if not failed else "\nfailed: " + ", ".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
