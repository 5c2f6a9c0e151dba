"""A limit on CPU time: control groups of version 1 or 2."""

from __future__ import annotations

import os
from pathlib import Path

PERIOD_US = 20000  # short: threads that are stopped until its end make batches that are late


class Quota:
    """Groups that are removed at the end: one for this program, which may get most of the CPU time where others work too
    (`alone`), and in it one with a CPU quota for cells. `path` is None where none can be made.
    """

    def __init__(self, alone: bool) -> None:
        self.path: Path | None = None
        for root in (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup")):
            place = root / f"penstock-whatif-{os.getpid()}"
            try:
                place.mkdir()
            except OSError:
                continue
            if (place / "cpu.cfs_quota_us").exists():
                self.root, self.top, self.path = root, place, place / "quota"
                self.path.mkdir()
                if alone:
                    (place / "cpu.shares").write_text("262144")
                    (place / "cgroup.procs").write_text(str(os.getpid()))
                return
            if (place / "cpu.max").exists():  # no processes in inner groups: the quota's alone
                self.root, self.top, self.path = root, place, place
                return
            place.rmdir()

    def set(self, cores: float) -> str:
        """Allows so many cores, and returns the directory of the group."""
        assert self.path is not None
        if (self.path / "cpu.max").exists():
            (self.path / "cpu.max").write_text(f"{int(cores * PERIOD_US)} {PERIOD_US}")
        else:
            (self.path / "cpu.cfs_period_us").write_text(str(PERIOD_US))
            (self.path / "cpu.cfs_quota_us").write_text(str(int(cores * PERIOD_US)))
        return str(self.path)

    def remove(self) -> None:
        if self.path is None:
            return
        if self.top != self.path:
            (self.root / "cgroup.procs").write_text(str(os.getpid()))
            self.path.rmdir()
        self.top.rmdir()
