#!/usr/bin/env python3
"""Runs the tests of penstock.torchft with torchft itself, in an environment of its own: replicas that join, leave and die.

`make check-torchft` and `make check-long` call it.

    scripts/check_torchft.py [BUILD [PYTEST_ARGUMENT ...]]

BUILD (build/check) has the package (`ninja python_package`). build/torchft keeps the environment with the newest release of
torchft; torch and what tests need are those of .venv. A missing environment is made. If there is no package index, the script says
so and does not fail.
"""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

from own_environment import NO_INDEX, ROOT, OwnEnvironment


def main() -> int:
    build, *arguments = sys.argv[1:] or [str(ROOT / "build" / "check")]
    environment = OwnEnvironment("torchft", ("torchft",), beside=Path(sysconfig.get_path("purelib")))
    if problem := environment.install():
        print(f"check-torchft: {'skipped: ' if NO_INDEX in problem else ''}{problem}")
        return int(NO_INDEX not in problem)
    return environment.run(build, ROOT / "python" / "tests" / "test_torchft.py", *arguments)


if __name__ == "__main__":
    sys.exit(main())
