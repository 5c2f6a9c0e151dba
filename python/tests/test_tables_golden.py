"""Files of LMDB, RecordIO and FFCV hold, as data sets, what their own libraries read from them (tests/golden/containers).

Each file has a list beside it: its fields, then its samples with the sizes and sums of their values. PST_CONTAINERS names another
folder that the scripts of these folders filled.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import numpy as np
import pytest

import penstock as ps

GOLDEN = Path(os.environ.get("PST_CONTAINERS", Path(__file__).resolve().parents[2] / "tests" / "golden" / "containers"))
ENDINGS = {"lmdb": "mdb", "recordio": "rec", "beton": "beton"}
# Their values are refused unless they are asked for as bytes; and a list of an older commit.
ASKED = {"lmdb/pickles": {"value": ("value", "bytes")}}
NO_FILES = {"lmdb/commits_before"}
LISTS = [name for folder in ENDINGS for path in sorted((GOLDEN / folder).glob("*.txt"))
         if (name := f"{folder}/{path.stem}") not in NO_FILES]


def copied(name: str, folder: Path) -> Path:
    """A copy of a golden file, beside which an index may be written."""
    source = GOLDEN / f"{name}.{ENDINGS[name.split('/')[0]]}"
    copy = folder / source.name
    copy.write_bytes(source.read_bytes())
    return copy


def value_text(ds: ps.Dataset, i: int, field: str, kind: str) -> str:
    """A value as the lists have it."""
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
    """Joined records, values in pages of a tree and items whose size stands elsewhere are whole images."""
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
