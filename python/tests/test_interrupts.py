"""A batch is delivered exactly once: interrupts at any instant lose and repeat no batch, for every way of loading, and the state
counts the delivered batches.

PENSTOCK_TEST_INTERRUPTS is the number of interrupts for each way; `make check-long` sets 1000.
"""

from __future__ import annotations

import copy
import json
import os
import pickle
import random
import signal
import threading
from contextlib import contextmanager
from functools import partial

import numpy as np
import pytest

import penstock as ps
from conftest import host_service
from flat import keywords
from penstock import transforms as T
from penstock.errors import FunctionError, StateError
from penstock.functions.loop import Pipeline

# Python loses exceptions of signal handlers that run inside its own callbacks (of a fork, of a WeakSet). It reports this; no batch
# is lost.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
N_INTERRUPTS = int(os.environ.get("PENSTOCK_TEST_INTERRUPTS", "40"))
WAITING = {"throttle": (1e9, 0.02, 1)}  # storage with 20 ms for each request, one request at a time
BATCH = 4
CHAIN = [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]


class Interrupt(BaseException):
    """Raised by a signal handler."""


class Preempted(Exception):
    """Raised by another signal handler. Code that catches Exception must not catch it."""


def brighter(sample, rng):
    """Changes its argument in place: a batch that it has got must not be used again."""
    sample["image"] += np.uint8(1 + rng.integers(3))
    return sample


def collate(batch):
    batch["image"] += 5
    return [batch["index"], batch["image"]]


def plain_index(batch):
    return batch["index"] if isinstance(batch, dict) else batch[0]


def pixels(batch):
    return batch["image"] if isinstance(batch, dict) else batch[1]


PATHS = {
    "workers": {"num_workers": 2},
    "here": {"num_workers": 0},
    "torch": {"num_workers": 1, "output": "torch"},
    "function": {"num_workers": 1, "sample_function": brighter},
    "threads": {"num_workers": 1, "sample_function": brighter, "function_workers": 2},
    "processes": {"num_workers": 1, "sample_function": brighter, "function_workers": 2, "function_kind": "processes"},
    "collate": {"num_workers": 1, "collate_fn": collate},
    "threads-collate": {"num_workers": 1, "batch_function": dict, "function_workers": 1, "collate_fn": collate},
    "share": {"num_workers": 1, "share": "interrupts"},
}


def loader_of(path, **options):
    given = {"batch_size": BATCH, "shuffle": True, "seed": 7, "transforms": CHAIN, "output": "numpy", "cache": None, **options}
    return ps.Loader(path, **keywords(**given))


@contextmanager
def handlers():
    """Installs handlers: SIGALRM raises Interrupt, SIGUSR1 raises Preempted."""

    def raising(kind):
        def handler(number, frame):
            fired.append(number)
            raise kind

        return handler

    kinds = {signal.SIGALRM: Interrupt, signal.SIGUSR1: Preempted}
    before = {number: signal.signal(number, raising(kind)) for number, kind in kinds.items()}
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


fired = []  # signals whose handlers have run


class Run:
    """Iterates over a loader while signals interrupt it. It keeps the received batches in a list for each epoch."""

    def __init__(self, loader, seconds, by_next):
        self.loader, self._seconds, self._by_next = loader, seconds, by_next
        self.epochs, self.seen, self._batch = [], [], None
        self._iterator = None
        self.n = 0

    def _receive(self):
        # `self._batch` is the received batch: an exception may occur before it is recorded.
        if self._by_next:
            while True:
                try:
                    self._batch = next(self._iterator)
                except StopIteration:
                    return
                self.seen.append(self._batch)
        batch = None
        try:
            for batch in self._iterator:
                self.seen.append(batch)
        finally:
            self._batch = batch

    def _note(self):
        if self._batch is not None and not any(each is self._batch for each in self.seen[-1:]):
            self.seen.append(self._batch)
        self._batch = None

    def interrupted(self, rnd):
        """Iterates until the next interrupt."""
        fired.clear()
        try:
            signal.setitimer(signal.ITIMER_REAL, max(1e-6, rnd.uniform(0, self._seconds)))
            while not fired:  # Python loses exceptions of signal handlers that run inside its own callbacks
                if self._iterator is None:
                    self._iterator = iter(self.loader)
                self._receive()
                self._end_epoch()
        except Interrupt:
            self.n += 1
        self._note()
        self.check_state()

    def _end_epoch(self):
        # At the end of an epoch signals are blocked, because an exception must not occur in the middle of this.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
        try:
            self._note()
            self.epochs.append(contents(self.seen))
            self.seen, self._iterator = [], None
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})

    def check_state(self):
        if len(self.seen) == len(self.loader) or (not self.seen and self._iterator is None):
            return
        state = self.loader.state_dict()
        wanted = (len(self.epochs), len(self.seen) * BATCH)
        assert (state["epoch"], state["position"]) == wanted, (state, wanted, self.n)

    def rest(self):
        if self._iterator is not None:
            self._receive()
            self._end_epoch()
        return self.epochs


def contents(batches):
    return [(plain_index(batch).tolist(), np.asarray(pixels(batch)).tobytes()) for batch in batches]


def epochs_of(path, n, **options):
    loader = loader_of(path, **options)
    found = [contents(loader) for _ in range(n)]
    loader.close()
    return found


@pytest.fixture
def service(tmp_path, monkeypatch):
    path = tmp_path / "host.sock"
    monkeypatch.setenv("PENSTOCK_SOCKET", str(path))
    with host_service(path):
        yield


@pytest.mark.parametrize("storage", ["waiting", "fast"])
@pytest.mark.parametrize("name", PATHS)
def test_interrupts_lose_and_repeat_nothing(packed, name, storage, request):
    if name == "share":
        request.getfixturevalue("service")
    options = PATHS[name]
    waits = storage == "waiting"
    loader = loader_of(packed, **options, **(WAITING if waits else {}))
    rnd = random.Random(hash_of(name))
    # After next() Python runs signal handlers before the assignment; only the loader's own dicts know the batch then
    # (docs/guide/interrupts.md).
    run = Run(loader, 0.05 if waits else 0.003, by_next=waits and name in ("workers", "here", "torch", "share"))
    with handlers():
        while run.n < N_INTERRUPTS // 2:
            run.interrupted(rnd)
    found = run.rest()
    loader.close()
    assert found == epochs_of(packed, len(found), **options)


def hash_of(text):
    return sum(text.encode())


@pytest.mark.parametrize("name", [name for name in PATHS if name != "share"])
def test_preemption_resumes_at_what_was_received(packed, name):
    """SIGUSR1 comes while the loop waits. The state is saved, and another loader resumes from it."""
    options = PATHS[name]
    wanted = epochs_of(packed, 1, **options)[0]
    rnd = random.Random(3)
    for _ in range(max(1, N_INTERRUPTS // 40)):
        first, seen = loader_of(packed, **options, **WAITING), []
        with handlers():
            timer = threading.Timer(rnd.uniform(0.01, 0.3), os.kill, (os.getpid(), signal.SIGUSR1))
            timer.start()
            batch = None
            try:
                for batch in first:
                    seen.append(batch)
                timer.join()
            except Preempted:
                pass
            if batch is not None and not any(each is batch for each in seen[-1:]):
                seen.append(batch)
        state = json.loads(json.dumps(first.state_dict()))
        first.close()
        again = loader_of(packed, **options)
        again.load_state_dict(state)
        rest = contents(again) if state["epoch"] == 0 else []
        again.close()
        assert contents(seen) + rest == wanted


class Handlers:
    """Handlers of several kinds. Each is uninstalled before it raises, like a handler for a single use."""

    def __init__(self, kind):
        self.before = signal.signal(signal.SIGUSR1, getattr(self, kind) if kind != "partial" else partial(self.named, 5))

    def end(self):
        signal.signal(signal.SIGUSR1, self.before)
        raise Preempted

    def method(self, number, frame):
        self.end()

    def named(self, five, number, frame):
        self.end()

    def star(self, *given):
        self.end()


@pytest.mark.parametrize("on_error", ["raise", "skip", "replace"])
@pytest.mark.parametrize("kind", ["method", "partial", "star"])
def test_a_handler_that_interrupts_a_function_is_no_fault_of_the_sample(packed, kind, on_error):
    """The handler's exception is raised unchanged. No sample is left out or replaced because of it."""
    told = []

    def told_once(sample, rng):
        if sample["index"] == 9 and not told:
            told.append(9)
            signal.raise_signal(signal.SIGUSR1)
        return brighter(sample, rng)

    wanted = epochs_of(packed, 1, sample_function=brighter)[0]
    loader = loader_of(packed, sample_function=told_once, on_error=on_error)
    iterator, seen, handler = iter(loader), [], Handlers(kind)
    try:
        with pytest.raises(Preempted):
            for batch in iterator:
                seen.append(batch)
        seen.extend(iterator)
    finally:
        signal.signal(signal.SIGUSR1, handler.before)
    assert contents(seen) == wanted and loader.quarantine == []
    loader.close()


def test_signals_to_a_whole_group_are_not_for_worker_processes(packed):
    """A scheduler sends SIGUSR1 to all processes of a job. Worker processes do not run the loop's handler."""

    def sent_to_all(sample, rng):
        os.kill(os.getpid(), signal.SIGUSR1)
        return brighter(sample, rng)

    wanted = epochs_of(packed, 1, **PATHS["processes"])[0]
    with handlers():
        found = epochs_of(packed, 1, **{**PATHS["processes"], "sample_function": sent_to_all})[0]
    assert found == wanted


def test_a_time_out_around_next(packed):
    """The same iterator is used again after a time-out. A batch takes longer than the time-out, so work under way must be kept."""
    loader = loader_of(packed, num_workers=1, **WAITING)
    wanted = epochs_of(packed, 1)[0]
    iterator, seen, n = iter(loader), [], 0
    with handlers():
        while True:
            batch = None
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.03)
                batch = next(iterator)
                signal.setitimer(signal.ITIMER_REAL, 0)
                seen.append(batch)
            except Interrupt:
                n += 1
                if batch is not None and not any(each is batch for each in seen[-1:]):
                    seen.append(batch)  # the batch was assigned, but the alarm came before it was recorded
            except StopIteration:
                break
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert n > 0 and contents(seen) == wanted


@pytest.mark.parametrize("name", ["workers", "function", "threads", "processes"])
def test_a_handler_may_save_the_state(packed, name):
    """A handler that does not raise sees the state before the batch that the loop waits for."""
    loader, states = loader_of(packed, **PATHS[name], **WAITING), []
    before = signal.signal(signal.SIGALRM, lambda *_: states.append((len(seen), loader.state_dict()["position"])))
    seen = []
    try:
        for batch in loader:
            seen.append(batch)
            signal.setitimer(signal.ITIMER_REAL, 0.01)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        loader.close()
    assert states and all(position == n * BATCH for n, position in states[:-1])


@pytest.mark.parametrize("name", ["workers", "threads", "processes"])
def test_a_collate_fn_that_raises(packed, name):
    """After the error the whole batch is delivered next, even if collate_fn changed it; skip_batch() skips it."""
    fails = [True]

    def once(batch):
        batch["image"][:] = 0
        if 3 in batch["index"].tolist() and fails:
            raise ValueError("not this one")
        return batch["index"].tolist()

    loader = loader_of(packed, collate_fn=once, **PATHS[name])
    order = [index for index, _ in epochs_of(packed, 1)[0]]
    bad = next(i for i, index in enumerate(order) if 3 in index)
    iterator, seen = iter(loader), []
    for _ in range(2):
        with pytest.raises(ValueError, match="not this one") as caught:
            seen += list(iterator) if not seen else [next(iterator)]
        seen = order[:bad]
        named = f"epoch 0, batch {bad}, samples {', '.join(map(str, order[bad]))}"
        assert any(named in note and "skip_batch" in note for note in caught.value.__notes__)
        assert loader.state_dict()["position"] == bad * BATCH and loader.remaining == len(order) - bad
    assert loader.stats()["skipped"] == 0 and "skipped" not in loader.state_dict()
    loader.skip_batch()
    state = loader.state_dict()
    assert loader.stats()["skipped"] == 1 == state["skipped"]
    assert (state["epoch"], state["position"]) == ((0, (bad + 1) * BATCH) if bad + 1 < len(order) else (1, 0))
    assert list(iterator) == order[bad + 1 :]
    fails.clear()
    other = loader_of(packed, collate_fn=once, **PATHS[name])
    other.load_state_dict(state)
    assert other.stats()["skipped"] == 1
    assert list(other) == (order[bad + 1 :] or [index for index, _ in epochs_of(packed, 2)[1]])
    loader.close()
    other.close()


def failing(sample):
    if sample["index"] == 3:
        raise KeyError("no such thing")
    return sample


@pytest.mark.parametrize("name", ["function", "threads", "processes"])
def test_a_function_that_raises(packed, name):
    loader = loader_of(packed, **{**PATHS[name], "sample_function": failing})
    order = [index for index, _ in epochs_of(packed, 1)[0]]
    bad = next(i for i, index in enumerate(order) if 3 in index)
    iterator = iter(loader)
    for _ in range(bad):
        next(iterator)
    for _ in range(2):
        with pytest.raises(FunctionError, match=f"sample 3, .*epoch 0, batch {bad}, samples "):
            next(iterator)
        assert loader.state_dict()["position"] == bad * BATCH
    loader.skip_batch()
    assert [plain_index(batch).tolist() for batch in iterator] == order[bad + 1 :]
    loader.close()


@pytest.mark.parametrize("name", ["threads", "processes"])
def test_an_interrupt_between_mending_and_going_back(packed, name, monkeypatch):
    mend = Pipeline.mend

    def interrupted(self):
        mend(self)
        monkeypatch.undo()
        raise Interrupt

    for n in (1, len(epochs_of(packed, 1)[0]) - 1):  # the last batch, too
        loader = loader_of(packed, **PATHS[name])
        batches = iter(loader)
        seen = [next(batches) for _ in range(n)]
        loader._functions._tears = True  # as after an exception in the middle of another operation
        monkeypatch.setattr(Pipeline, "mend", interrupted)
        with pytest.raises(Interrupt):
            next(batches)
        seen += batches
        loader.close()
        assert contents(seen) == epochs_of(packed, 1, **PATHS[name])[0]


def test_skipping_before_a_pass_and_at_the_end(packed):
    order = [index for index, _ in epochs_of(packed, 1)[0]]
    loader = loader_of(packed)
    loader.skip_batch()
    assert loader.remaining == len(order) - 1
    iterator = iter(loader)
    assert plain_index(next(iterator)).tolist() == order[1]
    for _ in range(len(order) - 2):
        loader.skip_batch()
    assert loader.remaining == 0 and loader.state_dict()["epoch"] == 1
    with pytest.raises(StateError, match="no batch is left"):
        loader.skip_batch()
    assert list(iterator) == [] and loader.stats()["skipped"] == len(order) - 1
    assert [plain_index(batch).tolist() for batch in loader] == [index for index, _ in epochs_of(packed, 2)[1]]


def test_a_bad_sample_can_be_skipped(tmp_path, packed):
    """With on_error="raise", each next() raises the error again; skip_batch() skips the batch."""
    path = tmp_path / "folder"
    for i in range(6):
        (path / "a").mkdir(parents=True, exist_ok=True)
        array = np.full((20, 20, 3), 10 * i, np.uint8)
        from PIL import Image

        Image.fromarray(array).save(path / "a" / f"{i}.png")
    (path / "a" / "2.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(100))
    loader = ps.Loader(path, 2, output="numpy", transforms=[T.Resize((8, 8))])
    iterator = iter(loader)
    assert next(iterator)["index"].tolist() == [0, 1]
    for _ in range(2):
        with pytest.raises(ps.errors.PenstockError):
            next(iterator)
    loader.skip_batch()
    assert [batch["index"].tolist() for batch in iterator] == [[4, 5]]


def test_a_batch_that_next_returned_and_nobody_has(packed):
    """A handler raises between next() and the assignment: the batch exists only on the interpreter's stack."""
    wanted = epochs_of(packed, 1)[0]

    def raises():
        raise Interrupt

    def keeps(batch):
        kept.append(batch)
        raise Interrupt

    for name in ("workers", "torch"):
        loader = loader_of(packed, **PATHS[name])
        iterator, kept = iter(loader), []
        for _ in range(3):
            with pytest.raises(Interrupt):
                dict(a=next(iterator), b=raises())  # noqa: C408  (a call)
            assert loader.state_dict()["position"] == 0
        assert contents([next(iterator)]) == wanted[:1]
        with pytest.raises(Interrupt):  # the signal was received
            keeps(next(iterator))
        assert contents(kept) == wanted[1:2] and loader.state_dict()["position"] == 2 * BATCH
        next(iterator)  # nobody holds the batch, and nothing was raised
        assert contents(iterator) == wanted[3:]
        copied = copy.deepcopy(kept[0])
        assert copied.receipt is None and pickle.loads(pickle.dumps(kept[0])).keys() == copied.keys()


def test_an_iterator_inside_itself(packed):
    """collate_fn calls next() of the iterator that waits for it: an error, not a deadlock."""
    batches = []

    def again(batch):
        if not batches:
            batches.append(batch)
            next(iterator)
        return batch

    loader = loader_of(packed, collate_fn=again)
    iterator = iter(loader)
    with pytest.raises(StateError, match="by what it calls"):
        next(iterator)
    assert len(list(iterator)) == len(loader)


@pytest.mark.parametrize("name", ["workers", "function", "threads"])
def test_threads_share_an_iterator(packed, name):
    """Each batch is delivered to exactly one of the threads."""
    loader = loader_of(packed, **PATHS[name])
    iterator, lock, seen = iter(loader), threading.Lock(), []

    def take():
        for batch in iterator:
            with lock:
                seen.extend(plain_index(batch).tolist())

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    loader.close()
    assert sorted(seen) == list(range(len(loader.dataset)))


def test_an_interrupted_fetch_changes_nothing(packed):
    """After an interrupt, a TorchDataset returns the same samples again, and counts only samples that it returned."""
    from penstock.torch import TorchDataset

    data = TorchDataset(packed, transforms=CHAIN, output="numpy")
    numbers = list(range(len(data)))
    wanted = [sample["image"].tobytes() for sample in data.__getitems__(numbers)]
    data.set_epoch(0)
    rnd, n = random.Random(1), 0
    with handlers():
        while n < N_INTERRUPTS:
            found = None
            try:
                signal.setitimer(signal.ITIMER_REAL, rnd.uniform(1e-6, 0.004))
                while True:
                    found = data[3]["image"]
            except Interrupt:
                n += 1
            if found is not None:
                assert found.tobytes() == wanted[3]
    assert [sample["image"].tobytes() for sample in data.__getitems__(numbers)] == wanted
