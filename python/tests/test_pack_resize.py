"""pack(resize=): a loader whose transforms begin with that Resize delivers the same bits as from the whole images."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as PilImage

import penstock as ps
from conftest import encoded, picture
from flat import keywords
from penstock import transforms as T

PROGRAM = Path(sysconfig.get_path("scripts")) / "penstock"
SIDE = 24
N = 12


def sample(i: int, made_for: str | None) -> dict[str, object]:
    """Returns an image: JPEG, PNG, 16 bits, gray or RGBA. Some have an EXIF orientation; the last two are not larger than SIDE."""
    height, width = (40 + i, 56 - i) if i < N - 2 else (SIDE, 31)
    orientation = (1, 6, 3, 1, 8, 5)[i % 6] if made_for and i < N - 2 else 1
    exif = PilImage.Exif()
    exif[0x0112] = orientation
    pixels = picture(i, height, width)
    image: object = encoded(pixels, "JPEG" if i % 3 else "PNG", exif=exif)
    if i == 3:
        image, orientation = pixels[..., 0].copy(), 1
    if i == 6:
        image, orientation = np.dstack([pixels, pixels[..., 1]]), 1
    if made_for == "upright" and orientation >= 5:
        height, width = width, height
    rng = np.random.default_rng(i)
    corners = rng.uniform(1, 11, (3, 2)).astype(np.float32)
    return {
        "image": image,
        "mask": rng.integers(0, 200, (height, width), dtype=np.uint8),
        "boxes": np.concatenate([corners, corners + rng.uniform(4, 12, (3, 2)).astype(np.float32)], axis=1),
        "points": np.concatenate([corners, np.ones((3, 1), np.float32)], axis=1),
        "label": i,
    }


@pytest.fixture(scope="module", params=[None, "upright", "stored"])
def source(request, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("data") / "data.pst"
    made_for = request.param
    schema = {"image": ps.Image(), "mask": ps.Mask(made_for=made_for), "boxes": ps.Boxes(made_for),
              "points": ps.Keypoints(made_for), "label": ps.Int()}  # fmt: skip
    with ps.Writer(path, schema) as writer:
        for i in range(N):
            writer.write(sample(i, made_for), name=f"{i}")
    return path


def rows(path: Path, transforms: list, **options) -> list[bytes]:
    found = []
    with ps.Loader(path, **keywords(batch_size=4, shuffle=True, seed=5, num_workers=2, output="numpy", transforms=transforms,
                   cache=None, storage="threads", live=False, per_box=["points"], **options)) as loader:  # fmt: skip
        for batch in loader:
            for name in ("image", "mask", "boxes", "points", "label"):
                found += [f"{name} {row.dtype} {row.shape}".encode() + np.asarray(row).tobytes() for row in batch[name]]
    return found


CHAINS = [
    [T.Resize(SIDE), T.RandomCrop(20), T.RandomHorizontalFlip()],
    [T.Resize(SIDE), T.CenterCrop(22), T.ColorJitter(0.3, 0.3), T.RandomVerticalFlip()],
]


@pytest.mark.parametrize("forms", [None, ["raw"], ["pli", "raw"], ["original"]])
def test_the_same_bits(source, tmp_path, forms):
    report = ps.pack(source, tmp_path / "small.pst", forms=forms, resize=SIDE, of_lossy=forms == ["pli", "raw"])
    assert (report.n_resized, report.n_bad, report.n_samples) == (N - 2, 0, N)
    assert ps.verify(tmp_path / "small.pst", decode=True).findings == []
    small = ps.Dataset(tmp_path / "small.pst")
    assert min(small[0]["image"].shape[:2]) == SIDE
    for chain in CHAINS:
        for way in ({}, {"dtype": "float32"}, {"channels": "stored", "dtype": "float32"}, {"dtype": "uint8", "layout": "NHWC"}):
            assert rows(tmp_path / "small.pst", chain, **way) == rows(source, chain, **way), way
    whole = [T.Resize(SIDE + 8), T.CenterCrop(20)]  # another chain gets the smaller images
    assert rows(tmp_path / "small.pst", whole) != rows(source, whole)


def test_16_bits_and_a_folder(folder, tmp_path):
    values = np.random.default_rng(1).integers(0, 65536, (50, 70, 3), dtype=np.uint16)
    with ps.Writer(tmp_path / "deep.pst", {"image": ps.Image()}) as writer:
        writer.write({"image": values})
    ps.pack(tmp_path / "deep.pst", tmp_path / "deep-small.pst", resize=20)
    assert ps.Dataset(tmp_path / "deep-small.pst")[0]["image"].dtype == np.uint16
    report = ps.pack(folder, tmp_path / "a.pst", resize=32, num_workers=3)
    ps.pack(folder, tmp_path / "b.pst", resize=32, num_workers=1)
    assert report.n_resized == report.n_samples
    chain = [T.Resize(32), T.RandomCrop(28)]
    for path, small in ((folder, tmp_path / "a.pst"), (tmp_path / "deep.pst", tmp_path / "deep-small.pst")):
        chain = chain if path == folder else [T.Resize(20), T.RandomCrop(16)]
        options = {"output": "numpy", "transforms": chain, "cache": None, "num_workers": 0, "dtype": "float32"}
        with ps.Loader(path, **keywords(**options)) as one, ps.Loader(small, **keywords(**options)) as other:
            for a, b in zip(one, other, strict=True):
                np.testing.assert_array_equal(a["image"], b["image"])
    with ps.Loader(tmp_path / "a.pst", output="numpy", encoded=["image"], num_workers=0) as one, ps.Loader(
        tmp_path / "b.pst", output="numpy", encoded=["image"], num_workers=0
    ) as other:
        for a, b in zip(one, other, strict=True):
            assert [bytes(x) for x in a["image"]] == [bytes(x) for x in b["image"]]


def test_what_cannot_be(folder, tmp_path):
    with pytest.raises(ps.errors.ArgumentError, match="when resuming"):
        ps.pack(folder, tmp_path / "a.pst", resize=32, resume=True)
    with pytest.raises(ps.errors.ArgumentError, match="resize"):
        ps.pack(folder, tmp_path / "a.pst", resize=0)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False)


def test_the_command(folder, tmp_path):
    done = run("pack", folder, tmp_path / "a.pst", "--resize", 32)
    assert done.returncode == 0 and "24 were made smaller" in done.stdout
    for extra in (["--resume"], ["--plan", "x"]):
        refused = run("pack", folder, tmp_path / "c.pst", "--resize", 32, *extra)
        assert refused.returncode == 2 and "goes without" in refused.stderr
    in_place = run("repack", tmp_path / "a.pst", "--form", "raw", "--resize", 16)
    assert in_place.returncode == 2 and "go with a DST" in in_place.stderr


def test_what_made_for_must_say(tmp_path):
    exif, folder = PilImage.Exif(), tmp_path / "files"
    exif[0x0112] = 3
    folder.mkdir()
    (folder / "a.jpg").write_bytes(encoded(picture(1, 40, 50), "JPEG", exif=exif))
    labels = tmp_path / "labels.jsonl"
    labels.write_text(json.dumps({"file": "a.jpg", "boxes": [[1, 2, 20, 30]]}) + "\n")
    with pytest.raises(ps.errors.ArgumentError, match="made_for"):
        ps.pack(folder, tmp_path / "small.pst", labels=labels, resize=20)
    ps.pack(folder, tmp_path / "small.pst", labels=labels, resize=20, made_for="stored")
    box = ps.Dataset(tmp_path / "small.pst")[0]["boxes"][0]
    np.testing.assert_allclose(box, [15, 5, 24.5, 19], atol=1e-5)
