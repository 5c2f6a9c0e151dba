#!/usr/bin/env python3
"""Checks the types of the Python package: strict mypy over its sources, stubtest over the stub of the extension module.

    scripts/check_types.py

stubtest imports the installed package and compares it with python/src/penstock/_native.pyi. So the package must be installed
for the Python that runs this script.
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# CPython 3.11 has no name for the buffer protocol. Type checkers know it by this name for all versions.
UNNAMED_AT_RUN_TIME = r".*\.__buffer__"


def commands(source: Path, cache: Path, allowed: Path) -> list[list[str]]:
    """Returns the commands of mypy and stubtest. The options of mypy are in pyproject.toml."""
    python = source.parent.parent
    return [
        [sys.executable, "-m", "mypy", "--config-file", str(python / "pyproject.toml"), "--cache-dir", str(cache), str(source)],
        [sys.executable, "-m", "mypy.stubtest", "--allowlist", str(allowed), "--ignore-unused-allowlist", "penstock._native"],
    ]


def stale(stub: Path) -> str | None:
    """Returns the reason why the installed stub differs from that in the sources; None if it does not."""
    found = subprocess.run([sys.executable, "-c", "import penstock; print(penstock.__path__[0])"], cwd="/", text=True,
                           capture_output=True)
    if found.returncode != 0:
        return f"penstock is not installed: {found.stderr.strip().splitlines()[-1]}"
    installed = Path(found.stdout.strip()) / stub.name
    if installed.read_bytes() != stub.read_bytes():
        return f"{installed} differs from {stub}: install the package again (make build)"
    return None


def main() -> int:
    source = ROOT / "python" / "src" / "penstock"
    reason = stale(source / "_native.pyi")
    if reason:
        print(reason)
        return 1
    allowed = ROOT / "build" / "stubtest-allowed.txt"
    allowed.parent.mkdir(exist_ok=True)
    allowed.write_text(UNNAMED_AT_RUN_TIME + "\n" if sys.version_info < (3, 12) else "")
    run = functools.partial(subprocess.run, cwd=ROOT, env={**os.environ, "MYPY_FORCE_COLOR": "0"}, capture_output=True, text=True)
    good = True
    with ThreadPoolExecutor() as pool:
        for done in pool.map(run, commands(source, ROOT / "build" / "mypy", allowed)):
            print((done.stdout + done.stderr).strip())
            # stubtest's status is 0 even if it cannot import the package.
            good = good and done.returncode == 0 and re.search(r"^Success: no issues found", done.stdout, re.MULTILINE) is not None
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
