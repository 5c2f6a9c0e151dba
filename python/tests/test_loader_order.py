"""Order, ranks, epochs, resume and replay: samples and pixels are the same with any number of workers and any engine."""

from __future__ import annotations

import copy
import json
import pickle
from itertools import islice, zip_longest

import numpy as np
import pytest

import penstock as ps
from conftest import N
from flat import keywords
from penstock import transforms as T

CHAIN = {"image": [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.Normalize(0.5, 0.25)]}


def loader_of(path, **options):
    return ps.Loader(path, **keywords(**{"transforms": CHAIN, "output": "numpy", "batch_size": 5, **options}))


def contents(batches):
    """Returns [(index, pixels as bytes)] of each sample."""
    result = []
    for batch in batches:
        for index, image in zip(batch["index"], batch["image"], strict=True):
            result.append((int(index), image.tobytes()))
    return result


def indices_of(loader):
    return [batch["index"].tolist() for batch in loader]


def test_sequential_is_in_order(packed):
    assert sum(indices_of(loader_of(packed)), []) == list(range(N))


def test_shuffle_is_a_permutation_and_changes(packed):
    loader = loader_of(packed, shuffle=True, seed=3)
    epochs = [sum(indices_of(loader), []) for _ in range(3)]
    assert all(sorted(epoch) == list(range(N)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    other = sum(indices_of(loader_of(packed, shuffle=True, seed=4)), [])
    assert other != epochs[0]


def test_a_folder_gives_what_the_packed_set_gives(folder, packed):
    assert contents(loader_of(folder, shuffle=True)) == contents(loader_of(packed, shuffle=True))


def test_padding_and_drop_last(packed):
    for drop_last in (False, True):
        lengths = set()
        for rank in range(5):
            loader = loader_of(packed, batch_size=2, rank=rank, world_size=5, drop_last=drop_last)
            batches = indices_of(loader)
            assert len(batches) == len(loader)
            lengths.add(sum(map(len, batches)))
        assert lengths == ({4} if drop_last else {5})  # 24 / 5 = 4.8
    loader = loader_of(packed, batch_size=7)
    assert [len(batch) for batch in indices_of(loader)] == [7, 7, 7, 3] and len(loader) == 4
    assert [len(b) for b in indices_of(loader_of(packed, batch_size=7, drop_last=True))] == [7] * 3


def test_epoch_advances_and_can_be_set(packed):
    loader = loader_of(packed, shuffle=True)
    assert loader.epoch == 0
    epochs = []
    for expected in range(3):
        for batch in loader:  # noqa: B007  (the last one is looked at)
            assert loader.epoch == expected
        epochs.append(contents([batch]))
        assert loader.epoch == expected + 1
    loader.set_epoch(1)
    assert loader.epoch == 1 and contents(list(loader)[-1:]) == epochs[1]
    for _ in zip(range(2), loader, strict=False):  # the loop leaves epoch 2 early
        assert loader.epoch == 2
    assert loader.epoch == 2 and loader.state_dict()["position"] == 10
    again = iter(loader)
    assert loader.epoch == 3 and next(again)["index"].shape == (5,)


def test_a_look_at_the_first_batch_burns_no_epoch(packed):
    loader = loader_of(packed, shuffle=True)
    epochs = [contents(loader), contents(loader)]
    loader.set_epoch(0)
    first = contents([next(iter(loader))])
    iter(loader)  # an iterator that is never used does not, either
    assert loader.epoch == 0 and contents(loader) == epochs[0] and first == epochs[0][:5]
    assert contents([next(iter(loader))]) == epochs[1][:5] and contents(loader) == epochs[1]
    state = {**loader.state_dict(), "epoch": 0, "position": 10}
    loader.load_state_dict(state)  # checks the same for a resumed epoch
    assert contents([next(iter(loader))]) == epochs[0][10:15] and contents(loader) == epochs[0][10:]
    assert loader.epoch == 1
    next(iter(loader))
    loader.set_epoch(0)  # which wins
    assert contents(loader) == epochs[0]
    one = loader_of(packed, shuffle=True, batch_size=N)
    assert contents(one) != contents(one) and one.epoch == 2  # the epoch has only one batch


def test_an_epoch_is_over_when_its_last_batch_was_received(packed):
    """The epoch is over then, whether StopIteration was requested or not."""
    whole = [contents(loader_of_epoch(packed, epoch)) for epoch in range(4)]

    def sliced(loader):
        return list(islice(loader, len(loader)))

    def zipped(loader):
        return [batch for _, batch in zip(range(len(loader)), loader)]  # noqa: B905

    def counted(loader):
        batches = iter(loader)
        return [next(batches) for _ in range(len(batches))]

    for size in (5, 12, N):
        for take in (sliced, zipped, counted):
            loader = loader_of(packed, shuffle=True, seed=9, batch_size=size)
            for epoch in range(3):
                batches = take(loader)
                assert contents(batches) == whole[epoch]
                assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (epoch + 1, 0)
                assert loader.epoch == epoch and loader.remaining == 0  # until the next iter()
            assert contents(loader) == whole[3] and loader.epoch == 4
    batches = iter(loader := loader_of(packed, shuffle=True, seed=9, batch_size=N))
    next(batches)
    state = loader.state_dict()
    assert list(batches) == [] and loader.state_dict() == state  # a caller that asks gets StopIteration
    resumed = loader_of(packed, shuffle=True, seed=9)
    resumed.load_state_dict({**state, "epoch": 0, "position": 20})  # the last batch of a resumed epoch
    next(iter(resumed))
    assert contents(resumed) == whole[1]


def test_set_epoch_keeps_a_loaded_place_once(packed):
    whole = [contents(loader_of_epoch(packed, epoch)) for epoch in range(3)]
    loader = loader_of(packed, shuffle=True, seed=9)
    state = {**loader.state_dict(), "epoch": 1, "position": 10}
    loader.load_state_dict(state)
    loader.set_epoch(1)
    assert loader.state_dict() == state and loader.remaining == 3
    assert contents(loader) == whole[1][10:] and contents(loader) == whole[2]
    loader.load_state_dict(state)
    loader.set_epoch(1)
    loader.set_epoch(1)  # the second pass begins the epoch from its start
    assert contents(loader) == whole[1]
    loader.load_state_dict(state)
    loader.set_epoch(2)  # another epoch
    loader.set_epoch(1)
    assert contents(loader) == whole[1]
    loader.load_state_dict(state)
    next(iter(loader))
    loader.set_epoch(1)  # a pass has begun
    assert contents(loader) == whole[1]


def test_a_rank_without_batches_counts_its_epochs(packed):
    loader = loader_of(packed, rank=3, world_size=4, padding=False, indices=[1, 2])
    for epoch in range(3):
        assert list(loader) == [] and loader.epoch == epoch + 1


def test_frameworks_say_the_epoch(packed):
    """Calls in Lightning's order: iter(), then sampler.set_epoch(), then batches of that iterator."""
    epochs = [contents(loader_of_epoch(packed, epoch)) for epoch in range(4)]
    loader = loader_of(packed, shuffle=True, seed=9)
    batches = iter(loader)
    loader.sampler.set_epoch(0)
    assert contents(batches) == epochs[0]
    batches = iter(loader)
    loader.sampler.set_epoch(3)  # a pass that has not begun moves to that epoch
    assert loader.epoch == 3 and contents(batches) == epochs[3]
    loader.sampler.set_epoch(1)
    assert contents(loader) == epochs[1]
    state = {**loader.state_dict(), "epoch": 2, "position": 10}
    loader.load_state_dict(state)
    loader.sampler.set_epoch(2)  # the position in the epoch stays
    batches = iter(loader)
    loader.sampler.set_epoch(2)
    assert contents(batches) == epochs[2][10:]
    for epoch in (1, 2):  # the framework limits an epoch to one batch
        loader.sampler.set_epoch(epoch)
        assert contents([next(iter(loader))]) == epochs[epoch][:5]


def test_looking_at_the_first_batch_again_and_again_is_warned_of(packed):
    loader = loader_of(packed, shuffle=True)
    for _ in range(3):
        next(iter(loader))
    with pytest.warns(UserWarning, match="the first batch of the same epoch each time"):
        next(iter(loader))


def test_remaining(packed):
    loader = loader_of(packed, shuffle=True)
    assert (len(loader), loader.remaining) == (5, 5)
    batches = iter(loader)
    assert len(batches) == loader.remaining == 5
    for left in (4, 3, 2):
        next(batches)
        assert len(batches) == loader.remaining == left and len(loader) == 5
    state = loader.state_dict()
    list(batches)
    assert len(batches) == 0 and loader.remaining == len(loader) == 5
    resumed = loader_of(packed, shuffle=True)
    resumed.load_state_dict(state)
    assert (resumed.remaining, len(resumed)) == (2, 5)
    rest = iter(resumed)
    assert len(rest) == 2 and len(list(rest)) == 2
    assert len(iter(resumed)) == len(list(resumed)) == 5
    for rank in range(2):
        part = loader_of(packed, shuffle=True, rank=rank, world_size=2, batch_size=2)
        part.load_state_dict(state)
        assert part.remaining == len(list(part)) == 3 and len(part) == 6  # 9 samples remain


def test_resume_in_the_middle(packed):
    wanted = contents(loader_of(packed, shuffle=True, seed=9))
    loader = loader_of(packed, shuffle=True, seed=9)
    batches = iter(loader)
    got = contents([next(batches), next(batches)])
    state = json.loads(json.dumps(loader.state_dict()))
    assert all(type(value) in (int, str) for value in state.values()) and state["position"] == 10
    fresh = loader_of(packed, shuffle=True, seed=9, num_workers=0)
    fresh.load_state_dict(state)
    assert fresh.state_dict() == state and fresh.epoch == 0
    got += contents(fresh)
    assert got == wanted
    assert fresh.epoch == 1 and fresh.state_dict()["position"] == 0
    assert contents(fresh) == contents(loader_of_epoch(packed, 1))


def loader_of_epoch(path, epoch):
    loader = loader_of(path, shuffle=True, seed=9)
    loader.set_epoch(epoch)
    return loader


def test_state_after_the_last_batch_leads_to_the_next_epoch(packed):
    loader = loader_of(packed)
    for _ in loader:
        state = loader.state_dict()
        epoch = loader.epoch
    assert (state["epoch"], state["position"], epoch) == (1, 0, 0)
    assert loader.state_dict() == state
    resumed = loader_of(packed)
    resumed.load_state_dict(state)
    assert resumed.epoch == 1 and len(list(resumed)) == len(resumed) and resumed.epoch == 2


def test_states_from_beyond_the_end_are_refused(packed):
    loader = loader_of(packed)
    state = loader.state_dict()
    for position in (N + 1, 2**31, 2**64 - 1):
        with pytest.raises(ps.errors.ArgumentError, match="beyond the epoch's end"):
            loader.load_state_dict({**state, "position": position})
    loader.load_state_dict({**state, "epoch": 4, "position": N})  # the end of an epoch is the beginning of the next one
    assert loader.state_dict() == {**state, "epoch": 5} and loader.epoch == 5
    loader.set_epoch(0)
    loader.load_state_dict({**state, "position": N - 1})
    assert indices_of(loader) == [[N - 1]]


def test_a_fork_after_the_last_batch_ends_there(run):
    assert run("""
        import os
        import penstock as ps
        loader = ps.Loader(packed, batch_size=12, fields=["label"], output="numpy")
        batches = iter(loader)
        next(batches), next(batches)
        if os.fork() == 0:
            print(len(list(batches)), loader.epoch, len(list(loader)), flush=True)
            os._exit(0)
        os.wait()
    """) == "0 1 2\n"


def test_states_of_other_loaders_are_refused(packed, folder):
    state = loader_of(packed, shuffle=True, seed=1).state_dict()
    for other in (
        loader_of(packed, shuffle=True, seed=2),
        loader_of(packed, shuffle=False, seed=1),
        loader_of(packed, shuffle=True, seed=1, indices=[1, 2, 3]),
        loader_of(packed, order="pages", seed=1),
    ):
        with pytest.raises(ValueError, match="another loader"):
            other.load_state_dict(state)
    for broken in ({}, {"version": 99}, {"version": 1}, {**state, "position": -1}):
        with pytest.raises(ps.errors.ArgumentError):
            loader_of(packed, shuffle=True, seed=1).load_state_dict(broken)


def test_a_state_of_another_augmentation_rule_is_refused(packed):
    loader = loader_of(packed, shuffle=True, seed=1)
    state = loader.state_dict()
    assert state["augment_version"] == 1
    with pytest.raises(ValueError, match="augment_version"):
        loader.load_state_dict({**state, "augment_version": 2})
    del state["augment_version"]
    with pytest.raises(ValueError, match="augment_version"):
        loader.load_state_dict(state)


def test_replay_is_the_same_batch(packed):
    loader = loader_of(packed, shuffle=True)
    seen = [[contents([batch]) for batch in loader] for _ in range(2)]
    for epoch, batches in enumerate(seen):
        for step, batch in enumerate(batches):
            assert contents([loader.replay(step, epoch)]) == batch
    assert contents([loader.replay(2)]) == seen[1][2]
    with pytest.raises(ps.PenstockError):
        loader.replay(len(loader))


def test_fetch_while_iterating(packed):
    loader = loader_of(packed, shuffle=True)
    wanted = dict(contents(loader_of(packed)))
    for batch in loader:
        fetched = loader.fetch([3, 0, 3], epoch=0)
        assert fetched["index"].tolist() == [3, 0, 3]
        assert contents([fetched])[1] == (0, wanted[0])
        assert batch["index"].size
    with pytest.raises(IndexError):
        loader.fetch([N])


def test_pages_order_mixes_within_the_window(packed):
    loader = loader_of(packed, order="pages", page_samples=4, window_pages=2, seed=5)
    order = sum(indices_of(loader), [])
    assert sorted(order) == list(range(N)) and order != list(range(N))

    def two_pages_at_a_time(offset):  # pages begin at an offset that changes by epoch
        pages = [(sample - offset) % N // 4 for sample in order]
        return all(len(set(pages[start : start + 8])) == 2 for start in range(0, N, 8))

    assert any(two_pages_at_a_time(offset) for offset in range(4))


def test_pages_order_reads_neighbours_together(packed):
    with loader_of(packed, order="shuffled", seed=5, num_workers=2, storage="threads", fields=["image"]) as loader:
        assert sorted(sum(indices_of(loader), [])) == list(range(N))
        alone = loader.stats()["storage"]
    assert alone["merged"] == alone["nbytes_gap"] == 0
    with loader_of(packed, order="pages", seed=5, num_workers=2, storage="threads", fields=["image"], prefetch=16,
                   throttle=(0, 1e-4, 1)) as loader:  # fmt: skip
        assert sorted(sum(indices_of(loader), [])) == list(range(N))
        merged = loader.stats()["storage"]
    assert merged["merged"] > 0 and merged["reads"] + merged["merged"] == alone["reads"]
    assert merged["nbytes_read"] == alone["nbytes_read"]


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Returns a data set of 4,000 small samples in shards of some hundred."""
    path = tmp_path_factory.mktemp("many") / "many.pst"
    with ps.Writer(path, {"blob": ps.Bytes()}, shard_size=1 << 18) as writer:
        for i in range(4000):
            writer.write({"blob": i.to_bytes(4, "little") * 150})
    return path


def read_many(path, n=4000, **options):
    loader = ps.Loader(path, num_workers=2, output="numpy", seed=3, reading=ps.Reading(throttle=(1e9, 0, 1)), **options)
    order = []
    for batch in islice(loader, n):
        order.extend(batch["index"].tolist())
        assert all(bytes(blob) == int(i).to_bytes(4, "little") * 150 for i, blob in zip(batch["index"], batch["blob"], strict=True))
    return order, loader


@pytest.mark.parametrize("batch_size, prefetch", [(32, 1), (1, 2), (128, 8)])
def test_default_pages_are_read_whole_however_little_is_ahead(many, batch_size, prefetch):
    order, loader = read_many(many, batch_size=batch_size, prefetch=prefetch, order="pages")
    with loader:
        stats = loader.stats()["storage"]
    assert sorted(order) == list(range(4000))
    assert stats["reads"] + stats["merged"] == 4000 and stats["nbytes_read"] == 4000 * 600
    # There are 250 pages, and some lie in two shards. The jobs under way are bounded, so with batches of one sample a window
    # is read in several parts.
    assert stats["reads"] < (300 if batch_size > 1 else 1000)
    assert stats["nbytes_gap"] < (stats["nbytes_read"] / 10 if batch_size > 1 else 2 * stats["nbytes_read"])
    with ps.Loader(many, order="pages", seed=3, batch_size=7, output="numpy") as alone:
        assert [i for batch in alone for i in batch["index"].tolist()] == order


@pytest.mark.parametrize("world_size", [1, 3])
def test_default_pages_resume_on_other_ranks(many, world_size):
    order, loader = read_many(many, batch_size=40, prefetch=1, order="pages")
    loader.close()
    first, loader = read_many(many, 30, batch_size=40, order="pages")
    state = loader.state_dict()
    loader.close()
    parts = []
    for rank in range(world_size):
        with ps.Loader(many, 50, order="pages", seed=3, output="numpy", num_workers=2, rank=rank, world_size=world_size,
                       pad_epoch=False, reading=ps.Reading(throttle=(0, 1e-5, 1))) as other:  # fmt: skip
            other.load_state_dict(state)
            parts.append([batch["index"].tolist() for batch in other])
    rest = [i for step in zip_longest(*parts, fillvalue=[]) for batch in step for i in batch]
    assert first == order[:1200] and rest == order[1200:]


def test_state_of_the_former_default_pages(many):
    former, loader = read_many(many, 3, batch_size=40, order=ps.Pages(64, 64))
    state = loader.state_dict()
    loader.close()
    wrong = pytest.raises(ps.errors.ArgumentError, match=r"order=ps.Pages\(64, 64\)")
    with ps.Loader(many, 40, order="pages", seed=3) as now, wrong:
        now.load_state_dict(state)
    with ps.Loader(many, 40, order="shuffled", seed=3) as other, pytest.raises(ps.errors.ArgumentError) as error:
        other.load_state_dict(state)
    assert "Pages" not in str(error.value)
    with ps.Loader(many, 40, order=ps.Pages(64, 64), seed=3, output="numpy") as same:
        whole = [i for batch in same for i in batch["index"].tolist()]
        same.load_state_dict(state)
        assert former + [i for batch in same for i in batch["index"].tolist()] == whole


def test_indices_and_weights(packed):
    loader = loader_of(packed, indices=[9, 3, 3, 20])
    assert indices_of(loader) == [[9, 3, 3, 20]]
    weights = np.zeros(N)
    weights[[4, 7]] = 1
    loader = loader_of(packed, weights=weights, seed=1)
    drawn = sum(indices_of(loader), [])
    assert len(drawn) == N and set(drawn) == {4, 7}
    for wrong in ({"indices": [N]}, {"indices": [-1]}, {"indices": []}, {"indices": [0.5]},
                  {"weights": [1.0]}, {"weights": [-1.0] * N}):
        with pytest.raises(ValueError):
            loader_of(packed, **wrong)


def test_pickle_carries_arguments_and_state(packed):
    loader = loader_of(packed, shuffle=True, seed=9, collate_fn=double)
    wanted = [pair[0]["index"].tolist() for pair in loader]
    loader.set_epoch(0)
    batches = iter(loader)
    first = next(batches)[0]["index"].tolist()
    for other in (pickle.loads(pickle.dumps(loader)), copy.deepcopy(loader)):
        assert other.state_dict() == loader.state_dict()
        assert [first, *(pair[0]["index"].tolist() for pair in other)] == wanted
    assert [first, *(pair[0]["index"].tolist() for pair in batches)] == wanted


def double(batch):
    return batch, batch


class Counted(ps.Loader):
    """A subclass with a member of its own."""

    def __init__(self, *args, **kwargs):
        self.seen = 0
        super().__init__(*args, **kwargs)

    def __iter__(self):
        for batch in super().__iter__():
            self.seen += 1
            yield batch


def test_subclass(packed):
    loader = Counted(packed, batch_size=6, output="numpy", transforms=CHAIN)
    assert len(list(loader)) == 4 and loader.seen == 4
    again = pickle.loads(pickle.dumps(loader))
    assert type(again) is Counted and again.seen == 4 and len(list(again)) == 4


def test_a_daemon_thread_that_iterates_ends_quietly(run):
    """The fixture requires exit status 0 and an empty stderr."""
    for _ in range(3):
        run("""
            import threading, time, penstock as ps
            from penstock import transforms as T
            loader = ps.Loader(packed, 4, transforms=[T.Resize((8, 8))], output="numpy",
                               reading=ps.Reading(throttle=(200000, 0.02)))
            seen = threading.Event()
            def epochs():
                while True:
                    for batch in loader:
                        seen.set()
            threading.Thread(target=epochs, daemon=True).start()
            seen.wait()
            """)
