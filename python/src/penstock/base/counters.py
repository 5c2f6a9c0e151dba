"""Arrays of integers in memory that a process shares with the processes it starts, by fork or by spawn."""

from __future__ import annotations

import contextlib
import mmap
import os
from multiprocessing import reduction
from typing import Any

_NBYTES = 8


class Counters:
    """``n`` shared integers of 64 bits, 0 at first. A process that multiprocessing starts, also by spawn, shares them. A copy made
    by pickle or deepcopy is separate: it has its own integers, with the same values.

    The integers lie in an anonymous file, so they depend neither on /dev/shm nor on torch's default device or sharing strategy.
    Where the system refuses anonymous files, forked processes share the integers and spawned ones get copies. Two processes must
    not write to the same integer at once.
    """

    def __init__(self, n: int, fd: int = -1) -> None:
        self._n = n
        self._fd = fd
        if fd < 0:
            with contextlib.suppress(OSError):  # a sandbox may refuse anonymous files
                self._fd = os.memfd_create("penstock-counters", os.MFD_CLOEXEC)
                os.ftruncate(self._fd, n * _NBYTES)
        self._memory = mmap.mmap(self._fd, n * _NBYTES)
        self._numbers = memoryview(self._memory).cast("q")

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: int) -> int:
        return self._numbers[i]

    def __setitem__(self, i: int, value: int) -> None:
        self._numbers[i] = value

    def __iter__(self) -> Any:
        return iter(self._numbers)

    def __reduce__(self) -> Any:
        return _copied, (list(self),)

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            os.close(self._fd)


def _copied(values: list[int]) -> Counters:
    counters = Counters(len(values))
    for i, value in enumerate(values):
        counters[i] = value
    return counters


def _shared(n: int, fd: Any) -> Counters:
    return Counters(n, fd.detach())


def _reduced(counters: Counters) -> Any:
    """Pickles counters for a new process of multiprocessing: sends the descriptor of their file."""
    if counters._fd < 0:
        return counters.__reduce__()
    return _shared, (counters._n, reduction.DupFd(counters._fd))


reduction.ForkingPickler.register(Counters, _reduced)
