"""Waiting for a quiet machine: how long, which messages are printed, and that it can be interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import penstock as ps
from penstock.stalls.measure import machine, quiet


@pytest.fixture
def others(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The number of cores that other programs use at each look; the last value is repeated. A second passes between looks."""
    used = [0.0]
    now = [0.0]

    def look(seconds: float) -> float:
        now[0] += 1.0
        return used.pop(0) if len(used) > 1 else used[0]

    monkeypatch.setattr(quiet, "_used", look)
    monkeypatch.setattr(quiet.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(machine, "quota_cores", lambda: 2.0)
    return used


def test_it_waits_until_the_machine_is_quiet(others: list[float]) -> None:
    others[:] = [0.8] * 7 + [0.05]
    lines: list[str] = []
    assert quiet.wait(60.0, lines.append) == 0.05
    assert lines == [
        "other programs use 0.8 of 2 CPU cores: waiting up to 59 s for a quiet machine",
        "other programs use 0.8 of 2 CPU cores: waiting up to 54 s for a quiet machine",
        "the machine is quiet",
    ]


def test_it_goes_on_after_its_time(others: list[float]) -> None:
    others[:] = [0.8]
    lines: list[str] = []
    assert quiet.wait(4.0, lines.append) == 0.8
    assert lines[-1] == "going on; other programs use 0.8 of 2 CPU cores" and len(lines) == 2
    lines.clear()
    assert quiet.wait(0.0, lines.append) == 0.8 and lines == []  # one look, and no waiting


def test_a_report_says_how_it_began(others: list[float], folder: Path) -> None:
    others[:] = [0.8]
    report = ps.analyze(ps.Loader(folder, 4, num_workers=0), budget=1, forms=(), wait_quiet=2)
    assert report.data["machine"]["other_cores_at_start"] == 0.8
    cores = report.data["machine"]["cores"]
    assert (f"other programs used 0.8 of {cores:g} CPU cores at the start" in report.report()) == (cores <= 16)


def test_wrong_times(folder: Path) -> None:
    assert quiet.checked(None) == quiet.checked(0) == quiet.checked("0s") == 0
    assert quiet.checked("60s") == quiet.checked("1min") == quiet.checked(60) == 60
    for wrong in ("soon", -1, "1h", 1e9):
        with pytest.raises(ps.errors.ArgumentError, match="wait_quiet is seconds"):
            ps.analyze(ps.Loader(folder, 4), wait_quiet=wrong)


def test_an_interrupt_ends_the_waiting(folder: Path) -> None:
    code = (
        "import sys; from penstock.cli import main; from penstock.stalls.measure import quiet; "
        "quiet._used = lambda seconds: (quiet.time.sleep(0.1), 9.0)[1]; sys.exit(main.main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, "analyze", str(folder), "--wait-quiet", "200s"],
        stderr=subprocess.PIPE, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # a background job ignores the signal
    )  # fmt: skip
    assert process.stderr is not None
    line = next(line for line in process.stderr if "waiting up to" in line)
    assert line.startswith("penstock: analyze: other programs use 9 of ")
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    assert process.wait(60) == 130 and time.monotonic() - begin < 30
    assert "interrupted" in process.stderr.read()
