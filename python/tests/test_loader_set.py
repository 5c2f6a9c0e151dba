"""Loader.set: the next batch has the new size, the batches do not depend on work ahead, and states and plans know the sizes."""

from __future__ import annotations

import copy
import json
import multiprocessing
import pickle
import threading

import numpy as np
import pytest

import penstock as ps
from conftest import N
from flat import keywords
from penstock import transforms as T
from penstock.errors import StateError

CHAIN = [T.RandomResizedCrop(24), T.RandomHorizontalFlip(), T.Normalize(0.5, 0.25)]


def loader_of(path, **options):
    given = {"transforms": CHAIN, "output": "numpy", "batch_size": 4, "shuffle": True, "seed": 5, **options}
    return ps.Loader(path, **keywords(**given))


def seen(batch):
    return batch["index"].tolist(), batch["image"].shape, batch["image"].tobytes()


def train(loader, calls, taken, epochs):
    """Takes batches up to the end of `epochs`. `calls` maps a number of batches taken to the settings that are set after them."""
    found = []
    while loader.epoch < epochs:
        for batch in loader:
            found.append(seen(batch))
            del batch
            taken += 1
            if taken in calls:
                loader.set(**calls[taken])
    return found


CALLS = {2: {"size": 16}, 3: {"batch_size": 3}, 6: {"size": (20, 28), "batch_size": 5}, 10: {"size": 24}, 12: {"batch_size": 2}}


@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize("repeats", [1, 2])
def test_interrupted_is_uninterrupted(packed, drop_last, world_size, repeats):
    options = {"drop_last": drop_last, "rank": world_size - 1, "world_size": world_size, "repeats": repeats}
    whole = train(loader_of(packed, **options), CALLS, 0, 3)
    shapes = {shape[2:] for _, shape, _ in whole}
    assert shapes == {(24, 24), (16, 16), (20, 28)}
    for stop in range(1, len(whole), 5):
        loader = loader_of(packed, **options)
        found, done = [], False
        while not done:
            for batch in loader:
                found.append(seen(batch))
                if len(found) in CALLS:
                    loader.set(**CALLS[len(found)])
                if done := len(found) == stop:
                    break
        state = json.loads(json.dumps(loader.state_dict()))
        other = loader_of(packed, num_workers=stop % 3, prefetch=1 + stop % 4, **options)
        other.load_state_dict(state)
        assert other.batch_size == loader.batch_size and other.size == loader.size
        assert found + train(other, CALLS, stop, 3) == whole


def test_it_does_not_depend_on_what_was_ahead(packed):
    wanted = train(loader_of(packed, num_workers=0, prefetch=1), CALLS, 0, 2)
    for options in ({"num_workers": 3, "prefetch": 6}, {"storage": "memory"}, {"cache": 1 << 24}, {"storage": "threads"}):
        assert train(loader_of(packed, **options), CALLS, 0, 2) == wanted


def test_batches_are_those_of_a_loader_made_so(packed):
    loader, place = loader_of(packed), None
    passes = iter(loader)
    next(passes)
    next(passes)
    loader.set(size=18, batch_size=7)
    place = loader.state_dict()
    rest = [seen(batch) for batch in passes]
    made = loader_of(packed, transforms=[T.RandomResizedCrop(18), *CHAIN[1:]], batch_size=7)
    made.load_state_dict({key: value for key, value in place.items() if key not in ("batch_size", "height", "width")})
    assert [seen(batch) for batch in made] == rest


def test_lengths_and_settings(packed):
    loader = loader_of(packed)
    assert (len(loader), loader.batch_size, loader.size) == (6, 4, (24, 24))
    passes = iter(loader)
    next(passes)
    assert len(passes) == 5
    loader.set(batch_size=6)
    assert (len(loader), len(passes), loader.remaining, loader.batch_size) == (4, 4, 4, 6)  # 20 samples remain
    loader.set(size=(16, 20))
    assert loader.size == (16, 20) and next(passes)["image"].shape == (6, 3, 16, 20)
    assert len(list(passes)) == 3 and len(passes) == 0
    loader.set(size=8)
    assert [batch["image"].shape for batch in loader] == [(6, 3, 8, 8)] * 4
    assert "batch_size=6" in repr(loader)


def test_the_end_with_drop_last(packed):
    loader = loader_of(packed, drop_last=True)
    passes = iter(loader)
    for _ in range(4):
        next(passes)
    loader.set(batch_size=9)  # 8 samples remain
    assert loader.remaining == 0 and list(passes) == [] and loader.state_dict()["epoch"] == 1
    assert len(list(loader)) == 2


@pytest.mark.parametrize("kind", ["caller", "threads", "processes"])
def test_functions_ahead_are_dropped(packed, kind):
    def double(sample):
        return {**sample, "image": sample["image"] * 2}

    workers = {} if kind == "caller" else {"function_workers": 2, "function_kind": kind}
    with loader_of(packed, sample_function=double, **workers) as loader:
        found = train(loader, CALLS, 0, 2)
    wanted = train(loader_of(packed), CALLS, 0, 2)
    assert [entry[:2] for entry in found] == [entry[:2] for entry in wanted]
    for (_, _, image), (_, _, plain) in zip(found, wanted, strict=True):
        assert np.array_equal(np.frombuffer(image, np.float32), 2 * np.frombuffer(plain, np.float32))


def test_masks_boxes_and_mixes_follow(packed):
    mix = T.MixUp(0.3, num_classes=3)
    loader = loader_of(packed, mix=mix)
    passes = iter(loader)
    next(passes)
    loader.set(size=12)
    mixed = next(passes)
    assert mixed["image"].shape == (4, 3, 12, 12) and mixed["label"].shape == (4, 3)
    state = loader_of(packed, mix=mix, transforms=[T.RandomResizedCrop(12), *CHAIN[1:]])
    again = iter(state)
    next(again)
    assert next(again)["image"].tobytes() == mixed["image"].tobytes()


def test_refusals_leave_the_loader_as_it_was(packed):
    loader = loader_of(packed, host_memory="64MiB")
    wanted = train(loader_of(packed), {}, 0, 1)
    found = []
    for batch in loader:
        found.append(seen(batch))
        with pytest.raises(ps.errors.LimitError, match="host_memory .*67108864.* needed"):
            loader.set(size=2048, batch_size=64)
        for wrong in ({"size": 0}, {"size": (3, 4, 5)}, {"size": "big"}, {"batch_size": 0}, {"batch_size": 2.5}, {"size": 1.5}):
            with pytest.raises((ps.errors.ArgumentError, TypeError)):
                loader.set(**wrong)
    assert found == wanted and "height" not in loader.state_dict()
    with pytest.raises(ps.errors.ArgumentError, match="no operation"):
        loader_of(packed, transforms=[T.RandomHorizontalFlip()]).set(size=20)
    with pytest.raises(ps.errors.ArgumentError, match="24x24"):
        loader_of(packed, transforms=[T.CenterCrop(24), T.Pad(2)]).set(size=20)
    loader.close()
    with pytest.raises(ps.errors.StateError, match="closed"):
        loader.set(size=20)


def test_old_states_and_other_settings(packed):
    loader = loader_of(packed)
    old = loader.state_dict()
    assert set(old) == {"version", "epoch", "position", "seed", "n_samples", "order_version", "order_hash", "augment_version",
                        "identity", "files", "transforms"}
    loader.set(size=16, batch_size=8)
    assert loader.state_dict() == {**old, "batch_size": 8, "height": 16, "width": 16}
    state = loader.state_dict()
    loader.load_state_dict(old)  # if the state has no settings, the arguments count
    assert loader.size == (24, 24) and loader.batch_size == 4
    with pytest.raises(ps.errors.ArgumentError, match="width"):
        loader.load_state_dict({key: value for key, value in state.items() if key != "width"})
    for other in (copy.copy(loader), pickle.loads(pickle.dumps(loader))):
        other.load_state_dict(state)
        assert next(iter(pickle.loads(pickle.dumps(other))))["image"].shape == (8, 3, 16, 16)


def _of_child(loader, queue):
    queue.put([seen(batch) for batch in loader])


def test_a_forked_child_has_the_settings(packed):
    loader = loader_of(packed)
    loader.set(size=16, batch_size=8)
    queue = multiprocessing.get_context("fork").SimpleQueue()
    process = multiprocessing.get_context("fork").Process(target=_of_child, args=(loader, queue))
    process.start()
    found = queue.get()
    process.join(60)
    assert found == [seen(batch) for batch in loader]


def test_stats_of_other_threads_meanwhile(packed):
    loader, ends = loader_of(packed), threading.Event()
    used = []

    def watch():
        while not ends.is_set():
            used.append(loader.stats()["memory"]["used"])
            len(loader)

    thread = threading.Thread(target=watch)
    thread.start()
    for i in range(40):
        loader.set(size=16 + i % 3, batch_size=1 + i % 5)
        passes = iter(loader)
        next(passes), next(passes)
    ends.set()
    thread.join(60)
    assert not thread.is_alive() and used and max(used) <= loader.stats()["memory"]["limit"]


def test_refused_while_a_batch_is_made(packed):
    """Refused, because the batch that is being made would be delivered, and its samples would come again after it."""
    refused = []

    def collate(batch):
        with pytest.raises(StateError, match="a batch is being made"):
            loader.set(batch_size=2)
        refused.append(batch["index"].tolist())
        return batch

    loader = loader_of(packed, collate_fn=collate)
    assert [batch["index"].tolist() for batch in loader] == refused and len(refused) == len(loader)
    assert sorted(sum(refused, [])) == [*range(N)]


def test_batches_that_are_held_stay(packed):
    loader = loader_of(packed, transforms=[T.RandomResizedCrop(160)])
    held, copies = [], []
    for batch in loader:
        held.append(batch["image"])
        copies.append(batch["image"].copy())
        loader.set(size=160 + 8 * len(held))
    assert loader.stats()["memory"]["slots_held"] >= len(held) == 6
    del loader, batch
    assert all(np.array_equal(a, b) for a, b in zip(held, copies, strict=True))


# A schedule in a plan ---------------------------------------------------------------------------------

PLAN = {
    "kind": "penstock plan",
    "version": 1,
    "classes": [],
    "loader": {},
    "schedule": [{"epoch": 1, "size": 16, "batch_size": 8}, {"epoch": 3, "size": [20, 28]}, {"epoch": 4, "batch_size": 3}],
}


def shapes_of(loader, epochs):
    found = {}
    while loader.epoch < epochs:
        epoch, n = loader.epoch, len(loader)
        batches = [batch["image"].shape for batch in loader]
        assert len(batches) == n
        found[epoch] = batches[0]
    return found


WANTED = {0: (4, 3, 24, 24), 1: (8, 3, 16, 16), 2: (8, 3, 16, 16), 3: (8, 3, 20, 28), 4: (3, 3, 20, 28), 5: (3, 3, 20, 28)}


def test_a_schedule_is_followed_at_epochs(packed, tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    loader = loader_of(packed, plan=tmp_path / "plan.json")
    assert shapes_of(loader, 6) == WANTED
    loader.set_epoch(2)
    assert next(iter(loader))["image"].shape == WANTED[2]
    loader.set_epoch(0)
    assert next(iter(loader))["image"].shape == WANTED[0]
    loader.sampler.set_epoch(5)  # as frameworks do
    assert next(iter(loader))["image"].shape == WANTED[5]


def test_set_holds_until_the_next_stage(packed):
    loader = loader_of(packed, plan=PLAN)
    loader.set(size=12)
    assert [batch["image"].shape[2] for batch in loader] == [12] * 6
    assert next(iter(loader))["image"].shape == WANTED[1]


def test_a_schedule_survives_a_resume(packed):
    def run(loader, found, stop=None):
        while loader.epoch < 5:
            for batch in loader:
                found.append(seen(batch))
                if loader.epoch == 2 and len(batch["index"]) == 8 and batch["image"].shape[2] == 16:
                    loader.set(size=18)
                if len(found) == stop:
                    return loader.state_dict()
        return None

    whole: list = []
    run(loader_of(packed, plan=PLAN), whole)
    for stop in range(1, len(whole)):
        found: list = []
        state = run(loader_of(packed, plan=PLAN), found, stop)
        other = loader_of(packed, plan=PLAN)
        other.load_state_dict(json.loads(json.dumps(state)))
        run(other, found)
        assert found == whole, stop
    assert len({shape for _, shape, _ in whole}) >= 5


@pytest.mark.parametrize(
    ("schedule", "text"),
    [
        (3, "a list of stages"),
        ([3], r"schedule\[0\] is an object"),
        ([{"epoch": 1}], "neither size nor batch_size"),
        ([{"size": 16}], r"schedule\[0\]"),
        ([{"epoch": -1, "size": 16}], r"schedule\[0\]"),
        ([{"epoch": 1, "size": [1, 2, 3]}], "height, width"),
        ([{"epoch": 1, "batch_size": 0}], r"schedule\[0\]"),
        ([{"epoch": 2, "size": 16}, {"epoch": 2, "size": 18}], "not after the stage before"),
    ],
)
def test_wrong_schedules(packed, schedule, text):
    with pytest.raises(ps.errors.ArgumentError, match=text):
        loader_of(packed, plan={**PLAN, "schedule": schedule})
    with pytest.raises(ps.errors.ArgumentError, match=text):
        ps.Plan({**PLAN, "schedule": schedule})


def test_loaders_that_cannot_follow_a_schedule(packed):
    with pytest.raises(ps.errors.ArgumentError, match=r"schedule\[0\] has a size"):
        loader_of(packed, plan=PLAN, transforms=[T.RandomHorizontalFlip()])
    with pytest.raises(ps.errors.ArgumentError, match="share"):
        loader_of(packed, plan=PLAN, share="group")
    only_batches = {**PLAN, "schedule": [{"epoch": 1, "batch_size": 8}]}
    loader = loader_of(packed, plan=only_batches, transforms=None, fields=["label"])
    assert [len(list(loader)) for _ in range(2)] == [6, 3]
    assert N == 24


def test_stages_as_text():
    from penstock.loading.stages import stages_of

    assert stages_of("0:128:512,6:160x224,12::192") == [
        {"epoch": 0, "size": [128, 128], "batch_size": 512},
        {"epoch": 6, "size": [160, 224]},
        {"epoch": 12, "batch_size": 192},
    ]
    for wrong in ("", "6", "a:1", "1:2:3:4", "1:2x3x4", "1:-5", "1:2:", "0:1,,"):
        with pytest.raises(ps.errors.ArgumentError, match="stage of a schedule"):
            stages_of(wrong)
