#!/usr/bin/env python3
"""Checks that the files of a room call each other one way: services below, the door above.

    scripts/check_circles.py BUILD [--list]

Two files are in a circle if each uses, directly or through others of the room, what the other defines. The symbols of the room's
objects in BUILD tell that. CIRCLES has those that there still are; a larger or further one is a finding, and on x86-64, whose
kernels it counts, so is an entry that can be lowered. --list names the files.
"""

from __future__ import annotations

import argparse
import platform
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

# Files in each circle of a room, the largest first. The aim is an empty table.
CIRCLES: dict[str, list[int]] = {
    "dataset": [12],
    "decode": [13, 5],
    "loader": [13, 12, 5],
    "serve": [15],
}


def symbols_of(objects: list[Path]) -> tuple[dict[str, Path], dict[Path, set[str]]]:
    """Returns which object defines a symbol, and which symbols each object uses."""
    defined: dict[str, Path] = {}
    used: dict[Path, set[str]] = defaultdict(set)
    lines = subprocess.run(["nm", "-A", "-P", *objects], check=True, capture_output=True, text=True).stdout.splitlines()
    for line in lines:
        file, _, symbol = line.partition(": ")
        name, kind = symbol.split()[:2]
        if kind in "Uw":
            used[Path(file)].add(name)
        elif kind in "TDRBV":
            defined[name] = Path(file)
    return defined, used


def circles(edges: dict[Path, set[Path]]) -> list[list[Path]]:
    """Returns the strongly connected components of more than one file (Tarjan, SIAM J. Comput. 1972)."""
    number: dict[Path, int] = {}
    low: dict[Path, int] = {}
    stack: list[Path] = []
    found = []

    def visit(at: Path) -> None:
        number[at] = low[at] = len(number)
        stack.append(at)
        for to in sorted(edges[at]):
            if to not in number:
                visit(to)
                low[at] = min(low[at], low[to])
            elif to in stack:
                low[at] = min(low[at], number[to])
        if low[at] == number[at]:
            i = stack.index(at)
            if len(stack) - i > 1:
                found.append(sorted(stack[i:]))
            del stack[i:]

    for each in sorted(edges):
        if each not in number:
            visit(each)
    return sorted(found, key=len, reverse=True)


def rooms(build: Path) -> dict[str, list[list[Path]]]:
    """Returns the circles of each room, by the names of their objects."""
    found = {}
    for folder in sorted((build / "src").glob("*/CMakeFiles/pst_room_*.dir")):
        source = Path(__file__).resolve().parent.parent / "src" / folder.name.removeprefix("pst_room_").removesuffix(".dir")
        objects = [path for path in folder.rglob("*.o") if (source / path.relative_to(folder).with_suffix("")).is_file()]
        defined, used = symbols_of(objects)
        edges = {path: {defined[name] for name in used[path] if name in defined} - {path} for path in objects}
        found[source.name] = [[path.relative_to(folder) for path in circle] for circle in circles(edges)]
    return found


def finding(room: str, now: list[int], known: list[int], all_kernels: bool) -> str | None:
    """Compares the sizes of a room's circles, largest first."""
    grown = len(now) > len(known) or any(size > most for size, most in zip(now, known, strict=False))
    if grown:
        return f"src/{room}: circles of {now} files, at most {known or 'none'}: --list names them"
    if now != known and all_kernels:
        return f"src/{room}: circles of {now or 'no'} files are left of {known}: lower the entry in scripts/check_circles.py"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    found = rooms(given.build)
    findings = []
    for room, circles_now in found.items():
        if given.list:
            for circle in circles_now:
                print(f"{room}: {len(circle)}: {' '.join(path.name.removesuffix('.c.o') for path in circle)}")
        sizes = [len(circle) for circle in circles_now]
        if problem := finding(room, sizes, CIRCLES.get(room, []), platform.machine() == "x86_64"):
            findings.append(problem)
    n_left = sum(len(circles_now) for circles_now in found.values())
    print("\n".join(findings) if findings else f"circles: {n_left} are left, none has grown")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
