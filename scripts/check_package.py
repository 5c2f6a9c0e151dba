#!/usr/bin/env python3
"""Runs tests of the Python package with an extension module that a preset built, instead of the installed one.

    scripts/check_package.py BUILD [--asan] PYTEST_ARGUMENT ...

BUILD/tests/python/penstock is the package (`ninja python_package`). With --asan the extension is one that was built with
AddressSanitizer; the sanitizer's library is loaded into the interpreter first. Leaks are not detected then, because the interpreter
itself leaks. Tests that cannot run with AddressSanitizer are left out; a table names them with the reasons.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHERE = "import sys, penstock; sys.exit(0 if penstock.__file__.startswith(sys.argv[1]) else penstock.__file__)"
# If a thread allocates while another one forks, the lock of the sanitizer's allocator stays taken in the child, which then waits
# for ever.
FORKS = "it forks beside the loader's threads"
# Python tests that cannot run with AddressSanitizer, by pytest's names below python/.
WITHOUT_ASAN = {
    "tests/test_leaks.py": "memory that was freed stays resident, in quarantine",
    "tests/test_bad_input.py::test_memory_stays_over_many_epochs": "memory that was freed stays resident, in quarantine",
    "tests/test_functions.py::test_an_exception_while_workers_end[fork]": FORKS,
    "tests/test_host_cache.py::test_images_in_workers_of_torch_are_one_copy[fork]": "it forks beside the session's thread",
    "tests/test_loader_order.py::test_a_fork_after_the_last_batch_ends_there": FORKS,
    "tests/test_loader_ranks.py::test_a_loader_made_before_its_processes": FORKS,
    "tests/test_torch.py::test_epochs_that_repeat_their_augmentations_are_warned_of[2]": FORKS,
    "tests/test_readme.py::test_page[docs/guide": "pages of the guide start compilers, services and packages of others",
    "tests/test_readme.py::test_peers": "the same",
    "tests/test_import.py": "times and names of what an import loads are those of the sanitizer",
}


def compiler_of(build: Path) -> tuple[str, str]:
    """Returns the C compiler of a build, and that compiler's name for AddressSanitizer's library."""
    cache = (build / "CMakeCache.txt").read_text()
    compiler = re.search(r"^CMAKE_C_COMPILER:\w+=(.+)$", cache, re.MULTILINE)
    if compiler is None:
        sys.exit(f"{build}/CMakeCache.txt names no compiler")
    version = subprocess.run([compiler[1], "--version"], check=True, capture_output=True, text=True).stdout
    return compiler[1], f"libclang_rt.asan-{os.uname().machine}.so" if "clang" in version else "libasan.so"


def asan_environment(build: Path) -> dict[str, str]:
    """Returns the environment that preloads AddressSanitizer's library, and C++'s, because the sanitizer intercepts exceptions (of
    torch).
    """
    compiler, sanitizer = compiler_of(build)
    libraries = []
    for name in (sanitizer, "libstdc++.so"):
        found = subprocess.run([compiler, f"-print-file-name={name}"], check=True, capture_output=True, text=True).stdout.strip()
        if not Path(found).is_absolute():
            sys.exit(f"{compiler} has no {name}")
        libraries.append(str(Path(found).resolve()))
    options = ("detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1"
               ":allow_addr2line=1")
    return {"LD_PRELOAD": " ".join(libraries), "ASAN_OPTIONS": options, "UBSAN_OPTIONS": "print_stacktrace=1",
            "PYTHONMALLOC": "malloc"}


def main() -> int:
    build, *arguments = sys.argv[1:]
    package = Path(build).resolve() / "tests" / "python"
    environment = {**os.environ, "PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"}
    if arguments[:1] == ["--asan"]:
        arguments = arguments[1:]
        environment |= asan_environment(Path(build))
        for path, reason in WITHOUT_ASAN.items():
            print(f"left out: {path}: {reason}")
            arguments.append(f"--deselect={path}")
    found = subprocess.run([sys.executable, "-c", WHERE, str(package)], cwd=ROOT, env=environment, capture_output=True, text=True)
    if found.returncode != 0:
        print(f"not the package of {package}: {found.stderr.strip()}")
        return 1
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
