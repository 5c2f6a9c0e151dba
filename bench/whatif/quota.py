"""A limit on CPU time: control groups of version 1 or 2."""

from __future__ import annotations

import os
from pathlib import Path

PERIOD_US = 20000  # short, because threads that are stopped until the period ends make batches late


class Quota:
    """Control groups, which are removed at the end. One is for this program; with `alone` it gets most of the CPU time if other
    programs run. One inside it has a CPU quota, for cells. `path` is None if no group can be made.
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
            if (place / "cpu.max").exists():  # version 2: an inner group has no processes, so only cells have one
                self.root, self.top, self.path = root, place, place
                return
            place.rmdir()

    def set(self, cores: float) -> str:
        """Limits the group to so many cores. Returns its directory."""
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
