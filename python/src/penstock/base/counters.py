"""Whole numbers in memory that a process shares with those that it starts, forked or spawned."""

from __future__ import annotations

import contextlib
import mmap
import os
from multiprocessing import reduction
from typing import Any

_NBYTES = 8


class Counters:
    """``n`` numbers of 64 bits, 0 at first. Processes started by multiprocessing share them, also by spawn; a copy by pickle
    or deepcopy has numbers of its own, of the same values.

    They lie in an anonymous file: neither /dev/shm nor torch's default device, mode or sharing strategy has a part in it.
    Where the system refuses such files, forked processes share the numbers and spawned ones get copies. Two processes must
    not write the same number at once.
    """

    def __init__(self, n: int, fd: int = -1) -> None:
        self._n = n
        self._fd = fd
        if fd < 0:
            with contextlib.suppress(OSError):  # refused by a sandbox
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
    """How multiprocessing sends counters: by their file."""
    if counters._fd < 0:
        return counters.__reduce__()
    return _shared, (counters._n, reduction.DupFd(counters._fd))


reduction.ForkingPickler.register(Counters, _reduced)
