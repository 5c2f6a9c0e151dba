"""Measures the machine: cores, memory, and the CPU time that other programs use."""

from __future__ import annotations

import contextlib
import mmap
import os
import platform
import resource
import shutil
import tempfile
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


def quota_cores() -> float:
    """Returns the cores that affinity and CPU quotas allow all ranks of this machine, as a fraction if a quota says so.

    ``pst_cores`` divides them by the number of ranks and rounds a quota up; a prediction needs the unrounded total.
    """
    return _quota()[0]


def _quota() -> tuple[float, Path | None]:
    """Returns the cores that affinity and CPU quotas allow, and the control group with that quota, or None if no quota limits."""
    least, group = float(len(os.sched_getaffinity(0))), None
    for directory in _cpu_groups():
        quota = _quota_of(directory)
        if quota is not None and quota < least:
            least, group = quota, directory
    return least, group


def _cpu_groups() -> list[Path]:
    """Returns the directories of this process's control groups, and their parents, that may limit its CPU time."""
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
    """Returns MemAvailable in bytes, the memory that the page cache may use; 0 if it is not known."""
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
    """Yields a temporary directory and removes it afterwards. Also removes directories that killed processes have left.

    beside: the directory to make it in, with a hidden name; None: the system's directory for temporary files.
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


@dataclass(frozen=True)
class Moment:
    """Readings of the clocks at one moment, in seconds.

    Attributes:
        at: wall time.
        busy: CPU time of all programs on the CPUs that this process may use, including time that the hypervisor took.
        own: CPU time of this process and its ended children.
        group: CPU time of the control group whose quota limits this process; None: there is no such quota.
    """

    at: float
    busy: float
    own: float
    group: float | None = None


def busy_seconds(text: str, cpus: Collection[int], ticks: float) -> float | None:
    """Returns the busy seconds of some CPUs in /proc/stat, or None if it does not list them.

    text: content of /proc/stat. cpus: numbers of the CPUs. ticks: clock ticks per second.
    """
    sums = []
    for line in text.splitlines():
        name, _, rest = line.partition(" ")
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cpus:
            numbers = [int(number) for number in rest.split()]
            # user, nice, system, idle, iowait, irq, softirq, steal; user and nice include a guest's time
            sums.append(sum(numbers[:3]) + sum(numbers[5:8]))
    return sum(sums) / ticks if sums else None


def group_seconds(directory: Path) -> float | None:
    """Returns the CPU seconds that all processes of a control group have used so far, or None if the kernel does not say."""
    try:
        for line in (directory / "cpu.stat").read_text().splitlines():
            if line.startswith("usage_usec "):
                return int(line.split()[1]) * 1e-6
        return int((directory / "cpuacct.usage").read_text()) * 1e-9
    except (OSError, ValueError):
        return None


def cores_of_others(before: Moment, after: Moment, n_cpus: float, cores: float) -> float:
    """Returns the mean number of this process's cores that other programs used between two moments.

    n_cpus: number of CPUs that the process may use. cores: how many of them at a time: all, or its quota. Programs outside of the
    quota's control group take nothing from this process until they need more than the CPUs that the quota leaves. Programs in the
    same control group always do.
    """
    seconds = after.at - before.at
    if seconds < 0.05:
        return 0.0
    own = after.own - before.own
    taken = (after.busy - before.busy - own) / seconds - (n_cpus - cores)
    if before.group is not None and after.group is not None:
        taken = max(taken, (after.group - before.group - own) / seconds)
    return min(max(taken, 0.0), cores)


class OtherWork:
    """Measures how many of this process's cores other programs (and the hypervisor) have used since the object was made.

    A process that is bound to some CPUs, or has a quota, loses nothing to work on other CPUs: see `cores_of_others`.
    """

    def __init__(self) -> None:
        self._cpus = os.sched_getaffinity(0)
        self._cores, self._group = _quota()
        self._start = self._read()

    def _read(self) -> Moment | None:
        try:
            busy = busy_seconds(Path("/proc/stat").read_text(), self._cpus, os.sysconf("SC_CLK_TCK"))
        except (OSError, ValueError):
            return None
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        own = time.process_time() + children.ru_utime + children.ru_stime
        group = group_seconds(self._group) if self._group is not None else None
        return None if busy is None else Moment(time.monotonic(), busy, own, group)

    def cores(self) -> float:
        """Returns the mean number of cores that other programs used; 0 if it is not known."""
        now = self._read()
        if now is None or self._start is None:
            return 0.0
        return cores_of_others(self._start, now, len(self._cpus), self._cores)


_COPIED, _PIECE = 64 << 20, 512 << 10  # bytes to copy, more than the processor's caches hold; length of a piece
_PASSES = 5


def copy_rates() -> list[float]:
    """Returns the bytes per CPU second at which one thread copies from the kernel's page cache to memory outside of the processor's
    caches, for several passes over a temporary file. The list is empty if there is no memory for the file.
    """
    size = min(_COPIED, memory_available() // 16) // _PIECE * _PIECE
    if size < 16 * _PIECE:
        return []
    try:
        with tempfile.TemporaryFile() as file, mmap.mmap(-1, size) as memory, memoryview(memory) as view:
            handle = file.fileno()
            for at in range(0, size, _PIECE):
                os.pwrite(handle, bytes(_PIECE), at)
                view[at : at + _PIECE] = bytes(_PIECE)  # touches the memory, so that page faults are not measured
            rates = []
            for _ in range(_PASSES):
                start = time.thread_time()
                for at in range(0, size, _PIECE):
                    with view[at : at + _PIECE] as part:
                        os.preadv(handle, [part], at)
                rates.append(size / max(time.thread_time() - start, 1e-9))
            return rates
    except OSError:
        return []


def describe() -> dict[str, Any]:
    """Returns the capacities of the machine that need no measurement."""
    return {
        "cpu": cpu_name(),
        "cores": quota_cores(),
        "memory_available_nbytes": memory_available(),
    }
