"""Shared memory in which the jobs of a cell count the batches that they have taken, with the times.

A file of doubles, mapped by all processes. Entry 0 is the parent's request to stop. Then follow for each job the number of batches
taken and the times of the last TIMES batches (CLOCK_MONOTONIC, which is the same in all processes).
"""

from __future__ import annotations

import mmap
import time
from pathlib import Path

TIMES = 1 << 14


class Counts:
    def __init__(self, path: Path, n_jobs: int, create: bool = False) -> None:
        nbytes = 8 * (1 + n_jobs * (1 + TIMES))
        if create:
            path.write_bytes(bytes(nbytes))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), nbytes)
        self._doubles = memoryview(self._memory).cast("d")
        self.n_jobs = n_jobs

    def stop(self) -> None:
        self._doubles[0] = 1

    def stopped(self) -> bool:
        return self._doubles[0] != 0

    def took(self, job: int) -> None:
        """Counts one batch of `job`, now."""
        base = 1 + job * (1 + TIMES)
        n = int(self._doubles[base])
        self._doubles[base + 1 + n % TIMES] = time.monotonic()
        self._doubles[base] = n + 1

    def n_taken(self, job: int) -> int:
        return int(self._doubles[1 + job * (1 + TIMES)])

    def taken_at(self, job: int, when: float) -> float:
        """Returns the batches that a job had taken at `when`, interpolated between two batches, because jobs take batches in
        bursts.
        """
        base, n = 1 + job * (1 + TIMES), self.n_taken(job)
        if n > TIMES:
            raise SystemExit(f"job {job} took {n} batches; times of {TIMES} are kept")
        times = self._doubles[base + 1 : base + 1 + n]
        low = sum(1 for taken in times if taken <= when)
        if low == 0 or low == n:
            return float(low)
        return low + (when - times[low - 1]) / (times[low] - times[low - 1])
