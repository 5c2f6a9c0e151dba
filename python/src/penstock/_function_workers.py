"""Threads and processes that run a loader's functions, a batch each at a time.

Batches keep their order: the loader asks for the result of each task in turn. Workers that ended, or take too long, are
noticed by whoever waits for them. A process that runs functions ends when the one that started it does.
"""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import queue
import signal
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections import deque
from multiprocessing import connection, reduction
from typing import Any

from . import _function_memory as _memory
from . import _functions
from .errors import ArgumentError, LimitError, StateError

SLICE = 0.05  # seconds between two looks at workers that say nothing
_ORPHAN_SECONDS = 2.0  # a process looks so often whether its parent lives
LIMIT = "host_memory"  # what failed, where a result finds no shared memory
_END_SECONDS = 1.0  # that an idle process has to end by itself


class Task:
    """A batch on its way: what a worker gets, and what it gave."""

    def __init__(self, arrays: Any, place: _functions.Place) -> None:
        self.arrays, self.place = arrays, place
        self.result: Any = None
        self.failure: _functions.Failure | None = None
        self.seconds = 0.0
        self.n_given = 0  # bytes of a process's block that its arguments take
        self.is_done = self.is_dropped = False


def run(functions: _functions.Functions, task: Task) -> None:
    """Does a task in this thread."""
    since = time.perf_counter()
    try:
        task.result = _functions.apply(functions, task.arrays, task.place, catch=BaseException)
    except _functions.Failure as failure:
        task.failure = failure
    except BaseException as error:
        which = "batch_function" if functions.sample is None else "sample_function"
        task.failure = _functions.Failure(which, None, repr(error), traceback.format_exc(), error)
    task.arrays = None
    task.seconds = time.perf_counter() - since


def _timed_out(timeout: float) -> _functions.Failure:
    return _functions.Failure(
        "function_workers", None, f"a worker has taken more than {timeout:g} seconds for one batch (function_timeout)"
    )


# Threads ----------------------------------------------------------------------------------------


class _Bench:
    """What threads and the one who gives them tasks share. It knows no pool: a pool that nobody has any more can go."""

    def __init__(self) -> None:
        self.tasks: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        self.done = threading.Condition()
        self.began: dict[Task, float] = {}


def _work(functions: _functions.Functions, bench: _Bench) -> None:
    while _work_once(functions, bench):
        pass


def _work_once(functions: _functions.Functions, bench: _Bench) -> bool:
    """Does one task, and keeps nothing of it. False: there are no more."""
    task = bench.tasks.get()
    if task is None:
        return False
    if not task.is_dropped:
        bench.began[task] = time.monotonic()
        run(functions, task)
        bench.began.pop(task, None)
    with bench.done:
        task.is_done = True
        bench.done.notify_all()
    return True


def _end_threads(bench: _Bench, n: int) -> None:
    """Lets threads end after the tasks that they are at; the others are dropped."""
    with contextlib.suppress(queue.Empty):
        while True:
            bench.tasks.get_nowait()
    for _ in range(n):
        bench.tasks.put(None)


class Threads:
    """Daemon threads of this process, so that one that hangs does not keep the interpreter from ending."""

    nbytes = 0

    def __init__(self, functions: _functions.Functions, n: int, timeout: float | None) -> None:
        self.depth = 2 * n
        self._timeout = timeout
        self._bench = _Bench()
        self.stop = weakref.finalize(self, _end_threads, self._bench, n)
        for i in range(n):
            name = f"penstock-function-{i}"
            threading.Thread(target=_work, args=(functions, self._bench), name=name, daemon=True).start()

    def submit(self, task: Task) -> None:
        self._bench.tasks.put(task)

    def wait(self, task: Task) -> bool:
        """Waits a moment. True: the task is done."""
        with self._bench.done:
            if not task.is_done:
                self._bench.done.wait(SLICE)
        began = self._bench.began.get(task)
        if not task.is_done and self._timeout and began is not None and time.monotonic() - began > self._timeout:
            raise _timed_out(self._timeout)
        return task.is_done


# Processes --------------------------------------------------------------------------------------


def _send_block(pipe: Any, fd: int, pid: int) -> None:
    reduction.send_handle(pipe, fd, pid)


def _picklable(failure: _functions.Failure) -> _functions.Failure:
    """The failure without its exception if that cannot be sent."""
    with contextlib.suppress(Exception):
        pickle.loads(pickle.dumps(failure.error))
        return failure
    return _functions.Failure(failure.which, failure.sample, failure.text, failure.trace)


def _do(
    functions: _functions.Functions, block: _memory.Block, account: _memory.Account, begin: int, end: int, n_more: int
) -> tuple[int, int, float]:
    """Does a task that lies in the block, which may grow by n_more bytes. Returns where the result lies, and the seconds of
    the functions."""
    arrays, place = _memory.read(block, begin, end)
    task = Task(arrays, place)
    run(functions, task)
    if task.failure is None:
        account.limit, account.nbytes = n_more, 0
        try:
            return *_memory.write(block, task.result, end), task.seconds
        except LimitError:
            text = (
                f"what functions returned does not fit in shared memory: a batch of {len(place.samples)} samples needs more than "
                f"{n_more} bytes beside its arguments, all that host_memory leaves: release batches, or raise it"
            )
            task.failure = _functions.Failure(LIMIT, None, text)
        except Exception as error:
            which = "sample_function" if functions.batch is None else "batch_function"
            text = f"what it returned cannot be sent from its process: {type(error).__name__}: {error}"
            task.failure = _functions.Failure(which, None, text)
    account.limit = sys.maxsize  # for the message
    failure = _picklable(task.failure)
    parts = (failure.which, failure.sample, failure.text, failure.trace, failure.error)
    return *_memory.write(block, _Failed(parts), end), task.seconds


class _Failed:
    """A failure on its way; not a tuple, whose parts would be looked at."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts


def _serve(pipe: Any, functions: _functions.Functions, others: list[Any]) -> None:
    """The life of a process. Messages to it: (task, block, begin, end, n_more, is_new); None: end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one that started it
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for other in others:  # of its siblings, which a fork has copied
        other.close()
    if functions.output == "torch":
        import torch

        torch.set_num_threads(1)
    process, parent = multiprocessing.parent_process(), os.getppid()
    watched = [pipe] if process is None else [pipe, process.sentinel]
    blocks: dict[int, _memory.Block] = {}
    account = _memory.Account(0)  # what the task at hand may add
    while os.getppid() == parent:
        ready = connection.wait(watched, _ORPHAN_SECONDS)
        if ready and pipe not in ready:
            return
        if not ready:
            continue
        try:
            message = pipe.recv()
            if message is None:
                return
            number, name, begin, end, n_more, is_new = message
            if is_new:
                blocks[name] = _memory.Block(reduction.recv_handle(pipe), account.charge)
            pipe.send((number, *_do(functions, blocks[name], account, begin, end, n_more)))
        except (EOFError, OSError):
            return


class _Process:
    """A worker process as its parent sees it."""

    def __init__(self, context: Any, functions: _functions.Functions, others: list[Any]) -> None:
        self.pipe, theirs = context.Pipe()
        inherited = [*others, self.pipe] if context.get_start_method() == "fork" else []
        self.process = context.Process(
            target=_serve, args=(theirs, functions, inherited), name="penstock-function", daemon=True
        )
        with warnings.catch_warnings():  # the child of a fork uses none of the loader's threads
            warnings.simplefilter("ignore", DeprecationWarning)
            self.process.start()
        theirs.close()
        self.knows: set[int] = set()  # names of blocks that it has
        self.tasks: deque[int] = deque()  # that it has, the one under way first
        self.since = 0.0  # when that began

    def end(self, kill: bool) -> None:
        with contextlib.suppress(OSError, ValueError):
            if kill:
                self.process.kill()
            else:
                self.pipe.send(None)
        self.process.join(_END_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()
        self.pipe.close()


def _end_all(workers: list[_Process], blocks: dict[int, _memory.Block], owner: int) -> None:
    """Ends all processes. In a forked child they are not its own."""
    if os.getpid() == owner:
        for worker in workers:
            worker.end(kill=bool(worker.tasks) or worker.process.exitcode is not None)
    for block in blocks.values():
        block.close()
    workers.clear()
    blocks.clear()


class Processes:
    """Worker processes with two batches each at most: one under way, one that waits."""

    def __init__(self, functions: _functions.Functions, n: int, timeout: float | None, start: str, limit: int) -> None:
        if multiprocessing.current_process().daemon:
            raise StateError('function_kind="processes" is not possible in a daemonic process, such as a worker of a DataLoader')
        self.depth = 2 * n
        self._timeout = timeout
        self._account = _memory.Account(limit)
        self._most = 0  # bytes that a result has needed
        self._workers: list[_Process] = []
        self._tasks: dict[int, tuple[Task, int, int]] = {}  # with the names of their blocks, and what these may grow by
        self._blocks: dict[int, _memory.Block] = {}
        self._free: list[int] = []
        self._next = 0
        self.stop = weakref.finalize(self, _end_all, self._workers, self._blocks, os.getpid())
        context = multiprocessing.get_context(start)
        try:
            for _ in range(n):
                self._workers.append(_Process(context, functions, [worker.pipe for worker in self._workers]))
        except BaseException:
            self.stop()
            raise

    @property
    def nbytes(self) -> int:
        """Bytes of all blocks."""
        return self._account.nbytes

    def _block(self) -> int:
        if not self._free:
            self._next += 1
            self._blocks[self._next] = _memory.Block.new(self._account.charge)
            return self._next
        return self._free.pop()

    def _put(self, task: Task) -> tuple[int, int, int, int]:
        """Writes a task to a block. Returns the block's name, where the message lies, and what the block may grow by."""
        name = self._block()
        block = self._blocks[name]
        try:
            begin, end = _memory.write(block, (task.arrays, task.place))
            return name, begin, end, self._growth(block, end)
        except BaseException:
            self._free.append(name)
            raise

    def _growth(self, block: _memory.Block, end: int) -> int:
        """Returns the bytes by which a block may grow: an equal part of what is free. If that may be too little, tasks under
        way have to end first; one alone gets all."""
        n_others = len(self._tasks)
        part = self._account.free() // max(1, self.depth - n_others)
        if n_others == 0:
            return self._account.free()
        if part < end + 2 * (self._most or end) - block.size:
            raise LimitError(
                f"results of function_workers may need more shared memory than host_memory ({self._account.limit}) leaves: "
                "release batches, or raise it"
            )
        return part

    def _put_after_dropped(self, task: Task) -> tuple[int, int, int, int]:
        """As _put, but dropped tasks give their memory back first where it is scarce."""
        while True:
            try:
                return self._put(task)
            except LimitError:
                dropped = next((each for each, _, _ in self._tasks.values() if each.is_dropped), None)
                if dropped is None:
                    raise
                self.wait(dropped)

    def submit(self, task: Task) -> None:
        name, begin, end, n_more = self._put_after_dropped(task)
        block = self._blocks[name]
        task.arrays = None
        worker = min(self._workers, key=lambda each: len(each.tasks))
        self._next += 1
        number = self._next
        is_new = name not in worker.knows
        try:
            worker.pipe.send((number, name, begin, end, n_more, is_new))
            if is_new:
                _send_block(worker.pipe, block.fd, worker.process.pid or 0)
        except OSError:
            raise self._ended(worker) from None
        worker.knows.add(name)
        if not worker.tasks:
            worker.since = time.monotonic()
        worker.tasks.append(number)
        self._tasks[number] = (task, name, n_more)
        self._account.reserved += n_more
        task.n_given = end

    def wait(self, task: Task) -> bool:
        """Takes results that are there, or waits a moment for one. True: that of the task is there."""
        owners = {worker.pipe: worker for worker in self._workers}
        watched = [*owners, *(worker.process.sentinel for worker in self._workers)]
        ready = connection.wait(watched, 0 if task.is_done else SLICE)
        for pipe in ready:
            if pipe in owners:
                self._take(owners[pipe])
        if task.is_done:
            return True
        for worker in self._workers:
            if worker.process.exitcode is not None:
                raise self._ended(worker)
            if self._timeout and worker.tasks and time.monotonic() - worker.since > self._timeout and not worker.pipe.poll():
                raise _timed_out(self._timeout)
        return task.is_done

    def _take(self, worker: _Process) -> None:
        try:
            number, begin, end, seconds = worker.pipe.recv()
        except (EOFError, OSError):
            raise self._ended(worker) from None
        worker.tasks.popleft()
        worker.since = time.monotonic()
        task, name, n_more = self._tasks.pop(number)
        block = self._blocks[name]
        self._account.reserved -= n_more
        self._account.nbytes += block.growth()
        self._most = max(self._most, end - task.n_given)
        task.is_done, task.seconds = True, seconds
        if task.is_dropped:
            self._free.append(name)
            return
        block.reach(end)
        holder = (ctypes.c_char * block.nbytes).from_buffer(block.memory)
        weakref.finalize(holder, self._free.append, name).atexit = False
        task.result = _memory.read(block, begin, end, holder)
        if isinstance(task.result, _Failed):
            task.failure = _functions.Failure(*task.result.parts)

    def _ended(self, worker: _Process) -> _functions.Failure:
        worker.process.join(_END_SECONDS)
        code = worker.process.exitcode
        how = "closed its pipe" if code is None else f"ended with status {code}"
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):
                how = f"was ended by signal {-code} ({signal.Signals(-code).name})"
        place = self._tasks[worker.tasks[0]][0].place if worker.tasks else None
        samples = f" while it had samples {place.samples[0]} to {place.samples[-1]}" if place and place.samples else ""
        return _functions.Failure("function_workers", None, f"worker process {worker.process.pid} {how}{samples}")


def opened(functions: _functions.Functions, given: Any, limit: int) -> Threads | Processes:
    """Starts the workers that a loader's arguments ask for."""
    n, timeout, start = given["function_workers"], given["function_timeout"], given["function_start"]
    if given["function_kind"] == "threads":
        return Threads(functions, n, timeout)
    if start != "fork":
        _check_picklable(functions, start)
    return Processes(functions, n, timeout, start, limit)


def _check_picklable(functions: _functions.Functions, start: str) -> None:
    for name, function in (("sample_function", functions.sample), ("batch_function", functions.batch)):
        try:
            reduction.ForkingPickler.dumps(function)
        except Exception as error:
            raise ArgumentError(
                f"{name} cannot be sent to a process that is started by {start!r}: {type(error).__name__}: {error}. Define it at "
                'the top of a module, or use function_start="fork"'
            ) from error
