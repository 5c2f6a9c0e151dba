"""penstock.torchft: replicas that join and leave, with a stand-in for torchft's manager, and with torchft if it is installed."""

from __future__ import annotations

import collections
import importlib.util
import random
import threading
import time
from datetime import timedelta

import pytest

import penstock as ps
import penstock.torchft
from conftest import N
from flat import keywords
from penstock import transforms as T
from penstock.errors import ArgumentError, StateError

CHAIN = [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]


def loader_of(path, **options):
    given = {"transforms": CHAIN, "output": "numpy", "batch_size": 1, "shuffle": True, "seed": 5, "num_workers": 1, "cache": None,
             **options}
    return ps.Loader(path, **keywords(**given))


def rows_of(batch):
    return [(int(i), image.tobytes()) for i, image in zip(batch["index"], batch["image"], strict=True)]


def alone(path, epoch):
    loader = loader_of(path)
    loader.set_epoch(epoch)
    return dict(row for batch in loader for row in rows_of(batch))


class StandIn:
    """Replaces torchft's manager. Its quorum is the list of living replicas. A replica that is behind recovers from one that is
    not.
    """

    def __init__(self, living):
        self.living, self.step, self.functions = living, 0, {}
        living.append(self)

    def start_quorum(self):
        source = max(self.living, key=lambda one: one.step, default=self)
        if self.step < source.step or (self.step == 0 and self.living and self is not self.living[0]):  # torchft's init_sync
            for key, (load, _) in self.functions.items():
                load(source.functions[key][1]())
            self.step = source.step

    def participating_rank(self):
        return self.living.index(self) if self in self.living else None

    def num_participants(self):
        return len(self.living)

    def current_step(self):
        return self.step

    def register_state_dict_fn(self, key, load_state_dict, state_dict):
        assert key not in self.functions
        self.functions[key] = load_state_dict, state_dict


@pytest.mark.parametrize("drop_last", [False, True])
def test_each_sample_once_over_committed_steps(packed, drop_last):
    draws, living, replicas = random.Random(7), [], []
    epochs, n_lost, n_changes = 12, 0, 0
    wanted = [alone(packed, epoch) for epoch in range(epochs)]
    counts = [collections.Counter() for _ in range(epochs)]
    worlds = [[] for _ in range(epochs)]

    def join():
        manager = StandIn(living)
        loader = loader_of(packed, drop_last=drop_last, num_workers=draws.randrange(3))
        replicas.append((manager, loader, ps.torchft.Batches(loader, manager, epochs)))

    def leave(i):
        manager, loader, _ = replicas.pop(i)
        living.remove(manager)
        loader.close()

    join()
    while True:
        if len(replicas) < 4 and draws.random() < 0.4:
            join()
            n_changes += 1
        given = [next(batches, None) for _, _, batches in replicas]
        if given[0] is None:
            assert given == [None] * len(given)
            break
        assert len({manager.step for manager, _, _ in replicas}) == 1
        assert len({loader.epoch for _, loader, _ in replicas}) == 1
        epoch, kind = replicas[0][1].epoch, draws.random()
        if kind < 0.15:  # nobody commits
            n_lost += 1
            continue
        if kind < 0.4 and len(replicas) > 1:  # a replica dies within this step, so the others do not commit it
            leave(draws.randrange(len(replicas)))
            n_changes, n_lost = n_changes + 1, n_lost + 1
            continue
        # one replica does not learn that the others have committed
        behind = replicas[-1][0] if kind < 0.5 and len(replicas) > 1 else None
        for manager, _, _ in replicas:
            manager.step += manager is not behind
        for index, pixels in (row for batch in given for row in rows_of(batch)):
            counts[epoch][index] += 1
            assert wanted[epoch][index] == pixels
        worlds[epoch].append(len(replicas))
    assert n_changes > 20 and n_lost > 20
    for count, world in zip(counts, worlds, strict=True):
        assert sum(count.values()) == sum(world)
        assert len(count) == sum(world) if drop_last else len(count) == N and sum(world) - N < 4
        assert N - len(count) < 4


def test_what_is_refused(packed):
    with pytest.raises(ArgumentError, match="pad_epoch=False"):
        ps.torchft.Batches(loader_of(packed, pad_epoch=False), StandIn([]), 1)
    manager = StandIn([])
    batches = ps.torchft.Batches(loader_of(packed), manager, 1)
    manager.living.clear()
    with pytest.raises(StateError, match="use_async_quorum=False"):
        next(batches)
    living = []
    first, _ = StandIn(living), StandIn(living)
    with pytest.raises(StateError, match="no batch for 2 ranks"):
        next(ps.torchft.Batches(loader_of(packed, drop_last=True, batch_size=N), first, 1))


def test_groups_of_several_ranks_and_checkpoints(packed):
    managers = [StandIn([]) for _ in range(2)]  # the two ranks of the only replica group
    loaders = [loader_of(packed) for _ in managers]
    groups = [ps.torchft.Batches(loader, manager, 1, group_rank=rank, group_world_size=2)
              for rank, (loader, manager) in enumerate(zip(loaders, managers, strict=True))]
    got = []
    for _ in range(3):
        got += [row for batches in groups for row in rows_of(next(batches))]
        for manager in managers:
            manager.step += 1
    next(groups[0])  # not committed
    manager = StandIn([])
    again = ps.torchft.Batches(loader_of(packed), manager, 1)
    again.load_state_dict(groups[0].state_dict())
    for batch in again:
        got += rows_of(batch)
        manager.step += 1
    assert dict(got) == alone(packed, 0) and len(got) == N


def test_settings_after_a_step_that_was_not_committed_are_undone(packed):
    manager, loader = StandIn([]), loader_of(packed)
    batches = ps.torchft.Batches(loader, manager, 1)
    got = rows_of(next(batches))
    manager.step += 1
    loader.set(batch_size=3)
    lost = rows_of(next(batches))
    assert len(lost) == 3
    loader.set(batch_size=5)
    again = rows_of(next(batches))  # the step of `lost` was not committed
    assert again == lost and loader.batch_size == 3
    got += again
    manager.step += 1
    for batch in batches:
        got += rows_of(batch)
        manager.step += 1
    assert dict(got) == alone(packed, 0) and len(got) - N < 3


@pytest.mark.long
@pytest.mark.skipif(importlib.util.find_spec("torchft") is None, reason="torchft is not installed")
def test_torchft_itself(packed):
    """Threads play replica groups, as in torchft's own tests."""
    import torch
    from torch.distributed import TCPStore
    from torchft import Manager, ProcessGroupGloo
    from torchft.coordination import LighthouseServer

    epochs, lock, committed = 30, threading.Lock(), []
    lighthouse = LighthouseServer(bind="[::]:0", min_replicas=1, join_timeout_ms=200, heartbeat_timeout_ms=1000)
    stays = threading.Event()

    def replica(name, n_steps, dies):
        store = TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
        weights = torch.zeros(1)
        manager = Manager(
            pg=ProcessGroupGloo(timeout=timedelta(seconds=5)), min_replica_size=1, use_async_quorum=False, replica_id=name,
            load_state_dict=lambda state: weights.copy_(state["w"]), state_dict=lambda: {"w": weights}, store_addr="localhost",
            store_port=store.port, rank=0, world_size=1, lighthouse_addr=lighthouse.address(), timeout=timedelta(seconds=10),
            quorum_timeout=timedelta(seconds=30),
        )  # fmt: skip
        loader = loader_of(packed)
        try:
            for step, batch in enumerate(ps.torchft.Batches(loader, manager, epochs)):
                if step == n_steps and dies:
                    return  # the replica dies within a step, so the others do not commit it
                manager.allreduce(torch.ones(1)).wait()
                time.sleep(0.02)
                if manager.should_commit():
                    with lock:
                        committed.append((loader.epoch, manager.current_step(), rows_of(batch), loader.world_size))
                if step == n_steps:
                    return
        finally:
            manager.shutdown(wait=False)
            loader.close()
            if n_steps < 0:
                stays.set()

    threads = [threading.Thread(target=replica, args=("stays_0", -1, False))]
    threads[0].start()
    deadline = time.monotonic() + 60
    while not committed and time.monotonic() < deadline:
        time.sleep(0.01)
    for i in range(6):  # each replica joins and leaves: 12 changes
        if stays.is_set():
            break
        threads.append(threading.Thread(target=replica, args=(f"comes_{i + 1}", 3, i % 2 == 1)))
        threads[-1].start()
        threads[-1].join(120)
        deadline = time.monotonic() + 60  # until the replica that stays has committed a step alone again
        while not stays.is_set() and committed[-1][3] != 1 and time.monotonic() < deadline:
            time.sleep(0.01)
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    lighthouse.shutdown()
    worlds = {step: world for _, step, _, world in committed}
    changes = [step for step in worlds if step - 1 in worlds and worlds[step] != worlds[step - 1]]
    assert set(worlds.values()) == {1, 2} and len(changes) >= 10
    for epoch in range(epochs):
        rows = [row for e, _, rows, _ in committed if e == epoch for row in rows]
        assert dict(rows) == alone(packed, epoch) and len(rows) - N <= 1
