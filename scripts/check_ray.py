#!/usr/bin/env python3
"""Runs the tests of penstock.ray and penstock.spark with Ray and Spark, in an environment of their own.

`make check-ray` and `make check-long` call it.

    scripts/check_ray.py [BUILD [PYTEST_ARGUMENT ...]]

BUILD (build/check) has the package (`ninja python_package`). build/ray keeps the environment, with the newest releases of Ray and
pyspark; a fresh one is made where there is none. Without a package index it says so, and is no failure. Without Java the tests of
Spark are skipped. One node of Ray and one session of Spark have 2 cores each, and end with the tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / "build" / "ray"
PACKAGES = ("ray[data]", "pyspark>=4", "numpy", "pillow", "pytest")
TESTS = ("test_ray.py", "test_ray_nodes.py", "test_spark.py")
LIMIT_S = 3600  # limit of one installation, which fetches and builds Spark (half a gigabyte)


def install() -> str | None:
    """Makes the environment; returns the last line of what pip said if that failed."""
    if (VENV / "ready").is_file():
        return None
    subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
    done = subprocess.run([VENV / "bin" / "python", "-m", "pip", "install", "--quiet", "--retries", "1", *PACKAGES], text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT_S)  # fmt: skip
    if done.returncode != 0:
        return (done.stdout.strip().splitlines() or ["pip failed"])[-1]
    (VENV / "ready").touch()
    return None


def main() -> int:
    build, *arguments = sys.argv[1:] or [str(ROOT / "build" / "check")]
    if problem := install():
        print(f"check-ray: skipped: {problem}" if "No matching distribution" in problem else f"check-ray: {problem}")
        return 0 if "No matching distribution" in problem else 1
    package = Path(build).resolve() / "tests" / "python"
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    tests = [ROOT / "python" / "tests" / name for name in TESTS]
    # Without conftest.py: it needs more packages, and these tests do not use it.
    command = [VENV / "bin" / "python", "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--noconftest", *tests, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
