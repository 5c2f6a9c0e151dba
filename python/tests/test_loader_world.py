"""Loader.set_world: ranks join and leave. All ranks together deliver each sample of an epoch once, with the pixels that a single
rank would deliver."""

from __future__ import annotations

import collections
import concurrent.futures
import pickle
import random
import threading

import numpy as np
import pytest

import penstock as ps
from conftest import N, host_service
from flat import keywords
from penstock import transforms as T
from penstock.errors import ArgumentError, StateError

CHAIN = [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.Normalize(0.5, 0.25)]
MOST = 5


def loader_of(path, **options):
    given = {"transforms": CHAIN, "output": "numpy", "batch_size": 2, "shuffle": True, "seed": 5, "num_workers": 1, "cache": None,
             **options}
    return ps.Loader(path, **keywords(**given))


def rows_of(batch):
    return [(int(i), image.tobytes()) for i, image in zip(batch["index"], batch["image"], strict=True)]


def alone(path, epoch, **options):
    loader = loader_of(path, rank=0, world_size=1, **{**options, "drop_last": False})
    loader.set_epoch(epoch)
    found = dict(row for batch in loader for row in rows_of(batch))
    assert len(found) == N
    return found


class Training:
    """Loaders that play the ranks, each in its own thread. One controller acts between their steps."""

    def __init__(self, path, draws, options):
        self.path, self.draws, self.options = path, draws, options
        self.loaders = [loader_of(path, rank=0, world_size=1, **options)]
        self.passes = [iter(self.loaders[0])]
        self.threads = concurrent.futures.ThreadPoolExecutor(MOST)
        self.n_changes = 0

    def joined(self, rank, world, state):
        loader = loader_of(self.path, rank=rank, world_size=world, num_workers=self.draws.randrange(3), **self.options)
        loader.load_state_dict(state)
        return loader

    def change(self):
        """Changes the world size. Returns False if fewer samples remain in the epoch than the new ranks need for a step
        (drop_last).
        """
        world = self.draws.randint(1, MOST)
        state, epoch = self.loaders[0].state_dict(), self.loaders[0].epoch
        for loader in self.loaders[world:]:
            loader.close()
        del self.loaders[world:], self.passes[world:]
        turn = self.draws.randrange(world)
        more = True
        for i in range(world):
            rank = (i + turn) % world
            if i < len(self.loaders):
                self.loaders[i].set_world(rank, world, state=state)
                assert (self.loaders[i].rank, self.loaders[i].world_size) == (rank, world)
                assert len(self.passes[i]) == self.loaders[i].remaining
                more = more and self.loaders[i].remaining > 0
            else:
                self.loaders.append(self.joined(rank, world, state))
                self.passes.append(iter(self.loaders[i]))
                more = more and self.loaders[i].epoch == epoch
        self.n_changes += 1
        return more

    def step(self):
        batches = list(self.threads.map(lambda one: next(one, None), self.passes))
        return [row for batch in batches if batch is not None for row in rows_of(batch)]

    def close(self):
        self.threads.shutdown()
        for loader in self.loaders:
            loader.close()


@pytest.mark.parametrize("options", [
    {}, {"drop_last": True, "batch_size": 3}, {"collate_fn": dict, "on_error": "skip"},
    {"sample_function": dict, "function_workers": 2, "function_kind": "threads"},
], ids=["padded", "drop_last", "collate_fn", "functions"])  # fmt: skip
def test_each_sample_once_over_changes(packed, options):
    draws = random.Random(53)
    training = Training(packed, draws, options)
    epoch = 0
    while training.n_changes < 200:
        counts = collections.Counter()
        wanted, rows = alone(packed, epoch, **options), [None]
        assert all(loader.epoch == epoch for loader in training.loaders)
        more = True
        while more and rows:
            while more and training.loaders[0].state_dict()["epoch"] == epoch and draws.random() < 0.6:
                more = training.change()
            rows = training.step() if more else []
            counts.update(index for index, _ in rows)
            assert all(wanted[index] == pixels for index, pixels in rows)
        world, drops = len(training.loaders), options.get("drop_last", False)
        assert sum(counts.values()) - len(counts) < (1 if drops else world)
        assert N - len(counts) < (options["batch_size"] * world if drops else 1)
        epoch += 1
        for i, loader in enumerate(training.loaders):  # the next epoch begins with the same ranks
            if loader.epoch != epoch or loader.remaining != len(loader):
                assert next(training.passes[i], None) is None
            training.passes[i] = iter(loader)
        assert {len(one) for one in training.passes} == {len(training.loaders[0])}
    training.close()


def test_a_for_goes_on_and_later_epochs_keep_the_ranks(packed, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    loader = loader_of(packed, drop_last=True)
    wanted = alone(packed, 0)
    found, lengths = {}, []
    for step, batch in enumerate(loader):
        found.update(rows_of(batch))
        if step == 2:
            loader.set_world(1, 3)
        lengths.append((loader.remaining, len(loader), loader.stats()["ranks"]["from"]))
    assert lengths[1] == (N // 2 - 2, N // 2, "torchrun") and lengths[2] == ((N - 6) // 6, N // 6, "set_world")
    assert len(found) == 6 + 2 * ((N - 6) // 6) and found.items() <= wanted.items()
    again = pickle.loads(pickle.dumps(loader))
    for one in (loader, again):
        assert (one.rank, one.world_size, one.epoch, len(one)) == (1, 3, 1, N // 6)
    assert [rows_of(batch) for batch in loader] == [rows_of(batch) for batch in again]
    loader.set_world(0, 1)
    loader.set_epoch(0)
    assert dict(row for batch in loader for row in rows_of(batch)).items() <= wanted.items()
    assert loader.config().get("rank") is None  # as given


def test_without_padding_a_rank_that_has_ended_goes_on_with_the_others(packed):
    ranks = [loader_of(packed, pad_epoch=False, batch_size=1, rank=rank, world_size=5, indices=range(11)) for rank in range(5)]
    passes = [iter(loader) for loader in ranks]
    got = [int(next(one)["index"][0]) for one in passes for _ in range(2)]
    assert [loader.remaining for loader in ranks] == [1, 0, 0, 0, 0]
    for loader, rank in zip(ranks, (1, 2, 0, 3, 4), strict=True):
        loader.set_world(rank, 5)
    assert [loader.remaining for loader in ranks] == [0, 0, 1, 0, 0]
    got += [int(batch["index"][0]) for one in passes for batch in one]
    assert sorted(got) == list(range(11))
    ranks[0].set_world(0, 2)  # between epochs
    assert ranks[0].epoch == 1 and len(ranks[0]) == 6


def test_refusals_change_nothing(packed):
    loader, other = loader_of(packed), loader_of(packed, batch_size=3)
    batches, others = iter(loader), iter(other)
    got = rows_of(next(batches))
    next(others), next(others)
    for rank, world in ((2, 2), (-1, 2), (0, 0), (0.5, 2)):
        with pytest.raises(ArgumentError, match="rank|world_size"):
            loader.set_world(rank, world)
    with pytest.raises(ArgumentError, match="this rank is at .*'position': 2.*the other one at .*'position': 6"):
        loader.set_world(0, 2, state=other.state_dict())
    with pytest.raises(ArgumentError, match="seed"):
        loader.set_world(0, 2, state=loader_of(packed, seed=6).state_dict())
    with pytest.raises(ArgumentError, match="transforms"):
        loader.set_world(0, 2, state={**loader.state_dict(), "transforms": "0" * 16})
    other.set(batch_size=2)
    state = {**other.state_dict(), **{key: loader.state_dict()[key] for key in ("epoch", "position")}}
    with pytest.raises(ArgumentError, match="batch_size"):
        loader.set_world(0, 2, state=state)
    assert loader.world_size == 1
    for batch in batches:
        got += rows_of(batch)
    assert dict(got) == alone(packed, 0) and len(got) == N
    loader.close()
    with pytest.raises(StateError, match="closed"):
        loader.set_world(0, 2)


def test_refused_while_a_batch_is_made(packed):
    errors = []

    def collate(batch):
        try:
            loader.set_world(1, 2)
        except StateError as error:
            errors.append(str(error))
        return batch

    loader = loader_of(packed, collate_fn=collate)
    got = dict(row for batch in loader for row in rows_of(batch))
    assert got == alone(packed, 0) and len(errors) == len(loader) and "a batch is being made" in errors[0]

    inside, goes_on = threading.Event(), threading.Event()

    def waits(batch):
        inside.set()
        goes_on.wait(30)
        return batch

    loader = loader_of(packed, collate_fn=waits)
    batches = iter(loader)
    thread = threading.Thread(target=next, args=(batches,))
    thread.start()
    assert inside.wait(30)
    with pytest.raises(StateError, match="a batch is being made"):
        loader.set_world(1, 2)
    goes_on.set()
    thread.join()
    loader.set_world(1, 2)
    assert loader.remaining == -(-(N - 2) // 4)


def test_a_batch_that_was_not_received_comes_to_the_new_ranks(packed):
    class Stop(Exception):
        pass

    stops = [True]

    def collate(batch):
        if stops and stops.pop():
            raise Stop
        return batch

    loader = loader_of(packed, collate_fn=collate)
    batches = iter(loader)
    with pytest.raises(Stop):
        next(batches)
    loader.set_world(0, 2)
    held = next(batches)
    kept = rows_of(held)
    loader.set_world(0, 1)
    got = kept + [row for batch in batches for row in rows_of(batch)]
    assert rows_of(held) == kept  # a batch that the caller holds does not change
    assert len(dict(got)) == len(got) == N - 2  # the other rank has two batches
    assert dict(got).items() <= alone(packed, 0).items()


def test_shared_preparation_goes_on_with_the_new_ranks(packed, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_SOCKET", str(tmp_path / "host.sock"))
    with host_service(tmp_path / "host.sock"):
        ranks = [loader_of(packed, share="elastic", rank=rank, world_size=2) for rank in range(2)]
        wanted = alone(packed, 0)
        got = []
        passes = [iter(loader) for loader in ranks]
        for change in ((0, 1), (1, 0), (0, 1)):
            for one in passes:
                got += rows_of(next(one))
            for loader, rank in zip(ranks, change, strict=True):
                loader.set_world(rank, 2)
        ranks[1].close()
        ranks[0].set_world(0, 1)
        got += [row for batch in passes[0] for row in rows_of(batch)]
        assert len(got) == N and dict(got) == wanted
        assert ranks[0].stats()["share"]["batches"] > 0


def test_settings_and_epochs_go_on(packed):
    loader = loader_of(packed)
    batches = iter(loader)
    next(batches)
    loader.set(size=16, batch_size=3)
    loader.set_world(1, 2)
    assert (loader.batch_size, loader.remaining) == (3, -(-(N - 2) // 6))
    assert np.shape(next(batches)["image"]) == (3, 3, 16, 16)
    state = loader.state_dict()
    assert (state["position"], state["batch_size"]) == (8, 3)
    loader.skip_batch()
    assert loader.state_dict()["position"] == 14
    loader.set_epoch(4)
    assert (loader.epoch, loader.rank, loader.world_size) == (4, 1, 2)
    loader.load_state_dict(state)
    assert (loader.rank, loader.remaining) == (1, -(-(N - 8) // 6))
