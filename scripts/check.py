#!/usr/bin/env python3
"""Runs every check, one step after another, and sums up. `make check` calls it after the set-up.

    scripts/check.py [--only STEP ...] [--list]

All steps run even if one fails. The last line says how many tests passed and how many failed; the exit status is 1 if
any failed. Tests on data outside the repository run where PST_SHARED_DATA names it or ../shared/data exists; elsewhere
they skip.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
PYTHON = sys.executable
CTEST_SUMMARY = re.compile(r"^\d+% tests passed(?:, (\d+) tests? failed)? out of (\d+)", re.MULTILINE)
CTEST_SKIPPED = re.compile(r"\*\*\*Skipped")
PYTEST_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)\b")
PYTEST_SUMMARY = re.compile(r"^=*\s*((?:\d+ \w+(?:, )?)+) in [\d.]+s.*$", re.MULTILINE)


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0


@dataclass
class Step:
    """Commands run in order until one fails. `kind`: how to count, as ctest, as pytest, or as one test ("script")."""

    name: str
    kind: str
    commands: list[list[str]]
    environment: dict[str, str] = field(default_factory=dict)


def count_output(kind: str, output: str, status: int) -> Count:
    """What a command's output says of its tests. A failing status never counts as nothing failed."""
    count = Count()
    if kind == "ctest":
        for failed, total in CTEST_SUMMARY.findall(output):
            count.failed += int(failed or 0)  # ctest 4 says nothing where none failed
            count.passed += int(total) - int(failed or 0)
        skipped = len(CTEST_SKIPPED.findall(output))
        count.skipped, count.passed = skipped, count.passed - skipped
    elif kind == "pytest":
        for line in PYTEST_SUMMARY.findall(output):
            for number, word in PYTEST_COUNT.findall(line):
                name = {"passed": "passed", "xfailed": "passed", "skipped": "skipped"}.get(word, "failed")
                setattr(count, name, getattr(count, name) + int(number))
    elif kind == "script":
        count.passed = 1 if status == 0 else 0
    if status != 0 and count.failed == 0:
        count.failed = 1
    if status == 0 and kind in ("ctest", "pytest") and count.passed + count.skipped == 0:
        count.failed = 1  # a suite that ran nothing proves nothing
    return count


def run(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Runs one command, its output shown as it comes and returned as well."""
    print("$ " + " ".join(f"{key}={value}" for key, value in environment.items()) + " " * bool(environment)
          + " ".join(command), flush=True)
    lines = []
    with subprocess.Popen(command, cwd=ROOT, env={**os.environ, **environment}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
        for line in process.stdout:
            sys.stdout.write(line)
            sys.stdout.flush()
            lines.append(line)
    return process.returncode, "".join(lines)


def build(preset: str, *targets: str) -> list[list[str]]:
    return [["cmake", "--preset", preset, "--log-level=WARNING"],
            ["cmake", "--build", str(BUILD / preset), "--", "--quiet", *targets]]


def ctest(preset: str, *arguments: str) -> list[str]:
    return ["ctest", "--test-dir", str(BUILD / preset), "--output-on-failure", "--no-tests=error",
            "-j", str(os.cpu_count() or 1), "-LE", "^long$", *arguments]


def steps() -> list[Step]:
    installed = BUILD / "installed"
    by_level = "decode|encode|pli|golden|augment|loader"
    # The level that the machine has by itself is the one that all other steps run at.
    below = ("c", "avx2") if "avx512bw" in Path("/proc/cpuinfo").read_text() else ("c",)
    levels = [Step(f"level-{level}", "ctest", [ctest("check", "-L", by_level)], {"PENSTOCK_CPU_MASK": level})
              for level in below]
    kernels = [Step("cuda", "script", [[PYTHON, "scripts/check_cuda.py"]])] if shutil.which("nvcc") else []
    return [
        Step("rooms", "script", [[PYTHON, "scripts/check_rooms.py"]]),
        Step("style", "script", [[PYTHON, "scripts/check_style.py"]]),
        Step("docs", "script", [[PYTHON, "scripts/check_docs.py"]]),
        Step("scripts", "pytest", [[PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/scripts"]]),
        *kernels,
        Step("build", "script", build("check")),
        Step("ctest", "ctest", [ctest("check", "-LE", "^long$")]),
        *levels,
        Step("symbols", "script", [[PYTHON, "scripts/check_symbols.py", str(BUILD / "check")]]),
        Step("clang", "script", build("clang", "penstock", "penstock_static", "penstock_cli")),
        Step("build-asan", "script", build("asan")),
        Step("asan", "ctest", [ctest("asan", "-E", "_slow$", "-LE", "^long$")],  # those are scripts: nothing to sanitize
             {"ASAN_OPTIONS": "detect_stack_use_after_return=1:strict_string_checks=1",
              "UBSAN_OPTIONS": "print_stacktrace=1"}),
        Step("build-tsan", "script", build("tsan", "threaded_tests")),
        Step("tsan", "ctest", [ctest("tsan", "-L", "base|batch|device|loader|storage")],
             {"TSAN_OPTIONS": "halt_on_error=1 second_deadlock_stack=1"}),
        Step("install", "script", [
            ["cmake", "-G", "Ninja", "-S", ".", "-B", str(BUILD / "plain"), "-DCMAKE_BUILD_TYPE=Release",
             "-DPST_CUDA=OFF",  # the package has compiled the kernels
             f"-DCMAKE_INSTALL_PREFIX={installed}", "--log-level=WARNING"],
            ["cmake", "--build", str(BUILD / "plain"), "--", "--quiet"],
            ["cmake", "--install", str(BUILD / "plain")],
        ]),
        Step("examples", "script", [[PYTHON, "scripts/check_install.py", str(installed)]]),
        Step("types", "script", [[PYTHON, "scripts/check_types.py"]]),
        Step("python", "pytest", [[PYTHON, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "python/tests"]],
             {"PST_TEST_CARD": str(BUILD / "check" / "tests" / "device")}),
    ]


def run_step(step: Step) -> tuple[Count, bool]:
    print(f"\n== {step.name}", flush=True)
    start = time.monotonic()
    total = Count()
    for i, command in enumerate(step.commands):
        status, output = run(command, step.environment)
        last = i == len(step.commands) - 1
        if status != 0 or last:
            total = count_output(step.kind, output, status)
        if status != 0:
            break
    print(f"-- {step.name}: {total.passed} passed, {total.failed} failed, {total.skipped} skipped, "
          f"{time.monotonic() - start:.0f} s", flush=True)
    return total, total.failed == 0


def shared_data() -> dict[str, str]:
    """Where tests find real images that the repository may not contain."""
    if "PST_SHARED_DATA" in os.environ:
        return {}
    beside = ROOT.parent / "shared" / "data"
    return {"PST_SHARED_DATA": str(beside)} if beside.is_dir() else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", metavar="STEP")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    every = steps()
    if arguments.list:
        print("\n".join(step.name for step in every))
        return 0
    if arguments.only:
        unknown = set(arguments.only) - {step.name for step in every}
        if unknown:
            parser.error("no such step: " + ", ".join(sorted(unknown)))
        every = [step for step in every if step.name in arguments.only]
    os.environ.update(shared_data())
    # A suite under test must not see the settings of whoever runs it.
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        del os.environ[name]
    if shutil.which("ccache"):
        os.environ.setdefault("CMAKE_C_COMPILER_LAUNCHER", "ccache")

    total, failures = Count(), []
    for step in every:
        count, good = run_step(step)
        total.passed += count.passed
        total.failed += count.failed
        total.skipped += count.skipped
        if not good:
            failures.append(step.name)
    print()
    if failures:
        print("failed: " + ", ".join(failures))
    print(f"{total.skipped} skipped")
    print(f"{total.passed} passed, {total.failed} failed", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
