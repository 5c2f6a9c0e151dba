#!/usr/bin/env python3
"""Builds the wheels that `pip install` takes: penstock for x86-64 and AArch64, and penstock-cuda for both.

    scripts/wheels.py [--out DIR] [--arch ARCH ...] [--packages NAME ...] [--native]

Each runs on any Linux with glibc 2.17 or later and CPython 3.11 or later (abi3). The compiler is zig, which knows the symbols of
old glibcs and compiles for both processors; it, cmake, ninja and the others of third_party/wheel-tools.txt are pinned by SHA-256,
as are the sources of the libraries built in (scripts/dependencies.py). Nothing else is fetched. The kernels need nvcc on this
machine: without it there is no penstock-cuda, and the script says so. The contents of the wheels are checked at the end: symbols,
libraries, sizes, licences (check_wheel.py). Two runs give equal bytes: times are those of SOURCE_DATE_EPOCH, else of the last
commit.

With --native the compiler is this machine's (CC or cc), for comparison: such a wheel runs only on this machine and is not checked.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import dependencies
from dependencies import ROOT, run

WORK = Path(os.environ.get("WHEELS_WORK", ROOT / "build" / "wheels"))
TOOLS = WORK / "tools"
PINNED_TOOLS = ROOT / "third_party" / "wheel-tools.txt"
GLIBC = "2.17"
ARCHS = ("x86_64", "aarch64")
# The packages' folders, and the options that CMake gets for each.
PACKAGES: dict[str, tuple[Path | str, ...]] = {
    "penstock": (ROOT / "python", "cmake.define.PST_CUDA=OFF"),
    "penstock-cuda": (ROOT / "python" / "cuda",),
}
BUILD = """
import sys
from scikit_build_core.build import build_wheel
settings = dict(pair.split("=", 1) for pair in sys.argv[2:])
print(build_wheel(sys.argv[1], settings))
"""


def digest(*paths: Path) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(path.read_bytes())
    return total.hexdigest()


def make_tools() -> Path:
    """Makes the virtual environment of the pinned tools. Returns the path of zig."""
    stamp = TOOLS / "complete"
    wanted = digest(PINNED_TOOLS)
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(TOOLS, ignore_errors=True)
        venv.create(TOOLS, with_pip=True)
        run(TOOLS / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps",
            "--only-binary", ":all:", "--require-hashes", "-r", PINNED_TOOLS)
        stamp.write_text(wanted)
    return next(TOOLS.glob("lib/python3*/site-packages/ziglang/zig"))


def prepare() -> Path:
    """Fetches the pinned sources and tools, and sets the environment of this process for building with them. Returns the path of
    zig.
    """
    dependencies.fetch(dependencies.sources_folder())
    zig = make_tools()
    os.environ["PATH"] = f"{TOOLS / 'bin'}:{os.environ['PATH']}"
    os.environ["ZIG_GLOBAL_CACHE_DIR"] = str(WORK / "zig-cache")
    os.environ.pop("CMAKE_C_COMPILER_LAUNCHER", None)
    return zig


def write_programs(folder: Path, zig: Path, target: str, *flags: str) -> list[str]:
    """Writes scripts that call zig, under the names that CMake expects. Returns the lines of a toolchain file that name them."""
    folder.mkdir(parents=True, exist_ok=True)
    write_program(folder / "cc", " ".join([f"{zig} cc -target {target}", *flags]))
    for name in ("ar", "ranlib"):
        write_program(folder / name, f"{zig} {name}")
    return [f"set(CMAKE_C_COMPILER {folder}/cc)", f"set(CMAKE_AR {folder}/ar)", f"set(CMAKE_RANLIB {folder}/ranlib)",
            "set(CMAKE_FIND_USE_CMAKE_SYSTEM_PATH OFF)"]


def write_program(path: Path, command: str) -> None:
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)


def write_toolchain(folder: Path, zig: Path, arch: str) -> None:
    """Writes the scripts that call zig, and the toolchain file for CMake."""
    # The output must not contain paths of this machine. By default zig adds line tables, and UBSan's runtime in code that is not
    # optimised, such as CMake's test programs.
    lines = write_programs(folder, zig, f"{arch}-linux-gnu.{GLIBC}", "-g0", "-fno-sanitize=undefined",
                           f"-ffile-prefix-map={ROOT}=.", f"-ffile-prefix-map={WORK}=.")
    # zig's runtime library has its own memory and mathematical functions. They are slower than the system's, round otherwise, and
    # would be linked before libc's.
    lines += [f'set(CMAKE_{kind}_LINKER_FLAGS_INIT "-s -rtlib=none")' for kind in ("EXE", "MODULE", "SHARED")]
    if arch != os.uname().machine:
        lines = ["set(CMAKE_SYSTEM_NAME Linux)", f"set(CMAKE_SYSTEM_PROCESSOR {arch})", *lines]
    (folder / "toolchain.cmake").write_text("\n".join(lines) + "\n")


def build_dependencies(folder: Path, arch: str, toolchain: Path | None, cc: str) -> Path:
    """Builds the static libraries unless they exist. Returns their folder."""
    prefix = folder / "dependencies"
    stamp = prefix / "of"
    sources = sorted((ROOT / "third_party").glob("*/CMakeLists.txt"))
    compiler = [] if toolchain is None else [folder / "cc", toolchain]
    wanted = digest(dependencies.PINS, PINNED_TOOLS, Path(dependencies.__file__), *compiler, *sources)
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(prefix, ignore_errors=True)
        dependencies.build(argparse.Namespace(prefix=prefix, work=folder / "dependencies-work", toolchain=toolchain, cc=cc,
                                              sources=dependencies.sources_folder(), nasm=arch == "x86_64"))
        stamp.write_text(wanted)
    return prefix


def build_wheel(name: str, out: Path, folder: Path, arch: str, native: bool) -> Path:
    """Builds the wheel of one Python package by the package's pyproject.toml."""
    package, *settings = PACKAGES[name]
    tag = f"linux_{arch}" if native else f"manylinux_{GLIBC.replace('.', '_')}_{arch}"
    build = folder / name
    shutil.rmtree(build, ignore_errors=True)
    compiler = [] if native else [f"cmake.define.CMAKE_TOOLCHAIN_FILE={folder}/toolchain.cmake"]
    for old in out.glob(f"{name.replace('-', '_')}-*{arch}.whl"):
        old.unlink()
    before = set(out.glob("*.whl"))
    run(TOOLS / "bin" / "python", "-c", BUILD, out, f"build-dir={build}", "install.strip=false",
        "cmake.define.PENSTOCK_SYSTEM_LIBS=OFF", f"cmake.define.PENSTOCK_DEPENDENCIES={folder / 'dependencies'}", *compiler,
        *settings, cwd=package, _PYTHON_HOST_PLATFORM=tag)
    [wheel] = set(out.glob("*.whl")) - before
    return wheel


def last_commit_time() -> str:
    found = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 and found.stdout.strip() else "315532800"


def build_arch(arch: str, zig: Path | None, out: Path, packages: list[str]) -> list[Path]:
    native = zig is None
    folder = WORK / ("native" if native else arch)
    folder.mkdir(parents=True, exist_ok=True)
    if zig:
        write_toolchain(folder, zig, arch)
    cc = os.environ.get("CC", "cc") if native else str(folder / "cc")
    build_dependencies(folder, arch, None if native else folder / "toolchain.cmake", cc)
    return [build_wheel(name, out, folder, arch, native) for name in packages]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "dist")
    parser.add_argument("--arch", nargs="+", choices=ARCHS, default=ARCHS)
    parser.add_argument("--packages", nargs="+", choices=PACKAGES, default=list(PACKAGES))
    parser.add_argument("--native", action="store_true")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    zig = prepare()
    os.environ.setdefault("SOURCE_DATE_EPOCH", last_commit_time())
    packages = [name for name in arguments.packages if name == "penstock" or shutil.which("nvcc")]
    if packages != arguments.packages:
        print("no nvcc here: no penstock-cuda is built")
    wheels = []
    for arch in [os.uname().machine] if arguments.native else arguments.arch:
        wheels += build_arch(arch, None if arguments.native else zig, out, packages)
    if not arguments.native:
        run(TOOLS / "bin" / "python", ROOT / "scripts" / "check_wheel.py", *wheels)
    for wheel in wheels:
        print(f"{wheel.stat().st_size / 1e6:6.2f} MB  {dependencies.sha256(wheel)}  {wheel}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
