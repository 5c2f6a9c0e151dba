#!/usr/bin/env python3
"""Checks the folders of the Python package: which folder may import which, circles of imports, and how many files a folder has.

    scripts/check_imports.py [--root DIR]

A finding is printed as file:line: what; the exit status is 1 if there is any. Imports for type checkers count as any other.
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from check_circles import circles

PACKAGE = "python/src/penstock"
# The folders of the package, lowest first, with the folders that each may import. A folder may import its own modules.
FOLDERS: dict[str, set[str]] = {
    "base": set(),
    "data": {"base", "data/annotations", "data/croissant", "data/sources"},
    "data/annotations": {"base", "data"},
    "data/sources": {"base", "data"},
    "data/croissant": {"base", "data", "data/annotations", "data/sources"},
    "transforms": {"base"},
    "caching": {"base", "data"},
    "functions": {"base", "data"},
    "loading": {"base", "data", "transforms", "caching", "functions"},
    "engines": {"base", "data"},
    "stalls": {"base", "data", "transforms", "loading"},
    "stalls/measure": {"base", "data", "transforms", "caching", "loading", "stalls"},
    "planning": {"base", "data", "caching", "loading", "stalls", "stalls/measure"},
    "cli": {"base", "data", "data/croissant", "data/sources", "transforms", "loading", "stalls", "stalls/measure", "planning"},
}
# Modules directly in the package that all folders may import. Other modules there are public paths, which only import the names
# that they offer.
LEAVES = {"_native", "cuda", "errors"}
OLDER = "_older"  # modules that keep names for old pickles; the rules do not hold for them.
# Imports inside functions that close a circle, each with its reason. All other imports lead to lower folders.
UPWARD = {
    ("data/writer.py", "data/pack.py"): "Writer.from_folder is another name of pack",
}
# Maximum number of files in each folder below these folders.
MOST_FILES = {"python/src": 30, "python/native": 40, "src": 40, "tools": 40}


@dataclass(frozen=True)
class Import:
    """One module imports another: both paths within the package, and the line."""

    module: str
    target: str
    line: int


def path_of(package: Path, name: str) -> str | None:
    """Returns the path of a module within the package from its dotted name; None if the package has no such module."""
    base = name.replace(".", "/")
    candidates = (f"{base}/__init__.py" if base else "__init__.py", f"{base}.py", f"{base}.pyi")
    return next((found for found in candidates if (package / found).is_file()), None)


def imports_of(package: Path, path: Path) -> Iterator[Import]:
    """Yields the imports of a module from within the package, also those inside functions."""
    module = path.relative_to(package)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name.partition(".")[2] for alias in node.names if alias.name.split(".")[0] == "penstock"]
        elif isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "penstock"):
            above = list(module.parts[: len(module.parts) - node.level]) if node.level else []
            inner = (node.module or "").split(".")[0 if node.level else 1:] if node.module else []
            base = ".".join([*above, *inner])
            names = [f"{base}.{alias.name}".lstrip(".") for alias in node.names]
            names = [name if path_of(package, name) else base for name in names]
        else:
            continue
        for name in dict.fromkeys(names):
            if target := path_of(package, name):
                yield Import(module.as_posix(), target, node.lineno)


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def wall_problem(one: Import) -> str | None:
    """Returns what is wrong with an import according to the table of folders, or None."""
    here, there = folder_of(one.module), folder_of(one.target)
    if here and here not in FOLDERS:
        return f"{here} is not in the table of folders"
    if not there:
        is_leaf = one.target.partition(".")[0] in LEAVES
        if is_leaf or (not here and one.module.partition(".")[0] not in LEAVES):
            return None
        return f"{one.target} is a public path: import what it offers from its own folder"
    if not here:
        return f"{one.module} may not import {there}" if one.module.partition(".")[0] in LEAVES else None
    return None if here == there or there in FOLDERS[here] else f"{here} may not import {there}"


def check_imports(package: Path) -> list[str]:
    """Finds imports that the table forbids, circles, and entries of UPWARD that are no longer needed."""
    modules = [path for path in sorted(package.rglob("*.py")) if OLDER not in path.relative_to(package).parts]
    found = [one for path in modules for one in imports_of(package, path)]
    findings = [f"{PACKAGE}/{one.module}:{one.line}: {problem}" for one in found if (problem := wall_problem(one))]
    edges: dict[Path, set[Path]] = defaultdict(set)
    for path in modules:
        edges[path.relative_to(package)] = set()
    for one in found:
        if (one.module, one.target) not in UPWARD and one.target.endswith(".py"):
            edges[Path(one.module)].add(Path(one.target))
    for circle in circles(edges):
        names = ", ".join(path.as_posix() for path in circle)
        findings.append(f"{PACKAGE}/{circle[0].as_posix()}:1: a circle of imports: {names}")
    pairs = {(one.module, one.target) for one in found}
    findings += [f"scripts/check_imports.py:1: {a} does not import {b}: UPWARD need not have it"
                 for a, b in UPWARD if (package / a).is_file() and (a, b) not in pairs]
    return findings


def check_texts(package: Path) -> list[str]:
    """Finds folders of modules without an __init__.py, or whose __init__.py does not describe the folder."""
    findings = []
    for folder in FOLDERS:
        path = package / folder / "__init__.py"
        if not (package / folder).is_dir():
            continue
        if not path.is_file() or not ast.get_docstring(ast.parse(path.read_text())):
            findings.append(f"{PACKAGE}/{folder}/__init__.py:1: no line says what lies in this folder")
    return findings


def check_numbers(root: Path) -> list[str]:
    """Finds folders that have too many files."""
    findings = []
    for top, most in MOST_FILES.items():
        for folder in [root / top, *sorted(path for path in (root / top).rglob("*") if path.is_dir())]:
            where = folder.relative_to(root).as_posix()
            if folder.name == "__pycache__" or not folder.is_dir():
                continue
            n = sum(path.is_file() and not path.name.startswith(".") for path in folder.iterdir())
            if n > most:
                findings.append(f"{where}:1: {n} files lie in this folder, at most {most} may")
    return findings


def check(root: Path) -> list[str]:
    package = root / PACKAGE
    return check_imports(package) + check_texts(package) + check_numbers(root)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    findings = check(parser.parse_args().root.resolve())
    print("\n".join(findings) if findings else "imports: they lead downwards, and no folder is overfull")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
