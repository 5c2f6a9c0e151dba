"""Worker processes that read samples of the user's own data set, one at a time each.

A thread of the packing loop holds a worker while the worker reads one sample for it. Processes are spawned. Each makes the data set
again by calling the user's function, or gets a pickled copy of the object. A process ends when its pipe is closed, so no process
outlives the run.
"""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import pickle
import queue
import signal
import threading
import traceback
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

from ...base.signals import blocked, how_ended, raised_by_handler
from ...errors import ArgumentError, FunctionError, PenstockError, StateError
from .items import plain_sample

_END_SECONDS = 1.0  # time that an idle process gets to end by itself
_READY_SECONDS = 600.0  # time that a process gets to import the user's module and make the data set

Make = Callable[[], Any]


def read(dataset: Any, i: int) -> Any:
    """Reads sample `i` and converts it to plain values. An exception of the data set becomes a FunctionError with its traceback."""
    try:
        sample = dataset[i]
    except Exception as error:
        if raised_by_handler(error):
            raise
        trace = "".join(traceback.format_exception(error)).rstrip()
        raise FunctionError(f"__getitem__({i}) failed: {type(error).__name__}: {error}\n{trace}") from error
    return plain_sample(sample)


class _Failed:
    """An error that a worker sends to its parent."""

    def __init__(self, kind: type[PenstockError], text: str) -> None:
        self.kind, self.text = kind, text


def _answer(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except PenstockError as error:
        return _Failed(type(error), str(error))
    except Exception as error:
        return _Failed(FunctionError, "".join(traceback.format_exception(error)).rstrip())


def _serve(pipe: Any, make: Make) -> None:
    """The main function of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends its workers
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM})
    _watch_parent()
    with contextlib.suppress(EOFError, OSError):
        made = _answer(make)
        pipe.send(made if isinstance(made, _Failed) else _answer(lambda: len(made)))
        while (i := pipe.recv()) is not None:
            pipe.send(_answer(functools.partial(read, made, i)))


def _watch_parent() -> None:
    """Starts a thread that ends this process when its parent ends, also while a sample is being read."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), name="penstock-watch", daemon=True).start()


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    signal.raise_signal(signal.SIGKILL)


class _Worker:
    """A worker process, as its parent sees it."""

    def __init__(self, context: Any, make: Make) -> None:
        self.is_busy = False
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, make), name="penstock-source", daemon=True)
        with blocked():
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # until the child ignores Ctrl-C
            try:
                self.process.start()
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise ArgumentError(
                    f"the data set cannot be sent to a worker process ({type(error).__name__}: {error}): pack with num_workers=0, "
                    "or by `penstock pack --from module:function`, whose workers make the data set anew"
                ) from None
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()

    def answer(self, what: str) -> Any:
        """Waits for the answer of the process."""
        try:
            found = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(_END_SECONDS)
            raise StateError(f"worker process {self.process.pid} {how_ended(self.process.exitcode)} {what}") from None
        if isinstance(found, _Failed):
            raise found.kind(found.text)
        return found

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self.pipe.send(None)
        self.process.join(0 if self.is_busy else _END_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        if not self.is_busy:  # a thread may be reading the pipe of a busy worker, so that pipe stays open
            self.pipe.close()


class Processes:
    """A pool of worker processes. A thread takes an idle process for each sample that it reads."""

    def __init__(self, make: Make, n: int, n_samples: int) -> None:
        if multiprocessing.current_process().daemon:
            raise StateError("worker processes are not possible in a daemonic process: pack with num_workers=0")
        self._idle: queue.SimpleQueue[_Worker | None] = queue.SimpleQueue()
        self._workers: list[_Worker] = []
        self._why = "the run has ended"
        context = multiprocessing.get_context("spawn")
        try:
            for _ in range(n):
                self._workers.append(_Worker(context, make))
            for worker in self._workers:
                if not connection.wait([worker.pipe, worker.process.sentinel], _READY_SECONDS):
                    raise StateError(f"a worker process needs more than {_READY_SECONDS:g} seconds to make the data set")
                if (found := worker.answer("while it made the data set")) != n_samples:
                    raise StateError(f"the data set has {n_samples} samples here and {found} in a worker process")
                self._idle.put(worker)
        except BaseException:
            self.close()
            raise

    def read(self, i: int) -> Any:
        """Reads sample `i` in an idle process. Any thread may call."""
        worker = self._idle.get()
        if worker is None:
            self._idle.put(None)  # wakes the next thread that waits
            raise StateError(self._why)
        worker.is_busy = True
        try:
            worker.pipe.send(i)
            found = worker.answer(f"while it read sample {i}")
        except (OSError, StateError) as error:
            # Stop the other threads, too: the writer may be waiting for the sample of the lost worker.
            self._why = f"worker process {worker.process.pid}, before sample {i}: {error}" if type(error) is OSError else str(error)
            self._idle.put(None)
            raise StateError(self._why) from None
        except PenstockError:
            worker.is_busy = False
            self._idle.put(worker)
            raise
        worker.is_busy = False
        self._idle.put(worker)
        return found

    def close(self) -> None:
        """Ends all processes. Threads that wait for a process get an error."""
        self._idle.put(None)
        for worker in self._workers:
            if worker.is_busy:
                worker.process.kill()
        while self._workers:
            self._workers[-1].end()
            self._workers.pop()
