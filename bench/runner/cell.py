"""A cell is one measured process, which prints its figures as a line of JSON. This module runs cells, and has their clocks."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")


class Unavailable(Exception):
    """Raised if a cell has no figures; the text is the reason."""


# Running -------------------------------------------------------------------------------------------------


def pinned(cpus: list[int], n: int) -> list[str]:
    """Returns the beginning of a command line that pins a command to the first n of these cores."""
    return ["taskset", "-c", ",".join(map(str, cpus[:n]))]


def last_line(text: str, status: int | None) -> str:
    return ([line.strip() for line in text.splitlines() if line.strip()] or [f"exit status {status}"])[-1][:200]


def run_cell(command: list[str], env: dict[str, str], limit_s: float, join: Callable[[], None] | None = None) -> dict:
    """Returns the figures of one cell, which its process prints as the last line of JSON, or {"absent": reason}. The process
    calls `join` first."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env,
                               start_new_session=True, preexec_fn=join)
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        return {"absent": f"no result within {limit_s:g} s"}
    finally:
        if process.poll() is None:  # and its workers
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if process.returncode or not lines:
        return {"absent": last_line(errors, process.returncode)}
    return json.loads(lines[-1])


def run_program(title: str, command: list[str], env: dict[str, str]) -> dict:
    """Returns the figures that a program in C writes to the file of --json. Its output goes to stderr."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        print(f"\n== {title}", file=sys.stderr, flush=True)
        subprocess.run([*command, "--json", str(file)], env={**os.environ, **env}, check=True, stdout=sys.stderr)
        return json.loads(file.read_text())


class Process:
    """A child process in a session of its own that the bench exchanges lines with. A thread reads its lines, so every wait can have
    a deadline.
    """

    def __init__(self, what: str, command: list[str], env: dict[str, str]) -> None:
        self.what, self._lines, self._news = what, [], threading.Condition()
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (open as long as the process)
        self._child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
                                       env=env, start_new_session=True)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in self._child.stdout:
            with self._news:
                self._lines.append(line.strip())
                self._news.notify_all()
        self._child.wait()
        with self._news:
            self._lines.append(None)
            self._news.notify_all()

    def line(self, begins: str, deadline: float) -> str:
        """Returns the next line that begins with the prefix, and drops other lines (such as TensorFlow's). `deadline` is a time of
        time.monotonic(). Raises Unavailable if the process ends or the time is over.
        """
        with self._news:
            while True:
                while self._lines and self._lines[0] is not None:
                    found = self._lines.pop(0)
                    if found.startswith(begins):
                        return found
                if self._lines:
                    raise self._ended()
                if not self._news.wait(max(0.0, deadline - time.monotonic())) and time.monotonic() >= deadline:
                    raise Unavailable(f"{self.what}: nothing for a long time; killed")

    def _ended(self) -> Unavailable:
        return Unavailable(f"{self.what} ended with status {self._child.returncode}: {self.error()}")

    def error(self) -> str:
        self._errors.seek(0)
        return last_line(self._errors.read(), self._child.returncode)

    def check_alive(self) -> None:
        if self._child.poll() is not None:
            raise self._ended()

    def say(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the next call of line() reports the reason
            print(line, file=self._child.stdin, flush=True)

    def end_input(self) -> None:
        self._child.stdin.close()

    def kill(self) -> None:
        """Kills the process and its workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGKILL)
        self._child.wait()


# In the process ------------------------------------------------------------------------------------------


def tell(found: dict) -> NoReturn:
    """Prints the figures of this cell and ends the process."""
    print(json.dumps(found), flush=True)
    end_at_once()


def end_at_once() -> NoReturn:
    """Ends this process and all processes below it at once: some peers hang when they end their threads."""
    for pid in process_tree():
        if pid != os.getpid():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
    sys.stdout.flush()
    os._exit(0)


def process_tree() -> dict[int, float]:
    """Returns the CPU seconds, with those of reaped children, of this process and all below it."""
    parents: dict[int, tuple[int, float]] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            text = Path(f"/proc/{entry}/stat").read_text()
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        parents[int(entry)] = (int(fields[1]), sum(map(int, fields[11:15])) / CLOCK_TICKS)
    keep, grew = {os.getpid()}, True
    while grew:
        new = {p for p, (parent, _) in parents.items() if parent in keep and p not in keep}
        grew = bool(new)
        keep |= new
    return {p: parents[p][1] for p in keep if p in parents}


def of_tree(file: str, read: Callable[[str], int], without: int = 0) -> int:
    """Sums what `read` returns for /proc/PID/<file> of this process and all processes below it, except `without`."""
    total = 0
    for pid in process_tree():
        with contextlib.suppress(OSError, IndexError):  # the process may have ended already
            total += read(Path(f"/proc/{pid}/{file}").read_text()) if pid != without else 0
    return total


def cpu_seconds() -> float:
    return sum(process_tree().values())


def cores_seconds(file: str = "/proc/stat") -> tuple[float, float]:
    """Returns the busy and the stolen CPU seconds so far. Other programs disturb only the cores that this process may use, so only
    these are counted.
    """
    own = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    with open(file) as stat:
        rows = [[int(x) / CLOCK_TICKS for x in line.split()[1:9]] for line in stat if line.split()[0] in own]
    return sum(sum(row) - row[3] - row[4] - row[7] for row in rows), sum(row[7] for row in rows)


@dataclass(frozen=True)
class Spent:
    wall_s: float
    cpu_s: float  # CPU seconds of this process and all below it
    foreign_cores: float  # how many of this process's cores were used by other processes or taken by the hypervisor


class Meter:
    """Measures time, CPU time and other programs' CPU time from its construction until spent() is called."""

    def __init__(self) -> None:
        self._cpu, self._busy, self._begun = cpu_seconds(), cores_seconds(), time.perf_counter()

    def seconds(self) -> float:
        return time.perf_counter() - self._begun

    def spent(self) -> Spent:
        wall = self.seconds()
        used, (busy, stolen) = cpu_seconds() - self._cpu, cores_seconds()
        return Spent(wall, used, (max(0.0, busy - self._busy[0] - used) + stolen - self._busy[1]) / wall)


def disk_nbytes() -> int:
    """Returns the bytes that this process and all below it have read from disks."""
    return of_tree("io", lambda text: int(text.split("read_bytes: ")[1].split()[0]))


def forget_peak_rss() -> None:
    """Resets the peak of memory: the comparison of the output, which ran before, is not part of the loader."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError as error:
        print(f"peak memory counts the checks too: {error}", file=sys.stderr)


def peak_rss_mb() -> float:
    """Returns the sum of the peak memory of all processes of the tree. Shared pages count once per process."""
    return of_tree("status", lambda text: int(text.split("VmHWM:")[1].split()[0])) / 1024
