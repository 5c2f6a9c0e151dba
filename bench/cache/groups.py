"""A control group (cgroup) with a limit of memory and a limit of the read rate of a disk, for one child process."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

TOP = Path("/sys/fs/cgroup")
NUMBERS = itertools.count()


class NoGroups(Exception):
    """This machine does not let the process make control groups."""


class Group:
    """A control group. memory: bytes that its processes may use, including their pages in the page cache. rate: bytes per second
    that they may read from `disk` ("major:minor"); None: no limit.
    """

    def __init__(self, memory: int | None, rate: int | None, disk: str) -> None:
        self._folders: list[Path] = []
        self._name = f"penstock-bench-{os.getpid()}-{next(NUMBERS)}"
        try:
            if (TOP / "memory/memory.limit_in_bytes").exists():
                self._version_1(memory, rate, disk)
            else:
                self._version_2(memory, rate, disk)
        except OSError as error:
            self.remove()
            raise NoGroups(f"control groups cannot be made: {error}") from error

    def _make(self, path: Path) -> Path:
        path.mkdir()
        self._folders.append(path)
        return path

    def _version_1(self, memory: int | None, rate: int | None, disk: str) -> None:
        self._memory = self._make(TOP / "memory" / self._name)
        reads = self._make(TOP / "blkio" / self._name)
        if memory is not None:
            (self._memory / "memory.limit_in_bytes").write_text(str(memory))
        if rate is not None:
            (reads / "blkio.throttle.read_bps_device").write_text(f"{disk} {rate}")

    def _version_2(self, memory: int | None, rate: int | None, disk: str) -> None:
        self._memory = self._make(TOP / self._name)
        if memory is not None:
            (self._memory / "memory.max").write_text(str(memory))
        if rate is not None:
            (self._memory / "io.max").write_text(f"{disk} rbps={rate}")

    def join(self) -> None:
        """Moves the calling process into the group; for subprocess's preexec_fn."""
        for folder in self._folders:
            (folder / "cgroup.procs").write_text(str(os.getpid()))

    def own_nbytes(self) -> int:
        """Returns the group's memory in bytes, without pages of files."""
        stat = dict(line.split() for line in (self._memory / "memory.stat").read_text().splitlines())
        usage = self._memory / ("memory.usage_in_bytes" if "rss" in stat else "memory.current")
        return int(usage.read_text()) - int(stat.get("cache", stat.get("file", 0)))

    def remove(self) -> None:
        for folder in self._folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


@contextlib.contextmanager
def group(memory: int | None, rate: int | None, disk: str) -> Iterator[Group]:
    made = Group(memory, rate, disk)
    try:
        yield made
    finally:
        made.remove()


@contextlib.contextmanager
def slowed(rate_mb: float | None, folder: Path) -> Iterator[Callable[[], None] | None]:
    """Yields a function for a child process to call: it limits the reads from the folder's disk to so many MB/s. None: no limit."""
    if rate_mb is None:
        yield None
        return
    with group(None, int(rate_mb * 1e6), disk_of(folder)) as made:
        yield made.join


def disk_of(path: Path) -> str:
    """Returns "major:minor" of the whole disk that holds `path`."""
    number = os.stat(path).st_dev
    name = f"{os.major(number)}:{os.minor(number)}"
    block = Path(f"/sys/dev/block/{name}")
    if not block.exists():
        raise NoGroups(f"{path} lies on no block device")
    if (block / "partition").exists():
        return (block.resolve().parent / "dev").read_text().strip()
    return name


def drop_pages(files: Iterable[Path]) -> None:
    """Removes the clean pages of these files from the page cache."""
    for path in files:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def drop_page_cache(folder: Path) -> None:
    """Removes the pages of the folder's files from the page cache."""
    subprocess.run(["sync"], check=True)
    drop_pages(path for path in folder.rglob("*") if path.is_file())
