#!/usr/bin/env python3
"""Checks that tests/options detects each mistake in the tables of members. It removes each row, and changes the use of each
shareable row to JOB, one at a time; the test must fail each time.

    scripts/check_members.py BUILD

BUILD: a build with tests, whose objects of base/ are linked. It takes about two minutes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import count, repeat
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLES = [ROOT / "src" / "options" / name for name in ("options_members.c", "options_others.c")]
TEST = ROOT / "tests" / "options" / "test_options_members.c"
ROW = re.compile(r"^    (?:NUMBER|LIMITED|ARRAY|ENUM|POINTER|COUNT)\((\w+), (\w+), (\w+).*\),\n", re.MULTILINE)
COMPILE = ["cc", "-std=gnu17", "-O0", "-w", "-D_GNU_SOURCE", *(f"-I{ROOT / name}" for name in ("include", "src", "tests"))]


def mutants(text: str) -> list[tuple[str, str]]:
    """Yields each changed version of the tables, with a description of the change."""
    found = []
    for row in ROW.finditer(text):
        name = f"{row[1].lower()}.{row[2]}"
        found.append((f"{name} without a row", text[:row.start()] + text[row.end():]))
        if row[3] in ("ORDER", "ROWS", "READING"):
            found.append((f"{name} as a job's own", text[:row.start(3)] + "JOB" + text[row.end(3):]))
    return found


def run(*command: str | Path) -> None:
    subprocess.run(command, check=True)


def passes(folder: Path, number: int, text: str, rest: list[Path]) -> bool:
    """Compiles the test with these tables and returns whether it passes."""
    source, program = folder / f"{number}.c", folder / f"test_{number}"
    source.write_text(text)
    run(*COMPILE, source, *rest, "-lcmocka", "-lxxhash", "-ldeflate", "-lz", "-lpthread", "-lm", "-o", program)
    done = subprocess.run([program, ROOT / "tests" / "headers" / "abi.txt"], capture_output=True, timeout=60)
    source.unlink()
    program.unlink()
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    build = parser.parse_args().build
    n = missed = 0
    with tempfile.TemporaryDirectory() as name, ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        folder = Path(name)
        test = folder / "test.o"
        run(*COMPILE, "-c", TEST, "-o", test)
        objects = build / "src" / "base" / "CMakeFiles" / "pst_room_base.dir"
        base = [test, *(objects / f"{source.relative_to(ROOT / 'src' / 'base')}.o"
                        for source in sorted((ROOT / "src" / "base").rglob("*.c")))]
        for table in TABLES:
            rest = [*base, *(other for other in TABLES if other != table)]
            if not passes(folder, 0, table.read_text(), rest):
                print("members: the test fails with the tables as they are")
                return 1
            changed = mutants(table.read_text())
            texts = [text for _, text in changed]
            found = list(pool.map(passes, repeat(folder), count(1), texts, repeat(rest)))
            for (what, _), passed in zip(changed, found, strict=True):
                if passed:
                    print(f"{table.relative_to(ROOT)}: no test fails with {what}")
            n, missed = n + len(found), missed + sum(found)
    print(f"members: {n - missed} of {n} mistakes are seen")
    return 1 if missed or n < 400 else 0


if __name__ == "__main__":
    sys.exit(main())
