"""Bad samples, wrong arguments, closed loaders: errors are clear and nothing is lost."""

from __future__ import annotations

import os
import shutil
import threading

import numpy as np
import pytest

import penstock as ps
from conftest import N
from flat import keywords
from penstock import transforms as T

BAD = 6


@pytest.fixture
def damaged(packed, tmp_path):
    """The packed data set with one changed byte in sample BAD."""
    path = tmp_path / "damaged.pst"
    shutil.copytree(packed, path)
    item = ps.Dataset(path).item(BAD, "image")
    with open(item["file"], "r+b") as file:
        file.seek(item["offset"] + item["nbytes"] // 2)
        byte = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte[0] ^ 0x40]))
    return path


def loader_of(path, **options):
    chain = [T.Resize((8, 8))]
    return ps.Loader(path, **keywords(**{"transforms": chain, "output": "numpy", "batch_size": 4, **options}))


@pytest.mark.parametrize("num_workers", [0, 2])
def test_raise_names_the_culprit_when_its_turn_comes(damaged, num_workers):
    loader = loader_of(damaged, num_workers=num_workers)
    got = []
    with pytest.raises(ps.errors.ChecksumError, match=f"sample {BAD}") as caught:
        for batch in loader:
            got.append(batch["index"].tolist())
    assert got == [[0, 1, 2, 3]]
    error = caught.value
    assert error.sample == BAD and error.dataset == str(damaged) and error.offset is not None
    assert "shard" in error.file and error.text and error.status == "PST_ERROR_CHECKSUM"


def test_skip_and_quarantine(damaged):
    loader = loader_of(damaged, on_error="skip")
    indices = [batch["index"].tolist() for batch in loader]
    assert indices[1] == [4, 5, 7] and sum(map(len, indices)) == N - 1
    (entry,) = loader.quarantine
    assert entry["sample"] == BAD and entry["name"] == ps.Dataset(damaged).name(BAD)
    assert entry["status"] == "PST_ERROR_CHECKSUM" and entry["file"]
    assert loader.stats()["samples"]["bad"] == 1
    loader.close()
    assert loader.quarantine == [entry] and loader.stats()["samples"]["bad"] == 1


def test_replace(damaged):
    def run(**options):
        loader = loader_of(damaged, on_error="replace", **options)
        return [batch["index"].tolist() for batch in loader], loader

    indices, loader = run()
    assert [len(batch) for batch in indices] == [4] * 6 and BAD not in indices[1]
    assert loader.stats()["samples"]["replaced"] == 1
    assert loader.replay(1, 0)["index"].tolist() == indices[1]
    assert run(num_workers=0)[0] == indices


def test_max_errors(damaged):
    with open(ps.Dataset(damaged).item(20, "image")["file"], "r+b") as file:
        file.seek(ps.Dataset(damaged).item(20, "image")["offset"] + 30)
        file.write(b"\xff\x00\xff")
    assert len(list(loader_of(damaged, on_error="skip", max_errors=2))) == 6
    with pytest.raises(ps.errors.LimitError, match="2 bad samples .* more than max_errors 1") as caught:
        list(loader_of(damaged, on_error="skip", max_errors=1))
    assert caught.value.sample == 20 and caught.value.file and caught.value.codec == "pli-jpeg"


def test_altered_bytes_pass_without_verify(damaged):
    # The JPEG decoder may or may not notice the change; no other error may occur.
    loader = loader_of(damaged, verify=False, on_error="skip")
    assert sum(len(batch["index"]) for batch in loader) >= N - 1


def test_iteration_goes_on_after_an_error(damaged):
    loader = loader_of(damaged)
    for _ in range(2):
        with pytest.raises(ps.errors.ChecksumError):
            list(loader)
    loader.set_epoch(0)
    assert next(iter(loader))["index"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("options", "text"), [
    ({"batch_size": 0}, "batch_size must be 1"),
    ({"batch_size": 2.5}, "batch_size is a whole number"),
    ({"seed": -1}, "seed must be 0"),
    ({"seed": 2**64}, "seed must be 0"),
    ({"prefetch": 0}, "prefetch must be 1"),
    ({"num_workers": -1}, "num_workers must be 0"),
    ({"host_memory": "4 pounds"}, "host_memory is bytes"),
    ({"host_memory": 0}, "host_memory must be above 0"),
    ({"order": "random"}, "order is one of"),
    ({"order": "sequential", "shuffle": True}, "contradict"),
    ({"on_error": "ignore"}, "on_error is one of"),
    ({"storage": "tape"}, "storage is one of"),
    ({"page_cache": "burn"}, "page_cache is one of"),
    ({"cache_form": "webp", "cache": "8MiB"}, r"CacheUse\.form is one of"),
    ({"cache_form": "pli-jpeg", "cache": None}, "no cache"),
    ({"layout": "CHWN"}, "layout is one of"),
    ({"output": "list"}, "output is one of"),
    ({"dtype": "float8"}, "dtype 'float8' is not known"),
    ({"throttle": (1, 2, 3, 4)}, r"Reading\.throttle is"),
    ({"throttle": (1, 2, 300)}, "throttle"),
    ({"transforms": {"picture": []}}, "no field 'picture'"),
    ({"transforms": {"image": [len]}}, "operations of penstock.transforms"),
    ({"transforms": {"image": "Resize"}}, r"operations of penstock\.transforms"),
    ({"transforms": {"label": [T.Resize(4)]}}, "label"),
    ({"transforms": [T.Normalize(0.5, 0.5), T.Resize(4)]}, "image"),
    ({"variants": {"image": ["tiff"]}}, "form is one of"),
    ({"variants": {"image": []}}, "list of forms"),
    ({"variants": {"image": "raw"}}, "list of forms"),
    ({"bits": 12}, r"Decoding\.bits is 8 or 16"),
    ({"channels": "all"}, "channels is a whole number"),
    ({"channels": 2}, "2 channels are not possible"),
    ({"dtype": {"label": "int64"}}, "of type int"),
    ({"dtype": "int64"}, "an image of 8 bits cannot be delivered as int64"),
    ({"prefetch": True}, "prefetch is a whole number, not True"),
    *(({name: value}, f"{said or name} is True or False, not {value!r}")
      for name, said in (("shuffle", ""), ("drop_last", ""), ("pad_epoch", ""), ("verify", r"Reading\.verify"),
                         ("ignore_orientation", r"Decoding\.ignore_orientation"), ("scaled_decode", r"Decoding\.scaled"))
      for value in ("no", 2, None, 1.0)),
    ({"scaled_decode": {"image": "yes"}}, "scaled is True or False, not 'yes'"),
    ({"fields": ["imge"]}, "no field 'imge' in .*: did you mean 'image'"),
])
def test_wrong_arguments(packed, options, text):
    with pytest.raises(ps.errors.ArgumentError, match=text):
        loader_of(packed, **options)


def test_truth_values(packed):
    for value in (True, 1, np.True_):
        loader = loader_of(packed, shuffle=value, drop_last=value, seed=4)
        assert [batch["index"].tolist() for batch in loader] == [
            batch["index"].tolist() for batch in loader_of(packed, shuffle=True, drop_last=True, seed=4)]


def test_a_device_that_is_there(packed):
    import torch

    for device in ("cpu", torch.device("cpu"), torch.device("cpu", 0)):
        assert len(loader_of(packed, device=device)) == 6


def test_boxes_follow_by_themselves(typed):
    with pytest.raises(ps.errors.ArgumentError, match="follow the image"):
        ps.Loader(typed, transforms={"boxes": [T.RandomHorizontalFlip(1.0)]})
    plain = next(iter(ps.Loader(typed, batch_size=10, output="numpy")))
    flipped = next(iter(ps.Loader(typed, batch_size=10, output="numpy",
                                  transforms={"image": [T.RandomHorizontalFlip(1.0)]})))
    width = plain["image"].shape[-1]
    for before, after in zip(plain["boxes"], flipped["boxes"], strict=True):
        np.testing.assert_allclose(after[:, [2, 0]], width - before[:, [0, 2]], rtol=1e-5)
        np.testing.assert_allclose(after[:, [1, 3]], before[:, [1, 3]])


def test_mask_follows_its_image(typed):
    same = [T.RandomResizedCrop(12, interpolation="nearest"), T.RandomHorizontalFlip()]
    batch = next(iter(ps.Loader(typed, batch_size=10, output="numpy", shuffle=True,
                                transforms={"image": same, "mask": same})))
    ds = ps.Dataset(typed)
    assert batch["mask"].shape == (10, 12, 12)
    for row, sample in enumerate(batch["index"]):
        # At each pixel the mask has the value of the place that the crop took the image's pixel from.
        stored = ds[int(sample)]
        values = {tuple(p): m for p, m in zip(stored["image"].reshape(-1, 3).tolist(),
                                              stored["mask"].reshape(-1).tolist(), strict=True)}
        pixels = batch["image"][row].transpose(1, 2, 0).reshape(-1, 3)
        found = [values[tuple(p)] for p in pixels.tolist()]
        assert np.mean(np.array(found) == batch["mask"][row].reshape(-1)) > 0.97  # colours may repeat


def test_an_older_iterator_says_why_it_ended(packed):
    loader = loader_of(packed)
    first = iter(loader)
    next(first)
    second = iter(loader)
    with pytest.raises(ps.errors.StateError, match="another one was made"):
        next(first)
    assert len(list(second)) == 6
    assert list(second) == []
    third = iter(loader)
    assert list(second) == [] and len(list(third)) == 6  # an exhausted iterator stays exhausted


def test_closed(packed):
    with loader_of(packed) as loader:
        batches = iter(loader)
        kept = next(batches)
    for call in (lambda: next(batches), lambda: iter(loader), lambda: loader.replay(0),
                 lambda: loader.fetch([1])):
        with pytest.raises(ps.errors.StateError, match="closed"):
            call()
    loader.close()
    assert kept["image"].sum() > 0 and loader.state_dict()["position"] == 4
    assert "6 batches" in repr(loader)


def test_collate_fn(packed):
    loader = loader_of(packed, collate_fn=lambda batch: (batch["image"], batch["label"]))
    for image, label in loader:
        assert image.shape == (4, 3, 8, 8) and label.shape == (4,)

    def stops(batch):
        raise StopIteration

    with pytest.raises(RuntimeError, match="collate_fn"):
        list(loader_of(packed, collate_fn=stops))


def test_break_abandon_and_errors_in_the_loop(packed):
    loader = loader_of(packed, shuffle=True, prefetch=4)
    for turn in range(30):
        with pytest.raises(ZeroDivisionError):
            for i, batch in enumerate(loader):
                if i == turn % 6:
                    1 / (batch["index"].size * 0)
    abandoned = iter(loader)
    next(abandoned)
    del abandoned
    assert loader.epoch == 25 and len(list(loader)) == 6  # 5 of 30 took only one batch


def test_threads_may_share_an_iterator(packed):
    loader = loader_of(packed, shuffle=True, batch_size=1, throttle=(0, 0.002))
    batches, seen, lock = iter(loader), [], threading.Lock()

    def take():
        for batch in batches:
            with lock:
                seen.append(int(batch["index"][0]))
                loader.stats()

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(seen) == list(range(N))


def test_close_while_another_thread_waits(packed):
    loader = loader_of(packed, throttle=(0, 0.5), num_workers=1, storage="threads", io_threads=1)
    caught = []

    def wait():
        try:
            list(loader)
        except ps.errors.StateError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.3)
    loader.close()
    thread.join(30)
    assert not thread.is_alive() and len(caught) == 1


def test_other_threads_run_while_one_waits(packed):
    loader = loader_of(packed, throttle=(0, 0.3), num_workers=1, batch_size=2)
    ticks = []
    done = threading.Event()

    def tick():
        while not done.wait(0.01):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    next(iter(loader))
    done.set()
    thread.join()
    assert len(ticks) >= 10  # about 30 are possible in 0.3 s


def test_workers_from_the_environment(packed, monkeypatch):
    monkeypatch.setenv("PENSTOCK_NUM_THREADS", "3")
    assert loader_of(packed).stats()["workers"] == 3
    assert loader_of(packed, num_workers=0).stats()["workers"] == 0
    monkeypatch.setenv("PENSTOCK_NUM_THREADS", "many")
    with pytest.raises(ps.errors.ArgumentError, match="PENSTOCK_NUM_THREADS"):
        loader_of(packed)
    monkeypatch.delenv("PENSTOCK_NUM_THREADS")
    cores = loader_of(packed).stats()["workers"]
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(cores))  # as many ranks share the machine
    assert 1 <= cores <= os.cpu_count() and loader_of(packed).stats()["workers"] == 1


def test_stats_are_json(folder, packed):
    import json

    loader = loader_of(packed)
    list(loader)
    stats = json.loads(json.dumps(loader.stats()))
    assert stats["batches"] == 6 and stats["samples"]["delivered"] == N
    assert stats["storage"]["kind"] in ("threads", "uring") and stats["decode"]["nbytes_decoded"] > 0
    assert loader_of(packed, storage="memory").stats()["storage"]["kind"] == "memory"
    assert 0 < stats["decode"]["units"] <= stats["decode"]["units_whole"]
    assert stats["storage"]["partial_reads"] == 0
    plain = loader_of(folder)
    list(plain)
    assert plain.stats()["decode"]["units"] == plain.stats()["decode"]["units_whole"] == 0


@pytest.fixture
def spoiled(packed, tmp_path):
    """The packed data set with its first eight samples damaged."""
    path = tmp_path / "spoiled.pst"
    shutil.copytree(packed, path)
    for sample in range(8):
        item = ps.Dataset(path).item(sample, "image")
        with open(item["file"], "r+b") as file:
            file.seek(item["offset"] + item["nbytes"] // 2)
            byte = file.read(1)
            file.seek(-1, 1)
            file.write(bytes([byte[0] ^ 0x40]))
    return path


@pytest.mark.parametrize("world_size", [1, 2, 3, 4])
@pytest.mark.parametrize("on_empty", [None, "pad", "empty"])
def test_every_rank_gets_equally_many_batches(spoiled, world_size, on_empty):
    lengths = set()
    for rank in range(world_size):
        loader = loader_of(spoiled, batch_size=2, on_error="skip", on_empty=on_empty, rank=rank,
                           world_size=world_size)
        sizes = [len(batch["index"]) for batch in loader]
        assert len(sizes) == len(loader)
        assert sizes[0] == (0 if on_empty == "empty" else 1)
        samples = loader.stats()["samples"]
        assert samples["delivered"] == sum(sizes) and (samples["replaced"] > 0) == (on_empty != "empty")
        lengths.add(len(sizes))
    assert len(lengths) == 1


@pytest.mark.parametrize("chain", [[T.Resize((8, 8))], []])
@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_an_empty_batch_has_all_fields(spoiled, chain, output):
    loader = loader_of(spoiled, transforms={"image": chain}, on_error="skip", on_empty="empty", output=output)
    batch = next(iter(loader))
    assert set(batch) == set(list(loader)[-1])
    assert len(batch["index"]) == len(batch["label"]) == len(batch["image"]) == 0
    if chain:
        assert tuple(batch["image"].shape) == (0, 3, 8, 8)


def test_an_epoch_of_bad_samples_is_an_error(spoiled):
    loader = loader_of(spoiled, indices=range(8), on_error="skip", on_empty="empty")
    for _ in range(2):
        got = []
        with pytest.raises(ps.errors.ChecksumError, match="all 8 samples of this rank's epoch are bad"):
            for batch in loader:
                got.append(len(batch["index"]))
        assert got == [0, 0]
    with pytest.raises(ps.errors.ChecksumError, match="found no good replacement"):
        list(loader_of(spoiled, indices=range(8), on_error="skip"))


def test_without_padding_each_sample_comes_once(packed):
    got = []
    for rank in range(5):
        loader = loader_of(packed, batch_size=1, rank=rank, world_size=5, padding=False)
        batches = [batch["index"].tolist() for batch in loader]
        assert len(batches) == len(loader) == (4 if rank == 4 else 5)
        got += sum(batches, [])
    assert sorted(got) == list(range(N))
    state = {**loader.state_dict(), "epoch": 0, "position": 22}
    for rank in range(3):  # two samples remain for three ranks
        loader = loader_of(packed, rank=rank, world_size=3, padding=False)
        loader.load_state_dict(state)
        assert loader.remaining == len(list(loader)) == (rank < 2)


@pytest.mark.parametrize("options", [
    {"on_empty": "pad"},
    {"on_empty": "empty", "on_error": "replace"},
    {"on_empty": "drop", "on_error": "skip"},
    {"max_errors": 3},
    {"pad_epoch": False, "drop_last": True},
])
def test_options_that_would_have_no_effect(packed, options):
    with pytest.raises(ps.errors.ArgumentError):
        loader_of(packed, **options)


def test_a_folder_that_is_gone_ends_the_epoch(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "copy")
    loader = loader_of(tmp_path / "copy", on_error="skip")
    next((tmp_path / "copy").glob("*/*.jpg")).unlink()
    assert sum(len(batch["index"]) for batch in loader) == N - 1
    (tmp_path / "copy").rename(tmp_path / "away")
    with pytest.raises(ps.errors.NotFoundError):
        list(loader)
    with pytest.raises(ps.errors.ArgumentError, match="operation 0"):
        list(loader_of(folder, on_error="skip", transforms=[T.RandomCrop(1000)]))
