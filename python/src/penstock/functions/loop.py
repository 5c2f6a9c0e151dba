"""Runs a loader's batches through the user's functions, in order, and counts the time."""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .. import _native
from ..base.signals import raised_by_handler
from ..data.dataset import Dataset
from ..errors import LimitError, PenstockError
from . import calls
from .bad import BadSamples, Fetch
from .counts import FunctionStats
from .place import Place

if TYPE_CHECKING:
    from . import workers as _workers

_Arrays = Callable[[_native.Batch], dict[str, Any]]


class Pipeline:
    """Runs the functions of one loader. Its workers are started for the first batch of a pass."""

    def __init__(self, functions: calls.Functions, given: Mapping[str, Any], dataset: Dataset, limit: int) -> None:
        self._functions, self._given, self._dataset, self._limit = functions, given, dataset, limit
        self.has_workers = given["function_workers"] > 0
        self._pool: _workers.Threads | _workers.Processes | None = None
        self._tasks: deque[tuple[calls.Task, Place]] = deque()  # tasks of workers, each with the place of the pass after its batch
        self._end = False  # the epoch has no more batches
        self._tears = False  # True while an exception would leave a step half done
        self._waits = False  # True: the batches under way must be delivered before another one is asked for
        self.bad = BadSamples(given, dataset)
        self._batches = self._samples = 0
        self._seconds = self._wait_seconds = 0.0

    def stats(self) -> FunctionStats:
        """Counters so far; see stats()["function"] of the loader."""
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

    def place_of(self, batch: _native.Batch, arrays: Mapping[str, Any]) -> calls.Place:
        import numpy as np

        epoch, step = batch.place()
        draws = np.frombuffer(batch.draws(), np.uint64)
        return calls.Place(epoch, tuple(arrays["index"].tolist()), tuple(draws.tolist()), step)

    def here(self, batch: _native.Batch, arrays: dict[str, Any], fetch: Fetch, whole: bool = True) -> Any:
        """Calls the functions in this thread. If `whole` is False, calls only Functions.sample and leaves no sample out."""
        place = self.place_of(batch, arrays)
        since = time.perf_counter()
        mend = functools.partial(self._mend, place, fetch) if self.bad.decides and (whole or self.bad.replaces) else None
        try:
            return calls.apply(self._functions, arrays, place, whole, mend=mend)
        except calls.Failure as failure:
            raise calls.error_of(failure, self._dataset, place) from failure.error
        finally:
            self._count(time.perf_counter() - since, len(place.samples))

    def _mend(
        self, place: calls.Place, fetch: Fetch, i: int, failure: calls.Failure, call: calls.Call, is_empty: bool
    ) -> calls.Row | None:
        """Returns a replacement for the failed sample of row i, or None to leave the row out, as on_error says."""
        is_new = not is_empty and self.bad.note(place, failure)
        self.bad.n_dropped += is_new and not self.bad.replaces
        if not (self.bad.pads if is_empty else self.bad.replaces):
            return None
        for sample in self.bad.others(place, i):
            values = fetch(place.epoch, sample)
            try:
                made = call(sample, 0, dict(values))
            except calls.Failure as another:
                if not another.trace:
                    raise
                failure = another
                continue
            self.bad.n_replaced += is_new or is_empty
            return calls.Row(sample, None, values, made)
        raise failure

    def _made_here(self, native: _native.Loader, to_arrays: _Arrays, fetch: Fetch, place: calls.Place) -> Any:
        """Makes a batch again in this thread after a sample failed in a worker, and applies on_error to the bad sample."""
        batch = native.replay(place.epoch, place.step)
        return self.here(batch, to_arrays(batch), fetch)

    def _count(self, seconds: float, n_samples: int) -> None:
        self._batches += 1
        self._samples += n_samples
        self._seconds += seconds

    def reset(self) -> None:
        """Drops the batches under way, because a pass begins or continues at another place."""
        for task, _ in self._tasks:
            task.is_dropped = True
        self._tasks.clear()
        self._end = self._waits = False

    @property
    def is_torn(self) -> bool:
        """True if an exception interrupted a step, so the batches under way cannot be used. Call :meth:`mend` first."""
        return self._tears or (self._pool is not None and self._pool.is_torn)

    def mend(self) -> None:
        """Drops the batches under way and stops the workers. The caller must then move the loader back to its place."""
        self.stop()
        self._tears = False

    def next(
        self, native: _native.Loader, to_arrays: _Arrays, fetch: Fetch, here: Place
    ) -> tuple[Any, Place, calls.Place] | None:
        """Returns the workers' result for the batch after `here`, the place after that batch, and its rows; None if no batch is
        left. Calls with the same `here` return the same batch."""
        if self._pool is None:
            from . import workers  # imported only when workers are used, because it imports multiprocessing and more

            self._pool = workers.opened(self._functions, self._given, self._limit)
        if self._tasks and self._tasks[0][1] is here:
            self._tasks.popleft()
        try:
            found = self._next(self._pool, native, to_arrays, here)
            if found is None:
                return None
            task, place = found
            if task.failure is not None:
                if not self._is_bad_sample(task.failure):
                    raise task.failure
                task.result, task.failure = self._made_here(native, to_arrays, fetch, task.place), None
            return task.result, place, task.place
        except calls.Failure as failure:
            self._tears = True  # new workers make the batch again
            if failure.which == calls.LIMIT:
                raise LimitError(failure.text, dataset=self._dataset.path) from None
            rows = self._tasks[0][0].place if self._tasks else None
            raise calls.error_of(failure, self._dataset, rows) from failure.error

    def _next(
        self, pool: _workers.Threads | _workers.Processes, native: _native.Loader, to_arrays: _Arrays, here: Place
    ) -> tuple[calls.Task, Place] | None:
        while self._put_one(pool, native, to_arrays, here):
            pass
        if not self._tasks:
            return None
        task, place = self._tasks[0]
        since = time.perf_counter()
        while not pool.wait(task):
            while self._put_one(pool, native, to_arrays, here):
                pass
        if not task.is_counted:
            task.is_counted = True
            self._wait_seconds += time.perf_counter() - since
            self._count(task.seconds, len(task.place.samples))
        return task, place

    def _is_bad_sample(self, failure: calls.Failure) -> bool:
        return self.bad.decides and failure.which == "Functions.sample" and failure.sample is not None and bool(failure.trace)

    def _put_one(
        self, pool: _workers.Threads | _workers.Processes, native: _native.Loader, to_arrays: _Arrays, here: Place
    ) -> bool:
        """Hands the loader's next batch to a worker if the batch is ready. Waits for the batch only if no worker has one. Returns
        False if no batch was handed over. The error of a later batch is raised when that batch is due."""
        if self._end or len(self._tasks) >= pool.depth or (self._waits and self._tasks):
            return False
        try:
            batch = native.next_ready() if self._tasks else native.next()
        except PenstockError:
            return self._at_its_turn()
        if isinstance(batch, bool):
            return False
        self._end = batch is None
        if batch is None:
            return False
        try:
            arrays = to_arrays(batch)
        except Exception as error:
            if raised_by_handler(error):
                raise
            return self._at_its_turn()
        return self._submit(pool, native, batch, arrays, self._tasks[-1][1] if self._tasks else here)

    def _at_its_turn(self) -> bool:
        """Called in an except clause, when the next batch failed. Raises the error only if no earlier batch is still to be
        delivered."""
        if not self._tasks:
            raise  # noqa: PLE0704
        self._waits = True
        return False

    def _submit(
        self,
        pool: _workers.Threads | _workers.Processes,
        native: _native.Loader,
        batch: _native.Batch,
        arrays: dict[str, Any],
        before: Place,
    ) -> bool:
        task = calls.Task(arrays, self.place_of(batch, arrays))
        place = Place(native.state(), before.taken + 1, before.left - 1)
        self._tears = True
        try:
            pool.submit(task)
        except LimitError:  # nothing was sent yet; batches under way hold the memory that this batch needs
            self._tears = False
            return self._at_its_turn()
        self._tasks.append((task, place))
        native.take(batch)
        self._tears = self._waits = False
        return True

    def stop(self) -> None:
        """Ends the workers. The next pass starts new ones."""
        self.reset()
        if self._pool is not None:
            self._pool.stop()
        self._pool = None
