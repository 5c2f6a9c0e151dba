#!/usr/bin/env python3
"""Makes containers anew by other software, each in an environment of its own, and compares their contents with the expected
samples.

    scripts/check_containers.py [BUILD [NAME ...]]

BUILD (build/containers) keeps the environments. NAME chooses sets of make_containers.py and folders of tables; all, if there
is none. If a library cannot be installed or fails, the script prints its name and the reason, and the check fails. The containers
of the other libraries are still compared. The versions are those of the files VERSIONS in tests/golden/containers and its folders.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "containers"
LIMIT_S = 1800  # seconds for one command; an installation fetches gigabytes
# The packages that each set of make_containers.py needs, in the order in which sets are made. Other sets need only Python and tar.
NEEDS = {"gnu_tar": [], "tarfile": [], "webdataset": ["webdataset"], "wids": ["wids", "webdataset", "torch"],
         "wds2idx": ["nvidia-dali-cuda130"], "energon": ["megatron-energon", "webdataset", "torch"]}


# The packages for each folder of tables and each set of its script ("" if the script has no sets). "unpacked:" marks a package
# whose Python files are copied: its compiled parts are not needed.
TABLES: dict[str, dict[str, list[str]]] = {
    "lmdb": {"lmdb": ["lmdb", "protobuf", "pillow", "numpy"], "flags": ["lmdb-for-flags"],
             "psize": ["lmdb-psize", "pillow", "numpy"]},
    "recordio": {"": ["mxnet", "numpy"]},
    "parquet": {"pyarrow": ["pyarrow", "numpy", "pillow"], "legacy": ["pyarrow", "numpy", "pillow", "fastparquet", "pandas"],
                "refused": ["pyarrow", "numpy", "pillow"], "datasets": ["datasets", "pyarrow", "numpy", "pillow"],
                "polars": ["polars", "pyarrow", "numpy", "pillow"], "duckdb": ["duckdb", "pyarrow", "numpy", "pillow"],
                "fastparquet": ["fastparquet", "pandas", "pyarrow", "numpy", "pillow"]},
    "arrow": {"": ["pyarrow", "datasets", "polars", "numpy", "pillow"]},
    "mds": {"": ["mosaicml-streaming", "numpy", "pillow"]},
    "tfrecord": {"": ["tensorflow-cpu", "tensorflow-datasets", "numpy", "protobuf"]},
    "beton": {"": ["torch", "numpy", "pillow", "opencv-python-headless", "numba", "tqdm", "psutil", "wheel", "setuptools",
                   "unpacked:ffcv"]},
}


WITH_FILES = {"arrow", "mds", "tfrecord"}  # folders whose scripts need the files of make_containers.py


def pinned(packages: list[str], folder: Path = GOLDEN) -> list[str]:
    """Returns the packages pinned to the versions that made the golden files, where VERSIONS states them."""
    stated = dict(line.split(" ", 1) for line in (folder / "VERSIONS").read_text().splitlines())
    named = [(name, name.partition(":")[2] or name) for name in packages]
    # "lmdb-for-flags": the package lmdb in another version, for the set "flags" alone
    return [f"{name.partition('-for-')[0]}=={stated[bare].partition('+')[0]}" if bare in stated else name for name, bare in named]


def ran(command: list[str], **more: str) -> str | None:
    """Runs a command. Returns None, or the last line of its output if it failed."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=LIMIT_S, check=False, env={**os.environ, **more})
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT_S} s"
    return (done.stdout.strip().splitlines() or ["no output"])[-1][:300] if done.returncode else None


def unpack(python: Path, place: Path, package: str) -> str | None:
    """Copies the Python files of a package into an environment without compiling it. Returns None, or the reason of a failure.

    pip asks the package for its metadata, and FFCV then calls pkg-config for OpenCV, so a script that always answers replaces
    pkg-config.
    """
    answers = place / "answers"
    answers.mkdir(exist_ok=True)
    (answers / "pkg-config").write_text("#!/bin/sh\necho -lturbojpeg\n")
    (answers / "pkg-config").chmod(0o755)
    problem = ran([str(python), "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", "--no-build-isolation", package,
                   "-d", str(place / "sources")], PATH=f"{answers}:{os.environ['PATH']}", PIP_CONSTRAINT=os.devnull)
    if problem:
        return problem
    site = next((place / "lib").glob("python3*")) / "site-packages"
    with tarfile.open(next((place / "sources").glob("*.tar.gz"))) as archive:
        archive.extractall(place / "sources", filter="data")
    source = next(path.parent for path in (place / "sources").glob("*/PKG-INFO"))
    name, version = package.split("==")
    shutil.copytree(source / name, site / name, dirs_exist_ok=True)
    (site / f"{name}-{version}.dist-info").mkdir(exist_ok=True)
    shutil.copyfile(source / "PKG-INFO", site / f"{name}-{version}.dist-info" / "METADATA")
    return None


def python_of(build: Path, name: str, packages: list[str]) -> tuple[Path, str | None]:
    """Returns the interpreter of an environment with these packages, and the reason if it could not be made."""
    if not packages:
        return Path(sys.executable), None
    python, ready = build / name / "bin" / "python", build / name / "ready"
    if ready.exists() and ready.read_text() == " ".join(packages):
        return python, None
    whole = [package for package in packages if not package.startswith("unpacked:")]
    problem = ran([sys.executable, "-m", "venv", "--clear", str(build / name)])
    problem = problem or ran([str(python), "-m", "pip", "install", "-q", *whole], PIP_CONSTRAINT=os.devnull)
    for package in packages:
        if package.startswith("unpacked:"):
            problem = problem or unpack(python, build / name, package.partition(":")[2])
    if problem is None:
        ready.write_text(" ".join(packages))
    return python, problem and f"did not install: {problem}"


def make_tables(build: Path, fresh: Path, chosen: list[str]) -> list[str]:
    """Makes the chosen folders of tables. Returns the folders that could not be made."""
    failures = []
    for folder, sets in TABLES.items():
        if folder not in chosen:
            continue
        more = [str(fresh / "files")] if folder in WITH_FILES else []
        script = GOLDEN / folder / f"make_{folder}.py"
        (fresh / folder).mkdir()
        for name, needs in sets.items():
            title = f"{folder} {name}".strip()
            python, problem = python_of(build, title.replace(" ", "-"), pinned(needs, GOLDEN / folder))
            problem = problem or ran([str(python), "-B", str(script), *([name] if name else []), str(fresh / folder), *more])
            print(f"{title}: {problem or 'made'}", flush=True)
            if problem:
                failures.append(title)
        if not any((fresh / folder).iterdir()):
            (fresh / folder).rmdir()  # an empty folder is removed: tests skip missing folders
    return failures


def main() -> int:
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "containers").resolve()
    chosen = sys.argv[2:] or [*NEEDS, *TABLES]
    if unknown := set(chosen) - {*NEEDS, *TABLES}:
        sys.exit(f"there is no {', '.join(sorted(unknown))}: {', '.join([*NEEDS, *TABLES])}")
    fresh = build / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    shutil.copytree(GOLDEN / "files", fresh / "files")
    failures = []
    for name in (name for name in NEEDS if name in chosen):
        python, problem = python_of(build, name, pinned(NEEDS[name]))
        problem = problem or ran([str(python), "-B", str(GOLDEN / "make_containers.py"), name, str(fresh)])
        print(f"{name}: {problem or 'made'}", flush=True)
        if problem:
            failures.append(name)
    failures += make_tables(build, fresh, chosen)
    tests = [f"python/tests/test_{name}_golden.py" for name, sets in (("containers", NEEDS), ("tables", TABLES))
             if not set(sets).isdisjoint(chosen)]
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *tests]
    compared = subprocess.run(command, cwd=ROOT, env={**os.environ, "PST_CONTAINERS": str(fresh)}, check=False).returncode
    if failures:
        print(f"not compared, for want of the software: {', '.join(failures)}")
    return 1 if failures or compared else 0


if __name__ == "__main__":
    sys.exit(main())
