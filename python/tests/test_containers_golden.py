"""Tars and indexes written by other software (tests/golden/containers) have the same samples as a folder of the same files.

PST_CONTAINERS names another folder that make_containers.py filled; sets that are not in it are skipped.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image as PilImage

import penstock as ps

GOLDEN = Path(os.environ.get("PST_CONTAINERS", Path(__file__).resolve().parents[2] / "tests" / "golden" / "containers"))
FILES = GOLDEN / "files"
SUFFIXES = ("cls", "jpg", "json", "npy", "seg.png", "txt")
TARS = ("gnu_tar/gnu.tar", "gnu_tar/posix.tar", "gnu_tar/ustar.tar", "gnu_tar/v7.tar", "tarfile/gnu.tar", "tarfile/pax.tar",
        "webdataset/one.tar")
SHARDS = [f"shards-{i:06}.tar" for i in range(3)]


def keys_below(folder: Path) -> list[str]:
    return sorted(path.relative_to(FILES).as_posix().removesuffix(".cls") for path in folder.rglob("*.cls"))


ALL = keys_below(FILES)
FEW = [*keys_below(FILES / "bird"), *keys_below(FILES / "nested")]
BIRDS = keys_below(FILES / "bird")
KEYS = {"gnu_tar/ustar.tar": BIRDS, "gnu_tar/v7.tar": BIRDS, "webdataset/one.tar": ALL}


def copied(folder: Path, *names: str) -> Path:
    """A folder with copies of golden files, beside which an index may be written."""
    for name in names:
        if not (GOLDEN / name).exists():
            pytest.skip(f"{name} was not made")
        (folder / Path(name).name).write_bytes((GOLDEN / name).read_bytes())
    return folder


def copied_shards(folder: Path, *more: str) -> Path:
    return copied(folder, *(f"webdataset/{name}" for name in SHARDS), *more)


def prepared(folder: Path, name: str) -> Path:
    """Copies the shards with the files that Energon's preparation wrote beside them."""
    if not (GOLDEN / name).exists():
        pytest.skip(f"{name} was not made")
    shutil.copytree(GOLDEN / name, folder, dirs_exist_ok=True)
    return copied_shards(folder)


def notices(path: Path) -> str:
    """Opens a data set for the first time and returns the notices in the log."""
    code = "import sys, penstock as ps; ps.Dataset(sys.argv[1])"
    environment = {**os.environ, "PENSTOCK_LOG_LEVEL": "warning"}
    return subprocess.run([sys.executable, "-c", code, path], check=True, capture_output=True, text=True, env=environment).stderr


def assert_equal(ds: ps.Dataset, keys: list[str], text: str = "text") -> None:
    """Checks that a data set has these samples in this order, with the bytes, labels and texts of the files."""
    assert [ds.name(i) for i in range(len(ds))] == keys
    assert sorted(ds.fields) == sorted(["image", "json", "label", "npy", "seg", text])
    for i, key in enumerate(keys):
        wanted = {suffix: (FILES / f"{key}.{suffix}").read_bytes() for suffix in SUFFIXES}
        sample = ds[i]
        assert (ds.read(i, "image"), ds.read(i, "seg")) == (wanted["jpg"], wanted["seg.png"])
        assert (sample["label"], sample[text]) == (int(wanted["cls"]), wanted["txt"].decode())
        assert sample["json"] == json.loads(wanted["json"])
        np.testing.assert_array_equal(sample["npy"], np.load(io.BytesIO(wanted["npy"])))
        with PilImage.open(io.BytesIO(wanted["seg.png"])) as mask:
            np.testing.assert_array_equal(sample["seg"], np.asarray(mask))


@pytest.mark.parametrize("name", TARS)
def test_tar(name, tmp_path):
    tar = copied(tmp_path, name) / Path(name).name
    assert_equal(ps.Dataset(tar), KEYS.get(name, FEW))


def test_shards_as_folder_and_pattern(tmp_path):
    folder = copied_shards(tmp_path)
    ds = ps.Dataset(folder)
    assert_equal(ds, ALL)
    assert_equal(ps.Dataset(f"{folder}/shards-{{000000..000002}}.tar"), ALL)


def test_wids(tmp_path):
    """wids 0.1.11 does not count samples with long names. This causes a notice; samples are read from the tars, in the order of the
    index.
    """
    folder = copied_shards(tmp_path, "webdataset/wids.json")
    index = folder / "wids.json"
    said = notices(index)
    assert "has 2 samples, the index of another software states 1" in said
    assert said.count("states") == 1 and SHARDS[2] in said
    assert_equal(ps.Dataset(index), ALL)
    reversed_list = json.loads(index.read_text())
    reversed_list["shardlist"].reverse()
    index.write_text(json.dumps(reversed_list))
    assert_equal(ps.Dataset(index), ALL[4:] + ALL[2:4] + ALL[:2])


def test_wds2idx(tmp_path):
    folder = copied_shards(tmp_path, *(f"webdataset/{name.replace('.tar', '.idx')}" for name in SHARDS))
    assert notices(folder) == ""
    assert_equal(ps.Dataset(folder), ALL)
    (folder / "shards-000002.idx").write_bytes((folder / "shards-000001.idx").read_bytes())
    shutil.rmtree(folder / ".penstock", ignore_errors=True)
    said = notices(folder)
    assert f"{folder}/shards-000002.idx" in said and SHARDS[2] in said
    assert "sample 1 begins near byte 7168 in the index, 12800 in the tar" in said
    assert said.count("begins near") == 1
    assert_equal(ps.Dataset(folder), ALL)


def test_energon(tmp_path):
    """Samples come in Energon's order: that of split.yaml, which differs from the order of names."""
    folder = prepared(tmp_path, "energon")
    text = (folder / ".nv-meta" / "split.yaml").read_text()
    places = sorted((text.index(name), i) for i, name in enumerate(SHARDS))
    wanted = [key for _, i in places for key in ALL[2 * i:2 * i + 2]]
    assert wanted != ALL
    assert notices(folder) == ""
    assert_equal(ps.Dataset(folder), wanted, text="caption")
    index = folder / f"{SHARDS[1]}.idx"
    index.write_bytes((folder / f"{SHARDS[2]}.idx").read_bytes())
    shutil.rmtree(folder / ".penstock", ignore_errors=True)
    said = notices(folder)
    assert f"{index}" in said and "sample 1 begins at byte 12800 in the index, 6656 in the tar" in said
    assert_equal(ps.Dataset(folder), wanted, text="caption")
    info = next((folder / ".nv-meta").glob(".info.*"))
    info.write_text(info.read_text().replace(" 2", " 3"))
    shutil.rmtree(folder / ".penstock", ignore_errors=True)
    assert "has 2 samples, the index of another software states 3" in notices(folder)
    assert_equal(ps.Dataset(folder), wanted, text="caption")


def test_energon_splits(tmp_path):
    """Each split has the shards that split.yaml lists for it, in that order, and its own index."""
    folder = prepared(tmp_path, "energon_splits")
    with pytest.raises(ps.errors.ArgumentError, match=r"train.*val"):
        ps.Dataset(folder)
    text = (folder / ".nv-meta" / "split.yaml").read_text()
    places = sorted((text.index(name), i) for i, name in enumerate(SHARDS))
    of_split = {"train": [], "val": []}
    for at, i in places:
        of_split["val" if at > text.index("val:") else "train"] += ALL[2 * i:2 * i + 2]
    assert (len(of_split["train"]), len(of_split["val"])) == (4, 2)
    for split, wanted in of_split.items():
        for _ in range(2):  # the index is made by the first opening, and found by the second
            assert_equal(ps.Dataset(folder, split=split), wanted, text="caption")
    assert len(list((folder / ".penstock").glob("tar-*.index"))) == 2
    with pytest.raises(ps.errors.PenstockError, match=r"train.*val"):
        ps.Dataset(folder, split="test")
