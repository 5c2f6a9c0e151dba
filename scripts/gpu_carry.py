#!/usr/bin/env python3
"""Makes a folder with which a machine with a GPU can test and measure Penstock without building anything.

    scripts/gpu_carry.py [--data FOLDER] [--out build/gpu] [--limit-mb 48] [--programs]

The folder gets
    bin/      test programs, bench_gpu, the command line
    lib/      libpenstock_cuda.so, libbench_l3_cuda.so (the kernel of a peer), and the shared libraries of the programs, except libc
    python/   the package `penstock` for any CPython >= 3.11
    data/     JPEGs, the same as pli-jpeg, and PNGs as PLI of every tier, a file each; frames of one size, 2048 x 1024, are in
              folders of their own, pli-TIER-frames
scripts/check_gpu.py uses it. FOLDER holds images in folders of any names, by default the examples' own; the script takes as many as
--limit-mb allows. With --programs only bin/ and lib/ are made, which needs compilers, CMake and Ninja, but no Python packages.
"""

from __future__ import annotations

import argparse
import shutil
import struct
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAMS = ("bench/gpu/bench_gpu", "tests/gpu/test_gpu_batch", "tools/penstock/penstock")
TIERS = ("fast", "small", "dense")
# Shared libraries that are not copied, because each system, its loader, or Python and torch have their own.
SYSTEM = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libpthread", "libdl", "librt", "libstdc++", "libgcc_s")
FRAME = (2048, 1024)  # width, height


def call(*command: str | Path, **more: object) -> None:
    subprocess.run([str(part) for part in command], check=True, **more)  # type: ignore[call-overload]


def build_programs(build: Path) -> None:
    call("cmake", "-G", "Ninja", "-S", ROOT, "-B", build, "-DCMAKE_BUILD_TYPE=Release", "-DPST_BUILD_TESTS=ON",
         "-DPST_BUILD_BENCH=ON", "-DPST_CUDA=ON", "-DPST_WERROR=OFF", "--log-level=WARNING")
    call("ninja", "-C", build, "bench_gpu", "test_gpu_batch", "penstock_cli", "penstock_cuda", "bench_l3_cuda")


def libraries_of(program: Path) -> list[Path]:
    lines = subprocess.run(["ldd", str(program)], check=True, capture_output=True, text=True).stdout.splitlines()
    found = [line.split("=>")[1].split()[0] for line in lines if "=> /" in line]
    return [Path(path) for path in found if not Path(path).name.startswith(SYSTEM)]


def carry_programs(build: Path, out: Path) -> None:
    wanted = []
    for name in PROGRAMS:
        wanted.append(build / name)
        shutil.copy2(build / name, out / "bin")
        call("strip", out / "bin" / Path(name).name)
    for name in ("libpenstock_cuda.so", "libbench_l3_cuda.so"):
        shutil.copy2(next(build.rglob(name)), out / "lib")
    for program in wanted:
        for path in libraries_of(program):
            shutil.copy2(path, out / "lib" / path.name)


def carry_package(out: Path) -> None:
    call("make", "-C", ROOT, "build", stdout=subprocess.DEVNULL)  # makes the package from this tree, like the programs
    python = ROOT / ".venv" / "bin" / "python"
    where = subprocess.run([str(python), "-c", "import penstock, pathlib; print(pathlib.Path(penstock.__file__).parent)"],
                           check=True, capture_output=True, text=True).stdout.strip()
    to = out / "python" / "penstock"
    shutil.copytree(where, to, ignore=shutil.ignore_patterns("__pycache__"))
    for module in to.glob("_native*.so"):
        for path in libraries_of(module):
            shutil.copy2(path, out / "lib" / path.name)
    shutil.copy2(next(out.glob("lib/libpenstock_cuda.so")), to)


def by_size(path: Path) -> tuple[int, Path]:
    return path.stat().st_size, path


def images_below(folder: Path, suffixes: tuple[str, ...], smallest_first: bool = False) -> list[Path]:
    """Takes a file of each folder in turn, which gives a few files of many kinds. `smallest_first` begins with small files."""
    key = by_size if smallest_first else None
    groups = [sorted((path for path in group.rglob("*") if path.suffix.lower() in suffixes), key=key)
              for group in [folder, *sorted(p for p in folder.iterdir() if p.is_dir())]]
    taken: list[Path] = []
    for i in range(max((len(group) for group in groups), default=0)):
        taken += sorted({group[i] for group in groups if i < len(group)} - set(taken), key=key)
    return taken


def rgb_size(path: Path) -> tuple[int, int] | None:
    """Returns the width and height of a PNG if it is RGB with 8 bits."""
    head = path.read_bytes()[:26]
    width, height, bits, kind = struct.unpack(">IIBB", head[16:26])
    return (width, height) if (bits, kind) == (8, 2) else None


def frame_size(paths: list[Path]) -> tuple[int, int]:
    """Returns the most frequent image size that crops of 512 x 512 fit into, or FRAME."""
    sizes = Counter(size for size in map(rgb_size, paths) if size and min(size) >= 512)
    if not sizes or FRAME in sizes:
        return FRAME
    return sizes.most_common(1)[0][0]


# A program for the package's Python: argv = folder of JPEGs, folder of folders of PNGs, folder to write, tiers.
ENCODE = """
import sys
from pathlib import Path
import penstock as ps
jpegs, pictures, out = (Path(name) for name in sys.argv[1:4])
for path in sorted(jpegs.iterdir()):
    to = out / "pli-jpeg" / (path.stem + ".pli")
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        to.write_bytes(ps.pli.from_jpeg(path.read_bytes()))
    except ps.PenstockError as error:
        print(f"{path}: left out: {error}", file=sys.stderr)
for tier in sys.argv[4:]:
    for path in sorted(pictures.rglob("*.png")):
        name = f"pli-{tier}-frames" if path.parent.name == "frames" else f"pli-{tier}"
        to = out / name / (path.stem + ".pli")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_bytes(ps.pli.encode(ps.decode(path.read_bytes()), tier=tier))
"""


def carry_some(paths: list[Path], to: Path, share: int) -> None:
    to.mkdir(parents=True)
    used = 0
    for i, path in enumerate(paths):
        if used + path.stat().st_size <= share:
            used += path.stat().st_size
            shutil.copy2(path, to / f"{i:05}{path.suffix.lower()}")


def carry_data(data: Path, out: Path, limit: int) -> None:
    """Stores JPEGs and their PLI, and pictures in every PLI tier. Each tier gets about as many bytes as the PNGs."""
    room = limit - sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    jpegs, pictures = out / "data" / "jpeg", out / "data" / "pictures"
    pngs = images_below(data, (".png",), smallest_first=True)
    size = frame_size(pngs)
    carry_some(images_below(data, (".jpg", ".jpeg")), jpegs, room // 5)
    carry_some([path for path in pngs if rgb_size(path) == size], pictures / "frames", room // 10)
    carry_some([path for path in pngs if rgb_size(path) != size], pictures / "images", room // 9)
    call(ROOT / ".venv" / "bin" / "python", "-c", ENCODE, jpegs, pictures, out / "data", *TIERS)
    shutil.rmtree(pictures)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=ROOT / "examples" / "photographs")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "gpu")
    parser.add_argument("--limit-mb", type=int, default=48)
    parser.add_argument("--programs", action="store_true", help="no package and no images")
    args = parser.parse_args()
    build = ROOT / "build" / "gpu-build"
    shutil.rmtree(args.out, ignore_errors=True)
    for name in ("bin", "lib") if args.programs else ("bin", "lib", "python"):
        (args.out / name).mkdir(parents=True)
    build_programs(build)
    carry_programs(build, args.out)
    if not args.programs:
        carry_package(args.out)
        carry_data(args.data, args.out, args.limit_mb << 20)
    # Written last: without it, the folder is not whole (check_gpu.py).
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    (args.out / "commit").write_text(commit + "\n")
    total = sum(path.stat().st_size for path in args.out.rglob("*") if path.is_file())
    print(f"{args.out}: {total / 2**20:.1f} MiB")
    if total > args.limit_mb << 20:
        sys.exit(f"more than {args.limit_mb} MiB")


if __name__ == "__main__":
    main()
