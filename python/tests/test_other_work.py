"""CPU time that other processes take from this one's cores: made-up texts of /proc/stat, affinity, quotas."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.stalls.measure import machine
from penstock.stalls.measure.machine import Moment, cores_of_others


def stat(*busy: int) -> str:
    """Returns a /proc/stat with CPUs that were busy for so many ticks: half in user mode, the rest in the kernel and stolen."""
    lines = [f"cpu{i} {b // 2} 0 {b // 4} 1000000 5000 0 0 {b - b // 2 - b // 4} 7 7" for i, b in enumerate(busy)]
    return "\n".join(["cpu  1 2 3 4 5 6 7 8 9 10", *lines, "intr 1 2 3", "ctxt 99", "cpus 3"]) + "\n"


def test_only_the_own_cpus_count() -> None:
    text = stat(100, 200, 400, 0, 0, 0, 0, 0, 0, 0, 800)
    assert machine.busy_seconds(text, {0, 1, 2, 10}, 100) == 15
    assert machine.busy_seconds(text, {1}, 100) == 2
    assert machine.busy_seconds(text, {10}, 100) == 8  # not CPU 1
    assert machine.busy_seconds(text, {77}, 100) is None
    assert machine.busy_seconds("", {0}, 100) is None


@pytest.mark.parametrize(
    ("n_cpus", "cores", "busy", "own", "group", "taken"),
    [
        (2, 2, 15, 10, None, 0.5),  # the whole machine: others use 5 of 10 s
        (1, 1, 10, 10, None, 0.0),  # bound to one CPU, which nobody else used
        (1, 1, 10, 4, None, 0.6),  # somebody else did
        (64, 4, 340, 40, None, 0.0),  # a quota of 4 of 64 CPUs: the 30 cores of others lie outside the quota
        (64, 4, 635, 15, None, 2.0),  # others use 62 cores, which leaves 2 of the quota's 4
        (64, 4, 340, 20, 40.0, 2.0),  # other processes of the group used half of the quota
        (64, 4, 340, 40, 40.0, 0.0),
        (2, 2, 9, 10, None, 0.0),  # clocks that are read one after another may disagree
        (2, 2, 50, 0, None, 2.0),
    ],
)
def test_cores_of_others(n_cpus: int, cores: float, busy: float, own: float, group: float | None, taken: float) -> None:
    before = Moment(100.0, 1000.0, 50.0, None if group is None else 7.0)
    after = Moment(110.0, 1000.0 + busy, 50.0 + own, None if group is None else 7.0 + group)
    assert cores_of_others(before, after, n_cpus, cores) == pytest.approx(taken)


def test_a_moment_is_too_short() -> None:
    assert cores_of_others(Moment(1.0, 0.0, 0.0), Moment(1.01, 5.0, 0.0), 2, 2) == 0


def test_control_groups(tmp_path: Path) -> None:
    (tmp_path / "cpu.stat").write_text("usage_usec 2500000\nuser_usec 1\nnr_throttled 3\nthrottled_usec 9\n")
    assert machine.group_seconds(tmp_path) == pytest.approx(2.5)
    old = tmp_path / "old"
    old.mkdir()
    (old / "cpu.stat").write_text("nr_periods 1\nnr_throttled 3\nthrottled_time 9\n")
    (old / "cpuacct.usage").write_text("1500000000\n")
    assert machine.group_seconds(old) == pytest.approx(1.5)
    assert machine.group_seconds(tmp_path / "none") is None


def test_a_bound_process_sees_its_own_cpu_alone() -> None:
    """The process is bound to one CPU and works there, so it loses only the time that others take on that CPU."""
    program = """
import os, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from penstock.stalls.measure.machine import OtherWork
others, end = OtherWork(), time.monotonic() + 0.5
cpu = time.process_time()
while time.monotonic() < end:
    pass
print(others.cores(), (time.process_time() - cpu) / 0.5)
"""
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=os.environ)
    others, own = map(float, found.stdout.split())
    assert 0 <= others <= 1 and others <= 1 - own + 0.2
