#!/usr/bin/env python3
"""Prints the share of each room's lines that the C tests run. `make check-long` runs it.

    scripts/coverage.py BUILD [--no-run] [--worst N]

BUILD is a build of the preset "coverage", that is with gcc and --coverage. The script deletes earlier counts, runs ctest there
without the tests with the label "long", and reads the counts with gcov. --no-run reads the existing counts. A line is reached if
any object that contains it ran it: a header's line in any file, a kernel's line also under SIMDe. The files with the most unreached
lines are printed below the table. BUILD/coverage.json has all counts and the numbers of these lines.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 8  # objects that one call of gcov gets

Counts = dict[str, dict[int, int]]  # file -> line -> how often the line ran


def gcov_of(build: Path) -> str:
    """Returns the gcov that belongs to the build's compiler: gcov reads only files of its own compiler."""
    compiler = re.search(r"^CMAKE_C_COMPILER:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    return subprocess.run([compiler[1] if compiler else "gcc", "-print-prog-name=gcov"], check=True, capture_output=True,
                          text=True).stdout.strip()


def run_tests(build: Path) -> int:
    """Runs ctest and returns its status.

    A test that kills a program may kill it while libgcov writes its counts. Every later run of that program then reports the torn
    file on stderr, where tests expect what the program itself says. So libgcov writes its reports to GCOV_ERROR_FILE.
    """
    for path in build.rglob("*.gcda"):
        path.unlink()
    command = ["ctest", "--test-dir", str(build), "--output-on-failure", "--no-tests=error", "-LE", "^long$",
               "-j", str(os.cpu_count() or 1)]  # fmt: skip
    return subprocess.run(command, env={**os.environ, "GCOV_ERROR_FILE": os.devnull}, check=False).returncode


def reports(gcov: str, notes: list[Path]) -> Iterator[dict[str, Any]]:
    """Yields gcov's report of each object. An object that no test ran has no counts, so its lines count as not reached."""
    def read(part: list[Path]) -> list[str]:
        return subprocess.run([gcov, "--json-format", "--stdout", *map(str, part)], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True).stdout.splitlines()

    parts = [notes[i:i + AT_ONCE] for i in range(0, len(notes), AT_ONCE)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for lines in pool.map(read, parts):
            yield from map(json.loads, filter(None, lines))


def add(counts: Counts, report: dict[str, Any], root: Path) -> None:
    """Adds to the counts the lines of files below src/."""
    folder = Path(report["current_working_directory"])
    for file in report["files"]:
        path = Path(os.path.normpath(folder / file["file"]))
        if path.is_relative_to(root / "src"):
            lines = counts[str(path.relative_to(root))]
            for line in file["lines"]:
                lines[line["line_number"]] = max(lines.get(line["line_number"], 0), line["count"])


def by_room(counts: Counts) -> dict[str, tuple[int, int]]:
    """Returns for each room the number of its lines, and how many of them were reached."""
    rooms: dict[str, tuple[int, int]] = {}
    for where, lines in sorted(counts.items()):
        room = "/".join(where.split("/")[:2])
        n_lines, n_reached = rooms.get(room, (0, 0))
        rooms[room] = n_lines + len(lines), n_reached + sum(count > 0 for count in lines.values())
    return rooms


def missing(lines: dict[int, int]) -> list[int]:
    return sorted(number for number, count in lines.items() if count == 0)


def table(counts: Counts, n_worst: int) -> str:
    rooms = by_room(counts)
    rooms["all"] = sum(n for n, _ in rooms.values()), sum(n for _, n in rooms.values())
    told = [f"{'room':16} {'lines':>7} {'reached':>8} {'%':>6}"]
    told += [f"{room:16} {n_lines:7} {n_reached:8} {100 * n_reached / max(n_lines, 1):6.1f}"
             for room, (n_lines, n_reached) in rooms.items()]
    told += ["", f"{'not reached':>11} {'%':>6}  file"]
    worst = sorted(counts.items(), key=lambda file: -len(missing(file[1])))
    told += [f"{len(missing(lines)):11} {100 - 100 * len(missing(lines)) / max(len(lines), 1):6.1f}  {where}"
             for where, lines in worst[:n_worst] if missing(lines)]
    return "\n".join(told)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--no-run", action="store_true", help="read the counts that are there")
    parser.add_argument("--worst", type=int, default=20, metavar="N", help="files to name (20)")
    given = parser.parse_args()
    build = given.build.resolve()
    status = 0 if given.no_run else run_tests(build)
    counts: Counts = defaultdict(dict)
    for report in reports(gcov_of(build), sorted(build.rglob("*.gcno"))):
        add(counts, report, ROOT)
    if not any(map(any, (lines.values() for lines in counts.values()))):
        print(f"coverage: {given.build} has no counts")
        return 1
    print(table(counts, given.worst))
    (build / "coverage.json").write_text(json.dumps({
        "rooms": {room: {"lines": n_lines, "reached": n_reached} for room, (n_lines, n_reached) in by_room(counts).items()},
        "files": {where: {"lines": len(lines), "missing": missing(lines)} for where, lines in sorted(counts.items())},
    }, indent=1) + "\n")
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
