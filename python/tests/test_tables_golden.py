"""Tables opened as data sets have the values that their own libraries read from them (tests/golden/containers).

Beside each file lies a list of the expected fields, and of the samples with sizes and sums of their values. Lists have one of four
formats. PST_CONTAINERS names another folder that the scripts of these folders filled.
"""

from __future__ import annotations

import json
import os
import shutil
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps

GOLDEN = Path(os.environ.get("PST_CONTAINERS", Path(__file__).resolve().parents[2] / "tests" / "golden" / "containers"))
ENDINGS = {"lmdb": "mdb", "recordio": "rec", "beton": "beton"}
# Fields whose values are refused unless they are requested as bytes; and a list from an older commit.
ASKED = {"lmdb/pickles": {"value": ("value", "bytes")}}
NO_FILES = {"lmdb/commits_before"}
LISTS = [name for folder in ENDINGS for path in sorted((GOLDEN / folder).glob("*.txt"))
         if (name := f"{folder}/{path.stem}") not in NO_FILES]


def made(name: str) -> Path:
    """Returns a golden file or folder. Skips the test if the file's own software could not make it anew; check_containers.py
    reports that.
    """
    if "PST_CONTAINERS" in os.environ and not (GOLDEN / name).exists():
        pytest.skip(f"{name} was not made")
    return GOLDEN / name


def copied(name: str, folder: Path) -> Path:
    """Returns a copy of a golden file, because an index may be written beside it."""
    source = made(f"{name}.{ENDINGS[name.split('/')[0]]}")
    copy = folder / source.name
    copy.write_bytes(source.read_bytes())
    return copy


def value_text(ds: ps.Dataset, i: int, field: str, kind: str) -> str:
    """Returns a value as the lists write it."""
    if kind == "int":
        return str(ds[i][field])
    if kind == "float":
        return f"{ds[i][field]:.17g}"
    if kind == "array":
        array = np.asarray(ds[i][field])
        content, shape = array.tobytes(), "[" + ",".join(map(str, array.shape)) + "]"
    else:
        content, shape = ds.read(i, field), ""
    return f"{shape}{len(content)}:{zlib.crc32(content):08x}"


@pytest.mark.parametrize("name", LISTS)
def test_list(name, tmp_path):
    lines = (GOLDEN / f"{name}.txt").read_text().splitlines()
    kinds = dict(line.split()[1:3] for line in lines if line.startswith("field "))
    wanted = [line for line in lines if not line.startswith("field ")]
    ds = ps.Dataset(copied(name, tmp_path), fields=ASKED.get(name))
    assert {field: ds.fields[field].type for field in ds.fields} == kinds
    assert len(ds) == len(wanted) > 0
    for i, line in enumerate(wanted):
        values = " ".join(f"{field}={value_text(ds, i, field, kind)}" for field, kind in kinds.items())
        assert f"{ds.name(i)}: {values}" == line


def test_images_are_decoded(tmp_path):
    """Images are whole even if records are joined, values lie in pages of a B+ tree, or sizes are stored elsewhere."""
    for name, n in (("recordio/joined", 4), ("recordio/insightface", 3), ("lmdb/images", 8), ("lmdb/datum_images", 8),
                    ("beton/jpegs", 9)):
        ds = ps.Dataset(copied(name, tmp_path))
        shapes = [ds[i]["image"].shape for i in range(len(ds))]
        assert len(shapes) == n and all(shape[0] > 6 and shape[1] > 8 and shape[2] == 3 for shape in shapes)


def test_refused(tmp_path):
    with pytest.raises(ps.errors.UnsupportedError, match="is a pickle"):
        ps.Dataset(copied("lmdb/pickles", tmp_path))
    with pytest.raises(ps.errors.UnsupportedError, match="a class of its writer's own"):
        ps.Dataset(copied("beton/custom", tmp_path))
    with pytest.raises(ps.errors.TruncatedError, match="did not finish the file"):
        ps.Dataset(copied("beton/unfinished", tmp_path))
    with pytest.raises(ps.errors.CorruptError, match="16777216 or more"):
        ps.Dataset(copied("recordio/large_label", tmp_path))
    ds = ps.Dataset(copied("recordio/large_label", tmp_path), fields={"label": None})
    assert list(ds.fields) == ["image"] and len(ds) == 2


# Lists of Parquet, Arrow, MDS and TFRecord: fields, each with a text of its type, and rows of a name and texts of values. ---------

Listed = tuple[dict[str, str], list[tuple[str | None, dict[str, str]]]]


def arrow_list(path: Path) -> Listed:
    """Reads a list with lines "NAME TYPE ...", then "ROW NAME=VALUE ..."."""
    fields, rows = {}, []
    for line in path.read_text().splitlines():
        name, *words = line.split(" ")
        if "/" in name:
            rows.append((name, dict(word.split("=", 1) for word in words)))
        else:
            fields[name] = " ".join(words)
    return fields, rows


def parquet_list(path: Path) -> Listed:
    """Reads a list with lines of JSON: fields with their types, then rows."""
    head, *lines = (json.loads(line) for line in path.read_text().splitlines())
    fields = {}
    for name, words in head.items():
        kind, *more = words.split(" ")
        if kind == "array":
            fields[name] = f"array {more[0]} " + "x".join(more[1:])
        else:  # the number of classes, then their names, which may contain spaces
            fields[name] = f"{kind} classes={' '.join(more[1:])}" if more else kind
    rows = []
    for i, line in enumerate(lines):
        values = {}
        for name, value in line.items():
            if not isinstance(value, list):
                values[name] = str(value)
            elif len(value) == 3:
                values[name] = f"{value[0].replace(' ', 'x')}:{value[1]}/{value[2]}"
            else:
                values[name] = f"{value[0]}/{value[1]}"
        rows.append((f"{path.stem}/{i:08}", values))
    return fields, rows


def table_list(path: Path) -> Listed:
    """Reads a list with a line for each row, its name, followed by indented lines "NAME TYPE VALUE"."""
    fields, rows = {}, []
    for line in path.read_text().splitlines():
        if not line.startswith("  "):
            rows.append((line, {}))
            continue
        name, kind, *words = line.split()
        fields[name] = f"array {words.pop(0)}" if kind == "array" else kind
        rows[-1][1][name] = " ".join(words)
    return fields, rows


def field_text(ds: ps.Dataset, field: ps.Field, is_long: bool) -> str:
    """Returns a field's type as the lists write it, including shapes and classes if the lists have them."""
    if field.type == "array":
        return f"array {field.dtype}" + (" " + ("x".join(map(str, field.shape)) or "any") if is_long else "")
    names = ds.class_names(field.name)
    return field.type + (f" classes={','.join(names)}" if names and is_long else "")


def listed_value(ds: ps.Dataset, i: int, sample: dict[str, Any], field: ps.Field, is_long: bool) -> str:
    """Returns a value as the lists write it. is_long: in the format for Parquet and Arrow, else for MDS and TFRecord."""
    value = sample[field.name]
    if field.type == "int":
        return str(value)
    if field.type == "float":
        return struct.pack(">d", value).hex() if is_long else f"{value:.9g}"
    if field.type == "array":
        content, shape = np.ascontiguousarray(value).tobytes(), "x".join(map(str, value.shape))
        sum_ = f"{zlib.crc32(content):08x}"
        return f"{shape}:{len(content)}/{sum_}" if is_long else f"{shape} {sum_}"
    content = ds.read(i, field.name)
    return f"{len(content)}{'/' if is_long else ' '}{zlib.crc32(content):08x}"


def assert_listed(ds: ps.Dataset, listed: Listed, is_long: bool) -> None:
    fields, rows = listed
    assert {name: field_text(ds, field, is_long) for name, field in ds.fields.items()} == fields
    assert [ds.name(i) for i in range(len(ds))] == [name for name, _ in rows]
    for i, (_, wanted) in enumerate(rows):
        sample = ds[i]
        given = {name: listed_value(ds, i, sample, field, is_long) for name, field in ds.fields.items()
                 if sample[name] is not None}
        assert given == wanted


def golden_set(kind: str, name: str, folder: Path) -> Path:
    """Returns a copy of a file or folder."""
    source, copy = made(f"{kind}/{name}"), folder / name
    copy.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, copy)
    else:
        copy.write_bytes(source.read_bytes())
    return copy


ARROWS = [path.stem for path in sorted((GOLDEN / "arrow").glob("*.txt"))]
PARQUETS = [path.stem for path in sorted((GOLDEN / "parquet").glob("*.jsonl"))]


@pytest.mark.parametrize("name", ARROWS)
def test_arrow(name, tmp_path):
    ds = ps.Dataset(golden_set("arrow", f"{name}.arrow", tmp_path))
    assert_listed(ds, arrow_list(GOLDEN / "arrow" / f"{name}.txt"), True)
    assert ds.kind == "arrow"


@pytest.mark.parametrize("name", PARQUETS)
def test_parquet(name, tmp_path):
    path, listed = golden_set("parquet", f"{name}.parquet", tmp_path), parquet_list(GOLDEN / "parquet" / f"{name}.jsonl")
    fields, rows = listed
    if not rows:
        with pytest.raises(ps.errors.CorruptError, match="there is no sample"):
            ps.Dataset(path)
        return
    for field, kind in list(fields.items()):
        if all(field in row for _, row in rows):
            continue
        if kind == "float":  # NaN stands for a missing number
            for _, row in rows:
                row.setdefault(field, struct.pack(">d", float("nan")).hex())
        elif kind == "int":  # the field is left out
            del fields[field]
            for _, row in rows:
                row.pop(field, None)
    ds = ps.Dataset(path)
    assert_listed(ds, listed, True)
    assert ds.kind == "parquet"


def test_parquet_refused(tmp_path):
    """Each unreadable column is an error that names the column."""
    refused = sorted(made("parquet").glob("refused_*.parquet"))
    assert len(refused) >= 11
    for path in refused:
        with pytest.raises(ps.errors.PenstockError, match="(?i)column|row"):
            ps.Dataset(golden_set("parquet", path.name, tmp_path))


def test_folders_of_datasets(tmp_path):
    """Shards come in the order of state.json, splits are those of dataset_dict.json, files of the cache are found by name."""
    saved, shards = golden_set("arrow", "saved", tmp_path), []
    for path in sorted((GOLDEN / "arrow" / "saved").glob("*.txt")):
        fields, rows = arrow_list(path)
        shards.append(rows)
    (saved / "cache-0123456789abcdef.arrow").write_bytes(b"no part of the data")
    assert_listed(ps.Dataset(saved), (fields, [*shards[0], *shards[1]]), True)
    state = json.loads((saved / "state.json").read_text())
    state["_data_files"].reverse()
    (saved / "state.json").write_text(json.dumps(state))
    assert_listed(ps.Dataset(saved), (fields, [*shards[1], *shards[0]]), True)
    splits = golden_set("arrow", "dict", tmp_path)
    with pytest.raises(ps.errors.ArgumentError, match="split"):
        ps.Dataset(splits)
    for split in ("train", "test"):
        listed = arrow_list(GOLDEN / "arrow" / "dict" / split / "data-00000-of-00001.txt")
        assert_listed(ps.Dataset(splits, split=split), listed, True)
    # The cache of load_dataset has the same files under other names.
    cache = tmp_path / "cache"
    cache.mkdir()
    info = json.loads((splits / "train" / "dataset_info.json").read_text())
    info["splits"] = {name: {"name": name, "num_examples": 1, "num_bytes": 1} for name in ("train", "test")}
    (cache / "dataset_info.json").write_text(json.dumps(info))
    for split in ("train", "test"):
        (cache / f"probe-{split}.arrow").write_bytes((splits / split / "data-00000-of-00001.arrow").read_bytes())
    for split in ("train", "test"):
        fields, rows = arrow_list(GOLDEN / "arrow" / "dict" / split / "data-00000-of-00001.txt")
        renamed = [(name.replace("data-00000-of-00001", f"probe-{split}"), values) for name, values in rows]
        assert_listed(ps.Dataset(cache, split=split), (fields, renamed), True)


def test_mds(tmp_path):
    ds = ps.Dataset(golden_set("mds", "all", tmp_path))
    assert_listed(ds, table_list(GOLDEN / "mds" / "all" / "expected.txt"), False)
    assert ds.kind == "mds"
    with pytest.raises(ps.errors.UnsupportedError, match="compressed"):
        ps.Dataset(golden_set("mds", "packed", tmp_path))
    for name in ("images", "jpegs", "palette", "pkl"):
        path = golden_set("mds", f"odd/{name}", tmp_path)
        with pytest.raises(ps.errors.UnsupportedError):
            ps.Dataset(path)
        assert list(ps.Dataset(path, fields={"x": None}).fields) == ["label"]


def test_tfrecord(tmp_path):
    for path in sorted(made("tfrecord").glob("imagenet-*")):
        golden_set("tfrecord", path.name, tmp_path / "imagenet")
    ds = ps.Dataset(tmp_path / "imagenet")
    assert_listed(ds, table_list(GOLDEN / "tfrecord" / "imagenet.txt"), False)
    assert ds.kind == "tfrecord"
    for name in ("gzip", "zlib"):
        with pytest.raises(ps.errors.UnsupportedError, match="compressed"):
            ps.Dataset(golden_set("tfrecord", f"{name}.tfrecord", tmp_path))
    for name, kind in (("sequence", "bytes"), ("images", "image")):
        ds = ps.Dataset(golden_set("tfrecord", f"{name}.tfrecord", tmp_path))
        assert {field: ds.fields[field].type for field in ds.fields} == {"record": kind} and len(ds) == 2


def test_tfds(tmp_path):
    """Types are read from features.json. A compressed column is an error unless it is left out."""
    path = golden_set("tfrecord", "tfds", tmp_path)
    with pytest.raises(ps.errors.UnsupportedError, match="packed"):
        ps.Dataset(path)
    ds = ps.Dataset(path, fields={"packed": None})
    assert_listed(ds, table_list(GOLDEN / "tfrecord" / "tfds" / "expected.txt"), False)
    assert ds.fields["label"].n_classes == 3
