"""Threads and processes that run a loader's functions. Each worker has one batch at a time.

Batches keep their order, because the loader waits for the result of each task in turn. While it waits, it notices workers that
ended or take too long. A worker process ends when the process that started it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import multiprocessing
import os
import pickle
import queue
import random
import signal
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Container
from multiprocessing import connection, reduction
from typing import Any

from ..base.signals import blocked as blocked_signals
from ..base.signals import handled, how_ended
from ..errors import ArgumentError, LimitError, StateError
from . import calls
from . import memory as _memory
from .calls import LIMIT, Task

SLICE = 0.05  # seconds between two checks for workers that have ended or take too long
_ORPHAN_SECONDS = 2.0  # seconds between two checks of a worker process whether its parent lives
_TO_GROUPS = {signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}  # signals that are often sent to all processes of a job
_END_SECONDS = 1.0  # seconds that an idle process has to end by itself

_More = Callable[[int], bool]  # asks the loader for more bytes of memory; False: refused


def run(functions: calls.Functions, task: Task) -> None:
    """Runs the functions on a task in this thread, and stores the result or the failure in the task."""
    since = time.perf_counter()
    try:
        task.result = calls.apply(functions, task.arrays, task.place, catch=BaseException)
    except calls.Failure as failure:
        task.failure = failure
    except BaseException as error:
        which = "Functions.batch" if functions.sample is None else "Functions.sample"
        task.failure = calls.Failure(which, None, repr(error), traceback.format_exc(), error)
    task.arrays = None
    task.seconds = time.perf_counter() - since


def _timed_out(timeout: float) -> calls.Failure:
    return calls.Failure(
        "Functions.workers", None, f"a worker has taken more than {timeout:g} seconds for one batch (Functions.timeout)"
    )


# Threads ----------------------------------------------------------------------------------------


class _Bench:
    """What threads and their pool share. It holds no strong reference to the pool."""

    def __init__(self, pool: Threads) -> None:
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()  # anything that is not a Task tells the threads to end
        self.began: dict[Task, float] = {}
        self.is_ended = False
        # When the pool is garbage, the interpreter itself puts this weak reference into the queue, which tells the threads to end.
        # A callback in Python would be less safe, because a signal handler could interrupt it.
        self.pool = weakref.ref(pool, self.tasks.put)

    def take(self) -> Task | None:
        """Waits for a task. Returns None if the thread has to end; the tasks that are left are dropped."""
        task = self.tasks.get()
        if isinstance(task, Task) and not self.is_ended and self.pool() is not None:
            return task
        self.tasks.put(None)  # tells the next thread to end, too
        return None

    def do(self, functions: calls.Functions, task: Task) -> None:
        if not task.is_dropped:
            self.began[task] = time.monotonic()
            run(functions, task)
            self.began.pop(task, None)
        task.is_done = True
        task.ends.release()


def _work(functions: calls.Functions, bench: _Bench, blocked: set[int | signal.Signals]) -> None:
    """The main function of a worker thread. The thread was started with signals blocked."""
    is_first = True
    while (task := bench.take()) is not None:
        if is_first:  # from now on no signal can interrupt the start of a thread
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
            is_first = False
        bench.do(functions, task)
        del task  # keep no reference to the task while waiting for the next one


class Threads:
    """A pool of daemon threads. Daemon threads do not keep the interpreter from ending if one of them hangs."""

    nbytes = 0
    is_torn = False

    def __init__(self, functions: calls.Functions, n: int, timeout: float | None) -> None:
        self.depth = 2 * n
        self._timeout = timeout
        self._bench = _Bench(self)
        with blocked_signals() as blocked:
            for i in range(n):
                name = f"penstock-function-{i}"
                threading.Thread(target=_work, args=(functions, self._bench, blocked), name=name, daemon=True).start()

    def stop(self) -> None:
        """Ends each thread after its current task and drops the other tasks. It may be called again if an exception interrupts it.
        The threads also end by themselves when the pool is garbage."""
        self._bench.is_ended = True
        self._bench.tasks.put(None)

    def submit(self, task: Task) -> None:
        task.ends.acquire()
        self._bench.tasks.put(task)

    def wait(self, task: Task) -> bool:
        """Waits up to SLICE seconds for a task. Returns True if it is done."""
        if not task.is_done:  # the flag decides, not the lock, since an exception may come right after the lock is taken
            task.ends.acquire(timeout=SLICE)
        began = self._bench.began.get(task)
        if not task.is_done and self._timeout and began is not None and time.monotonic() - began > self._timeout:
            raise _timed_out(self._timeout)
        return task.is_done


# Processes --------------------------------------------------------------------------------------


def _send_block(pipe: Any, fd: int, pid: int) -> None:
    reduction.send_handle(pipe, fd, pid)


def _picklable(failure: calls.Failure) -> calls.Failure:
    """Returns the failure, without its exception if that cannot be pickled."""
    with contextlib.suppress(Exception):
        pickle.loads(pickle.dumps(failure.error))
        return failure
    return calls.Failure(failure.which, failure.sample, failure.text, failure.trace)


def _do(
    functions: calls.Functions, block: _memory.Block, account: _memory.Account, begin: int, end: int, more: _More
) -> tuple[int, int, float]:
    """Runs the task whose message lies in the block. Returns where the result lies, and the run time of the functions in seconds.

    The block may grow by the bytes that `account` has; `more` asks the loader for further bytes."""
    arrays, place = _memory.read(block, begin, end)
    task = Task(arrays, place)
    _seed(functions.seed, place)
    run(functions, task)
    while task.failure is None:
        try:
            return *_memory.write(block, task.result, end), task.seconds
        except LimitError:
            if more(account.short):
                continue
            text = (
                f"what functions returned does not fit in shared memory: a batch of {len(place.samples)} samples needs "
                f"{account.short} bytes more than host_memory leaves: release batches, or raise it"
            )
            task.failure = calls.Failure(LIMIT, None, text)
        except Exception as error:
            which = "Functions.sample" if functions.batch is None else "Functions.batch"
            text = f"what it returned cannot be sent from its process: {type(error).__name__}: {error}"
            task.failure = calls.Failure(which, None, text)
    account.limit = sys.maxsize  # the message of a failure is written even beyond the limit
    failure = _picklable(task.failure)
    parts = (failure.which, failure.sample, failure.text, failure.trace, failure.error)
    return *_memory.write(block, _Failed(parts), end), task.seconds


def _seed(seed: int, place: calls.Place) -> None:
    """Seeds the global generators of random, numpy and torch for one batch.

    Without it, forked processes would draw the same numbers. The seed is a hash of the batch's key (seed, epoch, samples, draws),
    so the numbers do not depend on the process that handles the batch."""
    import numpy as np

    key = np.array([seed, place.epoch, *place.samples, *place.draws], np.uint64).tobytes()
    words = np.frombuffer(hashlib.blake2b(key, digest_size=32, person=b"penstock").digest(), np.uint32)
    random.seed(words.tobytes())
    np.random.seed(words)
    if "torch" in sys.modules:
        import torch

        torch.default_generator.manual_seed(int.from_bytes(words[:2].tobytes(), "little"))


class _Failed:
    """A failure that is sent to the loader. It is no tuple, because `write` replaces arrays inside tuples."""

    def __init__(self, parts: tuple[Any, ...]) -> None:
        self.parts = parts


def _received_block(pipe: Any) -> int:
    try:
        return reduction.recv_handle(pipe)
    except RuntimeError:  # the pipe was closed before the descriptor came
        raise EOFError from None


class _Server:
    """The loop of a worker process: receives tasks from its pipe, and sends back where their results lie.

    Messages to it: (task, block, begin, end, n_more, is_new), where n_more is the number of bytes by which the block may grow. An
    int answers its request for more bytes; 0 refuses them. None: end. Messages from it: (task, begin, end, seconds), or (task,
    bytes that it requests)."""

    def __init__(self, pipe: Any, functions: calls.Functions) -> None:
        self._pipe, self._functions = pipe, functions
        self._parent = os.getppid()
        process = multiprocessing.parent_process()
        self._watched = [pipe] if process is None else [pipe, process.sentinel]
        self._waiting: deque[Any] = deque()  # tasks received while another one is being run
        self._blocks: dict[int, _memory.Block] = {}
        self._account = _memory.Account(0)  # bytes that the current task may add to its block

    def _receive(self) -> Any:
        """Returns the next message. Raises EOFError if the loader's process has ended."""
        while os.getppid() == self._parent:
            ready = connection.wait(self._watched, _ORPHAN_SECONDS)
            if self._pipe in ready:
                message = self._pipe.recv()
                if isinstance(message, tuple) and message[-1]:
                    self._blocks[message[1]] = _memory.Block(_received_block(self._pipe), self._account.charge)
                return message
            if ready:
                break
        raise EOFError

    def _more(self, task: int, nbytes: int) -> bool:
        """Asks the loader for more memory. Returns False if it refuses."""
        self._pipe.send((task, nbytes))
        while not isinstance(answer := self._receive(), int):
            if answer is None:
                raise EOFError
            self._waiting.append(answer)
        self._account.limit += answer
        return answer > 0

    def run(self) -> None:
        with contextlib.suppress(EOFError, OSError):
            while (message := self._waiting.popleft() if self._waiting else self._receive()) is not None:
                number, name, begin, end, n_more, _ = message
                self._account.limit, self._account.nbytes = n_more, 0
                more = functools.partial(self._more, number)
                self._pipe.send((number, *_do(self._functions, self._blocks[name], self._account, begin, end, more)))


def _serve(pipe: Any, functions: calls.Functions, others: list[Any], blocked: tuple[int, ...]) -> None:
    """The main function of a worker process."""
    # Signals such as Ctrl-C, and those that the parent process handles, are meant for the parent only.
    for number in {signal.SIGINT, *_TO_GROUPS.intersection(handled())}:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    for other in others:  # pipes of the other workers, which the fork has copied
        other.close()
    if functions.output == "torch":
        import torch

        torch.set_num_threads(1)
    _Server(pipe, functions).run()


class _Process:
    """A worker process, as seen by the loader's process."""

    def __init__(self, context: Any, functions: calls.Functions, others: list[Any]) -> None:
        self.pipe, theirs = context.Pipe()
        inherited = [*others, self.pipe] if context.get_start_method() == "fork" else []
        with blocked_signals() as blocked:
            self.process = context.Process(
                target=_serve, args=(theirs, functions, inherited, tuple(blocked)), name="penstock-function", daemon=True
            )
            with warnings.catch_warnings():  # the forked child uses none of the loader's threads
                warnings.simplefilter("ignore", DeprecationWarning)
                self.process.start()
        theirs.close()
        self.knows: set[int] = set()  # names of the blocks that the process has mapped
        self.tasks: deque[int] = deque()  # numbers of its tasks; the first one is being run
        self.since = 0.0  # time at which the first task began

    def is_working(self, wishes: Container[int]) -> bool:
        """Whether the process runs a task and does not wait for memory."""
        return bool(self.tasks) and self.tasks[0] not in wishes

    def end(self) -> None:
        """Tells the process to end and waits for it. Kills it if it has tasks or takes too long. May be called again after an
        exception."""
        with contextlib.suppress(OSError):
            if self.tasks or self.process.exitcode is not None:
                self.process.kill()
            else:
                self.pipe.send(None)
        self.process.join(_END_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.pipe.close()


def _end_all(workers: list[_Process], blocks: dict[int, _memory.Block], owner: int) -> None:
    """Ends all worker processes. A forked child only forgets them, because they belong to the parent (`owner`). It may be called
    again if an exception interrupts it. A process whose pipe is closed also ends by itself."""
    while workers:
        if os.getpid() == owner:
            workers[-1].end()
        workers.pop()
    while blocks:
        blocks.popitem()[1].close()


class Processes:
    """A pool of worker processes. Each has at most two batches: one that it runs, and one that waits."""

    def __init__(self, functions: calls.Functions, n: int, timeout: float | None, start: str, limit: int) -> None:
        if multiprocessing.current_process().daemon:
            raise StateError('function_kind="processes" is not possible in a daemonic process, such as a worker of a DataLoader')
        self.depth = 2 * n
        self._timeout = timeout
        self._account = _memory.Account(limit)
        self._most = 0  # bytes of the largest result so far
        self._wishes: dict[int, tuple[_Process, int]] = {}  # requests for memory: worker and bytes, by task number
        self.is_torn = False  # True: an exception interrupted the exchange of a message
        self._workers: list[_Process] = []
        self._tasks: dict[int, tuple[Task, int, int]] = {}  # by task number: task, its block, bytes by which that may grow
        self._blocks: dict[int, _memory.Block] = {}
        self._free: list[int] = []
        self._next = 0
        self._ends = self._workers, self._blocks, os.getpid()
        weakref.finalize(self, _end_all, *self._ends)
        context = multiprocessing.get_context(start)
        try:
            for _ in range(n):
                self._workers.append(_Process(context, functions, [worker.pipe for worker in self._workers]))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends the processes. Those that have tasks are killed at once."""
        _end_all(*self._ends)

    @property
    def nbytes(self) -> int:
        """bytes of all blocks of shared memory"""
        return self._account.nbytes

    def _block(self) -> int:
        if not self._free:
            self._next += 1
            self._blocks[self._next] = _memory.Block.new(self._account.charge)
            return self._next
        return self._free.pop()

    def _put(self, task: Task) -> tuple[int, int, int, int]:
        """Writes a task to a block. Returns the block's name, begin and end of the message, and the bytes by which the block may
        grow."""
        name = self._block()
        block = self._blocks[name]
        try:
            begin, end = _memory.write(block, (task.arrays, task.place))
            return name, begin, end, self._growth(block, end)
        except BaseException:
            self._free.append(name)
            raise

    def _find(self, nbytes: int) -> int:
        """Frees the memory of unused blocks until `nbytes` bytes are available. Returns the bytes that are available."""
        for name in list(self._free):
            if self._account.free() >= nbytes:
                break
            self._account.nbytes -= self._blocks[name].empty()
        return self._account.free()

    def _growth(self, block: _memory.Block, end: int) -> int:
        """Returns the bytes by which a block may grow without asking: twice the size of the largest result so far. If less memory
        is free, or no result is known yet, raises LimitError while tasks are under way. A single task gets the memory that is
        free."""
        wanted = max(0, end + 2 * (self._most or end) - block.size)
        free = self._find(wanted)
        if self._tasks and (free < wanted or not self._most):
            raise LimitError(
                f"results of Functions.workers may need more shared memory than host_memory ({self._account.limit}) leaves: "
                "release batches, or raise it"
            )
        return min(free, wanted)

    def _put_after_dropped(self, task: Task) -> tuple[int, int, int, int]:
        """Writes a task to a block like `_put`. If memory is short, waits for dropped tasks to free theirs."""
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
        self.is_torn = True
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
        self.is_torn = False

    def wait(self, task: Task) -> bool:
        """Receives results, and waits up to SLICE seconds for one. Returns True if the result of `task` is there."""
        owners = {worker.pipe: worker for worker in self._workers}
        watched = [*owners, *(worker.process.sentinel for worker in self._workers)]
        ready = connection.wait(watched, 0 if task.is_done else SLICE)
        for pipe in ready:
            if pipe in owners:
                self._take(owners[pipe])
        if self._wishes:
            self.is_torn = True
            self._answer_wishes(task)
            self.is_torn = False
        if task.is_done:
            return True
        for worker in self._workers:
            if worker.process.exitcode is not None:
                raise self._ended(worker)
            limit = self._timeout if worker.is_working(self._wishes) else None
            if limit and time.monotonic() - worker.since > limit and not worker.pipe.poll():
                raise _timed_out(limit)
        return task.is_done

    def _answer_wishes(self, awaited: Task) -> None:
        """Grants the workers' requests for memory, oldest task first, while memory is free. A worker waits while other workers may
        still free some. The request of the awaited task is refused if no worker runs a task. Requests of dropped tasks are
        refused."""
        for number, (worker, nbytes) in sorted(self._wishes.items()):
            task, name, n_more = self._tasks[number]
            if task.is_dropped:
                nbytes = 0
            elif nbytes <= self._find(nbytes):
                self._tasks[number] = task, name, n_more + nbytes
                self._account.reserved += nbytes
            elif task is awaited and not any(each.is_working(self._wishes) for each in self._workers):
                nbytes = 0
            else:
                return
            del self._wishes[number]
            worker.since = time.monotonic()
            try:
                worker.pipe.send(nbytes)
            except OSError:
                raise self._ended(worker) from None

    def _take(self, worker: _Process) -> None:
        self.is_torn = True
        self._take_result(worker)
        self.is_torn = False

    def _take_result(self, worker: _Process) -> None:
        try:
            number, *wanted_or_result = worker.pipe.recv()
        except (EOFError, OSError):
            raise self._ended(worker) from None
        if len(wanted_or_result) == 1:
            self._wishes[number] = worker, wanted_or_result[0]
            return
        begin, end, seconds = wanted_or_result
        worker.tasks.popleft()
        worker.since = time.monotonic()
        task, name, n_more = self._tasks.pop(number)
        block = self._blocks[name]
        self._account.reserved -= n_more
        self._account.nbytes += block.growth()
        self._most = max(self._most, end - task.n_given, 1)
        task.is_done, task.seconds = True, seconds
        if task.is_dropped:
            self._free.append(name)
            return
        block.reach(end)
        holder = (ctypes.c_char * block.nbytes).from_buffer(block.memory)
        weakref.finalize(holder, self._free.append, name).atexit = False
        task.result = _memory.read(block, begin, end, holder)
        if isinstance(task.result, _Failed):
            task.failure = calls.Failure(*task.result.parts)

    def _ended(self, worker: _Process) -> calls.Failure:
        worker.process.join(_END_SECONDS)
        how = how_ended(worker.process.exitcode)
        place = self._tasks[worker.tasks[0]][0].place if worker.tasks else None
        samples = f" while it had samples {place.samples[0]} to {place.samples[-1]}" if place and place.samples else ""
        return calls.Failure("Functions.workers", None, f"worker process {worker.process.pid} {how}{samples}")


def opened(functions: calls.Functions, given: Any, limit: int) -> Threads | Processes:
    """Starts the workers that a loader's arguments ask for."""
    n, timeout, start = given["function_workers"], given["function_timeout"], given["function_start"]
    if given["function_kind"] == "threads":
        return Threads(functions, n, timeout)
    if start != "fork":
        _check_picklable(functions, start)
    return Processes(functions, n, timeout, start, limit)


def _check_picklable(functions: calls.Functions, start: str) -> None:
    for name, function in (("Functions.sample", functions.sample), ("Functions.batch", functions.batch)):
        try:
            reduction.ForkingPickler.dumps(function)
        except Exception as error:
            raise ArgumentError(
                f"{name} cannot be sent to a process that is started by {start!r}: {type(error).__name__}: {error}. Define it at "
                'the top of a module, or use function_start="fork"'
            ) from error
