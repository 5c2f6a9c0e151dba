#!/usr/bin/env python3
"""Checks that the files of a room (a folder under src/) call each other in one direction, without circles.

    scripts/check_circles.py BUILD

Two files are in a circle if each uses symbols of the other, directly or through other files of the room. The symbols are read from
the room's object files in BUILD. A circle is a finding, with the names of its files; the exit status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def symbols_of(objects: list[Path]) -> tuple[dict[str, Path], dict[Path, set[str]]]:
    """Returns the object that defines each symbol, and the symbols that each object uses."""
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
    """Returns the strongly connected components with more than one file (Tarjan, SIAM J. Comput. 1972)."""
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


def check(build: Path, root: Path = ROOT) -> list[str]:
    """Returns a line for each circle of each room."""
    findings = []
    folders = sorted((build / "src").glob("*/CMakeFiles/pst_room_*.dir"))
    for folder in folders:
        room = folder.name.removeprefix("pst_room_").removesuffix(".dir")
        source = root / "src" / room
        objects = [path for path in folder.rglob("*.o") if (source / path.relative_to(folder).with_suffix("")).is_file()]
        defined, used = symbols_of(objects)
        edges = {path: {defined[name] for name in used[path] if name in defined} - {path} for path in objects}
        for circle in circles(edges):
            names = " ".join(path.name.removesuffix(".o") for path in circle)
            findings.append(f"src/{room}: {len(circle)} files call each other in a circle: {names}")
    return findings if folders else [f"{build}: no objects of any room: build it first"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    findings = check(parser.parse_args().build)
    print("\n".join(findings) if findings else "circles: no room has any")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
