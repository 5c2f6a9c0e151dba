"""Idle workers re-code images of containers into the cache: stored and deflated members, and compressed pages of tables."""

from __future__ import annotations

import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import penstock as ps
from conftest import encoded, picture
from penstock import transforms as T

N = 24
Images = list[tuple[str, bytes]]


@pytest.fixture(scope="module")
def images() -> Images:
    return [(f"{i:02d}.jpg", encoded(picture(i, 120 + 7 * i, 160 - i), "JPEG")) for i in range(N)]


def write_zip(folder: Path, images: Images, compression: int) -> Path:
    with zipfile.ZipFile(folder / "set.zip", "w", compression) as archive:
        for name, data in images:
            archive.writestr(name, data)
    return folder / "set.zip"


def write_tar(folder: Path, images: Images) -> Path:
    with tarfile.open(folder / "set.tar", "w") as archive:
        for name, _ in images:
            (folder / name).write_bytes(dict(images)[name])
            archive.add(folder / name, name)
    return folder / "set.tar"


def write_parquet(folder: Path, images: Images, compression: str) -> Path:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rows = [{"bytes": data, "path": name} for name, data in images]
    pq.write_table(pa.table({"image": rows}), folder / "set.parquet", compression=compression, use_dictionary=False)
    return folder / "set.parquet"


SETS: dict[str, Callable[[Path, Images], Path]] = {
    "tar": write_tar,
    "zip": lambda folder, images: write_zip(folder, images, zipfile.ZIP_STORED),
    "zip, deflated": lambda folder, images: write_zip(folder, images, zipfile.ZIP_DEFLATED),
    "parquet": lambda folder, images: write_parquet(folder, images, "none"),
    "parquet, snappy": lambda folder, images: write_parquet(folder, images, "snappy"),
    "parquet, zstd": lambda folder, images: write_parquet(folder, images, "zstd"),
}


def epoch(loader: ps.Loader) -> list[np.ndarray]:
    return [np.array(batch["image"]) for batch in loader]


@pytest.mark.parametrize("kind", SETS)
def test_idle_workers_recode_images_of_any_container(tmp_path: Path, images: Images, kind: str) -> None:
    path = SETS[kind](tmp_path, images)
    use = ps.CacheUse("64MiB", form="pli-jpeg", recode="idle")
    options = {"shuffle": True, "seed": 3, "num_workers": 2, "output": "numpy", "fields": ["image"],
               "transforms": [T.RandomResizedCrop(32)]}  # fmt: skip
    with ps.Loader(path, 4, cache=None, **options) as plain, ps.Loader(path, 4, cache=use, **options) as later:
        for number in range(3):
            for want, got in zip(epoch(plain), epoch(later), strict=True):
                np.testing.assert_array_equal(got, want)
            if number == 0:  # rows decode only the parts that they need; only a proof decodes whole images
                assert later.stats()["decode"]["nbytes_decoded"] == plain.stats()["decode"]["nbytes_decoded"]
            end = time.monotonic() + 60
            while number == 1 and later.stats()["cache"]["recoded"] < N and time.monotonic() < end:
                time.sleep(0.01)
        found = later.stats()["cache"]
    assert found["recoded"] == found["items"] == N and found["not_recoded"] == found["to_recode"] == 0
    assert found["hits"] == 2 * N and found["nbytes_saved"] > 0
