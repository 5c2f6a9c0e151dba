#!/usr/bin/env python3
"""Compiles Penstock for systems without wheels, and lists the files that do not compile.

    scripts/targets.py [--out DIR] [--target NAME ...]

The compiler is that of scripts/wheels.py, zig, which brings the headers of musl and of macOS. Nothing is linked and nothing runs:
of the static libraries for the x86-64 wheel only the headers are used. A file counts as failed if the compiler gives an error for
it; the first error of each is printed. The status is 0 even if files fail; docs/internals/ports.md lists the failures.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import wheels
from dependencies import ROOT, run

# Target names of zig, and CMake's names of the system and of the processor.
TARGETS = {
    "x86_64-linux-musl": ("Linux", "x86_64"),
    "aarch64-linux-musl": ("Linux", "aarch64"),
    "aarch64-macos": ("Darwin", "arm64"),
}
ERROR = re.compile(r"(?:fatal )?error: .*")


def write_toolchain(folder: Path, zig: Path, target: str) -> Path:
    system, processor = TARGETS[target]
    file = folder / "toolchain.cmake"
    file.write_text("\n".join([
        f"set(CMAKE_SYSTEM_NAME {system})", f"set(CMAKE_SYSTEM_PROCESSOR {processor})", *wheels.write_programs(folder, zig, target),
        "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)",  # CMake's own checks must not link either
        "set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)"]) + "\n")  # without it CMake needs macOS's install_name_tool
    return file


def first_error(entry: dict[str, str]) -> str | None:
    """Compiles one file of compile_commands.json without output. Returns the first error, or None."""
    done = subprocess.run(["sh", "-c", entry["command"] + " -w"], cwd=entry["directory"], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    found = ERROR.search(done.stderr)
    return found.group(0) if found else done.stderr.strip()[-200:]


def compile_all(out: Path, zig: Path, prefix: Path, target: str) -> None:
    folder = out / target
    file = write_toolchain(folder, zig, target)
    build = folder / "build"
    run("cmake", "-G", "Ninja", "-S", ROOT, "-B", build, f"-DCMAKE_TOOLCHAIN_FILE={file}", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        "-DCMAKE_BUILD_TYPE=Release", "-DPST_CUDA=OFF", "-DPST_URING=OFF", "-DPENSTOCK_SYSTEM_LIBS=OFF",
        f"-DPENSTOCK_DEPENDENCIES={prefix}", "--log-level=ERROR")
    entries = {entry["file"]: entry for entry in json.loads((build / "compile_commands.json").read_text())}.values()
    for entry in entries:
        output = re.search(r" -o (\S+)", entry["command"])
        (Path(entry["directory"]) / output.group(1)).parent.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        errors = {Path(entry["file"]).relative_to(ROOT): error
                  for entry, error in zip(entries, pool.map(first_error, entries), strict=True) if error}
    print(f"{target}: {len(entries) - len(errors)} of {len(entries)} files compile")
    for name, error in sorted(errors.items()):
        print(f"  {name}: {error}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "targets")
    parser.add_argument("--target", nargs="+", choices=TARGETS, default=list(TARGETS))
    arguments = parser.parse_args()
    zig = wheels.prepare()
    lender = wheels.WORK / "x86_64"
    wheels.write_toolchain(lender, zig, "x86_64")
    prefix = wheels.build_dependencies(lender, "x86_64", lender / "toolchain.cmake", str(lender / "cc"))
    for target in arguments.target:
        compile_all(arguments.out.resolve(), zig, prefix, target)


if __name__ == "__main__":
    main()
