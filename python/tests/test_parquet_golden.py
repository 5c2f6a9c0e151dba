"""Parquet files of several libraries hold, as data sets, what pyarrow reads in them (tests/golden/containers/parquet).

Each file has a listing beside it: its fields, then the values of its rows. PST_CONTAINERS names another folder that
make_parquet.py filled.
"""

from __future__ import annotations

import json
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

import penstock as ps

GOLDEN = Path(os.environ.get("PST_CONTAINERS", Path(__file__).resolve().parents[2] / "tests" / "golden" / "containers")) / "parquet"
NAMES = sorted(path.stem for path in GOLDEN.glob("*.jsonl") if path.stem != "pyarrow_empty")  # a data set has samples


def opened(name: str, folder: Path, **more) -> ps.Dataset:
    """A copy of a golden file, beside which an index may be written."""
    copy = folder / f"{name}.parquet"
    copy.write_bytes((GOLDEN / copy.name).read_bytes())
    return ps.Dataset(copy, **more)


def kind_text(ds: ps.Dataset, name: str) -> str:
    """A field as the listings have it."""
    field, classes = ds.fields[name], ds.class_names(name)
    if field.type == "array":
        return f"array {field.dtype} {' '.join(map(str, field.shape)) if field.shape else 'any'}"
    return f"{field.type} {len(classes)} {','.join(classes)}" if classes else field.type


def listed(ds: ps.Dataset, i: int, name: str):
    """A value as the listings have it. None: there is none."""
    field = ds.fields[name]
    if field.type == "int":
        return int(ds.column(name)[i])
    if field.type == "float":
        return struct.pack(">d", ds.column(name)[i]).hex()
    if not ds.item(i, name)["present"]:
        return None
    content = ds.read(i, name)
    value = [len(content), f"{zlib.crc32(content):08x}"]
    return [" ".join(map(str, np.asarray(ds[i][name]).shape)), *value] if field.type == "array" else value


@pytest.mark.parametrize("name", NAMES)
def test_rows(name, tmp_path):
    fields, *rows = map(json.loads, (GOLDEN / f"{name}.jsonl").read_text().splitlines())
    # Whole numbers need a value in each row: a column that lacks some is left out.
    nulls = [field for field, kind in fields.items() if kind.split()[0] == "int" and not all(field in row for row in rows)]
    ds = opened(name, tmp_path)
    assert {field: kind_text(ds, field) for field in ds.fields} == {f: kind for f, kind in fields.items() if f not in nulls}
    assert len(ds) == len(rows)
    for i, row in enumerate(rows):
        assert ds.name(i) == f"{name}/{i:08}"
        assert {field: value for field in ds.fields if (value := listed(ds, i, field)) is not None} == {
            field: value for field, value in row.items() if field not in nulls}


def test_pixels(tmp_path):
    """Images of files, of pages and of dictionaries are decoded."""
    for name in ("polars_uncompressed", "polars_zstd", "duckdb_snappy", "pyarrow_fallback"):
        ds = opened(name, tmp_path)
        assert [ds[i]["image"].shape for i in range(8)] == [(40, 40 + i, 3) for i in range(8)]


def test_refused(tmp_path):
    with pytest.raises(ps.errors.UnsupportedError, match="GZIP"):
        opened("refused_gzip", tmp_path)
    assert list(opened("refused_gzip", tmp_path, fields={"image": None}).fields) == ["label"]
    with pytest.raises(ps.errors.UnsupportedError, match="row 1 has a path and no bytes"):
        opened("refused_outside", tmp_path)
