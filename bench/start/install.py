#!/usr/bin/env python3
"""From nothing to the first batch, by package: install.py --data DIR --build DIR --out DIR [--packages penstock,dali] [--rounds 5]

For each package: the size of its own wheels, the size of site-packages after `pip install` with all dependencies, and the seconds
from an empty virtual environment to a batch of 64 pictures: pip installs from a folder of wheels (fetched before, so no network is
timed), then a new process imports the package and makes the batch (first_batch.py), timed from the start of its interpreter. Other
such processes tell how much of that are imports (python -X importtime). Files are in the page cache. FFCV has no wheel: the seconds
of building it are stated separately. Writes start-<date>.json and .md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
import runner  # noqa: E402
import common  # noqa: E402
import environments  # noqa: E402

DIST = ROOT / "build" / "dist"
SHAPES = ([64, 224, 224, 3], [64, 3, 224, 224])


@dataclass(frozen=True)
class Package:
    title: str
    own: tuple[str, ...]  # beginnings of the names of the package's own wheels
    needs: tuple[str, ...]  # requirements, as given to pip
    pins: str = ""  # of bench/loader/pins
    debian: tuple[str, ...] = ()
    built: tuple[str, ...] = ()  # packages that are built from source, because PyPI has no wheel


PACKAGES = {
    "penstock": Package("Penstock", ("penstock-",), ("penstock", "numpy")),
    "pillow": Package("Pillow", ("pillow-",), ("pillow", "numpy")),
    "simplejpeg": Package("simplejpeg", ("simplejpeg-",), ("simplejpeg", "numpy")),
    "torchcodec": Package("TorchCodec", ("torchcodec-",), ("torchcodec", "torch==2.13.0", "numpy"),
                          debian=("ffmpeg",)),
    "spdl": Package("SPDL", ("spdl", "spdl_core", "spdl_io"), ("spdl", "numpy"), "spdl", ("ffmpeg",)),
    "ffcv": Package("FFCV", ("ffcv-",), environments.ENVIRONMENTS["ffcv"].packages, "ffcv",
                    environments.ENVIRONMENTS["ffcv"].debian, ("ffcv",)),
    "dali": Package("DALI", ("nvidia_dali",), ("nvidia-dali-cuda130", "numpy"), "dali"),
}


def nbytes_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir())


def run(*command: str | Path, **options) -> float:
    """Runs a command. Returns its seconds. If it fails, ends the measurement of the package with the reason."""
    begun = time.perf_counter()
    done = subprocess.run([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False, **options)
    if done.returncode != 0:
        raise common.Unavailable(environments.reason_of(done.stdout))
    return time.perf_counter() - begun


def fetch(package: Package, wheels: Path) -> dict[str, float]:
    """Downloads all wheels into a folder. Returns the seconds of building wheels for packages that have none."""
    wheels.mkdir(parents=True, exist_ok=True)
    pins = ["-c", HERE.parent / "loader" / "pins" / f"{package.pins}.txt"] if package.pins else []
    options = ["--quiet", "--disable-pip-version-check", "--find-links", DIST, *pins]
    if reason := environments.install_debian(wheels, package.debian):
        raise common.Unavailable(reason)
    if not list(wheels.glob("*.whl")):
        run(sys.executable, "-m", "pip", "download", *options, "--prefer-binary", "--dest", wheels, *package.needs)
    for source in wheels.glob("*.tar.gz"):  # source packages of dependencies, all pure Python
        run(sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--wheel-dir", wheels,
            source)
        source.unlink()
    if not package.built or all(list(wheels.glob(f"{name}-*.whl")) for name in package.built):
        return {}
    helper = fresh(wheels.parent / "builder")
    run(helper, "-m", "pip", "install", "--quiet", "--no-index", "--find-links", wheels, *package.needs)
    took = run(helper, "-m", "pip", "wheel", *options, "--no-cache-dir", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels,
               *package.built)
    return {"build_s": round(took, 1)}


def fresh(folder: Path) -> Path:
    """Makes an empty virtual environment. Returns the path of its Python."""
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "venv", folder)
    return folder / "bin" / "python"


def imports_ms(command: list[str], folder: Path) -> float:
    """Returns the time that a process spends in imports, those of the interpreter's own start included."""
    done = subprocess.run([command[0], "-X", "importtime", *command[1:]], check=True, capture_output=True, text=True, cwd=folder)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:") and "[us]" not in line]
    return sum(int(line.split(":")[1].split("|")[0]) for line in lines) / 1e3


def import_ms(batch: list[str], rounds: int, folder: Path) -> float:
    """Returns the median time in imports of processes that make a batch, less that of the interpreter's own start. An `import` of
    the package alone would not tell: packages load parts of themselves when these are first used.
    """
    times = [imports_ms(batch, folder) - imports_ms([batch[0], "-c", "pass"], folder) for _ in range(rounds)]
    return round(statistics.median(times), 1)


def measure(name: str, args: argparse.Namespace) -> dict:
    package, work = PACKAGES[name], args.build / "start" / name
    found: dict = {"package": name, **fetch(package, work / "wheels")}
    own = [path for path in (work / "wheels").glob("*.whl") if path.name.lower().startswith(package.own)]
    found |= {"wheel_mb": round(sum(path.stat().st_size for path in own) / 1e6, 2), "version": own[0].name.split("-")[1]}
    installs, firsts = [], []
    for _ in range(args.installs):
        python = fresh(work / "venv")
        [site] = (work / "venv" / "lib").glob("python*/site-packages")
        empty = nbytes_of(site)
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--find-links",
               work / "wheels")
        took = run(*pip, *package.needs)
        installs.append(took + (run(*pip, "--no-deps", *package.built) if package.built else 0.0))
        found["installed_mb"] = round((nbytes_of(site) - empty) / 1e6, 1)
    command = [str(python), str(HERE / "first_batch.py"), name, str(args.data)]
    for _ in range(args.rounds):
        begun = time.perf_counter()
        batch = runner.run_cell(command, {**os.environ}, 300, lambda: os.chdir(args.inside))
        firsts.append(time.perf_counter() - begun)
        if "absent" in batch:
            raise common.Unavailable(batch["absent"])
        if batch["shape"] not in SHAPES or not 20 < batch["mean"] < 235:
            raise common.Unavailable(f"its batch is {batch}")
    found |= {"import_ms": import_ms(command, args.rounds, args.inside), "install_s": round(statistics.median(installs), 1),
              "first_batch_s": round(statistics.median(firsts), 2)}
    return found | {"from_nothing_s": round(found["install_s"] + found["first_batch_s"], 1)}


def table(merged: dict) -> str:
    machine, settings = merged["machine"], merged["settings"]
    out = [f"{machine['cpu']}, {machine['cores']} cores; commit {machine['commit'] or 'unknown'}; {machine['date']}. Medians of "
           f"{settings['rounds']} processes and {settings['installs']} installations, wheels and files in the page cache.", "",
           "| package | its wheels, MB | installed with all it needs, MB | imports, ms | pip install, s | first batch, s | "
           "from nothing, s | building, s |", "|---" * 8 + "|"]
    for cell in merged["cells"]:
        title = PACKAGES[cell["package"]].title
        if "absent" in cell:
            out.append(f"| {title} | {cell['absent'].replace('|', '/')} |" + " |" * 6)
            continue
        keys = ("wheel_mb", "installed_mb", "import_ms", "install_s", "first_batch_s", "from_nothing_s")
        out.append(f"| {title} {cell['version']} | {' | '.join(str(cell[key]) for key in keys)} | {cell.get('build_s', '-')} |")
    return "\n".join(out) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with 64 JPEGs or more, in folders of classes")
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--packages", default="*", help=f"of {', '.join(PACKAGES)}")
    parser.add_argument("--rounds", type=int, default=5, help="processes that make a batch (%(default)s)")
    parser.add_argument("--installs", type=int, default=3, help="installations (%(default)s)")
    args = parser.parse_args()
    args.data, args.build = args.data.resolve(), args.build.resolve()
    if not list(DIST.glob("penstock-*.whl")):
        sys.exit(f"no wheel of Penstock in {DIST}: make wheels")
    args.inside = args.build / "start" / "here"  # the folder in which processes run, because FFCV writes a file
    args.inside.mkdir(parents=True, exist_ok=True)
    for path in args.data.rglob("*"):
        if path.is_file():
            path.read_bytes()
    cells = []
    for name in runner.chosen(args.packages, tuple(PACKAGES)):
        try:
            cells.append(measure(name, args))
        except common.Unavailable as reason:
            cells.append({"package": name, "absent": str(reason)})
        runner.said(cells[-1])
    merged = {"bench": "start", "machine": runner.machine(), "settings": {"rounds": args.rounds, "installs": args.installs},
              "cells": cells}
    stem = args.out / f"start-{merged['machine']['date']}"
    runner.write(stem, merged, table(merged))
    print(f"{stem}.json, .md")


if __name__ == "__main__":
    main()
