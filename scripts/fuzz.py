#!/usr/bin/env python3
"""Runs every fuzz target for some time, one after another, and writes a summary.

    scripts/fuzz.py BUILD [--seconds 600] [--only fuzz_x ...] [--findings build/fuzz-findings] [--json FILE]

Each target starts from its corpus (tests/fuzz/corpus/<what>) and the inputs that earlier runs kept (build/fuzz-corpus/<what>).
Inputs that crash, hang or leak are kept below --findings; the exit status is 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAT = re.compile(r"^stat::(\w+):\s+(\d+)", re.MULTILINE)


def targets(build: Path) -> list[Path]:
    return sorted(path for path in build.rglob("fuzz_*") if path.is_file() and os.access(path, os.X_OK)
                  and path.suffix == "" and "CMakeFiles" not in path.parts)


def fuzz(program: Path, seconds: int, findings: Path) -> dict:
    what = program.name.removeprefix("fuzz_")
    grown = ROOT / "build" / "fuzz-corpus" / what
    kept = findings / what
    grown.mkdir(parents=True, exist_ok=True)
    kept.mkdir(parents=True, exist_ok=True)
    before = set(kept.iterdir())
    seeds = ROOT / "tests" / "fuzz" / "corpus" / what
    command = [str(program), f"-max_total_time={seconds}", "-timeout=20", "-rss_limit_mb=3072", "-malloc_limit_mb=2048",
               "-print_final_stats=1", "-verbosity=1", f"-artifact_prefix={kept}/", str(grown)]
    command += [str(seeds)] * seeds.is_dir()
    log = kept.with_suffix(".log")
    start = time.monotonic()
    with log.open("w") as out:
        status = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL).returncode
    text = log.read_text(errors="replace")
    stats = {name: int(value) for name, value in STAT.findall(text)}
    covered = re.findall(r"\bcov: (\d+)", text)
    return {
        "target": program.name,
        "seconds": round(time.monotonic() - start, 1),
        "runs": stats.get("number_of_executed_units", 0),
        "runs_per_second": stats.get("average_exec_per_sec", 0),
        "edges": int(covered[-1]) if covered else 0,
        "corpus_files": len(list(grown.iterdir())),
        "peak_rss_mb": stats.get("peak_rss_mb", 0),
        "status": status,
        "findings": sorted(str(path) for path in set(kept.iterdir()) - before),
        "log": str(log),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--only", nargs="+", metavar="TARGET")
    parser.add_argument("--findings", type=Path, default=ROOT / "build" / "fuzz-findings")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "fuzz.json")
    arguments = parser.parse_args()
    programs = [program for program in targets(arguments.build)
                if not arguments.only or program.name in arguments.only]
    if not programs:
        sys.exit(f"{arguments.build}: no fuzz target there")
    results, bad = [], False
    for program in programs:
        result = fuzz(program, arguments.seconds, arguments.findings)
        results.append(result)
        failed = result["status"] != 0 or bool(result["findings"]) or result["runs"] == 0
        bad = bad or failed
        verdict = "FINDING: " + result["log"] if failed else "nothing found"
        print(f"{result['target']:24s} {result['seconds']:7.1f} s {result['runs']:12,d} runs "
              f"{result['edges']:6d} edges {result['peak_rss_mb']:5d} MB  {verdict}", flush=True)
    arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{sum(not r['findings'] and r['status'] == 0 for r in results)} of {len(results)} targets without a finding")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
