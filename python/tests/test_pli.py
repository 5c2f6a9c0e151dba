"""penstock.pli on numpy arrays and through Pillow."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock import pli

PHOTOGRAPHS = Path(__file__).parents[2] / "examples" / "photographs"


def pictures() -> list[np.ndarray[Any, Any]]:
    """Noise, a gradient, labels; every number of channels and both depths; odd sizes."""
    rng = np.random.default_rng(5)
    y, x = np.mgrid[0:150, 0:131]
    ramp = (x * 2 + y).astype(np.uint8)
    return [
        rng.integers(0, 256, (65, 70, 3), dtype=np.uint8),
        np.stack([ramp, ramp // 2, 255 - ramp], axis=-1),
        np.stack([ramp] * 4, axis=-1),
        np.stack([ramp, ramp], axis=-1),
        (x // 40 + y // 33 * 4).astype(np.uint8),
        (x * 100 + y).astype(np.uint16),
        rng.integers(0, 65536, (3, 2, 4), dtype=np.uint16),
        np.full((1, 1), 7, np.uint8),
    ]


@pytest.mark.parametrize("tier", pli.TIERS)
@pytest.mark.parametrize("picture", pictures(), ids=lambda a: f"{a.dtype}{a.shape}")
def test_round_trip(picture: np.ndarray[Any, Any], tier: str) -> None:
    data = pli.encode(picture, tier=tier, effort=2)
    back = pli.decode(data)
    assert back.dtype == picture.dtype
    np.testing.assert_array_equal(back, picture.squeeze() if picture.ndim == 3 and picture.shape[2] == 1 else picture)
    info = pli.info(data)
    assert (info["tier"], info["effort"]) == (tier, 2)


def test_any_strides_encode_alike() -> None:
    picture = pictures()[1]
    wide = np.zeros((150, 300, 3), np.uint8)
    wide[:, 10:272:2] = picture
    planar = np.ascontiguousarray(picture.transpose(2, 0, 1))
    data = pli.encode(picture)
    assert pli.encode(wide[:, 10:272:2]) == data
    assert pli.encode(planar.transpose(1, 2, 0)) == data
    flipped = pli.decode(pli.encode(picture[::-1, ::-1]))
    np.testing.assert_array_equal(flipped, picture[::-1, ::-1])


def test_threads_give_the_same_bytes() -> None:
    picture = np.random.default_rng(1).integers(0, 40, (500, 300, 3), dtype=np.uint8)
    assert pli.encode(picture, num_threads=4) == pli.encode(picture)


def test_region_channel_and_out() -> None:
    picture = pictures()[1]
    data = pli.encode(picture)
    np.testing.assert_array_equal(pli.decode(data, region=(60, 50, 33, 70)), picture[60:93, 50:120])
    np.testing.assert_array_equal(pli.decode(data, region=(0, 0, 5, 5), channel=1), picture[:5, :5, 1])
    planar = np.zeros((3, 20, 30), np.uint8)
    out = planar.transpose(1, 2, 0)
    assert pli.decode(data, (100, 100, 20, 30), out) is out
    np.testing.assert_array_equal(planar, picture[100:120, 100:130].transpose(2, 0, 1))


def test_near_lossless_keeps_its_promise() -> None:
    picture = pictures()[0]
    for max_error in (1, 3, 20):
        data = pli.encode(picture, max_error=max_error)
        assert np.abs(pli.decode(data).astype(int) - picture).max() <= max_error
        assert pli.info(data)["max_error"] == max_error
    assert len(pli.encode(picture, max_error=3)) < len(pli.encode(picture))


def test_info() -> None:
    data = pli.encode(pictures()[0], tier="dense", effort=2)
    info = pli.info(data)
    assert (info["height"], info["width"], info["channels"], info["bits"]) == (65, 70, 3, 8)
    assert info["nbytes"] == len(data)
    assert sum(info["units"].values()) == info["unit_rows"] * info["unit_columns"] == 4
    assert pli.info(data[:40])["nbytes"] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        {"tier": "tiny"},
        {"effort": 0},
        {"effort": 6},
        {"max_error": -1},
        {"max_error": 128},
        {"num_threads": 0},
    ],
)
def test_bad_options(arguments: dict[str, Any]) -> None:
    with pytest.raises(ps.errors.ArgumentError):
        pli.encode(np.zeros((4, 4), np.uint8), **arguments)


@pytest.mark.parametrize(
    "array",
    [np.zeros((4, 4), np.float32), np.zeros(4, np.uint8), np.zeros((4, 4, 5), np.uint8), np.zeros((0, 4), np.uint8)],
)
def test_bad_arrays(array: np.ndarray[Any, Any]) -> None:
    with pytest.raises(ps.errors.ArgumentError):
        pli.encode(array)


def test_bad_regions_and_outs() -> None:
    data = pli.encode(pictures()[0])
    for region in ((0, 0, 66, 1), (-1, 0, 2, 2), (0, 0, 0, 4), (64, 69, 1, 2)):
        with pytest.raises(ps.errors.ArgumentError):
            pli.decode(data, region=region)
    with pytest.raises(ps.errors.ArgumentError):
        pli.decode(data, channel=3)
    with pytest.raises(ps.errors.ArgumentError):
        pli.decode(data, out=np.zeros((65, 70, 4), np.uint8))
    with pytest.raises(ps.errors.ArgumentError):
        pli.decode(data, out=np.zeros((65, 70, 3), np.uint16))
    frozen = np.zeros((65, 70, 3), np.uint8)
    frozen.flags.writeable = False
    with pytest.raises((BufferError, ValueError)):
        pli.decode(data, out=frozen)


def test_damage_is_an_error() -> None:
    data = bytearray(pli.encode(pictures()[0]))
    data[-1] ^= 1
    with pytest.raises(ps.PenstockError, match="unit in row 1, column 1"):
        pli.decode(data)
    with pytest.raises(ps.PenstockError):
        pli.decode(b"not a PLI at all, but long enough to be one: 40")
    with pytest.raises(ps.PenstockError):
        pli.info(b"")


def test_pillow(tmp_path: Path) -> None:
    image_module = pytest.importorskip("PIL.Image")
    with image_module.open(next(PHOTOGRAPHS.glob("*.jpg"))) as source:
        photograph = source.convert("RGB")
    for mode in ("L", "LA", "RGB", "RGBA"):
        picture = photograph.convert(mode)
        path = tmp_path / f"{mode}.pli"
        picture.save(path, tier="fast")
        with image_module.open(path) as back:
            assert (back.format, back.mode, back.size) == ("PLI", mode, picture.size)
            assert back.info["tier"] == "fast"
            assert back.tobytes() == picture.tobytes()
    deep = image_module.fromarray(pictures()[5])
    buffer = io.BytesIO()
    deep.save(buffer, format="PLI")
    buffer.seek(0)
    np.testing.assert_array_equal(np.asarray(image_module.open(buffer)), pictures()[5])
    palette = photograph.convert("P")
    palette.save(tmp_path / "palette.pli")
    with image_module.open(tmp_path / "palette.pli") as back:
        assert back.tobytes() == palette.convert("RGB").tobytes()
    with pytest.raises(OSError, match="mode CMYK"):
        photograph.convert("CMYK").save(tmp_path / "cmyk.pli")
    (tmp_path / "bad.pli").write_bytes(b"\x89PLI" + bytes(60))
    with pytest.raises(image_module.UnidentifiedImageError):
        image_module.open(tmp_path / "bad.pli")
