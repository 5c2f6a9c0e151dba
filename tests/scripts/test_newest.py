"""check_newest.py: what it reads from the output of pip and pytest, its table, and when it fails."""

import json
import os
import re
import subprocess
import sys
import time

import pytest

import check_newest as newest
from check_newest import FAILS, UNTRIED, WORKS, Row

ALL_SKIPPED = """ss                                                          [100%]
=========================== short test summary info ===========================
SKIPPED [1] python/tests/test_readme.py:95: page.md: 1 block only compiled, for want of streaming, torch
2 skipped in 0.11s
"""
FAILED = """F.
E       AssertionError: assert 3 == 4
FAILED python/tests/test_torch.py::test_one - AssertionError: assert 3 == 4
1 failed, 12 passed, 2 skipped in 61.20s (0:01:01)
"""


@pytest.mark.parametrize(
    ("status", "output", "verdict", "says"),
    [
        (0, "....\n4 passed in 1.20s\n", WORKS, "4 passed"),
        (0, "..s.\n3 passed, 1 skipped, 2 warnings in 75.20s (0:01:15)\n", WORKS, "3 passed"),
        (0, ALL_SKIPPED, UNTRIED, "for want of streaming, torch"),
        (1, FAILED, FAILS, "12 passed: E       AssertionError: assert 3 == 4"),
        (1, FAILED, FAILS, "1 failed"),
        (2, "ImportError: no module\n1 error in 0.3s\n", FAILS, "1 error: ImportError: no module"),
        (4, "ERROR: file or directory not found: test_gone.py\n", FAILS, "status 4: ERROR: file or directory not found"),
        (5, "no tests ran in 0.01s\n", FAILS, "status 5"),  # if tests were renamed, the script's list is at fault
        (2, "E   ValueError: x\nWARNING: Location is ignored\n", FAILS, "status 2: E   ValueError: x"),
        (139, "", FAILS, "status 139: it said nothing"),
        (124, "....", UNTRIED, "time was over"),
    ],
)
def test_verdicts_of_pytest(status, output, verdict, says):
    found, detail = newest.of_tests(status, output)
    assert found == verdict and says in detail, detail


def test_verdicts_of_commands():
    assert newest.of_command(0, "anything") == (WORKS, "")
    assert newest.of_command(124, "") == (UNTRIED, "time was over")
    assert newest.of_command(1, "penstock: plan: measuring\npenstock: plan: it fails\n") == (FAILS, "penstock: plan: it fails")
    traceback = "Traceback (most recent call last):\n  File x\nTypeError: Loader.__init__() got an unexpected keyword\n"
    assert newest.of_command(1, traceback)[1].startswith("TypeError: Loader")


def test_verdicts_of_doctor():
    def said(**states):
        checks = [{"name": name, "state": state, "text": f"text of {name}"} for name, state in states.items()]
        return json.dumps({"ok": False, "checks": checks})

    assert newest.of_doctor(1, said(package="ok", highs="ok", descriptors="bad")) == (WORKS, "text of highs")
    assert newest.of_doctor(0, said(package="ok", highs="note")) == (FAILS, "highs: text of highs")
    assert newest.of_doctor(0, said(package="ok"))[1] == "highs: is not there"
    assert newest.of_doctor(127, "no such program")[0] == FAILS


def test_the_build_of_torch():
    listed = "torch (2.15.0)\nAvailable versions: 2.15.0, 2.14.1, 2.13.0+cpu, 2.13.0, 2.12.0+cpu\n"
    assert newest.torch_for_cpus(listed, "x86_64") == "2.13.0+cpu"
    assert newest.torch_for_cpus(listed, "aarch64") == "2.15.0"
    assert newest.torch_for_cpus("Available versions: 2.15.0, 2.14.1\n", "x86_64") is None
    assert newest.torch_for_cpus("ERROR: no index\n", "x86_64") is None


def test_the_table():
    failed = Row("torch", FAILS, "1 failed: E  x", "2.14.1")
    rows = [Row("penstock: plan", WORKS, must=True), failed, Row("ffcv", UNTRIED, "pip: no")]
    lines = newest.table(rows, newest.pins("# pins\nnumpy==2.4.6\ntorch==2.13.0\n")).splitlines()
    assert lines[0].split() == ["package", "newest", "in", "CI", "verdict"]
    assert lines[1].split() == ["penstock:", "plan", "-", "-", "works"]
    assert lines[2].split() == ["torch", "2.14.1", "2.13.0", "FAILS:", "1", "failed:", "E", "x"]
    assert len({line.index(word) for line, word in zip(lines[1:], ("works", "FAILS", "not tried"), strict=True)}) == 1


@pytest.mark.parametrize(
    ("rows", "status"),
    [
        ([Row("penstock: plan", WORKS, must=True), Row("lightning", FAILS)], 0),
        ([Row("penstock: plan", WORKS, must=True), Row("highspy", FAILS, must=True)], 1),
        ([Row("penstock: plan", WORKS, must=True), Row("torch", UNTRIED, must=True)], 0),
        ([Row("penstock: plan", UNTRIED, must=True), Row("lightning", WORKS)], 0),
        ([Row("lightning", WORKS)], 1),
        ([], 1),
    ],
)
def test_the_exit_status(rows, status):
    assert newest.exit_status(rows) == status


def test_every_test_and_extra_that_is_named_exists():
    for part in newest.PARTS:
        path, _, test = part.tests[0].partition("::")
        text = (newest.TESTS / path).read_text()
        assert test.split("[")[0] in text, part
        if "[" in test:
            assert (newest.ROOT / test.split("[")[1].rstrip("]")).is_file(), part
    named = (newest.ROOT / "python" / "pyproject.toml").read_text().split("[project.optional-dependencies]")[1].split("\n\n")[0]
    extras = {line.split(" =")[0] for line in named.splitlines() if " = [" in line}
    assert extras == {*newest.EXTRAS, *newest.ELSEWHERE}
    tried = [line for line in named.splitlines() if line.split(" =")[0] not in newest.ELSEWHERE]
    packages = {newest.normal(name) for line in tried for name in re.findall(r'"([a-z]+)', line)} - {"pytest"}
    assert packages <= {part.name for part in newest.PARTS if part.extra}


def test_a_command_has_a_time_and_leaves_nothing(tmp_path, monkeypatch):
    """Processes that the command has started end with it."""
    begun = tmp_path / "begun"

    def left(session):
        while not begun.exists():
            time.sleep(0.01)
        return 0.1

    monkeypatch.setattr(newest.Session, "left", left)
    # The pipe ends when no process has it open any more.
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    real = subprocess.Popen
    monkeypatch.setattr(newest.subprocess, "Popen", lambda *words, **options: real(*words, **options, pass_fds=[writer]))
    script = f"sleep 1000 & mv {tmp_path / 'made'} {begun}; wait"
    (tmp_path / "made").touch()
    status, _ = newest.Session(tmp_path, 0).run("bash", "-c", script)
    os.close(writer)
    assert status == 124
    assert os.read(reader, 1) == b""
    os.close(reader)


def test_without_an_index_it_is_skipped(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(newest, "WORK", tmp_path / "newest")
    said = "WARNING: Retrying: NewConnectionError: [Errno -3] Temporary failure in name resolution"
    monkeypatch.setattr(newest.Session, "pip", lambda *_: (1, said))
    monkeypatch.setattr(sys, "argv", ["check_newest.py"])
    assert newest.main() == 0
    assert "skipped: no package index can be reached" in capsys.readouterr().out
