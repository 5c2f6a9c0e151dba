"""JPEGs kept as PLI: bytes there and back, pixels, Pillow, the writer, and batches equal to those of the files."""

from __future__ import annotations

import hashlib
import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as PilImage
from PIL import ImageOps

import penstock as ps
from conftest import picture
from flat import keywords
from penstock import pli
from penstock import transforms as T

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "pli_jpeg"


def jpeg(number: int, height: int, width: int, mode: str = "RGB", orientation: int = 1, **options: Any) -> bytes:
    exif = PilImage.Exif()
    if orientation != 1:
        exif[0x112] = orientation
    buffer = io.BytesIO()
    image = PilImage.fromarray(picture(number, height, width)).convert(mode)
    image.save(buffer, "JPEG", exif=exif, **options)
    return buffer.getvalue()


KINDS: dict[str, dict[str, Any]] = {
    "444": {"subsampling": "4:4:4", "quality": 95},
    "422": {"subsampling": "4:2:2", "quality": 80},
    "420": {"subsampling": "4:2:0", "quality": 75},
    "gray": {"mode": "L"},
    "progressive": {"progressive": True},
    "optimized": {"optimize": True, "quality": 60},
    "restart": {"restart_marker_rows": 1},
    **{f"turn{o}": {"orientation": o} for o in range(1, 9)},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every kind of JPEG small, and large enough for reading in parts; and a PNG."""
    root = tmp_path_factory.mktemp("jpegs") / "in"
    root.mkdir()
    for number, (name, options) in enumerate(KINDS.items()):
        (root / f"{name}.jpg").write_bytes(jpeg(number, 130 + number, 161 - number, **options))
        if number % 3 == 0:
            (root / f"{name}-large.jpg").write_bytes(jpeg(number, 700, 1000 + number, **options))
    PilImage.fromarray(picture(77, 40, 50)).save(root / "other.png")
    return root


@pytest.fixture(scope="module")
def packed(folder: Path) -> Path:
    path = folder.parent / "jpegs.pst"
    report = ps.pack(folder, path)
    n = len(list(folder.glob("*.jpg")))
    assert (report.n_samples, report.n_pli_jpeg, report.n_kept_jpeg) == (n + 1, n, 0)
    assert report.pli_jpeg_nbytes < 0.95 * report.jpeg_nbytes
    assert report.kept_jpeg == []
    return path


@pytest.mark.parametrize("name", KINDS)
def test_bytes_come_back_and_pixels_are_the_same(name: str) -> None:
    data = jpeg(3, 99, 141, **KINDS[name])
    smaller = pli.from_jpeg(data)
    assert pli.to_jpeg(smaller) == data
    assert len(smaller) < len(data)
    info = pli.info(smaller)
    assert (info["content"], info["tier"], info["jpeg_nbytes"], info["nbytes"]) == ("jpeg", None, len(data), len(smaller))
    assert info["orientation"] == KINDS[name].get("orientation", 1)
    wanted = {"gray": "gray", "444": "4:4:4", "422": "4:2:2"}.get(name, "4:2:0")
    assert info["subsampling"] == wanted
    assert pli.info(smaller[:40])["subsampling"] is None
    stored = ps.decode(data, ignore_orientation=True)
    np.testing.assert_array_equal(pli.decode(smaller).reshape(stored.shape), stored)
    np.testing.assert_array_equal(ps.decode(smaller), ps.decode(data))
    assert ps.probe(smaller)[1:6] == ps.probe(data)[1:6]
    assert ps.probe(smaller).form == "pli-jpeg"
    for region in ((0, 0, 1, 1), (10, 20, 64, 77), (98, 140, 1, 1)):
        y, x, height, width = region
        part = stored[y : y + height, x : x + width]
        np.testing.assert_array_equal(pli.decode(smaller, region).reshape(part.shape), part)
    assert pli.decode(smaller, channel=0).shape == (99, 141)


def test_options() -> None:
    data = jpeg(5, 300, 400)
    for edge in (64, 128, 256):
        smaller = pli.from_jpeg(data, unit_edge=edge, checksums=edge != 128)
        info = pli.info(smaller)
        assert (info["unit_edge"], info["checksums"]) == (edge, edge != 128)
        assert info["units"]["coefficients"] == info["unit_rows"] * info["unit_columns"]
        assert pli.to_jpeg(memoryview(smaller)) == data
        assert pli.to_jpeg(smaller, max_nbytes=len(data)) == data
        with pytest.raises(ps.errors.LimitError, match=f"has {len(data)} bytes"):
            pli.to_jpeg(smaller, max_nbytes=len(data) - 1)
    with pytest.raises(ps.errors.ArgumentError):
        pli.from_jpeg(data, unit_edge=512)


def test_what_cannot_be_kept_says_why() -> None:
    data = jpeg(1, 60, 70)
    with pytest.raises(ps.errors.UnsupportedError, match="component"):
        pli.from_jpeg(jpeg(1, 60, 70, mode="CMYK"))
    with pytest.raises((ps.errors.TruncatedError, ps.errors.CorruptError)):
        pli.from_jpeg(data[: len(data) // 2])
    for bad in (b"", b"\xff\xd8", b"not a JPEG"):
        with pytest.raises(ps.PenstockError):
            pli.from_jpeg(bad)
    with pytest.raises(ps.errors.ArgumentError, match="pixels"):
        pli.to_jpeg(pli.encode(picture(1, 20, 20)))
    smaller = bytearray(pli.from_jpeg(data))
    smaller[-3] ^= 1
    with pytest.raises(ps.PenstockError):
        pli.to_jpeg(smaller)


def test_pillow_opens_it(tmp_path: Path) -> None:
    for name in ("420", "gray", "turn6"):
        data = jpeg(9, 77, 121, **KINDS[name])
        (tmp_path / "x.pli").write_bytes(pli.from_jpeg(data))
        with PilImage.open(tmp_path / "x.pli") as image, PilImage.open(io.BytesIO(data)) as wanted:
            assert (image.format, image.mode, image.size) == ("PLI", wanted.mode, wanted.size)
            assert np.array_equal(np.asarray(image), pli.decode(pli.from_jpeg(data)))
            upright = ImageOps.exif_transpose(image)
            assert upright.size == ImageOps.exif_transpose(wanted).size
            assert np.array_equal(np.asarray(upright), ps.decode(data).squeeze())


def test_pillow_finds_what_the_jpeg_says(tmp_path: Path) -> None:
    """Pillow gets profile, EXIF, comment and resolution before pixels are decoded; damaged ones raise an error."""
    exif = PilImage.Exif()
    exif[0x10F], exif[0x112] = "a maker", 8
    profile = bytes(range(256)) * 400  # two segments
    options: dict[str, Any] = {"icc_profile": profile, "exif": exif, "comment": b"a comment", "dpi": (72, 36)}
    for kind in ({"progressive": True}, {"quality": 91, "subsampling": "4:4:4"}):
        buffer = io.BytesIO()
        PilImage.fromarray(picture(4, 70, 90)).save(buffer, "JPEG", **options, **kind)
        with PilImage.open(buffer) as wanted, PilImage.open(io.BytesIO(pli.from_jpeg(buffer.getvalue()))) as image:
            assert wanted.info["icc_profile"] == profile
            assert {name: image.info.get(name) for name in wanted.info} == wanted.info
            assert set(image.info) - set(wanted.info) == {"subsampling", "jpeg_nbytes"}
            assert dict(image.getexif()) == dict(wanted.getexif()) == dict(exif)
            image.save(tmp_path / "x.png")
        with PilImage.open(tmp_path / "x.png") as saved:
            assert saved.info["icc_profile"] == profile
    smaller = bytearray(pli.from_jpeg(buffer.getvalue()))
    for cut in (1, pli.info(smaller)["restoration_nbytes"], len(smaller) // 2):
        with pytest.raises(ps.errors.TruncatedError):
            PilImage.open(io.BytesIO(smaller[:-cut]))
    smaller[-1] ^= 1
    with pytest.raises(ps.errors.ChecksumError):
        PilImage.open(io.BytesIO(smaller))
    with PilImage.open(GOLDEN / "crafted-largest.pli") as image:  # kept without the data that restore the file
        assert image.info == {"subsampling": "4:4:4", "jpeg_nbytes": 0}
        image.load()


def digest(loader: ps.Loader, epochs: int = 2) -> str:
    total = hashlib.sha256()
    for _ in range(epochs):
        for batch in loader:
            for name in sorted(batch):
                for row in batch[name]:
                    array = np.ascontiguousarray(row)
                    total.update(f"{name} {array.dtype} {array.shape}".encode())
                    total.update(array.tobytes())
    return total.hexdigest()


@pytest.mark.parametrize(
    "options",
    [
        {"transforms": [T.RandomResizedCrop(96), T.RandomHorizontalFlip(), T.Normalize(ps.IMAGENET_MEAN, ps.IMAGENET_STD)]},
        {"transforms": [T.RandomResizedCrop(224), T.Grayscale(1)], "num_workers": 0},
        {"transforms": [T.Resize(64), T.CenterCrop(64)], "storage": "threads"},
        {"transforms": [T.CenterCrop(300)], "storage": "memory"},
    ],
)
def test_batches_are_those_of_the_files(folder: Path, packed: Path, options: dict[str, Any]) -> None:
    given = {"batch_size": 4, "shuffle": True, "seed": 5, "output": "numpy", "num_workers": 2, **options}
    with ps.Loader(folder, **keywords(**given)) as files, ps.Loader(packed, **keywords(**given)) as kept:
        assert digest(files) == digest(kept)
        assert kept.stats()["decode"]["units"] > 0


def test_scaled_decode(tmp_path: Path) -> None:
    source = tmp_path / "images"
    source.mkdir()
    y, x = np.mgrid[0:600, 0:900]
    pixels = np.stack([x / 4, y / 3, 100 + 50 * np.sin(x / 40) * np.cos(y / 50)], -1).astype(np.uint8)
    PilImage.fromarray(pixels).save(source / "0.jpg", quality=95)
    data = tmp_path / "data.pst"
    ps.pack(source, data)
    options: dict[str, Any] = {"transforms": [T.Resize((100, 150))], "output": "numpy", "num_workers": 0}
    exact = next(iter(ps.Loader(data, **keywords(**options))))["image"].astype(int)
    for wish in (True, {"image": True}):
        loader = ps.Loader(data, **keywords(scaled_decode=wish, **options))
        scaled = next(iter(loader))["image"]
        assert loader.stats()["decode"]["scaled"] == 1
        assert 0 < np.abs(exact - scaled).max() <= 4
        again = pickle.loads(pickle.dumps(ps.Loader(data, **keywords(scaled_decode=wish, **options))))
        assert np.array_equal(next(iter(again))["image"], scaled)
    plain = ps.Loader(data, **keywords(scaled_decode={"image": False}, **options))
    assert np.array_equal(next(iter(plain))["image"], exact)
    assert plain.stats()["decode"]["scaled"] == 0
    with pytest.raises(ps.PenstockError, match="no field 'mask'"):
        ps.Loader(data, **keywords(scaled_decode={"mask": True}, **options))


def test_the_data_set_gives_the_files_back(folder: Path, packed: Path) -> None:
    ds = ps.Dataset(packed)
    for i in range(len(ds)):
        file = (folder / ds.name(i)).read_bytes()
        assert ds.read(i, "image", original=True) == file
        assert ds.item(i, "image")["form"] == ("png" if ds.name(i) == "other.png" else "pli-jpeg")
        np.testing.assert_array_equal(ds[i]["image"], ps.Dataset(folder)[i]["image"])
    assert ps.verify(packed, decode=True, restore=True).ok


def test_pack_names_what_stays(tmp_path: Path) -> None:
    root = tmp_path / "in"
    root.mkdir()
    (root / "a.jpg").write_bytes(jpeg(1, 90, 80))
    (root / "b.jpg").write_bytes(jpeg(2, 90, 80, mode="CMYK"))
    report = ps.pack(root, tmp_path / "a.pst")
    assert (report.n_pli_jpeg, report.n_kept_jpeg, report.n_bad) == (1, 1, 0)
    assert [kept["name"] for kept in report.kept_jpeg] == ["b.jpg"]
    assert report.kept_jpeg[0]["text"].startswith("cannot be kept as PLI: ")
    assert "component" in report.kept_jpeg[0]["text"]
    assert report.kept_jpeg_nbytes == (root / "b.jpg").stat().st_size
    report = ps.pack(root, tmp_path / "b.pst", forms=["jpeg"])
    assert (report.n_pli_jpeg, report.n_kept_jpeg) == (0, 0)
    assert [ps.Dataset(tmp_path / "b.pst").item(i, "image")["form"] for i in range(2)] == ["jpeg", "jpeg"]
    ps.pack(tmp_path / "a.pst", tmp_path / "c.pst", forms=["jpeg"])
    for i in range(2):
        assert ps.Dataset(tmp_path / "c.pst").read(i, "image") == ps.Dataset(tmp_path / "b.pst").read(i, "image")


def test_a_data_set_becomes_another(folder: Path, tmp_path: Path) -> None:
    files, there, back = (tmp_path / name for name in ("files.pst", "there.pst", "back.pst"))
    ps.pack(folder, files, forms=["original"])
    report = ps.pack(files, there)
    ds, as_files = ps.Dataset(there), ps.Dataset(files)
    jpegs = [i for i in range(len(ds)) if as_files.item(i, "image")["form"] == "jpeg"]
    assert [i for i in range(len(ds)) if ds.item(i, "image")["form"] == "pli-jpeg"] == jpegs
    assert report.n_pli_jpeg == len(jpegs) > 0 and report.n_restored_jpeg == 0
    again = ps.pack(there, back, forms=["original"])
    assert (again.n_restored_jpeg, again.n_not_original, again.n_pli_jpeg) == (len(jpegs), 0, 0)
    assert again.restored_pli_jpeg_nbytes == report.pli_jpeg_nbytes
    assert again.restored_jpeg_nbytes == report.jpeg_nbytes
    ds = ps.Dataset(back)
    assert [ds.name(i) for i in range(len(ds))] == [as_files.name(i) for i in range(len(ds))]
    assert [ds.read(i, "image") for i in range(len(ds))] == [as_files.read(i, "image") for i in range(len(ds))]
    # Several forms stay several. If no sample has its file, "original" is an error.
    ps.pack(files, tmp_path / "two.pst", forms=["original", "raw"])
    ps.pack(tmp_path / "two.pst", tmp_path / "both.pst")
    both = ps.Dataset(tmp_path / "both.pst")
    assert [both.item(jpegs[0], "image", v)["form"] for v in (0, 1)] == ["pli-jpeg", "raw"]
    ps.pack(files, tmp_path / "raw.pst", forms=["raw"])
    assert ps.pack(tmp_path / "raw.pst", tmp_path / "r.pst", forms=["original"]).n_not_original == len(ds)
    with pytest.raises(ps.errors.ArgumentError, match="same data set"):
        ps.pack(files, files, resume=True)


def test_writer(tmp_path: Path) -> None:
    data, cmyk = jpeg(1, 90, 80, orientation=6), jpeg(2, 90, 80, mode="CMYK")
    png = io.BytesIO()
    PilImage.fromarray(picture(3, 20, 30)).save(png, "PNG")
    with ps.Writer(tmp_path / "a.pst", {"image": "pli-jpeg", "kept": ps.Image()}) as writer:
        for value in (data, cmyk, png.getvalue(), pli.from_jpeg(data), picture(1, 5, 6)):
            writer.write({"image": value, "kept": value})
        assert (writer.n_kept_jpeg, len(writer.kept_jpeg)) == (1, 1)
        why = writer.kept_jpeg[0]
        assert (why["name"], why["field"], why["status"]) == ("000000000001", "image", "PST_ERROR_UNSUPPORTED")
        assert why["text"].startswith("cannot be kept as PLI: ") and "component" in why["text"]
        writer.write({"image": cmyk, "kept": data}, "again")
        assert (writer.n_kept_jpeg, writer.kept_jpeg[1]["name"]) == (2, "again")
        with pytest.raises(ps.errors.ExistsError):
            writer.write({"image": cmyk, "kept": data}, "again")
        assert writer.n_kept_jpeg == 2  # counts only samples that were written
    ds = ps.Dataset(tmp_path / "a.pst")
    assert [ds.item(i, "image")["form"] for i in range(5)] == ["pli-jpeg", "jpeg", "png", "pli-jpeg", "raw"]
    assert [ds.item(i, "kept")["form"] for i in range(5)] == ["jpeg", "jpeg", "png", "pli-jpeg", "raw"]
    item = ds.item(0, "image")
    assert (item["height"], item["width"], item["orientation"]) == (80, 90, 6)
    for i in range(5):
        np.testing.assert_array_equal(ds[i]["image"], ds[i]["kept"])
    assert ds.read(0, "image", original=True) == data
    assert [ds.item(i, "image")["jpeg_nbytes"] for i in range(5)] == [len(data), 0, 0, len(data), 0]
    assert [ds.item(i, "image")["was_pli"] for i in range(5)] == [False, False, False, True, False]
    assert ds.read(3, "image", original=True) == pli.from_jpeg(data)  # these bytes were the file
    with pytest.raises(ps.errors.ArgumentError), ps.Writer(tmp_path / "b.pst", {"image": "pli"}) as writer:
        writer.write({"image": pli.from_jpeg(data)})
