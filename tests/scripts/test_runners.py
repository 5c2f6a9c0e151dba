"""fuzz.py and bench.py must not report success after a finding, a crash or missing figures. Shell scripts replace the programs."""

import json
import stat
import sys

import pytest

import bench
import fuzz

STATS = 'echo "stat::number_of_executed_units: 100" >&2; echo "#1 INITED cov: 7 ft: 1" >&2'


def program(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def run_fuzz(tmp_path, monkeypatch, text):
    program(tmp_path / "build" / "tests" / "fuzz" / "fuzz_x", text)
    monkeypatch.setattr(fuzz, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["fuzz.py", str(tmp_path / "build"), "--seconds", "1", "--findings",
                                      str(tmp_path / "findings"), "--json", str(tmp_path / "fuzz.json")])
    status = fuzz.main()
    return status, json.loads((tmp_path / "fuzz.json").read_text())[0]


def test_fuzz_without_a_finding(tmp_path, monkeypatch):
    status, result = run_fuzz(tmp_path, monkeypatch, STATS)
    assert status == 0
    assert (result["target"], result["runs"], result["edges"], result["findings"]) == ("fuzz_x", 100, 7, [])


@pytest.mark.parametrize("text", [
    STATS + "; exit 77",
    STATS + "; for a; do case $a in -artifact_prefix=*) echo x >${a#*=}crash-1 ;; esac; done",
    "exit 0",
])
def test_fuzz_with_a_finding_a_crash_or_no_run(tmp_path, monkeypatch, text):
    assert run_fuzz(tmp_path, monkeypatch, text)[0] == 1


def test_fuzz_without_targets(tmp_path, monkeypatch):
    (tmp_path / "build").mkdir()
    monkeypatch.setattr(sys, "argv", ["fuzz.py", str(tmp_path / "build")])
    with pytest.raises(SystemExit, match="no fuzz target"):
        fuzz.main()


@pytest.mark.parametrize("text, expected", [
    ('echo "{}" >$2', 0),
    ('echo "{}" >$2; exit 1', 1),
    ('echo "not json" >$2', 1),
    ("exit 0", 1),
])
def test_bench_wants_figures(tmp_path, monkeypatch, text, expected):
    program(tmp_path / "build" / "bench" / "bench_x", text)
    (tmp_path / "build" / "bench" / "list.txt").write_text("bench_x\n")
    monkeypatch.setattr(sys, "argv", ["bench.py", str(tmp_path / "build"), str(tmp_path / "out")])
    assert bench.main() == expected
    if expected == 0:
        machine = json.loads((tmp_path / "out" / "bench_x.json").read_text())["machine"]
        assert {"cpu", "cores", "commit", "libraries", "date"} <= machine.keys() and machine["date"] and machine["libraries"]
