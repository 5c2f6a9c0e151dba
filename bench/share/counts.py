"""The page of memory by which the jobs of a cell tell how many batches they have taken, and when.

A file of doubles, mapped by all: place 0 is the parent's order to stop; then for each job the number of batches taken and the
times (CLOCK_MONOTONIC, which all processes share) of the last TIMES of them.
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
        """Batches taken until `when`; between two batches the count grows evenly, so that bursts count for their time."""
        base, n = 1 + job * (1 + TIMES), self.n_taken(job)
        if n > TIMES:
            raise SystemExit(f"job {job} took {n} batches; times of {TIMES} are kept")
        times = self._doubles[base + 1 : base + 1 + n]
        low = sum(1 for taken in times if taken <= when)
        if low == 0 or low == n:
            return float(low)
        return low + (when - times[low - 1]) / (times[low] - times[low - 1])
