"""Memory of a loader from Python's side: which arrays keep which part of a batch alive."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
import torch

import penstock as ps
from penstock import errors
from penstock import transforms as T

SQUARE = [T.Resize((64, 64))]


def values(array: object) -> np.ndarray:
    if isinstance(array, torch.Tensor):
        return array.numpy()
    return np.asarray(array)


@pytest.mark.parametrize("output", ["numpy", "torch", "dlpack"])
def test_labels_and_indices_keep_no_images(packed: Path, output: str):
    with ps.Loader(packed, batch_size=4, transforms=SQUARE, output=output, host_memory="64MiB") as loader:
        kept = []
        for _ in range(20):  # far more batches than there are slots
            for batch in loader:
                kept.append((values(batch["label"]).copy(), batch["label"], values(batch["index"]).copy(), batch["index"]))
            del batch
        gc.collect()
        assert loader.stats()["memory"]["slots_held"] == 0
        assert len(kept) == 20 * 6
        for label, kept_label, index, kept_index in kept:
            assert (values(kept_label) == label).all()
            assert (values(kept_index) == index).all()
    seen = np.concatenate([values(index) for *_, index in kept[:6]])
    assert sorted(seen.tolist()) == list(range(24))


def test_small_arrays_are_one_memory_for_all_their_views(packed: Path):
    with ps.Loader(packed, batch_size=4, transforms=SQUARE, output="dlpack") as loader:
        label = next(iter(loader))["label"]
    del loader
    gc.collect()
    first, second = torch.from_dlpack(label), np.from_dlpack(label)
    first[0] = 77  # writable, and changes are visible in all views of the array
    assert second[0] == 77 and np.asarray(label)[0] == 77
    assert first.data_ptr() % 64 == 0
    del label, second
    gc.collect()
    assert int(first[0]) == 77


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_boxes_keep_no_images_and_images_do(typed: Path, output: str):
    with ps.Loader(typed, batch_size=2, output=output, fields=["image", "boxes"]) as loader:
        kept = [batch["boxes"] for batch in loader]
        gc.collect()
        assert loader.stats()["memory"]["slots_held"] == 0
        assert kept and all(len(rows) <= 2 for rows in kept)
        images = [batch["image"] for batch in loader]
        gc.collect()
        assert loader.stats()["memory"]["slots_held"] == len(images)


def test_the_error_of_keeping_says_what_helps(packed: Path):
    chain = [T.Resize((512, 512)), T.Normalize(0.5, 0.5)]
    with ps.Loader(packed, batch_size=4, transforms=chain, num_workers=1, host_memory="64MiB") as loader:
        with pytest.raises(errors.LimitError, match=r"you hold \d+ of \d+.*del.*clone\(\).*host_memory") as caught:
            list(loader)
        assert caught.value.status == "PST_ERROR_LIMIT"
        assert sum(len(batch["index"]) for batch in loader) == 24


def test_host_memory_that_opens_also_runs(packed: Path):
    chain = [T.Resize((512, 512)), T.Normalize(0.5, 0.5)]
    opened = refused = 0
    for mib in range(14, 64, 5):
        try:
            loader = ps.Loader(packed, batch_size=4, transforms=chain, num_workers=2, host_memory=f"{mib}MiB")
            loader.stats()
        except errors.LimitError as error:
            assert "at least" in str(error)
            refused += 1
            continue
        opened += 1
        n = 0
        for batch in loader:  # the loop's variable holds a batch while the next one is made
            n += len(batch["index"])
        assert n == 24
        del batch
        loader.close()
    assert opened and refused
