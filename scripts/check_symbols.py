#!/usr/bin/env python3
"""Checks that libpenstock.so exports exactly the functions that include/penstock declares, each with its version, and those of the
private node that the Python package calls; that some test in C calls each; and that the library uses no function that the oldest
glibc of our wheels lacks, or the compiler's runtime library, which they are linked without (check_wheel.py looks at wheels).

    scripts/check_symbols.py BUILD_OR_LIBRARY [--include DIR]
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from check_style import code_only
from wheels import GLIBC

ROOT = Path(__file__).resolve().parent.parent
OLDEST_GLIBC = tuple(map(int, GLIBC.split(".")))
# Functions that got a new version in newer glibcs because they moved to another library or changed inside. Old glibcs have them,
# too.
OLD_WITH_NEW_VERSION = re.compile(
    r"(__isoc(23|99)_)?(strto|sscanf|fscanf|scanf|vsscanf)\w*|[fl]?stat(64)?|fstatat(64)?|mknod(at)?|fcntl(64)?|glob(64)?"
    r"|(exp|log|pow|fmod|hypot)f?|(exp|log)2f?|sincosf?|sinf|cosf|dl\w+|sem_\w+|shm_\w+|timer_\w+|aio_\w+"
    r"|pthread_(condattr_[gs]etclock|(?!\w*clock)\w+)|__libc_start_main|__pthread_\w+")

# Functions of the compiler's runtime library for numbers of 128 bits.
RUNTIME = re.compile(r"__(u?(div|mod|divmod)ti[34]|mulo?ti[34]|float(un)?ti\w\w|fix(uns)?\wfti)")


def declared(include: Path) -> set[str]:
    """Returns the functions that the headers declare: names before a parenthesis that are not callback types."""
    names: set[str] = set()
    for header in sorted(include.rglob("*.h")):
        code = code_only(header.read_text())
        code = re.sub(r"\btypedef\b[^;{]*;", "", code)
        names.update(re.findall(r"\b(pst_\w+)\s*\(", code))
    return names


def dynamic_symbols(library: Path, which: str) -> dict[str, str]:
    """Returns the dynamic symbols that an option of nm selects, with their versions. Version nodes themselves (absolute symbols)
    are left out.
    """
    output = subprocess.run(["nm", "-D", which, "--with-symbol-versions", str(library)], check=True, capture_output=True,
                            text=True).stdout
    symbols = {}
    for line in output.splitlines():
        kind, name = line.split()[-2:]
        if kind != "A":
            name, _, version = name.partition("@")
            symbols[name] = version.lstrip("@")
    return symbols


def exported(library: Path) -> dict[str, str]:
    return dynamic_symbols(library, "--defined-only")


def too_new(used: dict[str, str]) -> list[str]:
    """Returns the functions of glibc that the oldest supported glibc lacks."""
    findings = []
    for name, version in sorted(used.items()):
        number = re.fullmatch(r"GLIBC_(\d+)\.(\d+)(?:\.\d+)?", version)
        if number and (int(number[1]), int(number[2])) > OLDEST_GLIBC and not OLD_WITH_NEW_VERSION.fullmatch(name):
            findings.append(f"{name} came with {version}, and wheels run with {GLIBC}")
    return findings


def of_runtime(names: Iterable[str]) -> list[str]:
    """Returns the functions that wheels have no library for."""
    return [f"{name} is of the compiler's runtime library, which wheels lack" for name in names if RUNTIME.fullmatch(name)]


def all_symbols(library: Path) -> set[str]:
    """Returns all symbols of a library that is not stripped."""
    output = subprocess.run(["nm", str(library)], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in output.splitlines()}


def compare(wanted: set[str], symbols: dict[str, str]) -> list[str]:
    findings = [f"{name} is declared and not exported" for name in sorted(wanted - symbols.keys())]
    findings += [f"{name} is exported and not declared" for name in sorted(symbols.keys() - wanted)]
    findings += [f"{name} has no version" for name, version in sorted(symbols.items()) if not version]
    return findings


def taken(symbols: dict[str, str], package: Path) -> tuple[set[str], list[str]]:
    """Returns the functions of the private node, and those of them that are not named psti_ or that the Python package does not
    call.
    """
    private = {name for name, version in symbols.items() if version == "PENSTOCK_PRIVATE"}
    called: set[str] = set()
    for source in sorted(package.rglob("native*.c")):
        called.update(re.findall(r"\b(psti_\w+)\s*\(", code_only(source.read_text())))
    findings = [f"{name} is private, and is not psti_" for name in sorted(private) if not name.startswith("psti_")]
    findings += [f"{name} is exported for the Python package, which does not call it" for name in sorted(private - called)]
    return private, findings


def untested(wanted: set[str], tests: Path) -> list[str]:
    """Returns the functions that no C file below `tests` calls."""
    called: set[str] = set()
    for source in sorted(tests.rglob("*.c")):
        called.update(re.findall(r"\b(psti?_\w+)\s*\(", code_only(source.read_text())))
    return [f"{name} is called by no test" for name in sorted(wanted - called)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("library", type=Path)
    parser.add_argument("--include", type=Path, default=ROOT / "include" / "penstock")
    arguments = parser.parse_args()
    library = arguments.library / "libpenstock.so" if arguments.library.is_dir() else arguments.library
    symbols = exported(library)
    private, findings = taken(symbols, ROOT / "python")
    wanted = declared(arguments.include) | private
    findings += compare(wanted, symbols) + untested(wanted, ROOT / "tests") + too_new(dynamic_symbols(library, "--undefined-only"))
    findings += of_runtime(sorted(all_symbols(library)))
    print("\n".join(findings) if findings else f"symbols: {len(symbols)} declared, exported and tested")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
