"""The contents of batches: kinds, shapes, dtypes, layouts, and memory without copies."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import torch

import penstock as ps
from conftest import N, typed_sample
from flat import keywords
from penstock import _native
from penstock import transforms as T

SQUARE = [T.Resize((16, 20))]


def one(path, **options):
    return next(iter(ps.Loader(path, **keywords(**{"batch_size": 4, "transforms": SQUARE, **options}))))


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_every_type(typed, output):
    batch = one(typed, output=output, transforms=None, batch_size=6)
    kind = np.ndarray if output == "numpy" else torch.Tensor
    names = list(typed_sample(0)) + ["index"]
    assert list(batch) == names
    ds = ps.Dataset(typed)
    for name in ("image", "mask", "label", "weight", "fixed", "index"):
        assert isinstance(batch[name], kind)
    dtypes = {name: str(batch[name].dtype).rpartition(".")[2] for name in ("image", "mask", "label",
              "weight", "fixed", "index")}
    assert dtypes == {"image": "uint8", "mask": "uint8", "label": "int64", "weight": "float32",
                      "fixed": "int16", "index": "int64"}
    for i in range(6):
        wanted = ds[i]
        image = np.asarray(batch["image"][i]).transpose(1, 2, 0)
        np.testing.assert_array_equal(image, wanted["image"])
        np.testing.assert_array_equal(np.asarray(batch["mask"][i]), wanted["mask"])
        for name in ("boxes", "points", "ragged"):
            assert isinstance(batch[name][i], kind)
            np.testing.assert_array_equal(np.asarray(batch[name][i]), wanted[name])
        np.testing.assert_array_equal(np.asarray(batch["fixed"][i]), wanted["fixed"])
        assert int(batch["label"][i]) == wanted["label"]
        assert float(batch["weight"][i]) == np.float32(wanted["weight"])
        for name in ("blob", "title", "facts"):
            assert batch[name][i] == wanted[name]
        np.testing.assert_array_equal(np.asarray(batch["sound"][i]), np.arange(1, i + 2, dtype="f4")[None] / 2**15)
        assert int(batch["index"][i]) == i


def test_images_of_different_sizes_are_lists(packed):
    batch = one(packed, transforms=None, output="numpy")
    ds = ps.Dataset(packed)
    assert isinstance(batch["image"], list)
    for i, image in enumerate(batch["image"]):
        np.testing.assert_array_equal(image.transpose(1, 2, 0), ds[i]["image"])


def test_layouts(packed):
    flat = one(packed, output="numpy", layout="NHWC")["image"]
    assert flat.shape == (4, 16, 20, 3)
    planes = one(packed, output="numpy")["image"]
    assert planes.shape == (4, 3, 16, 20) and planes.flags.c_contiguous
    np.testing.assert_array_equal(planes.transpose(0, 2, 3, 1), flat)
    for output in ("numpy", "torch"):
        last = one(packed, output=output, layout={"image": "channels_last"})["image"]
        np.testing.assert_array_equal(np.asarray(last), planes)
        if output == "torch":
            assert last.is_contiguous(memory_format=torch.channels_last)
    ragged = one(packed, output="torch", layout="channels_last", transforms=None)["image"]
    assert all(image.shape[0] == 3 and image.stride(0) == 1 for image in ragged)


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32", "bfloat16"])
def test_dtypes(packed, dtype):
    exact = one(packed, output="torch")["image"].to(torch.float64) / 255
    given = [dtype, getattr(torch, dtype)]
    if dtype != "bfloat16":
        given += [getattr(np, dtype), np.dtype(dtype), {"image": dtype}]
    for asked in given:
        image = one(packed, output="torch", dtype=asked)["image"]
        assert image.dtype == getattr(torch, dtype)
        scaled = image.to(torch.float64) / (255 if dtype == "uint8" else 1)
        worst = {"uint8": 0, "float32": 1e-6, "float16": 5e-4, "bfloat16": 4e-3}[dtype]
        assert (scaled - exact).abs().max() <= worst
    if dtype == "bfloat16":
        with pytest.raises(ps.errors.ArgumentError, match='output="torch"'):
            one(packed, output="numpy", dtype=dtype)
    else:
        assert one(packed, output="numpy", dtype=dtype)["image"].dtype == np.dtype(dtype)


def test_uint16(packed):
    image = one(packed, output="numpy", dtype="uint16")["image"]
    eight = one(packed, output="numpy")["image"]
    assert image.dtype == np.uint16
    assert np.abs(image / 257 - eight).max() <= 1  # resized at 16 bits


def test_normalize(packed):
    exact = one(packed, output="numpy")["image"].astype(np.float64) / 255
    mean, std = np.array(ps.IMAGENET_MEAN), np.array(ps.IMAGENET_STD)
    chain = [*SQUARE, T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]
    image = one(packed, output="numpy", transforms={"image": chain})["image"]
    wanted = (exact - mean[:, None, None]) / std[:, None, None]
    assert image.dtype == np.float32
    assert np.abs(image - wanted).max() < 0.5 / 255 / min(std) + 1e-5  # the result is rounded between the two steps


def test_channels(packed):
    gray = one(packed, output="numpy", channels=1)["image"]
    assert gray.shape == (4, 1, 16, 20)
    also = one(packed, output="numpy", transforms=[*SQUARE, T.Grayscale()])["image"]
    np.testing.assert_array_equal(gray, also)
    three = one(packed, output="numpy", transforms=[*SQUARE, T.Grayscale(3)])["image"]
    assert three.shape == (4, 3, 16, 20) and (three[:, 0] == three[:, 2]).all()
    alpha = one(packed, output="numpy", channels={"image": 4})["image"]
    assert (alpha[:, 3] == 255).all()
    for wrong in (2, 5):
        with pytest.raises(ps.errors.ArgumentError):
            one(packed, channels=wrong)


def test_fields_and_encoded(packed, folder):
    ds = ps.Dataset(packed)
    assert set(one(packed, fields=["label"], transforms=None)) == {"label", "index"}
    batch = one(packed, encoded=["image"], transforms=None)
    assert batch["image"] == [ds.read(i, "image") for i in range(4)]
    with pytest.raises(ps.errors.ArgumentError, match="no field 'picture'"):
        one(packed, fields=["picture"])
    with pytest.raises(ps.errors.ArgumentError, match="list of names"):
        one(packed, fields="image")


def address(array):
    return array.data_ptr() if isinstance(array, torch.Tensor) else array.ctypes.data


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_arrays_lie_in_the_slot(packed, output):
    loader = ps.Loader(packed, batch_size=4, transforms=SQUARE, output="numpy")
    native = loader._open()
    native.begin(0)
    batch = native.next()
    tensor = batch.tensor(0)
    inner = np.asarray(memoryview(tensor))
    wrapped = torch.from_dlpack(tensor) if output == "torch" else np.asarray(tensor)
    assert address(wrapped) == inner.ctypes.data and not inner.flags.owndata
    wrapped[0, 0, 0, 0] = 77  # the array is writable, because the slot belongs to the caller
    assert inner[0, 0, 0, 0] == 77
    assert tensor.shape == (4, 3, 16, 20) and tensor.dtype == "uint8"
    assert tensor.nbytes == inner.nbytes


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_arrays_outlive_batch_and_loader(packed, output):
    kept, copies = [], []
    loader = ps.Loader(packed, batch_size=4, transforms=SQUARE, output=output)
    for batch in loader:
        image = batch["image"]
        kept.append(image[1:3, :, 2:])  # a view alone must keep the memory alive
        copies.append(np.asarray(kept[-1]).copy())
        del batch, image
    del loader
    gc.collect()
    other = list(ps.Loader(packed, batch_size=4, transforms=[T.Resize((30, 30))], output=output))
    for view, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(np.asarray(view), copy)
    assert len(other) == 6


def test_slots_are_used_again_only_when_let_go(packed):
    loader = ps.Loader(packed, batch_size=2, transforms=SQUARE, output="numpy", prefetch=1)
    seen = set()
    for _ in range(3):
        for batch in loader:
            seen.add(batch["image"].ctypes.data)
    assert len(seen) <= loader.stats()["memory"]["slots"] < 3 * len(loader)
    held = []
    for batch in loader:
        held.append(batch["image"])
        assert loader.stats()["memory"]["slots_held"] == len(held)
    assert len({array.ctypes.data for array in held}) == len(held)
    held.clear()
    del batch
    assert loader.stats()["memory"]["slots_held"] == 0


def test_dlpack_protocol(packed):
    loader = ps.Loader(packed, batch_size=2, transforms=SQUARE)
    tensor = loader._open().fetch(0, np.zeros(2, np.uint64)).tensor(0)
    assert tensor.__dlpack_device__() == (1, 0)
    for capsule in (tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 0), copy=False),
                    tensor.__dlpack__(stream=None, dl_device=(1, 0))):
        assert type(capsule).__name__ == "PyCapsule"
        del capsule  # a capsule that nobody takes must give the batch back
    with pytest.raises(BufferError):
        tensor.__dlpack__(dl_device=(2, 0))
    with pytest.raises(BufferError):
        tensor.__dlpack__(copy=True)
    np.testing.assert_array_equal(np.from_dlpack(tensor), np.asarray(tensor))
    del tensor
    assert loader.stats()["memory"]["slots_held"] == 0


def test_buffer_requests(packed):
    loader = ps.Loader(packed, batch_size=2, transforms=SQUARE, layout="NHWC")
    tensor = loader._open().fetch(0, np.zeros(2, np.uint64)).tensor(0)
    assert bytes(tensor) == np.asarray(tensor).tobytes()
    assert memoryview(tensor).format == "B" and not memoryview(tensor).readonly
    with pytest.raises((BufferError, ValueError)):
        np.frombuffer(ps.Loader(packed, batch_size=2, transforms=SQUARE, output="torch",
                                dtype="bfloat16")._open().fetch(0, np.zeros(2, np.uint64)).tensor(0))


def test_list_of_a_loader_up_to_host_memory(folder):
    batch_nbytes = 4 * 3 * 128 * 128 * 4
    chain = [T.Resize((128, 128)), T.Normalize(0.5, 0.5)]
    options = {"batch_size": 4, "transforms": chain, "num_workers": 1, "output": "numpy"}
    assert len(list(ps.Loader(folder, **keywords(**options)))) == 6
    whole = ps.Loader(folder, **keywords(**options))
    list(whole)
    need = whole.stats()["memory"]["peak"]
    loader = ps.Loader(folder, **keywords(**options, host_memory=int(need - 2 * batch_nbytes)))
    kept = []
    with pytest.raises(ps.errors.LimitError, match="hold") as caught:
        kept.extend(loader)
    assert caught.value.status == "PST_ERROR_LIMIT"
    stats = loader.stats()["memory"]
    assert stats["peak"] <= stats["limit"]
    del kept
    gc.collect()
    assert len([None for _ in loader]) == 6  # nothing is broken
    small = ps.Loader(folder, **keywords(**options, host_memory=int(need - 2 * batch_nbytes)))
    assert sum(len(batch["index"]) for batch in small) == N


def test_auto_output(packed):
    assert isinstance(one(packed)["image"], torch.Tensor)  # test_output.py has more tests of it



def test_native_types_cannot_be_made(packed):
    for kind in (_native.Batch, _native.Tensor):
        with pytest.raises(TypeError):
            kind()
    with pytest.raises(TypeError):
        _native.Loader(None, {})
    with pytest.raises(TypeError):
        _native.Loader(ps.Dataset(packed)._native, None)
    with pytest.raises(ValueError):
        _native.Loader(ps.Dataset(packed)._native, {"unknown": 1})
    with pytest.raises(ValueError):
        _native.Loader(ps.Dataset(packed)._native, {"batch_size": 2**32})
    with pytest.raises(TypeError):
        _native.Loader(ps.Dataset(packed)._native, {"fields": [{"ops": []}]})
    with pytest.raises(TypeError):
        _native.Loader(ps.Dataset(packed)._native, {"fields": [{"name": "image", "ops": [{}]}]})
