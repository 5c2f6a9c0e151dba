#!/usr/bin/env python3
"""Runs the tests of penstock.ray and penstock.spark with Ray and Spark, in environments of their own.

`make check-ray` and `make check-long` call it.

    scripts/check_ray.py [--only newest|oldest] [BUILD [PYTEST_ARGUMENT ...]]

BUILD (build/check) has the package (`ninja python_package`). build/ray keeps an environment with the newest releases of Ray and
pyspark, build/ray-oldest one with the oldest release of Ray that the extra `ray` of the package admits. Missing environments are
made. If there is no package index, the script says so and does not fail. Without Java the tests of Spark are skipped. One node of
Ray and one session of Spark have 2 cores each, and end with the tests.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib

from own_environment import NO_INDEX, ROOT, OwnEnvironment

COMMON = ("numpy", "pillow", "pytest")
RAY_TESTS = ("test_ray.py", "test_ray_nodes.py")
TESTS = {"newest": (*RAY_TESTS, "test_spark.py"), "oldest": RAY_TESTS}


def oldest() -> str:
    """Returns the requirement for the oldest release of Ray that the package allows."""
    extras = tomllib.loads((ROOT / "python" / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    [(name, version)] = re.findall(r"^(ray\[data\])>=([0-9.]+)$", "\n".join(extras["ray"]), re.MULTILINE)
    return f"{name}=={version}.*"


def environments() -> dict[str, OwnEnvironment]:
    return {"newest": OwnEnvironment("ray", ("ray[data]", "pyspark>=4", *COMMON)),
            "oldest": OwnEnvironment("ray-oldest", (oldest(), *COMMON))}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=TESTS)
    parser.add_argument("build", nargs="?", default=str(ROOT / "build" / "check"))
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    given = parser.parse_args()
    status, n_tried = 0, 0
    for name, environment in environments().items():
        if given.only not in (None, name):
            continue
        if problem := environment.install():
            # If the index has the newest release, it has the oldest one, too.
            skipped = NO_INDEX in problem and n_tried == 0
            print(f"check-ray: {name}: {'skipped: ' if skipped else ''}{problem}")
            status |= not skipped
            continue
        n_tried += 1
        print(f"check-ray: {name}: {' '.join(environment.packages)}", flush=True)
        # conftest.py is not used: it needs more packages than these environments have.
        tests = [ROOT / "python" / "tests" / test for test in TESTS[name]]
        status |= environment.run(given.build, "--noconftest", *tests, *given.arguments)
    return int(status)


if __name__ == "__main__":
    sys.exit(main())
