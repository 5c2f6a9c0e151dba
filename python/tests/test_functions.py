"""A user's functions on samples and batches: in the calling thread, in threads and in processes.

A spawned process imports this file to find its function. torch takes seconds to import, so only functions that use it import it.
"""

from __future__ import annotations

import functools
import gc
import multiprocessing
import os
import pickle
import random
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import N, encoded, picture
from flat import keywords
from penstock import transforms as T
from penstock.errors import ArgumentError, FunctionError, LimitError
from penstock.functions import calls, workers

WAYS = [
    pytest.param({"function_workers": 0}, id="caller"),
    pytest.param({"function_workers": 2}, id="threads"),
    pytest.param({"function_workers": 2, "function_kind": "processes"}, id="fork"),
    pytest.param({"function_workers": 1, "function_kind": "processes", "function_start": "spawn"}, id="spawn"),
]
# For tests in which a spawned process would import torch. test_modules_and_defaults has such a process in `make check`.
WAYS_BUT_SPAWN = [*WAYS[:3], pytest.param(*WAYS[3].values, id="spawn", marks=pytest.mark.long)]
PROCESSES = {"function_workers": 2, "function_kind": "processes"}
OPS = [T.RandomResizedCrop(24), T.RandomHorizontalFlip()]


def global_draws(sample):
    return {"random": random.getrandbits(62), "numpy": int(np.random.randint(2**62))}


def load(path, **options):
    return ps.Loader(path,
                     **keywords(**{"batch_size": 5, "shuffle": True, "seed": 3, "output": "numpy", "num_workers": 1, "cache": None,
                              "transforms": OPS, **options}))


def contents(loader):
    return [{name: value if isinstance(value, list) else np.array(value) for name, value in batch.items()} for batch in loader]


def same(a, b):
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        assert list(x) == list(y)
        for name in x:
            if isinstance(x[name], list):
                assert len(x[name]) == len(y[name])
                for v, w in zip(x[name], y[name], strict=True):
                    np.testing.assert_array_equal(v, w)
            else:
                assert x[name].dtype == y[name].dtype
                np.testing.assert_array_equal(x[name], y[name])


def leftovers():
    """Returns the processes that this one started and that still exist, by command or state."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                command = (entry / "cmdline").read_bytes()
                if b"resource_tracker" not in command:
                    found.append((int(entry.name), fields[0], command))
    return found


@pytest.fixture(autouse=True)
def nothing_left():
    before, shared = {pid for pid, _, _ in leftovers()}, set(os.listdir("/dev/shm"))
    yield
    assert [entry for entry in leftovers() if entry[0] not in before] == []
    deadline = time.monotonic() + 20
    while not set(os.listdir("/dev/shm")) <= shared and time.monotonic() < deadline:
        time.sleep(0.05)  # other tests' processes have names there for a short time
    assert set(os.listdir("/dev/shm")) <= shared


# Functions at the top of the module, which can be sent to spawned processes ----------------------


def noise(sample, rng):
    sample["image"] = sample["image"].astype(np.float32) + rng.normal(0, 1, sample["image"].shape).astype(np.float32)
    sample["draw"] = float(rng.random())
    sample["name"] = f"sample {sample['index']}"
    return sample


def double(batch, rng):
    return {**batch, "image": batch["image"] * 2, "lucky": rng.integers(0, 100, 3)}


def plain(sample):
    """A function without random numbers, which changes its argument in place."""
    sample["image"][:] = 255 - sample["image"]
    return sample


def growing(sample, rng):
    return {"image": sample["image"][:, : 1 + sample["index"] % 3], "label": sample["label"], "id": np.int16(sample["index"])}


def torch_noise(sample, rng):
    import torch

    sample["image"] = sample["image"].to(torch.bfloat16) + torch.from_numpy(rng.normal(0, 1, 3))[:, None, None].to(torch.bfloat16)
    return sample


def fails(sample):
    if sample["index"] == 7:
        raise KeyError("no such thing")
    return sample


def fails_oddly(sample):
    class Local(Exception):
        pass

    raise Local("cannot be sent")


def returns_list(sample):
    return [sample]


def other_keys(sample):
    return {"image": sample["image"], f"extra {sample['index']}": 1}


def killed(sample):
    if sample["index"] == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return sample


def hangs(sample):  # a sleeping thread, which does not keep the interpreter from ending
    if sample["index"] == 7:
        time.sleep(60)
    return sample


def exits(batch):
    raise SystemExit(3)


def texts(sample):
    return {"text": np.str_("abc")}


def swells(sample):
    """Returns 16 MB for each sample."""
    return {"index": sample["index"], "large": np.full(4 << 20, sample["index"], np.float32)}


def unpicklable(batch):
    return {"image": batch["image"], "bad": lambda: 1}


def nested(batch):
    return [(batch["image"], {"labels": batch["label"]}, "text"), None]


@pytest.mark.parametrize("way", WAYS)
def test_results_do_not_depend_on_workers(packed, way):
    loader = load(packed, sample_function=noise, batch_function=double, **way)
    found = contents(loader) + contents(loader)
    loader.close()
    reference = load(packed)
    expected = []
    for epoch in range(2):
        for batch in reference:
            rows = []
            for row, index in enumerate(batch["index"].tolist()):
                rng = np.random.Generator(np.random.Philox(key=np.array([3, 1], np.uint64),
                                                           counter=np.array([0, 0, index, epoch], np.uint64)))
                noisy = batch["image"][row].astype(np.float32) + rng.normal(0, 1, (3, 24, 24)).astype(np.float32)
                rows.append((noisy, rng.random()))
            rng = np.random.Generator(np.random.Philox(key=np.array([3, 2], np.uint64),
                                                       counter=np.array([0, 0, batch["index"][0], epoch], np.uint64)))
            expected.append({
                "image": np.stack([image for image, _ in rows]) * 2, "label": np.array(batch["label"]),
                "index": np.array(batch["index"]), "draw": np.array([draw for _, draw in rows], np.float32),
                "name": [f"sample {i}" for i in batch["index"]], "lucky": rng.integers(0, 100, 3),
            })
    same(found, expected)


@pytest.mark.parametrize("way", WAYS)
def test_changes_in_place_and_ragged_results(packed, way):
    loader = load(packed, sample_function=plain, **way)
    for mine, raw in zip(contents(loader), contents(load(packed)), strict=True):
        np.testing.assert_array_equal(mine["image"], 255 - raw["image"])
    loader.close()
    loader = load(packed, sample_function=growing, **way)
    for batch in loader:
        assert list(batch) == ["image", "label", "id", "index"]
        assert [image.shape for image in batch["image"]] == [(3, 1 + int(i) % 3, 24) for i in batch["index"]]
        assert batch["id"].tolist() == batch["index"].tolist()
    loader.close()


@pytest.mark.parametrize("way", WAYS)
def test_fields_of_every_type(typed, way):
    """Ragged boxes, text, JSON, bytes, sound and arrays go through unchanged."""
    options = {"transforms": {"image": [T.RandomCrop((16, 20))]}, "per_box": (), "batch_size": 4}
    loader = load(typed, batch_function=dict, **options, **way)
    same(contents(loader), contents(load(typed, **options)))
    loader.close()
    loader = load(typed, sample_function=dict, **options, **way)
    same(contents(loader), contents(load(typed, **options)))
    loader.close()


@pytest.mark.parametrize("way", WAYS_BUT_SPAWN)
def test_torch(packed, way):
    import torch

    loader = load(packed, sample_function=torch_noise, output="torch", layout="channels_last", **way)
    here = load(packed, sample_function=torch_noise, output="torch", layout="channels_last")
    for a, b in zip(loader, here, strict=True):
        assert a["image"].dtype == torch.bfloat16
        assert torch.equal(a["image"], b["image"]) and torch.equal(a["label"], b["label"])
    loader.close()
    loader = load(packed, batch_function=nested, output="torch", layout="channels_last", **way)
    for (images, labels, text), nothing in loader:
        assert images.is_contiguous(memory_format=torch.channels_last) and text == "text" and nothing is None
        assert labels["labels"].dtype == torch.int64
    loader.close()


@pytest.mark.parametrize("way", WAYS)
def test_resume_ranks_break_and_replay(packed, way):
    options = {"sample_function": noise, "repeats": 2, **way}
    loader = load(packed, **options)
    reference = contents(loader)
    loader.set_epoch(0)
    iterator = iter(loader)
    for taken in range(3):
        assert loader.remaining == len(reference) - taken
        next(iterator)
    state = loader.state_dict()
    assert state["position"] == 15  # resume counts batches that were delivered, not batches that workers have
    resumed = load(packed, **options)
    resumed.load_state_dict(state)
    same(contents(resumed), reference[3:])
    resumed.close()
    again = loader.replay(1)
    same([{name: value if isinstance(value, list) else np.array(value) for name, value in again.items()}], reference[1:2])
    loader.set_epoch(0)  # batches that workers had are dropped
    same(contents(loader), reference)
    loader.close()
    ranks = [load(packed, rank=rank, world_size=2, batch_size=2, **options) for rank in range(2)]
    draws = {}
    for rank in ranks:
        for batch in rank:
            for index, draw in zip(batch["index"].tolist(), batch["draw"].tolist(), strict=True):
                draws.setdefault(index, set()).add(draw)
        rank.close()
    for batch in reference:
        for index, draw in zip(batch["index"].tolist(), batch["draw"].tolist(), strict=True):
            assert draw in draws[index]
    assert all(len(found) == 2 for found in draws.values())  # each repeat has its own random numbers


@pytest.mark.parametrize("way", WAYS)
def test_exceptions_come_back(packed, way):
    loader = load(packed, sample_function=fails, **way)
    order = [batch["index"].tolist() for batch in load(packed)]
    good = next(i for i, indices in enumerate(order) if 7 in indices)
    iterator = iter(loader)
    for i in range(good):
        assert next(iterator)["index"].tolist() == order[i]
    with pytest.raises(FunctionError) as caught:
        next(iterator)
    error = caught.value
    assert error.sample == 7 and f"sample 7, {loader.dataset._native.name(7)!r}" in str(error)
    assert "KeyError: 'no such thing'" in str(error) and "in fails" in str(error)
    assert isinstance(error.__cause__, KeyError)
    assert pickle.loads(pickle.dumps(error)).sample == 7
    state = loader.state_dict()
    assert (state["epoch"], state["position"]) == (0, 5 * good)  # raised before the batch that failed is delivered
    with pytest.raises(FunctionError, match="no such thing"):  # the batch is delivered next
        next(iterator)
    assert loader.state_dict() == state
    loader.close()
    resumed = load(packed, sample_function=plain, **way)
    resumed.load_state_dict(state)
    assert [batch["index"].tolist() for batch in resumed] == order[good:]
    resumed.close()


@pytest.mark.parametrize("way", WAYS)
def test_state_where_nothing_was_delivered(packed, way):
    loader = load(packed, batch_function=fails_oddly, **way)
    reference = load(packed)
    next(iter(reference))
    state = reference.state_dict()
    for start in (loader.state_dict(), state):
        loader.load_state_dict(start)
        iterator = iter(loader)
        with pytest.raises(FunctionError, match=r"Functions\.batch"):
            next(iterator)
        assert loader.state_dict() == start
        with pytest.raises(FunctionError, match=r"Functions\.batch"):
            next(iterator)
        assert loader.state_dict() == start
    loader.close()


@pytest.mark.parametrize("way", WAYS[1:])
def test_state_after_an_interrupt_before_the_first_batch(packed, way, monkeypatch):
    from penstock.functions import workers

    kind = workers.Processes if way.get("function_kind") else workers.Threads
    wait, ctrl_c = kind.wait, [True]

    def interrupted(self, task):
        if ctrl_c.pop() if ctrl_c else False:
            raise KeyboardInterrupt
        return wait(self, task)

    monkeypatch.setattr(kind, "wait", interrupted)
    loader = load(packed, sample_function=plain, **way)
    start, iterator = loader.state_dict(), iter(loader)
    with pytest.raises(KeyboardInterrupt):
        next(iterator)
    assert loader.state_dict() == start
    same(list(iterator), contents(load(packed, sample_function=plain)))
    loader.close()


@pytest.mark.parametrize("way", WAYS[1:])
def test_exit_in_a_batch_function(packed, way):
    with load(packed, batch_function=exits, sample_function=plain, **way) as loader:
        with pytest.raises(FunctionError, match=r"Functions\.batch, epoch 0, batch 0, samples .*: SystemExit: 3"):
            contents(loader)


@pytest.mark.parametrize("way", WAYS_BUT_SPAWN)
def test_results_that_torch_does_not_take(packed, way):
    with load(packed, sample_function=texts, output="torch", **way) as loader:
        with pytest.raises(FunctionError, match=r"Functions\.sample, .*'text' cannot be put together: TypeError"):
            contents(loader)


def threads():
    return [each for each in threading.enumerate() if each.name.startswith("penstock-function")]


class Interrupt(BaseException):
    """Raised by a signal handler."""


def await_no_workers():
    gc.collect()
    deadline = time.monotonic() + 10
    while (threads() or multiprocessing.active_children()) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threads() == [] and multiprocessing.active_children() == []


@pytest.mark.parametrize("way", WAYS)
def test_dropped_loaders_leave_nothing(packed, way):
    def descriptors():
        return len(os.listdir("/proc/self/fd"))

    gc.collect()
    for turn in range(2):
        loader = load(packed, sample_function=plain, **way)
        iterator = iter(loader)
        next(iterator)
        del loader, iterator
        await_no_workers()
        if turn == 0:  # things that are made once per process exist now
            before = descriptors()
    assert descriptors() <= before
    loader = load(packed, batch_function=nested, **way)
    (images, _, _), _ = next(iter(loader))
    shown = np.array(images)
    del loader  # arrays stay valid
    gc.collect()
    np.testing.assert_array_equal(images, shown)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("way", WAYS[1:])
def test_an_exception_while_a_worker_starts(packed, way, when, monkeypatch):
    kind = multiprocessing.process.BaseProcess if "function_kind" in way else threading.Thread
    start, started = kind.start, []

    def interrupted(self):
        if self.name.startswith("penstock-function"):
            started.append(self.name)
            if len(started) == way["function_workers"]:
                if when == "after":
                    start(self)
                raise Interrupt
        start(self)

    loader = load(packed, sample_function=plain, **way)
    monkeypatch.setattr(kind, "start", interrupted)
    with pytest.raises(Interrupt):
        next(iter(loader))
    monkeypatch.undo()
    await_no_workers()
    same(contents(loader), contents(load(packed, sample_function=plain)))
    loader.close()
    await_no_workers()


# With processes, one line of the code that ends them takes 0.2 s. `make check` tests these lines in
# test_signals_while_workers_start_and_end.
@pytest.mark.parametrize("way", [WAYS[1], pytest.param(*WAYS[2].values, id="fork", marks=pytest.mark.long)])
def test_an_exception_while_workers_end(packed, way, monkeypatch):
    """Wherever the exception occurs, a second close() ends the remaining workers."""
    places, seen = [], []

    def interrupt(frame, event, argument):
        if frame.f_code.co_filename.endswith(("functions/workers.py", "functions/loop.py", "functions/memory.py")):
            place = (frame.f_code.co_name, frame.f_lineno, event)
            if event == "line" and place not in places:
                places.append(place)
                raise Interrupt
        return interrupt

    for _ in range(60):
        loader = load(packed, sample_function=plain, **way)
        next(iter(loader))
        seen.append(len(places))
        sys.settrace(interrupt)
        try:
            loader.close()
        except Interrupt:
            pass
        finally:
            sys.settrace(None)
        loader.close()
        await_no_workers()
        if len(places) == seen[-1]:
            break
    assert len(places) == seen[-1] > 5


@pytest.mark.parametrize("way", WAYS[1:3])
def test_signals_while_workers_start_and_end(way, monkeypatch):
    # Python would keep exceptions that it drops for a warning, and with them the pools in their frames.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    rnd, fired, processes = random.Random(5), [], {pid for pid, _, _ in leftovers()}
    functions = calls.Functions(plain, None, 1, "numpy")
    given = {"function_kind": "threads", "function_start": "fork", "function_timeout": None, **way}

    def handler(number, frame):
        fired.append(number)
        raise Interrupt

    def interrupt(thread, seconds):
        time.sleep(seconds)
        signal.pthread_kill(thread, signal.SIGUSR1)  # signals go to this thread, because it can block them

    seconds = 0.002 if given["function_kind"] == "threads" else 0.02
    before = signal.signal(signal.SIGUSR1, handler)
    try:
        for _ in range(200 if given["function_kind"] == "threads" else 50):
            pool = None
            timer = threading.Thread(target=interrupt, args=(threading.get_ident(), rnd.uniform(1e-6, seconds)))
            try:
                timer.start()
                pool = workers.opened(functions, given, 1 << 24)
                if rnd.random() < 0.5:
                    pool.stop()
                pool = None
                while not fired:
                    time.sleep(0.0001)
            except Interrupt:
                pass
            timer.join()
            fired.clear()
    finally:
        signal.signal(signal.SIGUSR1, before)
    del pool
    gc.collect()
    deadline = time.monotonic() + 10
    while (threads() or [entry for entry in leftovers() if entry[0] not in processes]) and time.monotonic() < deadline:
        time.sleep(0.01)
        multiprocessing.active_children()  # reaps ended workers; a worker whose end an exception has hidden may seem alive
    assert threads() == [] and {pid for pid, _, _ in leftovers()} <= processes


def test_who_gets_random_numbers():
    import torch

    class Module(torch.nn.Module):
        def forward(self, sample):
            return sample

    def variable(*args, **kwargs):
        pass

    takes = [noise, lambda sample, anything: 0, lambda sample, rng=None: 0, lambda sample, generator=None: 0,
             functools.partial(lambda size, sample, rng: 0, 3)]
    not_taken = [plain, dict, Module(), variable, lambda sample, scale=2: 0, lambda sample, *rest: 0,
                 functools.partial(noise, rng=None)]
    assert all(calls._takes_rng(each) for each in takes)
    assert not any(calls._takes_rng(each) for each in not_taken)


@pytest.mark.parametrize("way", WAYS)
def test_modules_and_defaults(packed, way):
    import torch

    if way.get("function_start") == "spawn":
        functions = {"batch_function": torch.nn.Identity()}
    else:
        functions = {"sample_function": lambda sample, name="image": {name: sample[name]}, "batch_function": torch.nn.Identity()}
    with load(packed, output="torch", **functions, **way) as loader:
        for mine, raw in zip(loader, load(packed, output="torch"), strict=True):
            assert torch.equal(mine["image"], raw["image"])


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_ragged_fields(typed, way):
    """Padded rows have their counts beside them; rows given as offsets cannot be passed."""
    options = {"transforms": {"image": [T.RandomCrop((16, 20))]}, "per_box": (), "batch_size": 4}
    with load(typed, sample_function=dict, ragged="padded", **options, **way) as loader:
        found = contents(loader)
    expected = contents(load(typed, ragged="padded", **options))
    assert any(name.endswith("_counts") for name in expected[0])
    same(found, expected)
    for kind in ("offsets", {"boxes": "offsets"}):
        with pytest.raises(ArgumentError, match=r"Functions\.sample needs rows"):
            load(typed, sample_function=dict, ragged=kind, **options, **way)
    with load(typed, batch_function=dict, ragged="offsets", **options, **way) as loader:
        same(contents(loader), contents(load(typed, ragged="offsets", **options)))


def test_results_count_as_shared_memory(packed):
    """A batch takes 80 MB: without a limit four batches would be under way."""
    limit = 200 << 20
    with load(packed, sample_function=swells, host_memory=limit, **PROCESSES) as loader:
        for number, batch in enumerate(loader):
            assert (batch["large"][:, -1] == batch["index"]).all()
            blocks = loader._functions._pool._blocks.values()
            sizes = [os.fstat(block.fd).st_size for block in blocks]
            assert sum(sizes) <= limit
            if number == 2:
                break
        loader.set_epoch(0)  # dropped results count, too
        n = 0
        for batch in loader:
            n += len(batch["index"])
            pool = loader._functions._pool
            assert sum(os.fstat(block.fd).st_size for block in pool._blocks.values()) <= limit
        assert n == N
        pool = loader._functions._pool
        assert pool.nbytes == sum(os.fstat(block.fd).st_size for block in pool._blocks.values())
    with load(packed, sample_function=swells, host_memory="64MiB", **PROCESSES) as loader:
        iterator = iter(loader)
        with pytest.raises(LimitError, match="does not fit in shared memory.*host_memory"):
            next(iterator)
        assert loader.state_dict()["position"] == 0


def test_all_processes_work(packed):
    """All processes get work in a plain loop, and if results become much larger than before."""

    def who(sample):
        time.sleep(0.01)
        nbytes = 1 << 20 if sample["index"] % 7 == 3 else 1 << 8
        return {"index": sample["index"], "pid": os.getpid(), "large": np.zeros(nbytes, np.uint8)}

    options = {"batch_size": 1, "transforms": [T.Resize((8, 8))], "function_kind": "processes"}
    with load(packed, sample_function=who, function_workers=4, **options) as loader:
        for _ in range(2):
            got = [(int(batch["index"][0]), int(batch["pid"][0])) for batch in loader]
            assert sorted(index for index, _ in got) == list(range(N))
            pids = {pid for _, pid in got}
        assert len(pids) == 4


def test_memory_of_results_is_given_back_and_asked_for(packed):
    """First small results, then a result that takes most of host_memory: the memory of batches that are gone is freed for it."""

    def swells_late(sample):
        return {"large": np.full(90 << 20 if sample["index"] == N - 1 else 4 << 20, sample["index"], np.uint8)}

    options = {"batch_size": 1, "shuffle": False, "host_memory": 128 << 20, "transforms": [T.Resize((8, 8))], **PROCESSES}
    with load(packed, sample_function=swells_late, **options) as loader:
        seen = []
        for batch in loader:
            assert (batch["large"] == batch["index"][0]).all() and loader._functions._pool.nbytes <= 128 << 20
            seen.append(int(batch["index"][0]))
            del batch
        assert seen == list(range(N))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_draw_apart_from_global_generators(packed, start):
    with load(packed, sample_function=global_draws, function_start=start, **PROCESSES) as loader:
        batches = [contents(loader) for _ in range(2)]
    epochs = [{name: np.concatenate([batch[name] for batch in epoch]) for name in ("random", "numpy")} for epoch in batches]
    for name in ("random", "numpy"):
        assert len({int(x) for epoch in epochs for x in epoch[name]}) == 2 * N
    with load(packed, sample_function=global_draws, function_workers=1, function_kind="processes") as loader:
        again = np.concatenate([batch["numpy"] for batch in loader])
    assert np.array_equal(again, epochs[0]["numpy"])  # any process may make a batch


def test_torch_draws_apart(packed):
    torch = pytest.importorskip("torch")

    def noise(sample):
        return {"draw": torch.randint(2**62, (1,))}

    with load(packed, sample_function=noise, output="torch", **PROCESSES) as loader:
        assert len({int(x) for _ in range(2) for batch in loader for x in batch["draw"].flatten()}) == 2 * N


def test_torch_data_sets_refuse_what_has_no_effect(packed):
    from penstock.torch import TorchDataset

    for option in ({"batch": double}, {"workers": 1}, {"kind": "processes"}, {"start": "spawn"}, {"timeout": 3.0}):
        with pytest.raises(ArgumentError, match=rf"Functions\.{next(iter(option))} has no effect"):
            TorchDataset(packed, functions=ps.Functions(sample=noise, **option))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"sample_function": returns_list}, "it returned list: a dict by names is wanted"),
        ({"sample_function": other_keys}, "for the first sample"),
        ({"sample_function": fails_oddly}, "cannot be sent"),
    ],
)
def test_wrong_results(packed, way, functions, message):
    with load(packed, **functions, **way) as loader, pytest.raises(FunctionError, match=message):
        contents(loader)


def test_results_that_cannot_be_pickled(packed):
    with load(packed, batch_function=unpicklable, **PROCESSES) as loader:
        with pytest.raises(FunctionError, match="what it returned cannot be sent from its process"):
            contents(loader)
    with load(packed, batch_function=unpicklable, function_workers=2) as loader:
        assert len(contents(loader)) == 5


def test_functions_that_cannot_be_pickled(packed):
    for start in ("spawn", "forkserver"):
        loader = load(packed, sample_function=lambda sample: sample, function_start=start, **PROCESSES)
        with pytest.raises(ArgumentError, match=rf"Functions\.sample cannot be sent to a process that is started by '{start}'"):
            next(iter(loader))
        loader.close()
    with load(packed, sample_function=lambda sample: sample, **PROCESSES) as loader:  # fork takes it
        same(contents(loader), contents(load(packed)))


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_a_killed_worker_is_noticed(packed, start):
    loader = load(packed, sample_function=killed, function_start=start, **PROCESSES)
    since = time.monotonic()
    with pytest.raises(FunctionError, match="SIGKILL"):
        contents(loader)
    assert time.monotonic() - since < 30
    loader.close()
    loader = load(packed, sample_function=plain, function_start=start, **PROCESSES)
    iterator = iter(loader)
    next(iterator)
    for process in loader._functions._pool._workers:  # an idle worker is killed from outside
        os.kill(process.process.pid, signal.SIGKILL)
    time.sleep(0.2)
    with pytest.raises(FunctionError, match="SIGKILL"):
        list(iterator)
    loader.set_epoch(0)  # the next pass starts new workers
    same(contents(loader), contents(load(packed, sample_function=plain)))
    loader.close()


@pytest.mark.parametrize("way", WAYS[1:])
def test_a_hanging_worker_is_noticed(packed, way):
    loader = load(packed, sample_function=hangs, function_timeout=1.0, **way)
    since = time.monotonic()
    with pytest.raises(FunctionError, match="more than 1 seconds"):
        contents(loader)
    assert time.monotonic() - since < 40
    loader.close()


def test_no_arrays_are_overwritten_while_held(packed):
    with load(packed, sample_function=plain, **PROCESSES) as loader:
        held = list(loader) + list(loader)
        loader.set_epoch(0)
        again = [{name: np.array(value) for name, value in batch.items()} for _ in range(2) for batch in loader]
        same(held, again)


def test_shared_memory_has_a_limit(packed):
    ops = [T.Resize((512, 512)), T.Normalize(0.5, 0.5)]
    options = {"transforms": ops, "sample_function": dict, "host_memory": "64MiB", "batch_size": 2, **PROCESSES}
    with load(packed, **options) as loader:
        assert len([len(batch["index"]) for batch in loader]) == N // 2
        assert 0 < loader.stats()["function"]["nbytes_shared"] <= 64 << 20
        held = []
        with pytest.raises(LimitError, match="shared memory|holds|batches"):
            for batch in loader:
                held.append(batch)


def test_stats_fetch_collate_and_torch_dataset(packed):
    with load(packed, sample_function=noise, collate_fn=lambda batch: (batch["image"], batch["draw"]), **PROCESSES) as loader:
        for image, draw in loader:
            assert image.dtype == np.float32 and draw.shape == image.shape[:1]
        stats = loader.stats()["function"]
        assert stats["kind"] == "processes" and stats["workers"] == 2 and stats["batches"] == 5 and stats["samples"] == N
        assert stats["seconds_per_sample"] == pytest.approx(stats["seconds"] / N) and stats["seconds"] > 0
        assert loader.fetch([2, 3], epoch=0)["draw"].shape == (2,)
    assert load(packed).stats()["function"]["kind"] == ""
    from penstock.torch import TorchDataset

    ds = TorchDataset(packed, OPS, functions=ps.Functions(sample=noise), output="numpy")
    assert ds[3]["name"] == "sample 3"


def test_views_and_share_of_functions(packed):
    with load(packed, transforms=None, views={"v": (2, OPS)}, sample_function=dict, **PROCESSES) as loader:
        same(contents(loader), contents(load(packed, transforms=None, views={"v": (2, OPS)})))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample_function": 3}, "Functions.sample is a function"),
        ({"function_workers": 2}, "give one of them"),
        ({"sample_function": plain, "function_kind": "fibres"}, r"Functions\.kind"),
        ({"sample_function": plain, "function_start": "magic"}, r"Functions\.start"),
        ({"sample_function": plain, "function_timeout": 0}, r"Functions\.timeout"),
        ({"sample_function": plain, "function_timeout": "5"}, r"Functions\.timeout"),
        ({"sample_function": plain, "function_workers": -1}, r"Functions\.workers"),
        ({"sample_function": plain, "output": "dlpack"}, "tensors or arrays"),
    ],
)
def test_refusals(packed, options, message):
    with pytest.raises(ArgumentError, match=message):
        load(packed, **options)


def test_processes_end_with_their_parent(run):
    """If the parent is killed, no worker process remains."""
    out = run(
        """
        import os, signal, subprocess, sys, textwrap, time
        source = textwrap.dedent(f'''
            import os, time, penstock as ps
            from penstock import transforms as T
            loader = ps.Loader({packed!r}, batch_size=4, functions=ps.Functions(lambda s: s, workers=2, kind="processes"),
                               transforms=[T.RandomResizedCrop(24)], output="numpy")
            next(iter(loader))
            print(*[w.process.pid for w in loader._functions._pool._workers], flush=True)
            time.sleep(60)
        ''')
        child = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
        pids = [int(pid) for pid in child.stdout.readline().split()]
        child.kill(); child.wait()
        def alive(pid):
            try:
                return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
            except OSError:
                return False
        deadline = time.monotonic() + 20
        while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.1)
        print(len(pids), sum(alive(pid) for pid in pids))
        """
    )
    assert out.split() == ["2", "0"]


def fails_thrice(sample):
    if sample["index"] in (3, 7, 20):
        raise KeyError(f"nothing for {sample['index']}")
    return {"image": sample["image"], "label": sample["label"], "number": 2 * sample["index"]}


def always_fails(sample):
    raise ValueError("never")


ON_ERROR_WAYS = [{}, {"function_workers": 2}, {"function_workers": 2, "function_kind": "processes"}]


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("way", ON_ERROR_WAYS)
def test_on_error_decides_for_functions(packed, way, output):
    order = [batch["index"].tolist() for batch in load(packed)]
    bad = {3, 7, 20}
    with load(packed, sample_function=fails_thrice, on_error="skip", output=output, **way) as loader:
        for batch, wanted in zip(loader, order, strict=True):
            kept = [i for i in wanted if i not in bad]
            assert batch["index"].tolist() == kept and batch["number"].tolist() == [2 * i for i in kept]
            assert len(batch["image"]) == len(batch["label"]) == len(kept)
        samples = loader.stats()["samples"]
        assert (samples["bad"], samples["replaced"], samples["delivered"]) == (3, 0, N - 3)
        assert {entry["sample"] for entry in loader.quarantine} == bad
        entry = loader.quarantine[0]
        assert "KeyError" in entry["text"] and entry["name"] == loader.dataset._native.name(entry["sample"])
    with load(packed, sample_function=fails_thrice, on_error="replace", output=output, **way) as loader:
        found = list(loader)
        samples = loader.stats()["samples"]
        assert (samples["bad"], samples["replaced"], samples["delivered"]) == (3, 3, N)
    with load(packed, sample_function=fails_thrice, on_error="replace", output=output) as loader:
        for batch, here, wanted in zip(found, loader, order, strict=True):
            assert batch["index"].tolist() == here["index"].tolist()
            assert all(mine == i or (i in bad and mine not in bad) for mine, i in zip(batch["index"].tolist(), wanted, strict=True))
            assert batch["number"].tolist() == [2 * i for i in batch["index"].tolist()]
            assert np.array_equal(np.asarray(batch["image"]), np.asarray(here["image"]))
            assert batch["image"].dtype == here["image"].dtype
    with load(packed, sample_function=fails_thrice, on_error="skip", max_errors=2, **way) as loader:
        with pytest.raises(LimitError, match="max_errors 2"):
            list(loader)


@pytest.mark.parametrize("way", ON_ERROR_WAYS)
def test_batches_of_samples_that_all_fail(packed, way):
    with load(packed, sample_function=always_fails, on_error="skip", on_empty="empty", batch_size=12, **way) as loader:
        assert [len(batch["index"]) for batch in loader] == [0, 0] and loader.stats()["samples"]["bad"] == N
    for options in ({"on_error": "skip"}, {"on_error": "replace"}):
        with load(packed, sample_function=always_fails, **options, **way) as loader, pytest.raises(FunctionError, match="never"):
            next(iter(loader))
    with load(packed, sample_function=fails_thrice, indices=[3, 7, 20, 5], on_error="skip", batch_size=3, shuffle=False,
              **way) as loader:
        found = [batch["index"].tolist() for batch in loader]
        assert found == [[5], [5]]  # the only other sample replaces them
        assert loader.stats()["samples"]["replaced"] == 1
    with load(packed, sample_function=other_keys, on_error="skip", **way) as loader:  # a wrong result is not a bad sample
        with pytest.raises(FunctionError, match="for the first sample"):
            list(loader)


def test_a_torch_data_set_replaces_what_fails(packed):
    from penstock.torch import TorchDataset

    data = TorchDataset(packed, functions=ps.Functions(sample=fails_thrice), on_error="replace", transforms=[T.Resize((24, 24))])
    assert data[3]["number"] not in (6, 14, 40) and data[4]["number"] == 8


@pytest.mark.parametrize("num_workers", [0, 3])
def test_the_generator_where_another_sample_fills_a_batch(tmp_path, num_workers):
    # Batch 2 has three rows of a bad sample. Which of them is replaced by the other sample depends on the threads, but the random
    # numbers do not.
    (tmp_path / "ant").mkdir()
    for i in range(6):
        (tmp_path / "ant" / f"{i}.jpg").write_bytes(encoded(picture(i, 40, 40), "jpeg")[: 300 if i == 2 else None])
    options = {"shuffle": False, "repeats": 3, "batch_size": 3, "on_error": "skip", "on_empty": "pad", "num_workers": num_workers}
    for _ in range(10):
        with load(tmp_path, sample_function=noise, batch_function=double, **options) as loader:
            loader.set_epoch(1)  # its rows begin at row 6: three of sample 2, three of sample 3
            batch = next(iter(loader))
        (sample,) = batch["index"].tolist()
        np.testing.assert_array_equal(batch["lucky"], calls.generator(3, calls._BATCH, 0, sample, 1).integers(0, 100, 3))
