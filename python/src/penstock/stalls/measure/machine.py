"""What the machine has: cores, memory, and the work that others do on it."""

from __future__ import annotations

import contextlib
import os
import platform
import resource
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def quota_cores() -> float:
    """Returns the cores that affinity and CPU quotas allow all ranks of this machine, fractions too.

    ``pst_cores`` divides them among the ranks and rounds a quota up to whole cores; a prediction wants the machine's own.
    """
    whole = float(len(os.sched_getaffinity(0)))
    for directory in _cpu_groups():
        quota = _quota_of(directory)
        if quota is not None:
            whole = min(whole, quota)
    return whole


def _cpu_groups() -> list[Path]:
    """Returns the directories of this process's control groups that may limit its CPU time, with their parents."""
    found: list[Path] = []
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return found
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"):
            place = Path(root)
            found.append(place)
            for part in Path(path.lstrip("/")).parts:
                place = place / part
                found.append(place)
    return found


def _quota_of(directory: Path) -> float | None:
    try:
        quota, period = (directory / "cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            quota = (directory / "cpu.cfs_quota_us").read_text().strip()
            period = (directory / "cpu.cfs_period_us").read_text().strip()
        except OSError:
            return None
    if quota in ("max", "-1") or not quota.isdigit() or int(period) <= 0:
        return None
    return int(quota) / int(period)


def memory_available() -> int:
    """Returns the bytes of MemAvailable, which the page cache may use; 0 if it is not known."""
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0


def cpu_name() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


@contextlib.contextmanager
def scratch_directory(purpose: str, beside: str | None = None) -> Iterator[str]:
    """Gives a temporary directory and removes it. Those of processes that were killed before they could are removed, too.

    beside: a directory in which it is made, hidden; None: the system's for temporary files.
    """
    prefix = f"penstock-{purpose}-" if beside is None else f".penstock-{purpose}-"
    root = Path(beside or tempfile.gettempdir())
    for old in root.glob(f"{prefix}*-*"):
        owner = old.name.removeprefix(prefix).partition("-")[0]
        with contextlib.suppress(OSError):
            if owner.isdigit() and not Path(f"/proc/{owner}").exists() and old.stat().st_uid == os.getuid():
                shutil.rmtree(old, ignore_errors=True)
    path = tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-", dir=root)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


class OtherWork:
    """Measures the cores that other processes (and the hypervisor) used since it was made."""

    def __init__(self) -> None:
        self._start = self._read()

    @staticmethod
    def _read() -> tuple[float, float, float] | None:
        try:
            fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
        except OSError:
            return None
        ticks = os.sysconf("SC_CLK_TCK")
        numbers = [int(f) / ticks for f in fields]
        busy = numbers[0] + numbers[1] + numbers[2] + sum(numbers[5:8])
        mine = time.process_time()
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return busy, mine + children.ru_utime + children.ru_stime, time.monotonic()

    def cores(self) -> float:
        """Returns the cores that others used, a mean; 0 if it is not known."""
        now = self._read()
        if now is None or self._start is None or now[2] - self._start[2] < 0.05:
            return 0.0
        busy, mine, seconds = (b - a for a, b in zip(self._start, now, strict=True))
        return max(busy - mine, 0.0) / seconds


def describe() -> dict[str, Any]:
    """Returns the capacities that need no measurement."""
    return {
        "cpu": cpu_name(),
        "cores": quota_cores(),
        "memory_available_nbytes": memory_available(),
    }
