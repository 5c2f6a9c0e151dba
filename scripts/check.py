#!/usr/bin/env python3
"""Runs every check, one step after another, and prints a summary. `make check` and `make check-long` call it after the set-up.

    scripts/check.py [--long] [--only STEP ...] [--list] [--set-up-since TIME]

Without --long: the checks that a change must pass. With it: the slower suites, which do not repeat these. check_steps.py has
the steps. All steps run even if one fails. At the end the script prints the skipped tests with their reasons and a table of the
steps: the seconds that each took beside its budget. A step over its budget is marked but does not fail, because machines differ.
The last line has the numbers of passed and failed tests. The exit status is 1 if any failed. --set-up-since names the second (date
+%s) at which the set-up before this script began; the table then has a line for it. Tests on data outside the repository run if
PST_SHARED_DATA names it or ../shared/data exists; otherwise they are skipped.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree
from dataclasses import dataclass, field
from pathlib import Path

from check_steps import ROOT, SET_UP_BUDGET_S, Step, check_steps, long_steps

CTEST_SUMMARY = re.compile(r"^\d+% tests passed(?:, (\d+) tests? failed)? out of (\d+)", re.MULTILINE)
CTEST_SKIPPED = re.compile(r"\*\*\*Skipped")
PYTEST_COUNT = re.compile(r"(\d+) (passed|failed|errors?|skipped|xfailed|xpassed)\b")
PYTEST_SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] (.*)$", re.MULTILINE)
CMOCKA_SKIPPED = re.compile(r"^\[  SKIPPED \] (?!\d+ test)(\w+)", re.MULTILINE)
PYTEST_SUMMARY = re.compile(r"^=*\s*((?:\d+ \w+(?:, )?)+) in [\d.]+s.*$", re.MULTILINE)


@dataclass
class Count:
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0
    budget_s: int = 0  # budget of the step in seconds; 0: it has none
    reasons: list[str] = field(default_factory=list)  # a line for each skipped test: name and reason


def count_output(kind: str, output: str, status: int) -> Count:
    """Counts the tests in a command's output. If the command failed, at least one test counts as failed."""
    count = Count()
    if kind == "ctest":
        for failed, total in CTEST_SUMMARY.findall(output):
            count.failed += int(failed or 0)  # ctest 4 prints no number if none failed
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
        count.failed = 1  # a suite that ran no test proves nothing
    return count


def skipped_by_ctest(report: Path) -> list[str]:
    """Returns the skipped tests: those that ctest's JUnit file lists, and those that cmocka programs skipped within one ctest
    test.
    """
    reasons = []
    for case in xml.etree.ElementTree.parse(report).getroot().iter("testcase"):
        output = case.findtext("system-out") or ""
        if case.find("skipped") is not None:
            lines = [line for line in output.splitlines() if line.strip()]
            reasons.append(f"{case.get('name')}: {lines[-1].strip() if lines else 'no reason given'}")
        reasons += [f"{case.get('name')}: {name}, part of it" for name in sorted(set(CMOCKA_SKIPPED.findall(output)))]
    return reasons


def skip_reasons(kind: str, command: list[str], output: str) -> list[str]:
    if kind == "ctest" and "--output-junit" in command:
        report = Path(command[command.index("--output-junit") + 1])
        return skipped_by_ctest(report) if report.is_file() else []
    if kind == "pytest":
        return [reason if number == "1" else f"{reason} ({number} tests)" for number, reason in PYTEST_SKIPPED.findall(output)]
    return []


def run(command: list[str], environment: dict[str, str]) -> tuple[int, str]:
    """Runs one command, shows its output as it comes, and returns it."""
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


def run_step(step: Step) -> Count:
    print(f"\n== {step.name}", flush=True)
    start = time.monotonic()
    total = Count()
    for i, command in enumerate(step.commands):
        status, output = run(command, step.environment)
        last = i == len(step.commands) - 1
        if status != 0 or last:
            total = count_output(step.kind, output, status)
            total.reasons = skip_reasons(step.kind, command, output)
        if status != 0:
            break
    total.seconds, total.budget_s = time.monotonic() - start, step.budget_s
    print(f"-- {step.name}: {total.passed} passed, {total.failed} failed, {total.skipped} skipped, "
          f"{total.seconds:.0f} s", flush=True)
    return total


def summary(results: dict[str, Count]) -> str:
    """Prints each skipped test with its reason once, and a table of the steps."""
    where: dict[str, list[str]] = {}
    for name, count in results.items():
        for reason in count.reasons:
            where.setdefault(reason, []).append(name)
    lines = [f"skipped in {', '.join(dict.fromkeys(names))}: {reason}" for reason, names in where.items()]
    lines += ["", f"{'step':16} {'seconds':>8} {'budget':>7} {'passed':>7} {'failed':>7} {'skipped':>8}"]
    for name, count in results.items():
        over = count.seconds - count.budget_s
        lines.append(f"{name:16} {count.seconds:8.0f} {count.budget_s or '-':>7} {count.passed:7} {count.failed:7} "
                     f"{count.skipped:8}" + f"   {over:.0f} s over its budget" * (count.budget_s > 0 and over >= 0.5))
    total, budget = sum(count.seconds for count in results.values()), sum(count.budget_s for count in results.values())
    allowed = f" of {budget / 60:.1f}" if budget else ""
    lines.append(f"{'all':16} {total:8.0f} {budget or '-':>7}   ({total / 60:.1f} minutes{allowed})")
    return "\n".join(lines)


def shared_data() -> dict[str, str]:
    """Returns the environment variable that names the folder of real images. These may not be in the repository."""
    if "PST_SHARED_DATA" in os.environ:
        return {}
    beside = ROOT.parent / "shared" / "data"
    return {"PST_SHARED_DATA": str(beside)} if beside.is_dir() else {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", help="the slower suites")
    parser.add_argument("--only", nargs="+", metavar="STEP")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--set-up-since", type=int, metavar="TIME", help="when the set-up began, in seconds since 1970")
    arguments = parser.parse_args()
    every = long_steps() if arguments.long else check_steps()
    if arguments.list:
        print("\n".join(step.name for step in every))
        return 0
    if arguments.only:
        unknown = set(arguments.only) - {step.name for step in every}
        if unknown:
            parser.error("no such step: " + ", ".join(sorted(unknown)))
        every = [step for step in every if step.name in arguments.only]
    os.environ.update(shared_data())
    # The caller's environment must not change the settings of tests.
    for name in [name for name in os.environ if name.startswith("PENSTOCK_")]:
        del os.environ[name]
    if shutil.which("ccache"):
        os.environ.setdefault("CMAKE_C_COMPILER_LAUNCHER", "ccache")

    results = {}
    if arguments.set_up_since is not None:
        results["set-up"] = Count(seconds=time.time() - arguments.set_up_since, budget_s=SET_UP_BUDGET_S)
    results |= {step.name: run_step(step) for step in every}
    print("\n" + summary(results))
    failures = [name for name, count in results.items() if count.failed]
    if failures:
        print("failed: " + ", ".join(failures))
    print(f"{sum(count.skipped for count in results.values())} skipped")
    print(f"{sum(count.passed for count in results.values())} passed, "
          f"{sum(count.failed for count in results.values())} failed", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
