"""Loops over every way of loading: the memory of Python, of the library and of the process must not grow."""

from __future__ import annotations

import gc
import os
import tracemalloc

import numpy as np
import pytest
import torch

import penstock as ps
from conftest import encoded, picture
from penstock import _native
from penstock import transforms as T

CHAIN = {"image": [T.RandomResizedCrop(16), T.ColorJitter(0.2), T.Normalize(0.5, 0.5)]}


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def held() -> tuple[int, int, int]:
    """Returns the bytes that Python, the library and the process hold."""
    gc.collect()
    process = 0 if "libasan" in os.environ.get("LD_PRELOAD", "") else resident()  # AddressSanitizer keeps freed memory
    return tracemalloc.get_traced_memory()[0], _native.memory_stats()[0], process


def assert_steady(action, turns=60, slack=(4096, 0, 1 << 20), rounds=6):
    """Warms up `action`, then runs it in rounds of `turns` until a round leaves nothing behind. A leak grows in every round; a
    thread that uses its first page of an arena late, or a new row, does so only once.
    """
    for _ in range(15):
        action()
    tracemalloc.start()
    try:
        for _ in range(3):
            action()
        grown = []
        for _ in range(rounds):
            before = held()
            for _ in range(turns):
                action()
            grown.append(tuple(b - a for a, b in zip(before, held(), strict=True)))
            if all(g <= s for g, s in zip(grown[-1], slack, strict=True)):
                return
        raise AssertionError(f"bytes of Python, the library and the process, by rounds of {turns}: {grown}")
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_batches(packed, typed, output):
    loaders = [ps.Loader(packed, batch_size=4, transforms=CHAIN, output=output, num_workers=1),
               ps.Loader(typed, batch_size=4, output=output, num_workers=0)]
    for loader in loaders:  # the number of slots under way at once depends on timing; more are used here
        list(loader)

    def action():
        for loader in loaders:
            for batch in loader:
                batch["label"].sum()
            loader.replay(1)
            loader.fetch([1, 2])
            loader.stats()
            loader.state_dict()

    assert_steady(action)


@pytest.mark.parametrize("workers", [0, 1, 2, 3])
def test_steady_loop_allocates_nothing_in_the_library(packed, typed, workers):
    """After a warm-up all rounds must be free of allocations, not only the best one. A worker that rarely runs may get its largest
    image late.
    """
    for path, chain in ((packed, CHAIN), (typed, {"image": [T.RandomResizedCrop(16), T.RandomHorizontalFlip()]})):
        loader = ps.Loader(path, batch_size=4, transforms=chain, output="numpy", num_workers=workers)
        counts = []
        while len(counts) < 40 and counts[-7:] != counts[-1:] * 7:
            for _ in range(10):
                for batch in loader:
                    batch["image"].sum()
            counts.append(_native.memory_stats()[1])
        assert counts[-7:] == counts[-1:] * 7, counts


def test_loaders_made_and_dropped(packed):
    def action():
        loader = ps.Loader(packed, batch_size=4, transforms=CHAIN, output="numpy", num_workers=1)
        batches = iter(loader)
        next(batches)
        if len(loader) % 2:
            loader.close()

    assert_steady(action, turns=30)


def test_errors(packed, tmp_path):
    ds = ps.Dataset(packed)
    loader = ps.Loader(ds, batch_size=4, transforms=CHAIN, output="numpy")

    def action():
        for call in (
            lambda: ps.Dataset(tmp_path / "nowhere"),
            lambda: ps.Loader(ds, dtype="float8"),
            lambda: ps.Loader(ds, transforms=[T.Normalize(0.5, 0.5), T.Resize(4)]),
            lambda: ps.Loader(ds, indices=[99]),
            lambda: loader.fetch([99]),
            lambda: loader.replay(99),
            lambda: ps.decode(b"junk"),
            lambda: ds.read(0, "nothing"),
            lambda: _native.Loader(ds._native, {"fields": [{"name": "image", "ops": [{"kind": 1, "x": 2}]}]}),
            lambda: _native.Writer(b"/nowhere/at/all", [{"name": "x", "type": 6}], 0, 0, 0),
        ):
            with pytest.raises((ps.PenstockError, IndexError, ValueError)):
                call()

    assert_steady(action, turns=40)


def test_datasets_and_images(packed, typed):
    data = encoded(picture(1, 30, 30), "PNG")

    def action():
        for path in (packed, typed):
            ds = ps.Dataset(path)
            for i in range(len(ds)):
                ds[i]
                ds.name(i)
            ds.item(0, "image")
            repr(ds)
        ps.decode(data)
        ps.probe(data)
        ps.verify(packed)

    assert_steady(action, turns=20)


def test_capsules(packed):
    loader = ps.Loader(packed, batch_size=2, transforms=CHAIN, output="numpy")

    def action():
        tensor = loader._open().fetch(0, np.zeros(2, np.uint64)).tensor(0)
        tensor.__dlpack__()
        tensor.__dlpack__(max_version=(1, 0))
        torch.from_dlpack(tensor)
        memoryview(tensor)
        for wrong in ({"dl_device": (2, 0)}, {"copy": True}):
            with pytest.raises(BufferError):
                tensor.__dlpack__(**wrong)

    assert_steady(action)


def test_writers(tmp_path):
    png = encoded(picture(1, 20, 20), "PNG")
    schema = {"image": ps.Image(), "label": ps.Int(["a", "b"]), "array": ps.Array("float32")}
    array = np.zeros((3, 2), np.float32)
    count = iter(range(10**6))

    def action():
        with ps.Writer(tmp_path / f"{next(count)}.pst", schema) as writer:
            for i in range(3):
                writer.write({"image": png, "label": i % 2, "array": array})
            for wrong in ({"image": b"junk", "label": 0, "array": array}, {}):
                with pytest.raises(ps.PenstockError):
                    writer.write(wrong)
            with pytest.raises(ps.PenstockError):
                writer.write({"image": png, "label": 0, "array": array}, name="000000000001")

    assert_steady(action, turns=20)
