"""penstock.pli on numpy arrays and through Pillow."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from conftest import picture as photo
from penstock import pli

PHOTOGRAPHS = Path(__file__).parents[2] / "examples" / "photographs"


def pictures() -> list[np.ndarray[Any, Any]]:
    """Pictures of noise, a gradient and labels, with every number of channels, both depths and odd sizes."""
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
    with pytest.warns(UserWarning, match="indices=True keeps"):
        palette.save(tmp_path / "palette.pli")
    with image_module.open(tmp_path / "palette.pli") as back:
        assert back.tobytes() == palette.convert("RGB").tobytes()
    palette.save(tmp_path / "colours.pli", indices=False)
    assert (tmp_path / "colours.pli").read_bytes() == (tmp_path / "palette.pli").read_bytes()
    palette.save(tmp_path / "mask.pli", indices=True)
    with image_module.open(tmp_path / "mask.pli") as back:
        assert (back.mode, back.tobytes()) == ("L", palette.tobytes())
    with pytest.raises(ps.errors.ArgumentError, match="max_error"):
        palette.save(tmp_path / "mask.pli", indices=True, max_error=1)
    with pytest.raises(OSError, match="mode CMYK"):
        photograph.convert("CMYK").save(tmp_path / "cmyk.pli")
    (tmp_path / "bad.pli").write_bytes(b"\x89PLI" + bytes(60))
    with pytest.raises(image_module.UnidentifiedImageError):
        image_module.open(tmp_path / "bad.pli")


def test_one_line_registers_with_pillow(tmp_path: Path) -> None:
    path = tmp_path / "a.pli"
    path.write_bytes(pli.encode(pictures()[0]))
    source = f"import penstock.pillow\nfrom PIL import Image\nprint(Image.open({str(path)!r}).size)"
    done = subprocess.run([sys.executable, "-c", source], check=True, capture_output=True, text=True)
    height, width = pictures()[0].shape[:2]
    assert done.stdout == f"({width}, {height})\n"


def test_paths_are_taken(tmp_path: Path) -> None:
    jpeg = next(PHOTOGRAPHS.glob("*.jpg"))
    assert ps.probe(jpeg) == ps.probe(str(jpeg)) == ps.probe(jpeg.read_bytes())
    np.testing.assert_array_equal(ps.decode(jpeg, channels=1), ps.decode(jpeg.read_bytes(), channels=1))
    small = tmp_path / "a.pli"
    small.write_bytes(pli.from_jpeg(jpeg))
    assert pli.to_jpeg(small) == jpeg.read_bytes()
    assert pli.info(small) == pli.info(small.read_bytes())
    region = (3, 5, 20, 30)
    np.testing.assert_array_equal(pli.decode(str(small), region), pli.decode(small.read_bytes(), region))
    bad = tmp_path / "bad.jpg"
    bad.write_bytes(jpeg.read_bytes()[:100])
    for call in (ps.decode, ps.probe, pli.decode, pli.from_jpeg):
        with pytest.raises(ps.PenstockError, match="bad.jpg") as caught:
            call(bad)
        assert caught.value.file == str(bad)
    with pytest.raises(FileNotFoundError):
        ps.probe(tmp_path / "none.png")


def made_as(path: Path, name: str = "image") -> list[tuple[str, int, int]]:
    ds = ps.Dataset(path)
    heads = [pli.info(ds.read(i, name)) for i in range(len(ds))]
    return [(head["tier"], head["effort"], head["max_error"]) for head in heads]


@pytest.fixture
def pngs(tmp_path: Path) -> Path:
    image_module = pytest.importorskip("PIL.Image")
    (tmp_path / "pngs").mkdir()
    for i in range(2):
        image_module.fromarray(photo(i, 70, 90 + i)).save(tmp_path / f"pngs/{i}.png")
    return tmp_path / "pngs"


def test_pack_takes_options(pngs: Path, tmp_path: Path) -> None:
    for number, (options, wanted) in enumerate([
        ({}, ("small", 3, 0)),
        ({"tier": "fast"}, ("fast", 3, 0)),
        ({"tier": "dense", "effort": 1, "max_error": 2}, ("dense", 1, 2)),
        ({"effort": 5}, ("small", 5, 0)),
    ]):
        path = tmp_path / f"{number}.pst"
        ps.pack(pngs, path, forms=["pli", "original"], **options)
        assert made_as(path) == [wanted] * 2
        ds, files = ps.Dataset(path), ps.Dataset(pngs)
        for i in range(2):
            apart = np.abs(ds[i]["image"].astype(int) - files[i]["image"])
            assert 0 < apart.max() <= 2 if wanted[2] else apart.max() == 0
    # A PLI file is stored unchanged, unless one of the options is given.
    ps.pack(tmp_path / "1.pst", tmp_path / "same.pst", forms=["pli"])
    assert made_as(tmp_path / "same.pst") == [("fast", 3, 0)] * 2
    ps.pack(tmp_path / "1.pst", tmp_path / "other.pst", forms=["pli"], tier="small")
    assert made_as(tmp_path / "other.pst") == [("small", 3, 0)] * 2
    # An append continues with the options of the first call, unless others are given.
    (tmp_path / "more").mkdir()
    (pngs / "1.png").rename(tmp_path / "more/2.png")
    ps.pack(tmp_path / "more", tmp_path / "other.pst", append=True)
    assert made_as(tmp_path / "other.pst") == [("small", 3, 0)] * 3
    (tmp_path / "more/2.png").rename(tmp_path / "more/3.png")
    ps.pack(tmp_path / "more", tmp_path / "other.pst", append=True, tier="dense")
    assert made_as(tmp_path / "other.pst") == [("small", 3, 0)] * 3 + [("dense", 3, 0)]


def test_pack_takes_lossy_images_if_told(tmp_path: Path) -> None:
    image_module = pytest.importorskip("PIL.Image")
    (tmp_path / "in").mkdir()
    image_module.fromarray(photo(3, 60, 50)).save(tmp_path / "in/a.jpg")
    with pytest.raises(ps.errors.UnsupportedError, match="lossy"):
        ps.pack(tmp_path / "in", tmp_path / "a.pst", forms=["pli"])
    ps.pack(tmp_path / "in", tmp_path / "b.pst", forms=["pli"], of_lossy=True)
    wanted = ps.decode((tmp_path / "in/a.jpg").read_bytes())
    assert np.array_equal(ps.Dataset(tmp_path / "b.pst")[0]["image"], wanted)
    ps.pack(tmp_path / "in", tmp_path / "c.pst", forms=["pli"], max_error=4)
    assert made_as(tmp_path / "c.pst") == [("small", 3, 4)]


def test_pack_takes_forms_of_masks(tmp_path: Path) -> None:
    pixels, labels = photo(5, 40, 50), (np.arange(2000) // 9 % 200).astype(np.uint8).reshape(40, 50)
    with ps.Writer(tmp_path / "a.pst", {"image": "raw", "mask": ps.Mask("raw")}) as writer:
        writer.write({"image": pixels, "mask": labels})
    ps.pack(tmp_path / "a.pst", tmp_path / "b.pst", mask_forms=["pli", "raw"], tier="dense", max_error=3)
    ds = ps.Dataset(tmp_path / "b.pst")
    assert [ds.item(0, "image")["form"], *(ds.item(0, "mask", v)["form"] for v in (0, 1))] == ["raw", "pli", "raw"]
    assert made_as(tmp_path / "b.pst", "mask") == [("dense", 3, 0)]  # masks are always lossless
    assert np.array_equal(ds[0]["mask"].squeeze(), labels)
    ps.pack(tmp_path / "a.pst", tmp_path / "c.pst", forms=["pli"])
    ds = ps.Dataset(tmp_path / "c.pst")
    assert (ds.item(0, "image")["form"], ds.item(0, "mask")["form"]) == ("pli", "raw")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"tier": "smal"}, "tier is one of fast, small, dense"),  # codespell:ignore smal
        ({"tier": 1}, "tier is one of"),
        ({"effort": 0}, "effort must be 1 to 5"),
        ({"effort": 6}, "effort must be 1 to 5"),
        ({"effort": "3"}, "effort is a whole number"),
        ({"max_error": -1}, "max_error must be 0 to 127"),
        ({"max_error": 128}, "max_error must be 0 to 127"),
        ({"mask_forms": ["gif"]}, "form is one of"),
        ({"mask_forms": ["pli"] * 9}, "at most 8 forms"),
        ({"forms": None, "tier": "small"}, "go with the form"),
        ({"forms": ["raw"], "effort": 3}, "go with the form"),
        ({"forms": ["pli-jpeg"], "max_error": 1}, "go with the form"),
        ({"forms": ["original"], "of_lossy": True}, "go with the form"),
    ],
)
def test_pack_refuses_wrong_options(pngs: Path, tmp_path: Path, options: dict[str, Any], match: str) -> None:
    with pytest.raises(ps.errors.ArgumentError, match=match):
        ps.pack(pngs, tmp_path / "x.pst", **{"forms": ["pli"], **options})
    assert not (tmp_path / "x.pst").exists()


def test_max_pixels_is_checked_before_memory_is_asked_for() -> None:
    data = bytearray(pli.encode(np.zeros((1, 1), np.uint8)))
    big = pli.encode(np.zeros((300, 200), np.uint8))
    with pytest.raises(ps.errors.LimitError, match="max_pixels=59999"):
        pli.decode(big, max_pixels=59999)
    assert pli.decode(big, max_pixels=60000).shape == (300, 200)
    assert pli.decode(big, region=(0, 0, 10, 10), max_pixels=100).shape == (10, 10)
    assert pli.decode(big, out=np.empty((300, 200), np.uint8), max_pixels=1).shape == (300, 200)
    data[8:12] = b"\xff\xff\xff\xff"  # 65535 x 65535; the header is checked before any checksum
    with pytest.raises(ps.errors.LimitError, match="65535x65535 pixels"):
        pli.decode(bytes(data[:40]))


def test_whole_images_are_compared_with_the_checksum_of_their_pixels() -> None:
    picture = pictures()[0]  # noise: raw units
    data = pli.encode(picture, tier="fast", checksums=False)
    broken = bytearray(data)
    broken[-1] ^= 1
    np.testing.assert_array_equal(pli.decode(data, verify=True), picture)
    with pytest.raises(ps.errors.ChecksumError, match="decoded pixels"):
        pli.decode(broken)
    pli.decode(broken, region=(0, 0, 9, 9))
    with pytest.raises(ps.errors.ArgumentError, match="whole image"):
        pli.decode(data, region=(0, 0, 9, 9), verify=True)
    with pytest.raises(ps.errors.ArgumentError, match="whole image"):
        pli.decode(data, channel=0, verify=True)
    with_checksums = bytearray(pli.encode(picture, tier="fast"))
    chw = np.empty((3, 65, 70), np.uint8)
    pli.decode(with_checksums, out=chw.transpose(1, 2, 0), verify=True)
    np.testing.assert_array_equal(chw.transpose(1, 2, 0), picture)


def test_bytes_behind_the_last_unit_are_an_error() -> None:
    data = pli.encode(pictures()[1])
    with pytest.raises(ps.errors.CorruptError, match="1 bytes stand behind the end"):
        pli.decode(data + b"\0")
