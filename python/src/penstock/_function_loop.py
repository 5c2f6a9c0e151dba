"""How a loader's batches go through the user's functions, in order, and what that costs."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from . import _function_workers as _workers
from . import _functions, _native
from ._stats import FunctionStats
from .dataset import Dataset
from .errors import LimitError

_Arrays = Callable[[_native.Batch], dict[str, Any]]
_State = tuple[int, ...]


class Pipeline:
    """The functions of one loader, and their workers, which the first batch of a pass starts."""

    def __init__(self, functions: _functions.Functions, given: Mapping[str, Any], dataset: Dataset, limit: int) -> None:
        self._functions, self._given, self._dataset, self._limit = functions, given, dataset, limit
        self.has_workers = given["function_workers"] > 0
        self._pool: _workers.Threads | _workers.Processes | None = None
        self._tasks: deque[tuple[_workers.Task, _State]] = deque()
        self._end: BaseException | bool = False  # no batch follows: the epoch is over, or has failed
        self._kept: tuple[_native.Batch, _State] | None = None  # a batch that found no memory
        self.has_failed = False  # the pass ended with a batch that was not delivered
        self._waits = False  # no batch is asked for before those under way are delivered
        self._batches = self._samples = 0
        self._seconds = self._wait_seconds = 0.0

    def stats(self) -> FunctionStats:
        """What it has cost so far; see stats()["function"] of the loader."""
        return {
            "kind": self._given["function_kind"] if self.has_workers else "caller",
            "workers": self._given["function_workers"],
            "batches": self._batches,
            "samples": self._samples,
            "seconds": self._seconds,
            "seconds_per_sample": self._seconds / self._samples if self._samples else 0.0,
            "wait_seconds": self._wait_seconds,
            "nbytes_shared": self._pool.nbytes if self._pool else 0,
        }

    def place_of(self, batch: _native.Batch, arrays: Mapping[str, Any]) -> _functions.Place:
        import numpy as np

        epoch, _ = batch.place()
        draws = np.frombuffer(batch.draws(), np.uint64)
        return _functions.Place(epoch, tuple(arrays["index"].tolist()), tuple(draws.tolist()))

    def here(self, batch: _native.Batch, arrays: dict[str, Any], whole: bool = True) -> Any:
        """Calls the functions in this thread. whole False: that for samples alone."""
        place = self.place_of(batch, arrays)
        since = time.perf_counter()
        try:
            return _functions.apply(self._functions, arrays, place, whole)
        except _functions.Failure as failure:
            raise _functions.error_of(failure, self._dataset, place.samples) from failure.error
        finally:
            self._count(time.perf_counter() - since, len(place.samples))

    def _count(self, seconds: float, n_samples: int) -> None:
        self._batches += 1
        self._samples += n_samples
        self._seconds += seconds

    def reset(self) -> None:
        """A pass begins: what is under way for another place is dropped."""
        for task, _ in self._tasks:
            task.is_dropped = True
        self._tasks.clear()
        self._kept = None
        self._end = self._waits = self.has_failed = False

    def next(self, native: _native.Loader, to_arrays: _Arrays) -> tuple[Any, _State] | None:
        """Returns what the functions made of the next batch, and the loader's state after it; None: the pass is over, also
        after a failure."""
        if self.has_failed:
            return None
        if not self.has_workers:
            return self._next_here(native, to_arrays)
        if self._pool is None:
            self._pool = _workers.opened(self._functions, self._given, self._limit)
        try:
            return self._next(self._pool, native, to_arrays)
        except _functions.Failure as failure:
            samples = self._tasks[0][0].place.samples if self._tasks else ()
            self.stop()
            self.has_failed = True
            if failure.which == _workers.LIMIT:
                raise LimitError(failure.text, dataset=self._dataset.path) from None
            raise _functions.error_of(failure, self._dataset, samples) from failure.error

    def _next_here(self, native: _native.Loader, to_arrays: _Arrays) -> tuple[Any, _State] | None:
        batch = native.next()
        if batch is None:
            return None
        self.has_failed = True  # until it is made, also for Ctrl-C
        made = self.here(batch, to_arrays(batch))
        self.has_failed = False
        return made, native.state()

    def _next(
        self, pool: _workers.Threads | _workers.Processes, native: _native.Loader, to_arrays: _Arrays
    ) -> tuple[Any, _State] | None:
        self._fill(pool, native, to_arrays)
        if not self._tasks:
            if isinstance(self._end, BaseException):
                raise self._end
            return None
        task, state = self._tasks[0]
        since = time.perf_counter()
        while not pool.wait(task):
            self._fill(pool, native, to_arrays)
        self._wait_seconds += time.perf_counter() - since
        self._count(task.seconds, len(task.place.samples))
        if task.failure is not None:
            raise task.failure
        self._tasks.popleft()
        return task.result, state

    def _fill(self, pool: _workers.Threads | _workers.Processes, native: _native.Loader, to_arrays: _Arrays) -> None:
        """Hands ready batches to the workers. Waits for the loader only if no worker has a batch."""
        while not self._end and len(self._tasks) < pool.depth and not (self._waits and self._tasks):
            try:
                if self._kept is None and not self._get(native):
                    return
                self._submit(pool, to_arrays)
            except LimitError:
                if not self._tasks:
                    raise
                self._waits = True  # batches under way hold the memory that the next one needs
            except _functions.Failure:
                raise
            except Exception as error:
                if not self._tasks:
                    raise
                self._end = error  # after the batches before it

    def _get(self, native: _native.Loader) -> bool:
        """Takes the next batch from the loader. False: there is none now, or none any more."""
        batch = native.next_ready() if self._tasks else native.next()
        if isinstance(batch, bool):
            return False
        self._end = batch is None
        if batch is not None:
            self._kept = batch, native.state()
        return batch is not None

    def _submit(self, pool: _workers.Threads | _workers.Processes, to_arrays: _Arrays) -> None:
        assert self._kept is not None
        batch, state = self._kept
        arrays = to_arrays(batch)
        task = _workers.Task(arrays, self.place_of(batch, arrays))
        pool.submit(task)
        self._tasks.append((task, state))
        self._kept = None
        self._waits = False

    def stop(self) -> None:
        """Ends the workers. The next pass starts others."""
        self.reset()
        if self._pool is not None:
            self._pool.stop()
        self._pool = None
