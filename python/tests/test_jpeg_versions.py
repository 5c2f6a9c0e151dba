"""Pixels of JPEGs beside Pillow's, whose libjpeg-turbo has another version than Penstock's. They are equal, except for the files
that docs/format-images.md names.
"""

import io
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import PIL
import pytest
from PIL import Image, features

import penstock as ps

SIZES = [(40, 56), (33, 16), (64, 12), (9, 9), (100, 130), (16, 16)]  # height, width


def picture(height: int, width: int, seed: int) -> np.ndarray:
    y, x = np.mgrid[:height, :width]
    waves = np.sin(x / 5)[..., None] * np.cos(y / 7)[..., None] * np.array([1, 0.7, 0.4])
    return (128 + 90 * waves + np.random.default_rng(seed).normal(0, 6, (height, width, 3))).clip(0, 255).astype(np.uint8)


def encoded(pixels: np.ndarray, progressive: bool, sampling: str, gray: bool) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels[..., 0] if gray else pixels).save(
        out, "JPEG", quality=80, progressive=progressive, subsampling=sampling
    )
    return out.getvalue()


def without_scans(data: bytes) -> list[bytes]:
    """Returns the file with only its first scan, with the first two, and so on, like a download that was cut off."""
    starts, at = [], data.find(b"\xff\xda")
    while at >= 0:
        starts.append(at)
        at = data.find(b"\xff\xda", at + 2)
    return [data[:start] + b"\xff\xd9" for start in starts[1:]]


def by_pillow(data: bytes) -> np.ndarray:
    pixels = np.asarray(Image.open(io.BytesIO(data)))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def is_named(width: int, sampling: str, gray: bool) -> bool:
    """Returns whether docs/format-images.md says that versions differ if scans are missing: a component is two blocks wide, or has
    a vertical sampling factor of 2, which Pillow also writes for gray pictures.
    """
    widths = {-(-width // 8)}
    if not gray and sampling != "4:4:4":
        widths.add(-(-width // 16))
    return 2 in widths or sampling == "4:2:0"


@pytest.mark.parametrize("sampling", ["4:4:4", "4:2:2", "4:2:0"])
@pytest.mark.parametrize("gray", [False, True])
def test_pixels_are_those_of_another_libjpeg_turbo(sampling: str, gray: bool) -> None:
    if not features.check_feature("libjpeg_turbo"):
        pytest.skip("Pillow has another library for JPEG than libjpeg-turbo")
    n_missing = 0
    for (height, width), progressive in itertools.product(SIZES, [False, True]):
        data = encoded(picture(height, width, height + width), progressive, sampling, gray)
        assert np.array_equal(ps.decode(data), by_pillow(data)), (height, width, progressive)
        for part in without_scans(data) if progressive else []:
            n_missing += 1
            if not is_named(width, sampling, gray):
                assert np.array_equal(ps.decode(part), by_pillow(part)), (height, width, len(part))
            else:
                apart = np.abs(ps.decode(part).astype(int) - by_pillow(part))
                assert apart.max() < 64  # both versions smooth the blocks, but by different rules
    assert n_missing > 20


def test_usual_files_are_read_fast_with_another_libjpeg_turbo(tmp_path: Path) -> None:
    """The library of Pillow's wheel, preloaded, takes the place of the installed one. Penstock's trial finds that it agrees."""
    found = sorted((Path(PIL.__file__).parent.parent / "pillow.libs").glob("libjpeg-*.so*"))
    if not found or not features.check_feature("libjpeg_turbo") or os.environ.get("LD_PRELOAD"):
        pytest.skip("Pillow's wheel has no libjpeg-turbo of its own, or something else is preloaded")
    for i, (height, width) in enumerate(SIZES):
        for sampling, gray in (("4:4:4", False), ("4:2:2", False), ("4:2:0", False), ("4:4:4", True)):
            name = f"{i}-{sampling.replace(':', '')}-{'gray' if gray else 'colour'}.jpg"
            (tmp_path / name).write_bytes(encoded(picture(height, width, i), False, sampling, gray))
    source = f"""if True:
        import hashlib, json
        import penstock as ps
        loader = ps.Loader({str(tmp_path)!r}, batch_size=1, num_workers=1, output="numpy", cache=None)
        sums = [hashlib.sha256(image.tobytes()).hexdigest() for batch in loader for image in batch["image"]]
        print(json.dumps([sums, loader.stats()["fallbacks"].get("libjpeg", 0)]))
    """
    runs = []
    for preload in ({}, {"LD_PRELOAD": str(found[0])}):
        done = subprocess.run([sys.executable, "-c", source], env=os.environ | preload, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        runs.append(json.loads(done.stdout))
    assert runs[0] == runs[1]
    assert len(runs[0][0]) == 4 * len(SIZES) and runs[0][1] == 0
