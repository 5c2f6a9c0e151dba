"""The places from which the orientation of a picture is read. All decoders must agree, also with Pillow, and with OpenCV if it is
installed. docs/format-images.md has the table."""

import io
import subprocess
import sys
import warnings
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

import orientation_carriers as made
import penstock as ps
from flat import keywords

# Files that both Penstock and Pillow refuse.
REFUSED = {"PNG: eXIf with a wrong checksum"}
# Files in which neither Penstock nor Pillow finds an orientation, so both deliver the pixels as they are stored.
NEITHER = {
    "JPEG: EXIF without its first two bytes", "JPEG: XMP in single quotes", "JPEG: XMP with blanks", "JPEG: XMP behind EXIF of 0",
    "JPEG: XMP behind broken EXIF", "JPEG: EXIF of type BYTE", "JPEG: EXIF of type ASCII",
    "JPEG: EXIF of type ASCII, little-endian",
    "JPEG: EXIF of type UNDEFINED", "JPEG: EXIF of type BYTE, count 0", "JPEG: EXIF of type BYTE, count 2",
    "PNG: eXIf of another, then XMP", "PNG: text APP1", "PNG: text xmp", "WebP: EXIF, flag unset",
    "WebP: EXIF with prefix, flag unset", "WebP: XMP, flag unset", "WebP: XMP beside EXIF of another",
}  # fmt: skip


def shown_by_pillow(data: bytes) -> tuple[int, int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ImageOps.exif_transpose(Image.open(io.BytesIO(data))).size[::-1]


@pytest.mark.parametrize("orientation", [5, 6, 7, 8])
def test_what_is_read_is_what_pillow_reads(orientation):
    turned = set()
    for name, data in made.cases(orientation).items():
        if name in REFUSED:
            with pytest.raises(ps.errors.CorruptError, match="CRC"):
                ps.decode(data)
            continue
        shown = ps.decode(data).shape[:2]
        assert ps.probe(data).height == shown[0], name
        assert ps.decode(data, ignore_orientation=True).shape[:2] == (made.HEIGHT, made.WIDTH)
        if shown == (made.WIDTH, made.HEIGHT):
            turned.add(name)
            assert ps.probe(data).orientation == orientation, name
        assert shown == shown_by_pillow(data), name
    assert turned.isdisjoint(NEITHER)


@pytest.mark.parametrize("orientation", [1, 2, 3, 4, 5, 6, 7, 8, 9, 0])
def test_the_pixels_are_those_of_pillow(orientation):
    for name, data in made.cases(orientation).items():
        if name in REFUSED or name.endswith("LONG8") or ("RATIONAL" in name and orientation == 0):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
        found = ps.decode(data, channels=3)
        assert found.shape == want.shape, name
        if not name.startswith("JPEG"):  # Pillow's libjpeg-turbo may have another version
            assert np.array_equal(found, want), name


def test_where_opencv_turns_and_pillow_does_not_is_known():
    cv2 = pytest.importorskip("cv2", reason="OpenCV is not installed")
    known = {
        "JPEG: EXIF without orientation, then another", "JPEG: EXIF of type BYTE, little-endian",
        "JPEG: EXIF of type UNDEFINED, little-endian", "JPEG: EXIF of type SHORT, count 0",
    }  # fmt: skip
    for name, data in made.cases(6).items():
        pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        is_turned = pixels is not None and pixels.shape[:2] == (made.WIDTH, made.HEIGHT)
        if is_turned:
            assert (ps.probe(data).orientation == 6) == (name not in known), name
        if name in NEITHER:
            assert not is_turned, name


def test_compressed_text_is_bounded():
    """A compressed text that expands to gigabytes of zeros is not read; many such texts take no more time than one."""
    bomb = zlib.compress(b" " * (64 << 20), 9)
    text = made.chunk(b"zTXt", b"XML:com.adobe.xmp\0\0" + bomb)
    assert ps.probe(made.png(*[text] * 200)).orientation == 1
    late = zlib.compress(b" " * (2 << 20) + made.xmp(6))
    assert ps.probe(made.png(made.chunk(b"zTXt", b"XML:com.adobe.xmp\0\0" + late))).orientation == 1
    early = zlib.compress(made.xmp(6) + b" " * (900 << 10))
    assert ps.probe(made.png(made.chunk(b"zTXt", b"XML:com.adobe.xmp\0\0" + early))).orientation == 6


def test_damaged_text_is_not_read():
    exif = made.raw_profile(made.PREFIX + made.tiff(6))
    packed = zlib.compress(exif)
    keyword = b"Raw profile type exif\0"
    for text in (
        made.chunk(b"zTXt", keyword + b"\1" + packed),
        made.chunk(b"zTXt", keyword + b"\0" + packed[:5] + b"????" + packed[9:]),
        made.chunk(b"zTXt", keyword),
        made.chunk(b"iTXt", keyword + b"\1\1\0\0" + packed),
        made.chunk(b"iTXt", keyword + b"\1\0\0"),
        made.chunk(b"iTXt", keyword + b"\1"),
        made.chunk(b"tEXt", keyword + exif.replace(b"4", b"?")),
        made.chunk(b"tEXt", keyword + exif[:-2] + b"\n"),
        made.chunk(b"tEXt", keyword + b"\n\n"),
    ):
        assert ps.probe(made.png(text)).orientation == 1


@pytest.fixture
def folder(tmp_path):
    """A folder with one picture for each carrier and orientation. When they are upright, all pictures of a form are equal."""
    place = tmp_path / "pictures"
    place.mkdir()
    for orientation in (6, 3):
        for number, (name, data) in enumerate(made.cases(orientation).items()):
            if name in REFUSED:
                continue
            form = name.split(":")[0].lower()
            (place / f"{orientation}-{number:03}.{form}").write_bytes(data)
    return place


def upright(path: Path) -> np.ndarray:
    return ps.decode(path.read_bytes(), channels=3)


def test_all_readers_agree(folder, tmp_path):
    files = sorted(folder.iterdir())
    want = [upright(path) for path in files]
    ps.pack(folder, tmp_path / "plain.pst", forms=["original"])
    ps.pack(folder, tmp_path / "small.pst")
    ps.pack(folder, tmp_path / "pixels.pst", forms=["raw"])
    ps.pack(tmp_path / "small.pst", tmp_path / "again.pst", forms=["original"])
    kept = ps.Dataset(tmp_path / "small.pst")
    assert any(kept.item(i, "image")["form"] == "pli-jpeg" for i in range(len(kept)))
    for source in (folder, *(tmp_path / f"{n}.pst" for n in ("plain", "small", "pixels", "again"))):
        for options in ({}, {"cache": "8MiB"}):
            loader = ps.Loader(source, **keywords(batch_size=1, channels=3, layout="NHWC", **options))
            for _ in range(2):
                rows = [np.asarray(batch["image"][0]) for batch in loader]
                for path, row, pixels in zip(files, rows, want, strict=True):
                    assert row.shape == pixels.shape, (source, path)
                    assert np.array_equal(row, pixels), (source, path)
            loader.close()
        images = ps.CachedImages(source, cache="8MiB")
        for i, pixels in enumerate(want):
            assert np.array_equal(images[i], pixels), (source, files[i])
        assert ps.verify(source, decode=True).ok


def test_a_packed_set_keeps_the_orientation_of_its_index(tmp_path):
    """If an older release wrote orientation 1 into the index where newer releases read another one, the picture stays the same in
    all forms, also after repacking.
    """
    data = made.cases(6)["JPEG: XMP"]
    assert ps.decode(data, orientation=1).shape[:2] == (made.HEIGHT, made.WIDTH)
    assert ps.decode(made.jpeg(), orientation=6).shape[:2] == (made.WIDTH, made.HEIGHT)
    with pytest.raises(ps.errors.ArgumentError, match="orientation 9 is not one of 1 to 8"):
        ps.decode(data, orientation=9)


@pytest.mark.skipif(sys.platform != "linux", reason="the command line")
def test_the_command_line_shows_it(folder):
    path = sorted(folder.glob("6-*.png"))[0]
    assert "orientation" in subprocess.run(["penstock", "info", str(path)], capture_output=True, text=True, check=True).stdout
