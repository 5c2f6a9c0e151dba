"""GPUs that do not exist, and arrays by DLPack. The work of GPUs is tested in C, and in tests/gpu."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import penstock as ps
from flat import keywords
from penstock import transforms as T
from penstock.base import options

CROP = [T.CenterCrop(24)]


def test_a_hidden_gpu_is_named_as_the_reason(packed, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CUDA", "0")
    assert ps.cuda.device_count() == 0 and not ps.cuda.is_available()
    assert "PENSTOCK_CUDA" in ps.cuda.reason()
    with pytest.raises(ps.errors.UnsupportedError, match="PENSTOCK_CUDA"):
        ps.Loader(packed, device="cuda", output="dlpack", transforms=CROP)
    with pytest.raises(ps.errors.UnsupportedError):
        ps.cuda.info(0)


@pytest.mark.parametrize(
    "given",
    [
        {"device": "cuda", "output": "numpy"},
        {"device": "cuda", "output": "dlpack", "gpu_part": 0},
        {"device": "cuda", "output": "dlpack", "gpu_part": 1.5},
        {"device": "cuda", "output": "dlpack", "decode": "device"},
        {"device": "cuda", "output": "dlpack", "device_memory": "much"},
        {"device": "cuda", "output": "dlpack", "pin_memory": True},
        {"pin_memory": "yes"},
        {"pin_memory": None},
        {"decode": "gpu"},
        {"gpu_part": 0.5},
        {"device_memory": "1GiB"},
    ],
)
def test_what_does_not_go_together(packed, given):
    with pytest.raises(ps.errors.ArgumentError):
        ps.Loader(packed, **keywords(transforms=CROP, **given))


def test_page_locked_memory_without_a_gpu(packed, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CUDA", "0")
    monkeypatch.setattr(options, "_warned", set())
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        plain, automatic, asked, again = (
            ps.Loader(packed, batch_size=4, transforms=CROP, output="numpy", pin_memory=pin) for pin in (False, "auto", True, True)
        )
    assert [str(warning.message).partition(":")[0] for warning in said] == [
        "pin_memory=True has no effect here, batches are in plain memory"
    ]
    assert "PENSTOCK_CUDA" in str(said[0].message)
    assert "pin" not in plain.stats()["fallbacks"]
    for loader in (automatic, asked, again):
        for x, y in zip(plain, loader, strict=True):
            assert np.array_equal(x["image"], y["image"])
        assert loader.stats()["fallbacks"]["pin"] >= 2  # slots
        assert "page-lock" in loader.stats()["fallback_reasons"]["pin"]
        # config() keeps the argument, because a machine with a GPU could pin memory
        assert loader.config()["pin_memory"] == ("auto" if loader is automatic else True)


def test_unknown_device(packed):
    with pytest.raises(ps.errors.UnsupportedError, match="tpu"):
        ps.Loader(packed, device="tpu")


def test_images_on_a_gpu_have_one_number_of_channels(packed):
    with pytest.raises(ps.errors.ArgumentError, match="one number of channels"):
        ps.Loader(packed, device="cuda", output="dlpack", channels="stored")


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "channels_last"])
def test_dlpack_output_is_the_same_memory(packed, layout):
    given = {"batch_size": 4, "transforms": CROP, "layout": layout}
    arrays = ps.Loader(packed, **keywords(output="numpy", **given))
    tensors = ps.Loader(packed, **keywords(output="dlpack", device=None, **given))
    for x, y in zip(arrays, tensors, strict=True):
        for name in ("image", "label", "index"):
            assert y[name].device == "cpu" and y[name].__dlpack_device__() == (1, 0)
            assert not hasattr(y[name], "__cuda_array_interface__")
            assert np.array_equal(np.from_dlpack(y[name]), x[name])
    stats = tensors.stats()["device"]
    assert stats["device"] == "cpu" and stats["gpu_samples"] == 0
    assert stats["cpu_samples"] > 0
