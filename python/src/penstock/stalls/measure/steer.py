"""Steers a torch DataLoader: turns one loop over it into several phases, and measures its workers.

The training loop takes batches as usual. Their source changes between batches: first the workers, then one batch again and again,
then a few kept ones in turn, then the workers with files read from storage, then with the same files from memory. No part of the
script runs twice.

Workers are forked or spawned processes. They share one mapped file with the steering process: a flag, and counters of each worker.
torch is imported only after the script has made a DataLoader.
"""

from __future__ import annotations

import itertools
import mmap
import os
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from . import phases
from .machine import OtherWork

_SLOTS = 256
_SLOT = struct.Struct("6d")  # samples, wall seconds, CPU seconds, sum of squared CPU seconds, bytes of files, files
_BOARD_NBYTES = 64 + _SLOTS * _SLOT.size
_PATHS = 64  # number of files whose names are kept, to estimate what Penstock would reach
COLD = 1
_PREPARED = 8
_PREPARED_NBYTES = 512 << 20


class Board:
    """The memory that workers and the steering process share: two files without names, which disappear with the last process.

    Workers, forked or spawned, open the files through the steering process's descriptors (`places`).
    """

    def __init__(self, places: tuple[str, str]) -> None:
        self.places = places
        with open(places[0], "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), _BOARD_NBYTES)

    @classmethod
    def make(cls) -> Board:
        handles = [os.memfd_create(name, os.MFD_CLOEXEC) for name in ("penstock-board", "penstock-paths")]
        os.ftruncate(handles[0], _BOARD_NBYTES)
        made = cls((f"/proc/{os.getpid()}/fd/{handles[0]}", f"/proc/{os.getpid()}/fd/{handles[1]}"))
        made._handles = handles
        return made

    _handles: list[int] = []

    def close(self) -> None:
        """Closes the files. Processes that have mapped the memory keep it."""
        for handle in self._handles:
            os.close(handle)
        self._handles = []

    @property
    def flag(self) -> int:
        return self._memory[0]

    @flag.setter
    def flag(self, value: int) -> None:
        self._memory[0] = value

    def add(self, slot: int, values: tuple[float, ...]) -> None:
        at = 64 + (slot % _SLOTS) * _SLOT.size
        old = _SLOT.unpack_from(self._memory, at)
        _SLOT.pack_into(self._memory, at, *(a + b for a, b in zip(old, values, strict=True)))

    def totals(self) -> tuple[float, ...]:
        sums = [0.0] * 6
        for slot in range(_SLOTS):
            for i, value in enumerate(_SLOT.unpack_from(self._memory, 64 + slot * _SLOT.size)):
                sums[i] += value
        return tuple(sums)

    def note_path(self, path: str) -> None:
        with open(self.places[1], "a", encoding="utf-8", errors="surrogateescape") as file:
            file.write(path + "\n")

    def paths(self) -> list[str]:
        try:
            with open(self.places[1], encoding="utf-8", errors="surrogateescape") as file:
                return list(dict.fromkeys(file.read().split("\n")[:-1]))
        except OSError:
            return []


class _Meter:
    """Measures a process that fetches samples: the time of each sample, and the files that it opens."""

    def __init__(self, board: Board, slot: int) -> None:
        self.board = board
        self.slot = slot
        self.n_paths = 0
        self.fetching = False
        self.busy = False  # True while the hook itself opens files
        self.nbytes = 0.0
        self.files = 0.0
        self.hook_seconds = self.hook_cpu = 0.0

    def opened(self, event: str, args: tuple[Any, ...]) -> None:
        """The audit hook. In a cold phase, drops a file from the page cache before the process reads it."""
        if event != "open" or not self.fetching or self.busy:
            return
        path, mode = args[0], args[1]
        if not isinstance(path, (str, bytes)) or (isinstance(mode, str) and mode not in ("r", "rb", "rt")):
            return
        self.busy = True
        start, cpu = time.perf_counter(), time.thread_time()
        try:
            self._look_at(os.fsdecode(path))
        except OSError:
            pass  # the process's own open() will report the error
        finally:
            self.hook_seconds += time.perf_counter() - start
            self.hook_cpu += time.thread_time() - cpu
            self.busy = False

    def _look_at(self, path: str) -> None:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode) or about.st_size == 0:  # a device, a pipe, or a file of /proc
                return
            self.nbytes += about.st_size
            self.files += 1
            if self.board.flag == COLD:
                os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(handle)
        if self.n_paths < _PATHS:
            self.n_paths += 1
            self.board.note_path(os.path.abspath(path))

    def fetch(self, original: Callable[..., Any], fetcher: Any, index: Any) -> Any:
        n = len(index) if isinstance(index, (list, tuple)) else 1
        self.nbytes = self.files = self.hook_seconds = self.hook_cpu = 0.0
        queued = run_queue_seconds()
        wall, cpu = time.perf_counter(), time.thread_time()
        self.fetching = True
        try:
            return original(fetcher, index)
        finally:
            self.fetching = False
            cpu = time.thread_time() - cpu
            wall = time.perf_counter() - wall - self.hook_seconds - (run_queue_seconds() - queued)
            one = max(cpu - self.hook_cpu, 0.0) / max(n, 1)
            self.board.add(self.slot, (n, wall, one * n, one * one * n, self.nbytes, self.files))


def run_queue_seconds() -> float:
    """Returns how long this thread has been runnable but waited for a core, in seconds; 0 if the kernel does not say."""
    try:
        with open("/proc/thread-self/schedstat", "rb") as file:
            return int(file.read().split()[1]) * 1e-9
    except (OSError, IndexError, ValueError):
        return 0.0


_meter: _Meter | None = None


def meter(places: tuple[str, str], slot: int) -> None:
    """Begins to measure this process: wraps the fetchers of torch's DataLoader. It may be called again."""
    global _meter
    if _meter is None:
        _meter = _Meter(Board(places), slot)
        sys.addaudithook(lambda event, args: _meter.opened(event, args) if _meter is not None else None)
        from torch.utils.data._utils import fetch as torch_fetch

        for cls in (torch_fetch._MapDatasetFetcher, torch_fetch._IterableDatasetFetcher):
            _wrap(cls)
    else:
        _meter.board, _meter.slot = Board(places), slot


def _wrap(cls: Any) -> None:
    original = cls.fetch

    def fetch(self: Any, index: Any) -> Any:
        return original(self, index) if _meter is None else _meter.fetch(original, self, index)

    cls.fetch = fetch


class WorkerInit:
    """A worker_init_fn that begins to measure the worker and then calls the user's function. It can be pickled for spawned
    workers."""

    def __init__(self, places: tuple[str, str], user: Callable[[int], Any] | None) -> None:
        self.places = places
        self.user = user

    def __call__(self, worker: int) -> None:
        meter(self.places, worker + 1)
        if self.user is not None:
            self.user(worker)


class _Indexes:
    """Yields the sampler's index lists. It restarts the sampler at its end, and repeats the lists of the cold phase in the warm
    phase."""

    def __init__(self, source: Iterator[Any], sampler: Any) -> None:
        self._source: Iterator[Any] = source
        self._sampler = sampler
        self._all: list[Any] = []
        self._noted: list[Any] | None = None
        self._again: Iterator[Any] | None = None

    def __iter__(self) -> _Indexes:
        return self

    def note(self) -> None:
        """Begins to record the lists that are yielded."""
        self._noted = []

    def repeat(self) -> None:
        """Ends the recording. From now on, the recorded lists are yielded again and again."""
        if self._noted:
            self._again = itertools.cycle(self._noted)
        self._noted = None

    def _next(self) -> Any:
        if self._again is not None:
            return next(self._again)
        try:
            found = next(self._source)
        except StopIteration:
            # A short data set: all its lists were requested before recording began.
            self._again = itertools.cycle(self._all or list(self._sampler))
            return next(self._again)
        self._all.append(found)
        return found

    def __next__(self) -> Any:
        found = self._next()
        if self._noted is not None:
            self._noted.append(found)
        return found


class Steered:
    """One pass over a DataLoader that is divided into several phases.

    Args:
        loader: the DataLoader. Its own `__iter__` is called once.
        original_iter: torch's DataLoader.__iter__.
        seconds: time for all phases together.
        say: called with a line before each phase.
        has_step: False: the loop does nothing with batches, so the resident and prepared phases are left out.
    """

    ORDER = (("start", 0.1), ("resident", 0.15), ("prepared", 0.15), ("cold", 0.3), ("warm", 0.3))

    def __init__(
        self, loader: Any, original_iter: Callable[[Any], Any], board: Board, seconds: float, say: Callable[[str], Any],
        has_step: bool = True,
    ) -> None:  # fmt: skip
        self.loader, self.board, self.say = loader, board, say
        self.seconds = seconds
        self.n_workers = int(loader.num_workers)
        self.ahead = self.n_workers * int(loader.prefetch_factor or 2) + 1
        self.map_style = getattr(loader, "batch_sampler", None) is not None
        self.phases: dict[str, phases.Phase] = {}
        self.worker: dict[str, tuple[float, ...]] = {}
        self.batch: Any = None
        meter(board.places, 0)
        if self.n_workers > 0:
            loader.worker_init_fn = WorkerInit(board.places, loader.worker_init_fn)
        try:
            self.source = original_iter(loader)
        finally:
            if self.n_workers > 0:
                loader.worker_init_fn = loader.worker_init_fn.user
        self.indexes: _Indexes | None = None
        if self.map_style and hasattr(self.source, "_sampler_iter"):
            self.indexes = _Indexes(self.source._sampler_iter, loader.batch_sampler)
            self.source._sampler_iter = self.indexes
        self.plan = [(name, part) for name, part in self.ORDER if has_step or name not in ("resident", "prepared")]

    def let_go(self) -> None:
        """Restores the sampler, so that the script continues with the batches that would have come next."""
        self.board.flag = 0
        if self.indexes is not None:
            self.source._sampler_iter = self.indexes._source

    def _batches(self, name: str) -> Iterator[Any]:
        if name == "resident":
            return itertools.repeat(self.batch)
        if name == "prepared":
            return itertools.cycle(self._kept())
        return iter(self.source)

    def _kept(self) -> list[Any]:
        """Returns some finished batches, limited by their memory."""
        kept, total = [], 0
        for batch in itertools.islice(self.source, _PREPARED):
            kept.append(batch)
            total += nbytes_of(batch)
            if total > _PREPARED_NBYTES:
                break
        return kept or [self.batch]

    def _enter(self, name: str) -> int:
        """Sets the workers' mode for a phase. Returns how many batches of the previous mode are still to come."""
        self.board.flag = COLD if name == "cold" else 0
        if name == "cold" and self.indexes is not None:
            self.indexes.note()
        elif name == "warm":
            if self.indexes is None:
                return 0
            self.indexes.repeat()
        return self.ahead if name in ("cold", "warm") and self.n_workers > 0 else 0

    def __iter__(self) -> Iterator[Any]:
        """Yields batches to the training loop, phase after phase, and measures the time of its steps."""
        for name, part in self.plan:
            self.say(f"{name}: {part * self.seconds:.0f} s")
            left_over = self._enter(name)
            batches = self._batches(name)
            for _ in range(left_over):
                batch = next(batches, None)
                if batch is None:
                    return
                yield batch
            yield from self._phase(name, batches, part * self.seconds)
        self.board.flag = 0

    def _phase(self, name: str, batches: Iterator[Any], seconds: float) -> Iterator[Any]:
        clock = phases._Clock()
        others = OtherWork()
        before = self.board.totals()
        start = time.perf_counter()
        while True:
            cpu, own, begin = time.process_time(), time.thread_time(), time.perf_counter()
            batch = next(batches, None)
            if batch is None:
                break
            middle, own_middle = time.perf_counter(), time.thread_time()
            self.batch = batch
            yield batch
            phases.synchronise()
            end = time.perf_counter()
            clock.waits.append(middle - begin)
            clock.steps.append(end - middle)
            clock.samples.append(phases.samples_in(batch))
            clock.cpu.append(time.process_time() - cpu)
            clock.caller_cpu.append(own_middle - own)
            clock.step_cpu.append(time.thread_time() - own_middle)
            if end - start >= seconds and (len(clock.steps) >= phases._FEWEST or end - start >= 3 * seconds):
                break
        self.worker[name] = tuple(b - a for a, b in zip(before, self.board.totals(), strict=True))
        if name != "start" and clock.steps:
            found = phases.summary(name, clock)
            self.phases[name] = replace(found, other_cores=max(others.cores() - self._worker_cores(name, start), 0.0))

    def _worker_cores(self, name: str, start: float) -> float:
        """Returns the number of cores that the workers used, so that they are not taken for other programs."""
        return self.worker[name][2] / max(time.perf_counter() - start, 1e-9) if self.n_workers else 0.0


def nbytes_of(batch: Any) -> int:
    if isinstance(batch, dict):
        return sum(nbytes_of(value) for value in batch.values())
    if isinstance(batch, (list, tuple)):
        return sum(nbytes_of(value) for value in batch)
    return int(getattr(batch, "nbytes", 0) or 0)
