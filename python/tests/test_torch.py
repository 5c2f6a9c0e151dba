"""TorchDataset in torch's DataLoader, and loaders beside autograd."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import penstock as ps
from conftest import N
from flat import keywords
from penstock import transforms as T

CHAIN = {"image": [T.RandomResizedCrop(12), T.RandomHorizontalFlip(), T.Normalize(0.5, 0.5)]}


def wanted(packed, epoch=0, seed=4):
    loader = ps.Loader(packed, batch_size=N, transforms=CHAIN, seed=seed, output="torch")
    loader.set_epoch(epoch)
    return next(iter(loader))


def test_items(packed):
    ds = ps.TorchDataset(packed, transforms=CHAIN, seed=4)
    assert len(ds) == N
    whole = wanted(packed)
    for i in (0, 5, -1):
        sample = ds[i]
        assert set(sample) == {"image", "label", "index"}
        assert torch.equal(sample["image"], whole["image"][i])
        assert sample["label"] == int(whole["label"][i]) and sample["index"] == i % N
    with pytest.raises(IndexError):
        ds[N]
    ds.set_epoch(3)
    assert ds.epoch == 3
    assert torch.equal(ds[2]["image"], wanted(packed, 3)["image"][2])
    assert torch.equal(pickle.loads(pickle.dumps(ds))[2]["image"], ds[2]["image"])


def test_items_are_copies(packed):
    ds = ps.TorchDataset(packed, transforms=CHAIN, host_memory="32MiB")
    many = [ds[i % N]["image"] for i in range(200)]
    assert torch.equal(many[0], many[N]) and many[0].data_ptr() != many[N].data_ptr()
    assert ds._loader.stats()["memory"]["slots_held"] == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_data_loader_forked(packed, workers):
    context = "fork" if workers else None
    ds = ps.TorchDataset(packed, transforms=CHAIN, seed=4)
    ds[0]  # the parent has used the data set; the children must not hang because of that
    loader = DataLoader(ds, batch_size=5, num_workers=workers, multiprocessing_context=context)
    for _ in range(2):
        batches = list(loader)
        whole = wanted(packed)
        assert torch.equal(torch.cat([batch["image"] for batch in batches]), whole["image"])
        assert torch.equal(torch.cat([batch["label"] for batch in batches]), whole["label"])
        assert torch.cat([batch["index"] for batch in batches]).tolist() == list(range(N))


def test_persistent_workers_see_the_epoch(packed):
    ds = ps.TorchDataset(packed, transforms=CHAIN, seed=4, as_tuple=True)
    loader = DataLoader(ds, batch_size=8, num_workers=2, persistent_workers=True,
                        multiprocessing_context="fork")
    for epoch in range(3):
        ds.set_epoch(epoch)
        images = torch.cat([image for image, _ in loader])
        assert torch.equal(images, wanted(packed, epoch)["image"])


def test_data_loader_spawned(packed, tmp_path):
    file = tmp_path / "spawned.py"
    file.write_text(
        f"""
import torch, penstock as ps
from penstock import transforms as T
from torch.utils.data import DataLoader

if __name__ == "__main__":
    ops = {{"image": [T.RandomResizedCrop(12), T.RandomHorizontalFlip(), T.Normalize(0.5, 0.5)]}}
    ds = ps.TorchDataset({str(packed)!r}, transforms=ops, seed=4)
    plain = [ds[i]["image"] for i in range(len(ds))]
    loader = DataLoader(ds, batch_size=5, num_workers=1, multiprocessing_context="spawn",
                        persistent_workers=True)
    got = torch.cat([batch["image"] for batch in loader])
    assert torch.equal(got, torch.stack(plain))
    ds.set_epoch(1)
    other = torch.cat([batch["image"] for batch in loader])
    assert not torch.equal(got, other) and torch.equal(other[3], ds[3]["image"])
"""
    )
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_tuples(packed):
    ds = ps.TorchDataset(packed, transforms=CHAIN, as_tuple=True)
    image, label = next(iter(DataLoader(ds, batch_size=4)))
    assert image.shape == (4, 3, 12, 12) and label.dtype == torch.int64
    named = ps.TorchDataset(packed, transforms=CHAIN, as_tuple=["index", "image"])
    assert named[7][0] == 7 and named[7][1].shape == (3, 12, 12)
    with pytest.raises(ps.errors.ArgumentError):
        ps.TorchDataset(packed, as_tuple=["picture"])


def test_every_type_collates(typed):
    ds = ps.TorchDataset(typed, fields=["image", "mask", "label", "weight", "title", "fixed"])
    batch = next(iter(DataLoader(ds, batch_size=4)))
    assert batch["image"].shape == (4, 3, 32, 48) and batch["mask"].shape == (4, 32, 48)
    assert batch["fixed"].shape == (4, 2, 3) and batch["title"][1] == "Nr. 1 äöü"
    assert batch["weight"].shape == (4,)
    sample = ps.TorchDataset(typed)[3]
    assert sample["ragged"].shape == (4, 2) and sample["facts"]["i"] == 3
    assert sample["blob"] == b"\x00\x01\x02" and isinstance(sample["boxes"], torch.Tensor)


def test_numpy_subset_and_wrong_arguments(packed):
    ds = ps.TorchDataset(packed, transforms=CHAIN, output="numpy", indices=[5, 9])
    assert len(ds) == 2 and isinstance(ds[1]["image"], np.ndarray) and ds[1]["index"] == 9
    with pytest.raises(ps.errors.ArgumentError, match="DataLoader"):
        ps.TorchDataset(packed, batch_size=4)
    with pytest.raises(ps.errors.ArgumentError):
        ds.set_epoch(-1)
    assert "24 samples" in repr(ds)


def test_batches_train_a_network(packed):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 12 * 12, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.05)
    loader = ps.Loader(packed, batch_size=8, shuffle=True, seed=1, output="torch",
                       transforms=[T.Resize((12, 12)), T.Normalize(0.5, 0.5)])
    losses = []
    for _ in range(25):
        for batch in loader:
            loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert sum(losses[-3:]) < 0.5 * sum(losses[:3])


@pytest.mark.parametrize("options", [
    {"on_error": "skip"}, {"on_error": ps.OnError("replace", 3)}, {"pin_memory": True},
    {"on_error": ps.OnError("skip", on_empty="pad")}, {"prefetch": 4}, {"collate_fn": list},
    {"drop_last": True}, {"pad_epoch": False}, {"reading": ps.Reading(io_threads=2)}, {"order": ps.Pages(4)},
    {"batch_size": 2}, {"shuffle": True}, {"rank": 0}, {"num_workers": 1},
])
def test_options_that_would_have_no_effect(packed, options):
    with pytest.raises(ps.errors.ArgumentError, match=f"(?i){next(iter(options)).replace('_', '_?')}"):
        ps.TorchDataset(packed, **options)


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_samples_are_replaced(folder, tmp_path, workers):
    import shutil

    shutil.copytree(folder, tmp_path / "copy")
    bad = sorted((tmp_path / "copy").glob("*/*.jpg"))[3]
    bad.write_bytes(b"this is no image")
    with pytest.raises(ps.PenstockError):
        list(ps.TorchDataset(tmp_path / "copy", transforms=CHAIN))
    ds = ps.TorchDataset(tmp_path / "copy", transforms=CHAIN, on_error="replace")
    number = next(i for i in range(N) if ps.Dataset(tmp_path / "copy").name(i) in str(bad))
    first = [i for batch in DataLoader(ds, batch_size=5, num_workers=workers) for i in batch["index"].tolist()]
    assert [i for i, index in enumerate(first) if i != index] == [number] and 0 <= first[number] < N
    assert first == [ds[i]["index"] for i in range(N)]  # the replacement is a function of (seed, epoch, sample)
    some = ps.TorchDataset(tmp_path / "copy", transforms=CHAIN, on_error="replace", indices=[number, 1, 2])
    assert some[0]["index"] in (1, 2)
    shutil.rmtree(tmp_path / "copy")
    with pytest.raises(ps.errors.NotFoundError):  # this error is no sample's fault
        ds[0]


@pytest.mark.parametrize("workers", [0, 2])
def test_epochs_that_repeat_their_augmentations_are_warned_of(packed, workers):
    import warnings

    def epochs(ds, n, set_epoch=False):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for epoch in range(n):
                if set_epoch:
                    ds.set_epoch(epoch)
                list(DataLoader(ds, batch_size=5, num_workers=workers))
        said = [str(w.message) for w in caught if "augmentations repeat" in str(w.message)]
        return said if workers == 0 else min(ds._fetched) < 0  # workers report it on standard error

    assert not epochs(ps.TorchDataset(packed, transforms=CHAIN), 1)
    ds = ps.TorchDataset(packed, transforms=CHAIN)
    said = epochs(ds, 3)
    assert said is True if workers else len(said) == 1
    assert workers or not epochs(ds, 3)
    assert not epochs(ps.TorchDataset(packed, transforms=CHAIN), 3, set_epoch=True)
    assert not epochs(ps.TorchDataset(packed, transforms=[T.Resize((8, 8))]), 3)


ALWAYS = {  # operations whose epochs differ, or never differ
    T.RandomCrop(20): True, T.RandomResizedCrop(20): True, T.RandomHorizontalFlip(): True, T.RandomHorizontalFlip(1): False,
    T.RandomVerticalFlip(0): False, T.ColorJitter(0.5): True, T.ColorJitter(): False, T.RandomGrayscale(0.5): True,
    T.RandomInvert(): True, T.RandomPosterize(2, p=1): False, T.GaussianBlur(5): True, T.GaussianBlur(5, 1.0): False,
    T.RandomRotation(30): True, T.RandomAffine(10): True, T.RandomPerspective(): True, T.ElasticTransform(): True,
    T.RandomErasing(1): True, T.RandAugment(): True, T.TrivialAugmentWide(): True, T.AutoAugment(): True, T.AugMix(): True,
    T.RandomApply([T.RandomInvert(1)], p=1): False, T.RandomApply([T.RandomRotation(30)], p=1): True,
    T.RandomChoice([T.Identity(), T.RandomInvert(1)]): True, T.RandomZoomOut(): True, T.ScaleJitter((30, 30)): True,
    T.RandomShortestSize([20, 30, 40]): True, T.RandomResize(20, 60): True, T.RandomScaleCrop(20): True,
    T.CenterCrop(20): False, T.Letterbox(32): False, T.Grayscale(): False,
}  # fmt: skip


@pytest.mark.parametrize("op", ALWAYS, ids=repr)
def test_operations_know_whether_they_draw(packed, op):
    """Each operation's own statement whether it is random agrees with its epochs."""
    assert op.is_random == ALWAYS[op]
    chain = [op] if isinstance(op, T.RandomErasing) else [op, T.Resize((16, 16))]  # this operation must be the last of a chain
    with ps.Loader(packed, batch_size=1, transforms=[T.Resize((48, 48)), *chain], output="numpy") as loader:
        pictures = [np.array(loader.fetch([i], epoch)["image"][0]) for epoch in range(12) for i in (1, 2)]
    differ = any(not np.array_equal(pictures[i], pictures[i + 2]) for i in range(len(pictures) - 2))
    assert differ == op.is_random


def test_no_random_operation_is_forgotten():
    """All operations that are random by default are listed, so a new one is noticed."""
    made = {type(op) for op in ALWAYS}
    named = [getattr(T, name) for name in T.__all__ if name.startswith("Random")]
    left_out = {"RandomIoUCrop", "RandomClip", "RandomSolarize", "RandomAutocontrast", "RandomEqualize", "RandomAdjustSharpness"}
    assert {op.__name__ for op in named} - {op.__name__ for op in made} == left_out


def test_views_functions_and_sounds_are_random_too(packed):
    still = [T.Resize((8, 8))]

    def random_one(sample, rng):
        return sample

    assert not ps.TorchDataset(packed, transforms=still, functions=ps.Functions(sample=dict))._counts
    assert ps.TorchDataset(packed, transforms=still, functions=ps.Functions(sample=random_one))._counts
    views = {"a": (2, [T.RandomResizedCrop(8)]), "b": (1, [T.Resize((8, 8))])}
    assert ps.TorchDataset(packed, views=views)._counts
    assert not ps.TorchDataset(packed, views={"b": (1, [T.Resize((8, 8))])})._counts
    assert T.RandomClip(8).is_random and T.TimeMask(3).is_random and T.Gain((0, 3)).is_random and not T.Gain(3).is_random


@pytest.mark.parametrize("rank, n, warns", [(0, N, False), (0, N + 1, True), (1, N // 2 + 4, False), (1, N // 2 + 8, True)])
def test_ranks_may_fetch_what_frameworks_ask_for(packed, monkeypatch, rank, n, warns):
    """accelerate: with dispatch_batches rank 0 fetches for all; with even_batches each rank gets whole batches."""
    import warnings

    for name, value in {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "MASTER_ADDR": "localhost", "MASTER_PORT": 1}.items():
        monkeypatch.setenv(name, str(value))
    ds = ps.TorchDataset(packed, transforms=CHAIN)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for begin in range(0, n, 4):
            ds.__getitems__([i % N for i in range(begin, min(begin + 4, n))])
    assert any("augmentations repeat" in str(w.message) for w in caught) == warns


def test_counters_depend_on_nothing_of_torch(packed):
    import torch

    with torch.device("meta"), torch.inference_mode():
        ds = ps.TorchDataset(packed, transforms=CHAIN)
        ds.set_epoch(3)
    ds.set_epoch(4)
    copy = pickle.loads(pickle.dumps(ds))
    copy.set_epoch(9)
    assert (ds.epoch, copy.epoch) == (4, 9)


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, make):
        self.make = make

    def __iter__(self):
        return iter(self.make())


def test_workers_do_not_repeat_a_loader(packed):
    options = {"batch_size": 4, "transforms": [T.Resize((8, 8))], "output": "torch", "num_workers": 1}
    loader = ps.Loader(packed, **keywords(**options))
    assert sum(len(b["index"]) for b in DataLoader(Stream(lambda: loader), batch_size=None, num_workers=1)) == N
    with pytest.raises(ps.errors.StateError, match="2 workers of torch's DataLoader would deliver the whole epoch"):
        list(DataLoader(Stream(lambda: loader), batch_size=None, num_workers=2))

    def part():
        worker = torch.utils.data.get_worker_info()
        return ps.Loader(packed, **keywords(rank=worker.id, world_size=worker.num_workers, **options))

    seen = [i for batch in DataLoader(Stream(part), batch_size=None, num_workers=2) for i in batch["index"].tolist()]
    assert sorted(seen) == list(range(N))


def test_a_loader_is_no_data_set(packed):
    with pytest.raises(TypeError, match="TorchDataset"):
        list(DataLoader(ps.Loader(packed, batch_size=2, transforms=[T.Resize((8, 8))])))
