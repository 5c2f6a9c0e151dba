#!/usr/bin/env python3
"""Checks that libpenstock.so exports exactly the functions that include/penstock declares, each with its version, and
that some test in C calls each.

    scripts/check_symbols.py BUILD_OR_LIBRARY [--include DIR]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

from check_style import code_only

ROOT = Path(__file__).resolve().parent.parent


def declared(include: Path) -> set[str]:
    """Returns functions declared in the headers: names before a parenthesis that are not types of callbacks."""
    names: set[str] = set()
    for header in sorted(include.rglob("*.h")):
        code = code_only(header.read_text())
        code = re.sub(r"\btypedef\b[^;{]*;", "", code)
        names.update(re.findall(r"\b(pst_\w+)\s*\(", code))
    return names


def exported(library: Path) -> dict[str, str]:
    """Returns defined dynamic symbols and their versions, without the version nodes themselves (absolute symbols)."""
    output = subprocess.run(["nm", "-D", "--defined-only", "--with-symbol-versions", str(library)], check=True,
                            capture_output=True, text=True).stdout
    symbols = {}
    for line in output.splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":
            name, _, version = name.partition("@")
            symbols[name] = version.lstrip("@")
    return symbols


def compare(wanted: set[str], symbols: dict[str, str]) -> list[str]:
    findings = [f"{name} is declared and not exported" for name in sorted(wanted - symbols.keys())]
    findings += [f"{name} is exported and not declared" for name in sorted(symbols.keys() - wanted)]
    findings += [f"{name} has no version" for name, version in sorted(symbols.items()) if not version]
    return findings


def untested(wanted: set[str], tests: Path) -> list[str]:
    """Returns functions that no C file below `tests` calls."""
    called: set[str] = set()
    for source in sorted(tests.rglob("*.c")):
        called.update(re.findall(r"\b(pst_\w+)\s*\(", code_only(source.read_text())))
    return [f"{name} is called by no test" for name in sorted(wanted - called)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=Path)
    parser.add_argument("--include", type=Path, default=ROOT / "include" / "penstock")
    arguments = parser.parse_args()
    library = arguments.library / "libpenstock.so" if arguments.library.is_dir() else arguments.library
    symbols = exported(library)
    wanted = declared(arguments.include)
    findings = compare(wanted, symbols) + untested(wanted, ROOT / "tests")
    print("\n".join(findings) if findings else f"symbols: {len(symbols)} declared, exported and tested")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
