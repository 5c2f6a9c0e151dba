"""Indexes made in parts: for each kind of files they have the same bytes as an index that one process makes."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

import penstock as ps

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "containers"
NULLS = tuple(f"parquet/nulls_first_{i}.parquet" for i in range(2))
# Files of tests/golden/containers with the rules for opening them. If two files have the same name, the second is renamed.
SETS: dict[str, tuple[tuple[str, ...], dict[str, Any] | None]] = {
    "tar": (tuple(f"webdataset/shards-{i:06}.tar" for i in range(3)), None),
    "tar_fields": (tuple(f"webdataset/shards-{i:06}.tar" for i in range(3)), {"npy": None, "cls": ("label", "int", 1000)}),
    "parquet": (("parquet/datasets.parquet",) * 3, None),
    "parquet_hidden": (("parquet/datasets_hidden.parquet",) * 2, None),
    "parquet_snappy": (("parquet/pyarrow_default.parquet",) * 2, None),
    "parquet_zstd": (("parquet/pyarrow_v2_zstd.parquet",) * 2, None),
    "parquet_lists": (("parquet/pyarrow_lists_snappy.parquet",) * 2, None),
    "nulls_first": (NULLS, None),
    "nulls_last": (NULLS[::-1], None),
    "nulls_around": ((*NULLS, NULLS[0], NULLS[0], NULLS[1]), None),
    "arrow": (("arrow/saved/data-00000-of-00002.arrow", "arrow/saved/data-00001-of-00002.arrow", "arrow/saved/state.json",
               "arrow/saved/dataset_info.json"), None),
    "mds": (("mds/all/index.json", "mds/all/shard.00000.mds", "mds/all/shard.00001.mds"), None),
    "tfrecord": (("tfrecord/imagenet-00000-of-00002.tfrecord", "tfrecord/imagenet-00001-of-00002.tfrecord"), None),
    "tfds": (("tfrecord/tfds/features.json", "tfrecord/tfds/dataset_info.json",
              "tfrecord/tfds/probe-train.tfrecord-00000-of-00001"), {"packed": None, "mask": None}),
    "lmdb": (("lmdb/datum_images.mdb",) * 2, None),
    "recordio": (("recordio/joined.rec",) * 2, None),
    "beton": (("beton/jpegs.beton",) * 2, None),
}  # fmt: skip


def copied(folder: Path, names: tuple[str, ...]) -> Path:
    folder.mkdir()
    for i, name in enumerate(names):
        path = GOLDEN / name
        is_first = names.count(name) == 1 and name not in NULLS
        shutil.copyfile(path, folder / (path.name if is_first else f"{i}-{path.name}"))
    return folder


def index_of(folder: Path) -> bytes:
    """Returns the bytes of the only index file beside the data."""
    [path] = (folder / ".penstock").iterdir()
    assert path.name.endswith(".index")
    return path.read_bytes()


def by_one(folder: Path, **options: Any) -> bytes:
    ps.index(folder, **options)
    found = index_of(folder)
    shutil.rmtree(folder / ".penstock")
    return found


def by_parts(folder: Path, n: int, **options: Any) -> bytes:
    for i in reversed(range(n)):
        ps.index(folder, part=(i + 1, n), **options)
    assert ps.index(folder, merge=True, **options).was_made
    return index_of(folder)


@pytest.mark.parametrize("name", SETS)
def test_the_bytes_are_those_of_one_process(name, tmp_path):
    names, rules = SETS[name]
    folder = copied(tmp_path / "set", names)
    for sums in (False, True):
        wanted = by_one(folder, fields=rules, sums=sums)
        for n in (1, 2):
            assert by_parts(folder, n, fields=rules, sums=sums) == wanted
            shutil.rmtree(folder / ".penstock")


def test_a_zip_has_checksums_of_its_own(tmp_path):
    (tmp_path / "set").mkdir()
    for i in range(3):
        with zipfile.ZipFile(tmp_path / "set" / f"{i}.zip", "w", (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)[i % 2]) as file:
            for path in sorted((GOLDEN / "files").rglob("*.jpg")):
                file.write(path, f"{i}/{path.name}")
                file.writestr(f"{i}/{path.stem}.txt", "a text that is longer than what lies in an index, " * 3)
    for sums in (False, True):
        wanted = by_one(tmp_path / "set", sums=sums)
        assert by_parts(tmp_path / "set", 2, sums=sums) == wanted
        shutil.rmtree(tmp_path / "set" / ".penstock")


def test_energon_leaves_samples_out(tmp_path):
    """The call that merges the parts decides which samples a split has."""
    folder = tmp_path / "set"
    shutil.copytree(GOLDEN / "energon_splits", folder)
    splits = folder / ".nv-meta" / "split.yaml"
    first = ps.Dataset(shutil.copyfile(GOLDEN / "webdataset/shards-000000.tar", tmp_path / "one.tar")).name(0)
    splits.write_text(splits.read_text().replace("exclude: []", f"exclude:\n- shards-000000.tar/{first}"))
    for i in range(3):
        shutil.copyfile(GOLDEN / f"webdataset/shards-{i:06}.tar", folder / f"shards-{i:06}.tar")
    for split in ("train", "val"):
        wanted = by_one(folder, split=split, sums=True)
        assert (first.encode() in wanted) is False
        assert by_parts(folder, 2, split=split, sums=True) == wanted
        shutil.rmtree(folder / ".penstock")


def test_parts_are_done_once_and_n_may_differ(tmp_path):
    folder = copied(tmp_path / "set", SETS["tar"][0])
    wanted = by_one(folder)
    first = ps.index(folder, part=(1, 2))
    assert (first.n_files, first.n_files_before, first.path, first.was_made) == (2, 0, None, False)
    with pytest.raises(ps.errors.IncompleteError, match=r"1 of 3 files are in no part of the index yet.* shards-000001.tar"):
        ps.index(folder, merge=True)
    rest = ps.index(folder, part=(1, 1))
    assert (rest.n_files, rest.n_files_before) == (3, 2)
    merged = ps.index(folder, merge=True)
    assert merged.was_made and merged.n_files == 3 and merged.n_samples == len(ps.Dataset(folder))
    assert not ps.index(folder, merge=True).was_made
    late = ps.index(folder, part=(2, 2))
    assert (late.n_files, late.n_files_before) == (1, 1)
    assert index_of(folder) == wanted


def test_parts_with_and_without_sums(tmp_path):
    folder = copied(tmp_path / "set", SETS["tar"][0])
    wanted = by_one(folder, sums=True)
    ps.index(folder, part=(1, 1))
    with pytest.raises(ps.errors.StateError, match="has no sums"):
        ps.index(folder, merge=True, sums=True)
    assert ps.index(folder, part=(1, 1), sums=True).n_files_before == 0
    ps.index(folder, merge=True, sums=True)
    assert index_of(folder) == wanted
    assert ps.index(folder, part=(1, 1)).n_files_before == 3  # an index with checksums also serves a call without `sums`


def records(folder: Path) -> list[Path]:
    return sorted(path for path in (folder / ".penstock").iterdir() if ".walk-" in path.name)


def test_what_changed_is_told(tmp_path):
    folder = copied(tmp_path / "set", SETS["tar"][0])
    ps.index(folder, part=(1, 1))
    os.utime(folder / "shards-000001.tar", (1, 1))
    with pytest.raises(ps.errors.StateError, match=r"shards-000001.tar cannot be used: the file changed since") as caught:
        ps.index(folder, merge=True)
    assert ".walk-" in str(caught.value)
    assert ps.index(folder, part=(1, 2)).n_files_before == 2
    assert ps.index(folder, part=(2, 2)).n_files_before == 0
    ps.index(folder, merge=True)
    assert len(ps.Dataset(folder)) > 0


@pytest.mark.parametrize("kind", ["tar", "parquet_snappy"])
def test_damaged_records_are_named(kind, tmp_path):
    """Each changed byte is found: the damaged record is refused, and the part makes it again."""
    names, rules = SETS[kind]
    folder = copied(tmp_path / "set", names)
    wanted = by_one(folder, fields=rules, sums=True)
    ps.index(folder, part=(1, 1), fields=rules, sums=True)
    victim = records(folder)[0]
    whole = victim.read_bytes()
    places = [*range(0, 128, 5), *range(128, len(whole), max(1, len(whole) // 60))]
    damages = [whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1 :] for at in places]
    for damaged in (*damages, whole[:100], whole[:-1], whole + b"x", b""):
        victim.write_bytes(damaged)
        with pytest.raises(ps.PenstockError, match="part") as caught:
            ps.index(folder, merge=True, fields=rules, sums=True)
        assert victim.name in str(caught.value)
    assert ps.index(folder, part=(1, 1), fields=rules, sums=True).n_files_before == len(records(folder)) - 1
    ps.index(folder, merge=True, fields=rules, sums=True)
    assert index_of(folder) == wanted


def test_records_that_do_not_count(tmp_path):
    folder = copied(tmp_path / "set", SETS["tar"][0])
    ps.index(folder, part=(1, 1))
    first, second, _ = records(folder)
    content = first.read_bytes()
    first.chmod(0o666)
    with pytest.raises(ps.errors.StateError, match="everybody may write it"):
        ps.index(folder, merge=True)
    first.unlink()
    first.symlink_to(second.name)
    with pytest.raises(ps.errors.StateError, match="it is a link"):
        ps.index(folder, merge=True)
    first.unlink()
    first.write_bytes(second.read_bytes())
    with pytest.raises(ps.errors.StateError, match="it is of another file"):
        ps.index(folder, merge=True)
    first.write_bytes(content)
    ps.index(folder, merge=True)


def test_wrong_use(tmp_path):
    folder = copied(tmp_path / "set", SETS["tar"][0])
    for part in ((0, 2), (3, 2)):
        with pytest.raises(ps.errors.ArgumentError, match="parts are counted from 1"):
            ps.index(folder, part=part)
    for others in ({"merge": True}, {"check": True}):
        with pytest.raises(ps.errors.ArgumentError, match="one at a time"):
            ps.index(folder, part=(1, 2), **others)
    with pytest.raises(ps.errors.IncompleteError, match="3 of 3 files"):
        ps.index(folder, merge=True)
    (tmp_path / "plain").mkdir()
    shutil.copyfile(next((GOLDEN / "files").rglob("*.jpg")), tmp_path / "plain" / "a.jpg")
    with pytest.raises(ps.errors.ArgumentError, match="no parts of one"):
        ps.index(tmp_path / "plain", part=(1, 2))
    assert ps.index(tmp_path / "plain").path is None
