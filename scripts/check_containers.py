#!/usr/bin/env python3
"""Makes tars and indexes anew by other software, each in an environment of its own, and compares them with their files.

    scripts/check_containers.py [BUILD]

BUILD (build/containers) keeps the environments. A library that cannot be installed, or that fails, is named with the reason, and
makes the check fail; what the others made is compared all the same. The versions are those of tests/golden/containers/VERSIONS.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden" / "containers"
LIMIT_S = 1800  # of one command: an installation fetches gigabytes
# By set of make_containers.py, in order: what it needs from a package index. Others need nothing but Python and tar.
NEEDS = {"gnu_tar": [], "tarfile": [], "webdataset": ["webdataset"], "wids": ["wids", "webdataset"],
         "wds2idx": ["nvidia-dali-cuda130"], "energon": ["megatron-energon", "webdataset", "torch"]}


def pinned(packages: list[str]) -> list[str]:
    """The packages with the versions of the golden files, where these are stated."""
    stated = dict(line.split(" ", 1) for line in (GOLDEN / "VERSIONS").read_text().splitlines())
    return [f"{name}=={stated[name]}" if name in stated else name for name in packages]


def ran(command: list[str], **more: str) -> str | None:
    """Runs a command; returns None, or the last line of what it said if it failed."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=LIMIT_S, check=False, env={**os.environ, **more})
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT_S} s"
    return (done.stdout.strip().splitlines() or ["no output"])[-1][:300] if done.returncode else None


def python_of(build: Path, name: str) -> tuple[Path, str | None]:
    """The interpreter of a set's environment, and why it could not be made."""
    packages = pinned(NEEDS[name])
    if not packages:
        return Path(sys.executable), None
    python, ready = build / name / "bin" / "python", build / name / "ready"
    if ready.exists() and ready.read_text() == " ".join(packages):
        return python, None
    problem = ran([sys.executable, "-m", "venv", "--clear", str(build / name)])
    problem = problem or ran([str(python), "-m", "pip", "install", "-q", *packages], PIP_CONSTRAINT=os.devnull)
    if problem is None:
        ready.write_text(" ".join(packages))
    return python, problem and f"did not install: {problem}"


def main() -> int:
    build = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build" / "containers").resolve()
    fresh = build / "fresh"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    shutil.copytree(GOLDEN / "files", fresh / "files")
    failures = []
    for name in NEEDS:
        python, problem = python_of(build, name)
        problem = problem or ran([str(python), "-B", str(GOLDEN / "make_containers.py"), name, str(fresh)])
        print(f"{name}: {problem or 'made'}", flush=True)
        if problem:
            failures.append(name)
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "python/tests/test_containers_golden.py"]
    compared = subprocess.run(command, cwd=ROOT, env={**os.environ, "PST_CONTAINERS": str(fresh)}, check=False).returncode
    if failures:
        print(f"not compared, for want of the software: {', '.join(failures)}")
    return 1 if failures or compared else 0


if __name__ == "__main__":
    sys.exit(main())
