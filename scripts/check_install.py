#!/usr/bin/env python3
"""Builds the example against an installed copy in each way that users can, and runs each program on photographs.

    scripts/check_install.py PREFIX

Ways: pkg-config with the shared library, pkg-config with the static one, CMake with both. All programs must print the same order of
samples.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples" / "read_dataset.c"
PHOTOGRAPHS = ROOT / "examples" / "photographs"


def run(*command: str | Path, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"failed with status {done.returncode}: {' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def lib_dir_of(prefix: Path) -> Path:
    found = sorted(prefix.glob("lib*/**/pkgconfig/penstock.pc"))
    if len(found) != 1:
        sys.exit(f"{prefix}: {len(found)} files penstock.pc, one was expected")
    return found[0].parent.parent


def built_by_pkg_config(lib_dir: Path, out: Path) -> list[Path]:
    environment = {**os.environ, "PKG_CONFIG_PATH": str(lib_dir / "pkgconfig")}
    compiler = os.environ.get("CC", "cc")
    flags = run("pkg-config", "--cflags", "--libs", "penstock", environment=environment).split()
    shared = out / "shared"
    run(compiler, "-std=c17", "-Wall", "-Werror", EXAMPLE, "-o", shared, *flags, f"-Wl,-rpath,{lib_dir}")
    # The static library is linked with shared dependencies: -l:libpenstock.a replaces -lpenstock.
    flags = run("pkg-config", "--static", "--cflags", "--libs", "penstock", environment=environment).split()
    static = out / "static"
    run(compiler, "-std=c17", "-Wall", "-Werror", EXAMPLE, "-o", static,
        *["-l:libpenstock.a" if flag == "-lpenstock" else flag for flag in flags])
    return [shared, static]


def built_by_cmake(prefix: Path, out: Path) -> list[Path]:
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    build = out / "cmake"
    run("cmake", *generator, "-S", ROOT / "examples", "-B", build, f"-DCMAKE_PREFIX_PATH={prefix}")
    run("cmake", "--build", build)
    programs = [build / "read_dataset", build / "read_dataset_static"]
    for program in programs:
        if not program.exists():
            sys.exit(f"CMake did not build {program.name}")
    return programs


def check_unit(prefix: Path) -> None:
    """Checks that the systemd unit starts the program that was installed with it."""
    unit = (prefix / "lib" / "systemd" / "user" / "penstock.service").read_text()
    started = [line.partition("=")[2].split()[0] for line in unit.splitlines() if line.startswith("ExecStart=")]
    if len(started) != 1 or not Path(started[0]).samefile(prefix / "bin" / "penstock"):
        sys.exit(f"penstock.service starts {started}")


def check_pages(prefix: Path) -> None:
    """Checks that the manual pages and the completion are where man and the shells look for them, and that they belong to the
    program.
    """
    share, program = prefix / "share", prefix / "bin" / "penstock"
    for shell, name in (("bash", "bash-completion/completions/penstock"), ("zsh", "zsh/site-functions/_penstock"),
                        ("fish", "fish/vendor_completions.d/penstock.fish")):
        if (share / name).read_text() != run(program, "--completion", shell):
            sys.exit(f"{share / name} is not what the program prints")
    verbs = [verb["name"].replace(" ", "-") for verb in json.loads(run(program, "--describe"))["verbs"]]
    wanted = {"penstock.1", *(f"penstock-{verb}.1" for verb in verbs)}
    if (found := {path.name for path in (share / "man" / "man1").iterdir()}) != wanted:
        sys.exit(f"{share / 'man' / 'man1'}: {found ^ wanted}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("prefix", type=Path)
    prefix = parser.parse_args().prefix.resolve()
    check_unit(prefix)
    check_pages(prefix)
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        programs = built_by_pkg_config(lib_dir_of(prefix), out) + built_by_cmake(prefix, out)
        outputs = {str(program.relative_to(out)): run(program, PHOTOGRAPHS) for program in programs}
        n_files = len([path for path in PHOTOGRAPHS.iterdir() if path.suffix in (".jpg", ".png")])
        for program, output in outputs.items():
            if output != next(iter(outputs.values())) or not output.endswith(f"\n{n_files} samples\n"):
                sys.exit(f"{program} printed\n{output}which is not one epoch of {n_files} samples, or differs from "
                         f"{next(iter(outputs))}")
        failed = subprocess.run([str(programs[0]), str(out / "absent")], capture_output=True, text=True)
        if failed.returncode != 1 or "absent" not in failed.stderr:
            sys.exit(f"a missing data set was not reported: status {failed.returncode}, {failed.stderr!r}")
    command = prefix / "bin" / "penstock"
    if "penstock" not in run(command, "--help"):
        sys.exit(f"{command} --help prints no help")
    print(f"install: {', '.join(outputs)} and {command.name} work")
    return 0


if __name__ == "__main__":
    sys.exit(main())
