#!/usr/bin/env python3
"""Runs clang-tidy with the rules of .clang-tidy on the C files of the library and of the tools.

    scripts/check_tidy.py BUILD [--all | --since COMMIT] [--analyser] [--jobs N]

BUILD is a configured build whose compile_commands.json says how each file is compiled (all presets write it). Without --all it
checks the files that differ from the commit where this branch left its upstream, origin/main or main; on main itself, from the
commit before the last one. At most MOST files are checked. If there is no commit to compare with, as in a clone of one commit, the
script says so. --all takes all files. --analyser adds clang's static analyser, which no check uses: it reads one file at a time and
does not know what functions of other files return, so it reports correct code. A finding is printed as file:line: what; the exit
status is 1 if there is any.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tools")
MOST = 24  # maximum number of files in a quick run: two cores can check them within the step's budget
NO_ANALYSER = ["-clang-analyzer-*"]  # added to the rules of .clang-tidy.
# Rules that are turned off for a file because the code that they report is right.
KNOWN: dict[str, list[str]] = {
    "augment_plan.c": ["misc-redundant-expression"],
    "augment_sizes.c": ["misc-redundant-expression"],  # a & 1 & (b & 1)
    "loader_boxes.c": ["bugprone-sizeof-expression"],
    "options_members.c": ["bugprone-sizeof-expression"],  # sizeof of members that are pointers
    "options_others.c": ["bugprone-sizeof-expression"],
}
# The build's commands are for gcc, which has other warning options than clang.
COMPILER = tuple(f"--extra-arg=-Wno-{name}" for name in (
    "unknown-warning-option", "ignored-optimization-argument", "unterminated-string-initialization"))


def tool() -> str | None:
    """Returns the path of clang-tidy: that of .venv, which has a fixed version, else the system's."""
    beside = Path(sys.executable).parent / "clang-tidy"
    return str(beside) if beside.exists() else shutil.which("clang-tidy")


def git(*arguments: str, root: Path = ROOT) -> str | None:
    """Returns the output of git, or None if git fails."""
    done = subprocess.run(["git", "-C", str(root), *arguments], check=False, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def base(root: Path = ROOT) -> str | None:
    """Returns the commit to compare with, or None if there is none."""
    head = git("rev-parse", "HEAD", root=root)
    for name in ("@{upstream}", "origin/main", "main"):
        common = git("merge-base", "HEAD", name, root=root)
        if common and common != head:
            return common
    return git("rev-parse", "--verify", "--quiet", "HEAD~1", root=root)


def changed(since: str, root: Path = ROOT) -> set[Path]:
    """Returns the files that differ from a commit, including uncommitted and untracked files."""
    names = (git("diff", "--name-only", "--diff-filter=d", "-z", since, root=root) or "").split("\0")
    names += (git("ls-files", "--others", "--exclude-standard", "-z", root=root) or "").split("\0")
    return {root / name for name in names if name}


def compiled(build: Path, root: Path = ROOT) -> list[Path]:
    """Returns the C files of FOLDERS that the build compiles."""
    entries = json.loads((build / "compile_commands.json").read_text())
    files = {Path(entry["directory"], entry["file"]) for entry in entries}
    return sorted(file for file in files if file.suffix == ".c" and any(file.is_relative_to(root / top) for top in FOLDERS))


def findings(program: str, build: Path, file: Path, rules: list[str]) -> str:
    """Returns clang-tidy's findings in a file, or an empty text. rules: rules that are added to those of .clang-tidy."""
    rules = [*rules, *(f"-{rule}" for rule in KNOWN.get(file.name, []))]
    done = subprocess.run([program, "-p", str(build), "--quiet", *COMPILER, f"--checks={','.join(rules)}", str(file)], check=False,
                          capture_output=True, text=True)
    said = done.stdout.strip()
    return said or (done.stderr.strip() if done.returncode else "")


def chosen(given: argparse.Namespace) -> list[Path] | None:
    """Returns the files to check. None: there is no commit to compare with, and the script has said so."""
    files = compiled(given.build)
    if given.all:
        return files
    since = given.since or base()
    if since is None:
        print("tidy: no earlier commit is here to compare with, so no file is checked; --all checks all")
        return None
    differ = changed(since)
    files = [file for file in files if file in differ]
    if len(files) > MOST:
        print(f"tidy: {len(files)} files differ, the first {MOST} are checked; --all checks all")
    return files[:MOST]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="all files")
    which.add_argument("--since", metavar="COMMIT", help="the files that differ from this commit")
    parser.add_argument("--analyser", action="store_true", help="clang's static analyser, too: about 10 seconds for a file")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N")
    given = parser.parse_args()
    program = tool()
    if program is None:
        print("tidy: no clang-tidy: scripts/setup_venv.sh check installs it")
        return 1
    files = chosen(given)
    if files is None:
        return 0
    rules = [] if given.analyser else NO_ANALYSER
    with ThreadPoolExecutor(given.jobs) as pool:
        said = [text for text in pool.map(lambda file: findings(program, given.build, file, rules), files) if text]
    print("\n".join(said) if said else f"tidy: nothing to say about {len(files)} files")
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
